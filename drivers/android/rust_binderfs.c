// SPDX-License-Identifier: GPL-2.0
/*
 * binderfs: a filesystem whose files are Binder devices.
 *
 * Each mount has its own options, owner, quota and devices. A new mount
 * contains the devices that the module parameter names. The root user of the
 * mount's user namespace creates more of them through binder-control.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/fs.h>
#include <linux/fs_context.h>
#include <linux/magic.h>
#include <linux/module.h>
#include <linux/printk.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "binderfs/internal.h"
#include "common/name.h"

dev_t rust_binderfs_region;

/* The super block */

static const struct super_operations binderfs_sops = {
	.evict_inode = rust_binderfs_evict_inode,
	.show_options = rust_binderfs_show_options,
	.statfs = simple_statfs,
};

/* Takes the options over from @fc. */
static struct binderfs_mount *
binderfs_new_mount(const struct user_namespace *user_ns,
		   struct fs_context *fc)
{
	struct binderfs_mount *mount = kzalloc_obj(*mount, GFP_KERNEL_ACCOUNT);

	if (!mount)
		return NULL;

	if (rust_binderfs_init_quota(mount, user_ns)) {
		kfree(mount);
		return NULL;
	}
	mount->options = fc->fs_private;
	fc->fs_private = NULL;
	spin_lock_init(&mount->options_lock);
	atomic64_set(&mount->last_ino, BINDERFS_INO_LAST_DEVICE);
	rust_binder_log_dir_init(&mount->processes);
	return mount;
}

/* On failure the VFS calls binderfs_kill_sb(), which cleans up. */
static int binderfs_fill_super(struct super_block *sb, struct fs_context *fc)
{
	sb->s_fs_info = binderfs_new_mount(sb->s_user_ns, fc);
	if (!sb->s_fs_info)
		return -ENOMEM;

	sb->s_blocksize = PAGE_SIZE;
	sb->s_blocksize_bits = PAGE_SHIFT;
	sb->s_magic = BINDERFS_SUPER_MAGIC;
	sb->s_op = &binderfs_sops;
	sb->s_time_gran = 1;
	sb->s_iflags |= SB_I_NOEXEC;
	/*
	 * The VFS disables device nodes on mounts of a user namespace, because
	 * its root could create a node for any hardware. In binderfs nothing
	 * can choose device numbers: mknod does not exist, and each node is a
	 * Binder device of this mount.
	 */
	sb->s_iflags &= ~SB_I_NODEV;

	return rust_binderfs_populate(sb, fc);
}

static void binderfs_kill_sb(struct super_block *sb)
{
	struct binderfs_mount *mount = binderfs_mount(sb);

	if (mount)
		rust_binder_log_dir_flush(&mount->processes);
	/* Evicts all inodes, which needs the mount. */
	kill_anon_super(sb);
	if (!mount)
		return;
	rust_binderfs_exit_quota(mount);
	rust_binderfs_free_options(mount->options);
	kfree(mount);
}

/* The filesystem type */

static int binderfs_get_tree(struct fs_context *fc)
{
	return get_tree_nodev(fc, binderfs_fill_super);
}

static void binderfs_free_fc(struct fs_context *fc)
{
	rust_binderfs_free_options(fc->fs_private);
}

static const struct fs_context_operations binderfs_context_ops = {
	.free = binderfs_free_fc,
	.parse_param = rust_binderfs_parse_param,
	.get_tree = binderfs_get_tree,
	.reconfigure = rust_binderfs_reconfigure,
};

static int binderfs_init_fs_context(struct fs_context *fc)
{
	int ret;

	if (!rust_binder_is_ready())
		return -ENODEV;
	ret = rust_binderfs_new_options(fc);
	if (!ret)
		fc->ops = &binderfs_context_ops;
	return ret;
}

/*
 * The owner field keeps the module loaded as long as a mount exists. Mounts can
 * be mapped to other users (mount_setattr(2)): all ids of entries are compared
 * by the VFS, which knows the mapping. What is created has the owner that the
 * options say, never that of the task, so there is nothing to map back.
 */
static struct file_system_type binderfs_type = {
	.owner = THIS_MODULE,
	.init_fs_context = binderfs_init_fs_context,
	.parameters = rust_binderfs_parameters,
	.kill_sb = binderfs_kill_sb,
	.fs_flags = FS_USERNS_MOUNT | FS_ALLOW_IDMAP,
};
MODULE_ALIAS_FS("binder");

/* All mounts: device numbers and filesystem type */

int rust_binderfs_register(void)
{
	int ret = alloc_chrdev_region(&rust_binderfs_region, 0, BINDERFS_MINORS,
				      rust_binder_name());

	if (ret)
		return ret;

	binderfs_type.name = rust_binder_name();
	ret = register_filesystem(&binderfs_type);
	if (ret)
		unregister_chrdev_region(rust_binderfs_region, BINDERFS_MINORS);
	if (ret == -EBUSY)
		pr_err("another driver has registered filesystem %s: unload it, or load this one with name=ANOTHER\n",
		       binderfs_type.name);
	return ret;
}

void rust_binderfs_unregister(void)
{
	unregister_filesystem(&binderfs_type);
	/*
	 * The last mount is gone, but a path walk under RCU may still read one
	 * of its inodes, and our operations through that. Inodes are freed by
	 * RCU: after all of those callbacks have run, no such walk is left. So
	 * are the pids of processes that have ended, by callbacks of our own.
	 */
	rcu_barrier();
	unregister_chrdev_region(rust_binderfs_region, BINDERFS_MINORS);
	rust_binderfs_check_minors();
}
