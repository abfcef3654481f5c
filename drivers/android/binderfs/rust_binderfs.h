/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The interface between the driver and the C code that creates its devices.
 *
 * In C a context is an opaque pointer. Each device owns one reference on its
 * context, from the creation of the device to its end; the driver takes
 * references of its own for each open file of the device.
 */
#ifndef _RUST_BINDERFS_H
#define _RUST_BINDERFS_H

struct file;
struct file_operations;
struct inode;

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

/* Provided by the driver */

/* The operations of all devices; their owner is the module. */
extern const struct file_operations rust_binder_fops;

/* Creates a context, with its own copy of @name. %NULL if memory is short. */
void *rust_binder_context_create(const char *name);

/* Releases the reference of the device. May sleep. */
void rust_binder_context_release(void *context);

#endif /* _RUST_BINDERFS_H */
