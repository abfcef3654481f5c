/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the C files share: the mount and its options (rust_binderfs.c), device
 * numbers and quotas (binderfs/minors.c), its contents (binderfs/inodes.c),
 * devices in /dev (binderfs/devices.c), log files (binderfs/logs.c), and the
 * module's parameters (binderfs/params.c).
 */
#ifndef _RUST_BINDERFS_INTERNAL_H
#define _RUST_BINDERFS_INTERNAL_H

#include <linux/atomic.h>
#include <linux/fs.h>
#include <linux/kdev_t.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/uidgid.h>
#include <linux/xarray.h>

#include <uapi/linux/android/binderfs.h>

#include "rust_binderfs.h"

struct binderfs_account;
struct dentry;
struct fs_context;
struct user_namespace;

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

	/* Pids that may have closed their last device, and what removes their files. */
	struct llist_head closed;
	struct work_struct work;

	/* Held while pids and their files are added and removed. */
	struct mutex lock;
	struct xarray pids;
};

/* The mount options. */
struct binderfs_options {
	/* Of all options, those that were named. */
	unsigned long given;
	u32 max;
	bool stats;
	kuid_t uid;
	kgid_t gid;
	/* The permissions of devices, and those of binder-control. */
	umode_t mode;
	umode_t control_mode;
	/* Names with colons between them. Unless named, %NULL. */
	char *devices;
};

/* Whose an entry is, and who may use it. */
struct binderfs_owner {
	kuid_t uid;
	kgid_t gid;
	umode_t mode;
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
	/* Guarded by a lock of binderfs/minors.c. */
	u32 devices;
};

/* What the inode of a device owns. */
struct binderfs_chrdev {
	void *context;
	int minor;
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

/* Whether a device can have the name: no other entry has it. */
bool rust_binderfs_is_name(const char *name, size_t len);

/* Of devices that are created now. */
struct binderfs_owner rust_binderfs_owner(struct binderfs_mount *mount);
void rust_binderfs_own_root(const struct binderfs_options *options,
			    struct inode *root);

/* binderfs/minors.c */

/* Opens an account, or joins it. The super block keeps the namespace. */
int rust_binderfs_init_quota(struct binderfs_mount *mount,
			     const struct user_namespace *user_ns);
/* After the last device. */
void rust_binderfs_exit_quota(struct binderfs_mount *mount);

/*
 * Allocate or free a minor, together with one device of the quotas of the mount
 * and of its account. Return the minor, or a negative errno: -ENOSPC if a quota
 * or the minors are exhausted.
 */
int rust_binderfs_alloc_minor(struct binderfs_mount *mount);
void rust_binderfs_free_minor(struct binderfs_mount *mount, int minor);

/* Whether the mount has as many devices as its own option allows. */
bool rust_binderfs_is_full(struct binderfs_mount *mount);

/* Warns if a minor or an account is left after the last mount. */
void rust_binderfs_check_minors(void);

/* binderfs/inodes.c */

/* Inode numbers up to this one belong to the root directory and to devices. */
#define BINDERFS_INO_LAST_DEVICE	(3 + BINDERFS_MINORS)

/*
 * Creates the root directory and everything that a new mount contains; tells
 * @fc why, if a device cannot be created.
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

/* Waits until the files of closed devices are removed. */
void rust_binder_log_dir_flush(struct binder_log_dir *dir);

/* Adds binder_logs/ to a new mount. */
int rust_binderfs_add_logs(struct super_block *sb);

/* The directory in debugfs. Without debugfs, or if it fails, there is none. */
void rust_binder_debugfs_init(void);
void rust_binder_debugfs_exit(void);

/* binderfs/devices.c */

/* Whether init has succeeded. */
bool rust_binder_is_ready(void);

/* binderfs/params.c */

/* Whether the parameter has its default, and what is wrong with the names in it: 0 or an errno. */
bool rust_binder_has_default_devices(void);
int rust_binder_check_devices(void);

/*
 * Iterates over the names in the devices option of a mount or, if @option is
 * %NULL, in the devices parameter, starting with a @cursor of 0: copies one name
 * to @name and returns its length. The empty name ends the list. Names that are
 * too long are truncated; the mount or init fails if one exists.
 */
size_t rust_binder_next_device(const char *option, size_t *cursor,
			       char name[BINDERFS_MAX_NAME + 1]);

#endif /* _RUST_BINDERFS_INTERNAL_H */
