// SPDX-License-Identifier: GPL-2.0
/*
 * binderfs: a filesystem whose files are Binder devices.
 *
 * Each mount has its own options, owner, quota and devices. A new mount
 * contains the devices that the module parameter names. The root user of the
 * mount's user namespace creates more of them through binder-control.
 */

#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/fs_context.h>
#include <linux/fs_parser.h>
#include <linux/idr.h>
#include <linux/ipc_namespace.h>
#include <linux/magic.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/user_namespace.h>

#include "binderfs/internal.h"

/*
 * The last minors are kept for the initial IPC namespace: others cannot use
 * all.
 */
#define BINDERFS_MINORS_OF_HOST	4

dev_t rust_binderfs_region;
static DEFINE_IDA(binderfs_minors);

struct binderfs_options {
	u32 max;
	bool stats;
};

/* Quota and minors */

static int binderfs_charge(struct binderfs_mount *mount)
{
	int ret = -ENOSPC;

	spin_lock(&mount->quota_lock);
	if (mount->devices < mount->max) {
		mount->devices++;
		ret = 0;
	}
	spin_unlock(&mount->quota_lock);
	return ret;
}

static void binderfs_uncharge(struct binderfs_mount *mount)
{
	spin_lock(&mount->quota_lock);
	mount->devices--;
	spin_unlock(&mount->quota_lock);
}

int rust_binderfs_alloc_minor(struct binderfs_mount *mount)
{
	int minor = binderfs_charge(mount);

	if (minor)
		return minor;

	minor = ida_alloc_range(&binderfs_minors, BINDERFS_MINOR_CONTROL + 1,
				mount->last_minor, GFP_KERNEL);
	if (minor < 0)
		binderfs_uncharge(mount);
	return minor;
}

void rust_binderfs_free_minor(struct binderfs_mount *mount, int minor)
{
	ida_free(&binderfs_minors, minor);
	binderfs_uncharge(mount);
}

/* The super block */

static int binderfs_show_options(struct seq_file *seq, struct dentry *root)
{
	struct binderfs_mount *mount = binderfs_mount(root->d_sb);

	seq_printf(seq, ",max=%u", READ_ONCE(mount->max));
	if (mount->stats)
		seq_puts(seq, ",stats=global");
	return 0;
}

static const struct super_operations binderfs_sops = {
	.evict_inode = rust_binderfs_evict_inode,
	.show_options = binderfs_show_options,
	.statfs = simple_statfs,
};

/*
 * The IPC namespace of the task that mounts determines once which minors the
 * mount may use, so the mount needs no reference on the namespace.
 */
static u32 binderfs_last_minor(void)
{
	u32 last = BINDERFS_MINORS - 1;

	if (IS_ENABLED(CONFIG_IPC_NS) &&
	    current->nsproxy->ipc_ns != &init_ipc_ns)
		last -= BINDERFS_MINORS_OF_HOST;
	return last;
}

static struct binderfs_mount *
binderfs_new_mount(struct user_namespace *user_ns,
		   const struct binderfs_options *options)
{
	struct binderfs_mount *mount = kzalloc_obj(*mount);

	if (!mount)
		return NULL;

	mount->uid = make_kuid(user_ns, 0);
	if (!uid_valid(mount->uid))
		mount->uid = GLOBAL_ROOT_UID;
	mount->gid = make_kgid(user_ns, 0);
	if (!gid_valid(mount->gid))
		mount->gid = GLOBAL_ROOT_GID;

	mount->last_minor = binderfs_last_minor();
	mount->stats = options->stats;
	mount->max = options->max;
	spin_lock_init(&mount->quota_lock);
	atomic64_set(&mount->last_ino, BINDERFS_INO_LAST_DEVICE);
	rust_binder_log_dir_init(&mount->processes);
	return mount;
}

/* On failure the VFS calls binderfs_kill_sb(), which cleans up. */
static int binderfs_fill_super(struct super_block *sb, struct fs_context *fc)
{
	sb->s_fs_info = binderfs_new_mount(sb->s_user_ns, fc->fs_private);
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

	return rust_binderfs_populate(sb);
}

static void binderfs_kill_sb(struct super_block *sb)
{
	struct binderfs_mount *mount = binderfs_mount(sb);

	/* Evicts all inodes, which needs the mount. */
	kill_anon_super(sb);
	kfree(mount);
}

/* Options */

enum binderfs_option {
	BINDERFS_OPT_MAX,
	BINDERFS_OPT_STATS,
};

static const struct constant_table binderfs_stats_modes[] = {
	{ "global", true },
	{}
};

static const struct fs_parameter_spec binderfs_parameters[] = {
	fsparam_u32("max", BINDERFS_OPT_MAX),
	fsparam_enum("stats", BINDERFS_OPT_STATS, binderfs_stats_modes),
	{}
};

static int binderfs_parse_param(struct fs_context *fc,
				struct fs_parameter *param)
{
	struct binderfs_options *options = fc->fs_private;
	struct fs_parse_result value;
	int opt = fs_parse(fc, binderfs_parameters, param, &value);

	switch (opt) {
	case BINDERFS_OPT_MAX:
		if (value.uint_32 > BINDERFS_MINORS)
			return invalfc(fc, "max is over %u", BINDERFS_MINORS);
		options->max = value.uint_32;
		return 0;
	case BINDERFS_OPT_STATS:
		/* The files show all processes of the system. */
		if (!capable(CAP_SYS_ADMIN))
			return -EPERM;
		options->stats = value.uint_32;
		return 0;
	default:
		return opt;
	}
}

static int binderfs_get_tree(struct fs_context *fc)
{
	return get_tree_nodev(fc, binderfs_fill_super);
}

static int binderfs_reconfigure(struct fs_context *fc)
{
	struct binderfs_mount *mount = binderfs_mount(fc->root->d_sb);
	const struct binderfs_options *options = fc->fs_private;

	if (options->stats != mount->stats)
		return invalfc(fc, "stats is for the lifetime of a mount");

	/* Devices over the new limit stay; no further ones can be created. */
	spin_lock(&mount->quota_lock);
	WRITE_ONCE(mount->max, options->max);
	spin_unlock(&mount->quota_lock);
	return 0;
}

static void binderfs_free_fc(struct fs_context *fc)
{
	kfree(fc->fs_private);
}

static const struct fs_context_operations binderfs_context_ops = {
	.free = binderfs_free_fc,
	.parse_param = binderfs_parse_param,
	.get_tree = binderfs_get_tree,
	.reconfigure = binderfs_reconfigure,
};

static int binderfs_init_fs_context(struct fs_context *fc)
{
	struct binderfs_options *options;

	if (!rust_binder_is_ready())
		return -ENODEV;
	options = kzalloc_obj(*options);
	if (!options)
		return -ENOMEM;

	options->max = BINDERFS_MINORS;
	fc->fs_private = options;
	fc->ops = &binderfs_context_ops;
	return 0;
}

/* The owner field keeps the module loaded as long as a mount exists. */
static struct file_system_type binderfs_type = {
	.owner = THIS_MODULE,
	.name = "binder",
	.init_fs_context = binderfs_init_fs_context,
	.parameters = binderfs_parameters,
	.kill_sb = binderfs_kill_sb,
	.fs_flags = FS_USERNS_MOUNT,
};
MODULE_ALIAS_FS("binder");

/* All mounts: device numbers and filesystem type */

int rust_binderfs_register(void)
{
	int ret = alloc_chrdev_region(&rust_binderfs_region, 0, BINDERFS_MINORS,
				      "binder");

	if (ret)
		return ret;

	ret = register_filesystem(&binderfs_type);
	if (ret)
		unregister_chrdev_region(rust_binderfs_region, BINDERFS_MINORS);
	return ret;
}

void rust_binderfs_unregister(void)
{
	unregister_filesystem(&binderfs_type);
	/*
	 * The last mount is gone, but a path walk under RCU may still read one
	 * of its inodes, and our operations through that. Inodes are freed by
	 * RCU: after all of those callbacks have run, no such walk is left.
	 */
	rcu_barrier();
	unregister_chrdev_region(rust_binderfs_region, BINDERFS_MINORS);
	/*
	 * Each evicted inode has freed its minor: one that is left is a leak.
	 */
	WARN_ON(!ida_is_empty(&binderfs_minors));
}
