/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The border between the driver and the C that makes its devices.
 *
 * To C a context is an opaque pointer. Each device owns one reference to one,
 * from its creation to its end; the driver takes references of its own for
 * whoever has the device open.
 */
#ifndef _RUST_BINDERFS_H
#define _RUST_BINDERFS_H

struct file;
struct file_operations;
struct inode;

/* For the driver */

/*
 * The last step of module init: devices may be opened before it returns, unless it fails.
 */
int rust_binderfs_init(void);

/* The first step of module exit: no device is left after it. */
void rust_binderfs_exit(void);

/*
 * The context of the device that is being opened, for use in its open function.
 * The device's reference keeps it alive meanwhile: take one to keep it longer.
 * %NULL as long as it may turn out that there is to be no device.
 */
const void *rust_binderfs_device_context(const struct inode *inode,
					 const struct file *file);

/* From the driver */

/* The operations of all devices; names the module as their owner. */
extern const struct file_operations rust_binder_fops;

/* Makes a context, with its own copy of @name. %NULL if memory is short. */
void *rust_binder_context_create(const char *name);

/* Takes back the device's reference. May sleep. */
void rust_binder_context_release(void *context);

#endif /* _RUST_BINDERFS_H */
