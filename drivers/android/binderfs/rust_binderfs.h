/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The interface between the driver in Rust and its C code.
 *
 * In C a context is an opaque pointer. Each device owns one reference on its
 * context, from the creation of the device to its end; the driver takes
 * references of its own for each open file of the device.
 */
#ifndef _RUST_BINDERFS_H
#define _RUST_BINDERFS_H

#include <linux/jump_label.h>
#include <linux/types.h>

struct file;
struct file_operations;
struct inode;
struct seq_file;
struct user_namespace;

/* Called by the driver */

/*
 * The last step of module init: devices may be opened before it returns, unless
 * it fails.
 */
int rust_binderfs_init(void);

/* The first step of module exit: no device exists after it. */
void rust_binderfs_exit(void);

/*
 * Returns the context of the device that is being opened, for use in its open
 * function. The reference of the device keeps the context alive during that
 * function; the caller takes its own reference to keep it longer. %NULL until
 * init has succeeded, because the device is removed if init fails.
 */
const void *rust_binderfs_device_context(const struct inode *inode,
					 const struct file *file);

/*
 * A device is opened for a pid, or closed again: makes and removes the log
 * files of the pid. The pid is a number in the initial namespace.
 */
void rust_binder_logs_opened(const struct inode *device, pid_t pid);
void rust_binder_logs_closed(const struct inode *device, pid_t pid);

/*
 * The name of the filesystem type, of the folder of debugfs and of the netlink
 * family, which is short enough for each. Does not change once the module's
 * init runs.
 */
const char *rust_binder_name(void);

/* Whether the netlink family is registered. Written before a device exists. */
extern bool rust_binder_has_reports;

/* The parameters debug_mask and alloc_debug_mask. */
extern unsigned int rust_binder_debug_mask;
extern unsigned int rust_binder_alloc_debug_mask;

/* Whether another message may be printed now; counts the attempt. */
bool rust_binder_may_log(void);

/* Enabled as long as stop_on_user_error is not 0. */
struct rust_binder_stop {
	struct static_key_false is_armed;
};

extern struct rust_binder_stop rust_binder_stop;

/* User space has made an error: whoever asks from now on waits, if the parameter says so. */
void rust_binder_user_error_happened(void);

/* Waits while the parameter is 2 or more. Returns 0, or -ERESTARTSYS after a signal. */
int rust_binder_stop_wait(void);

/* Provided by the driver */

/*
 * The limits of one process, in the layout of the Rust struct Limits
 * (common/limits.rs). Written by the setters of the parameters alone, each field
 * by one store.
 */
struct rust_binder_limits {
	unsigned int max_nodes;
	unsigned int max_refs;
	unsigned int max_threads;
	unsigned int oneway_quota;
};

extern struct rust_binder_limits rust_binder_limits;

/* The operations of all devices; their owner is the module. */
extern const struct file_operations rust_binder_fops;

/*
 * Creates the context of a device of @owner, with its own copy of @name. %NULL if memory is
 * short.
 */
void *rust_binder_context_create(const char *name,
				 struct user_namespace *owner);

/* Releases the reference of the device, which is open nowhere. May sleep. */
void rust_binder_context_release(void *context);

/* What a log file shows, as numbered in Rust (logs/mod.rs). */
enum rust_binder_log {
	RUST_BINDER_LOG_STATE,
	RUST_BINDER_LOG_STATE_HASHED,
	RUST_BINDER_LOG_TRANSACTIONS,
	RUST_BINDER_LOG_TRANSACTIONS_HASHED,
	RUST_BINDER_LOG_PROCESS,
	RUST_BINDER_LOG_STATS,
	RUST_BINDER_LOG_TRANSACTION_LOG,
	RUST_BINDER_LOG_FAILED_TRANSACTION_LOG,
};

/*
 * Makes the reader of a log file; @pid is for %RUST_BINDER_LOG_PROCESS. %NULL if
 * memory is short. One thread at a time uses a reader.
 */
void *rust_binder_log_open(enum rust_binder_log log, pid_t pid);
void rust_binder_log_close(void *reader);

/*
 * The records of a log, for a struct seq_operations: each of them is written as
 * often as the buffer turns out to be too small for it. Seek begins anew if
 * @position is 0, and returns whether there is a record. May sleep.
 */
int rust_binder_log_seek(void *reader, loff_t position);
int rust_binder_show_log(struct seq_file *seq, void *reader);

#endif /* _RUST_BINDERFS_H */
