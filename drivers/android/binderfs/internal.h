/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the C files share: the mount (rust_binderfs.c), what is in it
 * (binderfs/inodes.c), and which devices there are from the start, in each
 * mount and in /dev (binderfs/devices.c).
 */
#ifndef _RUST_BINDERFS_INTERNAL_H
#define _RUST_BINDERFS_INTERNAL_H

#include <linux/fs.h>
#include <linux/kdev_t.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/uidgid.h>

#include <uapi/linux/android/binderfs.h>

#include "rust_binderfs.h"

#define BINDERFS_MINORS		(MINORMASK + 1)
/* What binder-control has in every mount, and no device in any. */
#define BINDERFS_MINOR_CONTROL	0

/* A mount. Belongs to its super block, and outlives its inodes. */
struct binderfs_mount {
	kuid_t uid;
	kgid_t gid;
	u32 last_minor;
	bool stats;

	/* Guards how many devices there are, and how many may be. */
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

/* The numbers of all devices in all mounts. */
extern dev_t rust_binderfs_region;

/* A minor comes and goes with a place in the mount's quota. */
int rust_binderfs_alloc_minor(struct binderfs_mount *mount);
void rust_binderfs_free_minor(struct binderfs_mount *mount, int minor);

int rust_binderfs_register(void);
void rust_binderfs_unregister(void);

/* binderfs/inodes.c */

/* Makes the root directory and all that a new mount has in it. */
int rust_binderfs_populate(struct super_block *sb);
void rust_binderfs_evict_inode(struct inode *inode);

/* binderfs/devices.c */

/* Whether init has come to its end. */
bool rust_binder_is_ready(void);

/*
 * Walks the names in the devices parameter, from a @cursor of 0 on: copies one out
 * and returns its length. An empty one ends the list. Longer ones than fit are cut
 * short, but do not get past init.
 */
size_t rust_binder_next_device(size_t *cursor,
			       char name[BINDERFS_MAX_NAME + 1]);

#endif /* _RUST_BINDERFS_INTERNAL_H */
