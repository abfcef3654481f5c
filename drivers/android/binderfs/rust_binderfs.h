/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Declarations that the C files share with each other and with Rust.
 *
 * In C a context is an opaque pointer. Each device owns one reference on its
 * context, from the creation of the device to its end; the driver takes
 * references of its own for each open file of the device.
 */
#ifndef _RUST_BINDERFS_H
#define _RUST_BINDERFS_H

#include <linux/atomic.h>
#include <linux/fs.h>
#include <linux/jump_label.h>
#include <linux/kdev_t.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/uidgid.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include <uapi/linux/android/binderfs.h>

struct binderfs_account;
struct dentry;
struct fs_context;
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
 * Returns the context of the device that is being opened, which the device
 * keeps alive during its open function. %NULL until init has succeeded, because
 * the device is removed if init fails.
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

/* True if the netlink family is registered. Written before a device exists. */
extern bool rust_binder_has_reports;

/* The parameters defer_complete, debug_mask and alloc_debug_mask. */
extern bool rust_binder_defer_complete;
extern unsigned int rust_binder_debug_mask;
extern unsigned int rust_binder_alloc_debug_mask;

/* Returns whether another message may be printed now; counts the attempt. */
bool rust_binder_may_log(void);

/*
 * errorfc() and invalfc() for a request whose log, that of fsopen(2), is its own. mount(2) has
 * none, and prints to the kernel's log: only if another message may be printed there now.
 */
#define binderfs_error(fc, format, ...)					\
	do {								\
		struct fs_context *_fc = (fc);				\
									\
		if (_fc->log.log || rust_binder_may_log())		\
			errorfc(_fc, format, ##__VA_ARGS__);		\
	} while (0)
#define binderfs_invalid(fc, format, ...)				\
	({								\
		binderfs_error(fc, format, ##__VA_ARGS__);		\
		-EINVAL;						\
	})

/* Enabled as long as stop_on_user_error is not 0. */
DECLARE_STATIC_KEY_FALSE(rust_binder_stop);

/* Records an error of user space: sets the parameter to 2 unless it is 0. */
void rust_binder_user_error_happened(void);

/* Waits while the parameter is 2 or more. Returns 0, or -ERESTARTSYS after a signal. */
int rust_binder_stop_wait(void);

/* Provided by the driver */

/*
 * The limits of one process, in the layout of the Rust struct ProcessLimits
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

/* Creates the context of a device, with its own copy of @name. %NULL if memory is short. */
void *rust_binder_context_create(const char *name,
				 struct user_namespace *owner);

/* Releases the reference of the device, which is open nowhere. May sleep. */
void rust_binder_context_release(void *context);

/*
 * Makes the reader of a log file, by the number that logs.c gives the log; @pid
 * is for the log of a pid. %NULL if memory is short. One thread at a time uses a
 * reader.
 */
void *rust_binder_log_open(unsigned int log, pid_t pid);
void rust_binder_log_close(void *reader);

/*
 * The records of a log, for a struct seq_operations: each of them is written as
 * often as the buffer turns out to be too small for it. Seek begins anew if
 * @position is 0, and returns whether there is a record. May sleep.
 */
int rust_binder_log_seek(void *reader, loff_t position);
int rust_binder_show_log(struct seq_file *seq, void *reader);

/* Among the C files */

#define BINDERFS_MINORS		(MINORMASK + 1)
/* The minor of binder-control in each mount; no device has it. */
#define BINDERFS_MINOR_CONTROL	0

/*
 * A directory of log files, one for each pid that has a device open. @dentry is
 * %NULL where there is none.
 */
struct binder_log_dir {
	struct dentry *dentry;
	bool in_debugfs;

	/* Held while pids and their files are added and removed. */
	struct mutex lock;
	/* XA_MARK_0: the pid may have closed its last device. */
	struct xarray pids;
	/* Removes the files of marked pids. */
	struct work_struct work;
};

/* The owner and the permissions of an entry. */
struct binderfs_owner {
	kuid_t uid;
	kgid_t gid;
	umode_t mode;
};

/* The mount options. */
struct binderfs_options {
	/* Of all options, those that were named. */
	unsigned long given;
	u32 max;
	bool stats;
	/* Of devices that are created now. */
	struct binderfs_owner owner;
	umode_t control_mode;
	/* Names with colons between them. Unless named, %NULL. */
	char *devices;
};

/* A mount. The super block owns it, and it outlives all inodes. */
struct binderfs_mount {
	/* The inode number of the last file or directory that was made. */
	atomic64_t last_ino;
	struct binder_log_dir processes;

	/* Guards what a remount changes of the options. */
	spinlock_t options_lock;
	struct binderfs_options *options;

	/* %NULL for a mount of the initial user namespace. */
	struct binderfs_account *account;
	u32 last_minor;
	/* Guarded by binderfs_quota_lock. */
	u32 devices;
};

static inline struct binderfs_mount *
binderfs_mount(const struct super_block *sb)
{
	return sb->s_fs_info;
}

static inline bool binderfs_is_device(const struct inode *inode)
{
	return inode->i_fop == &rust_binder_fops;
}

/* rust_binderfs.c */

/* The device numbers of all devices in all mounts. */
extern dev_t rust_binderfs_region;

int rust_binderfs_register(void);
void rust_binderfs_unregister(void);

/* Returns whether a device can have the name: no other entry has it. */
bool rust_binderfs_is_name(const char *name, size_t len);

/* binderfs/inodes.c */

/* Opens an account, or joins it. The super block keeps the namespace. */
int rust_binderfs_init_quota(struct binderfs_mount *mount,
			     const struct user_namespace *user_ns);
/* After the last device. */
void rust_binderfs_exit_quota(struct binderfs_mount *mount);

/* Warns if a minor or an account is left after the last mount. */
void rust_binderfs_check_minors(void);

/*
 * Creates the root directory and everything that a new mount contains; logs the
 * cause to @fc, if a device cannot be created.
 */
int rust_binderfs_populate(struct super_block *sb, struct fs_context *fc);
void rust_binderfs_evict_inode(struct inode *inode);

/*
 * Add an entry to a directory. The dentry that is returned is valid as long as
 * the entry stays there.
 */
struct dentry *rust_binderfs_add_dir(struct dentry *parent, const char *name);
struct dentry *rust_binderfs_add_file(struct dentry *parent, const char *name,
				      const struct file_operations *fops,
				      void *data);

/* binderfs/logs.c */

void rust_binder_log_dir_init(struct binder_log_dir *dir);

/* Adds binder_logs/ to a new mount. */
int rust_binderfs_add_logs(struct super_block *sb);

/* The directory in debugfs. Without debugfs, or if it fails, there is none. */
void rust_binder_debugfs_init(void);
void rust_binder_debugfs_exit(void);

/* binderfs/module.c */

/* Returns whether init has succeeded. */
bool rust_binder_is_ready(void);

/*
 * Iterates over the names in the devices option of a mount or, if @option is
 * %NULL, in the devices parameter. @cursor starts at 0. Copies one name to
 * @name and returns its length. The empty name ends the list. Names that are
 * too long are truncated; the mount or init fails if one exists.
 */
size_t rust_binder_next_device(const char *option, size_t *cursor,
			       char name[BINDERFS_MAX_NAME + 1]);

#endif /* _RUST_BINDERFS_H */
