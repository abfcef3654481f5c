/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the C files share: the mount (rust_binderfs.c), its contents
 * (binderfs/inodes.c), the devices that exist from the start, in each mount
 * and in /dev (binderfs/devices.c), and the log files (binderfs/logs.c).
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

	/* Guards the files and how many devices each stands for. */
	struct mutex lock;
	struct xarray pids;
};

/* A mount. The super block owns it, and it outlives all inodes. */
struct binderfs_mount {
	kuid_t uid;
	kgid_t gid;
	u32 last_minor;
	bool stats;
	/* The inode number of the last file or directory that was made. */
	atomic64_t last_ino;
	struct binder_log_dir processes;

	/* Guards the number of devices, and its maximum. */
	spinlock_t quota_lock;
	u32 devices;
	u32 max;
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

/*
 * Allocate or free a minor, together with one device of the mount's quota.
 * Return the minor, or a negative errno: -ENOSPC if the quota or the minors are
 * exhausted.
 */
int rust_binderfs_alloc_minor(struct binderfs_mount *mount);
void rust_binderfs_free_minor(struct binderfs_mount *mount, int minor);

int rust_binderfs_register(void);
void rust_binderfs_unregister(void);

/* binderfs/inodes.c */

/* Inode numbers up to this one belong to the root directory and to devices. */
#define BINDERFS_INO_LAST_DEVICE	(3 + BINDERFS_MINORS)

/* Creates the root directory and everything that a new mount contains. */
int rust_binderfs_populate(struct super_block *sb);
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

/* binderfs/devices.c */

/* Whether init has succeeded. */
bool rust_binder_is_ready(void);

/*
 * Iterates over the names in the devices parameter, starting with a @cursor of
 * 0: copies one name to @name and returns its length. The empty name ends the
 * list. Names that are too long are truncated; init fails if one exists.
 */
size_t rust_binder_next_device(size_t *cursor,
			       char name[BINDERFS_MAX_NAME + 1]);

#endif /* _RUST_BINDERFS_INTERNAL_H */
