// SPDX-License-Identifier: GPL-2.0
/*
 * binderfs: a filesystem whose files are Binder devices.
 *
 * Each mount has its own options, owner, quota and devices. A new mount
 * contains the devices that the module parameter names. The root user of the
 * mount's user namespace creates more of them through binder-control.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/array_size.h>
#include <linux/capability.h>
#include <linux/cleanup.h>
#include <linux/cred.h>
#include <linux/errno.h>
#include <linux/fs_context.h>
#include <linux/fs_parser.h>
#include <linux/magic.h>
#include <linux/module.h>
#include <linux/printk.h>
#include <linux/rcupdate.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/user_namespace.h>

#include "binderfs/rust_binderfs.h"

/*
 * The mount options.
 *
 * The owner that uid= and gid= name has the root directory, binder-control and
 * the devices, so it can add, rename and remove devices. mode= is for devices
 * alone: mode=0666 lets everybody use them, and nobody else add any.
 * control_mode= is for binder-control.
 *
 * Names in devices= are separated by colons. A comma would end the option in
 * fstab, in mount(8) and in mount(2); where it can be part of the value, in
 * fsconfig(2), it separates names, too.
 *
 * A remount that leaves out max= or stats= means their defaults, as with the C
 * driver. One that leaves out another option does not change it. It changes
 * what is created from then on; what exists is for chmod(2) and chown(2).
 */

#define BINDERFS_DEFAULT_MODE	0600

enum binderfs_option {
	BINDERFS_OPT_MAX,
	BINDERFS_OPT_STATS,
	BINDERFS_OPT_UID,
	BINDERFS_OPT_GID,
	BINDERFS_OPT_MODE,
	BINDERFS_OPT_CONTROL_MODE,
	BINDERFS_OPT_DEVICES,
};

static const struct constant_table binderfs_stats_modes[] = {
	{ "global", true },
	{}
};

static const struct fs_parameter_spec binderfs_parameters[] = {
	fsparam_u32("max", BINDERFS_OPT_MAX),
	fsparam_enum("stats", BINDERFS_OPT_STATS, binderfs_stats_modes),
	fsparam_u32("uid", BINDERFS_OPT_UID),
	fsparam_u32("gid", BINDERFS_OPT_GID),
	fsparam_u32oct("mode", BINDERFS_OPT_MODE),
	fsparam_u32oct("control_mode", BINDERFS_OPT_CONTROL_MODE),
	fsparam_string_empty("devices", BINDERFS_OPT_DEVICES),
	{}
};

/* Parsing */

static int binderfs_parse_mode(struct fs_context *fc, const char *key,
			       u32 value, umode_t *mode)
{
	if (value & ~0777)
		return binderfs_invalid(fc, "%s=%o has more than permissions, which are up to 777",
					key, value);
	*mode = value;
	return 0;
}

/* Names that a directory cannot have, and those of other entries. */
static const char * const binderfs_reserved[] = {
	"", ".", "..", "binder-control", "features", "binder_logs",
};

bool rust_binderfs_is_name(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(binderfs_reserved); i++) {
		if (len == strlen(binderfs_reserved[i]) &&
		    !memcmp(name, binderfs_reserved[i], len))
			return false;
	}
	return !memchr(name, '/', len);
}

/* Separates the names by colons, and checks each. */
static int binderfs_check_devices(struct fs_context *fc, char *name)
{
	if (!*name)
		return 0;

	for (;;) {
		size_t len = strcspn(name, ":,");

		if (len > BINDERFS_MAX_NAME)
			return binderfs_invalid(fc,
						"devices has a name of %zu bytes, %u are the most",
						len, BINDERFS_MAX_NAME);
		if (!rust_binderfs_is_name(name, len))
			return binderfs_invalid(fc, "devices has '%*pE', which cannot be a name",
						(int)len, name);
		if (!name[len])
			return 0;
		name[len] = ':';
		name += len + 1;
	}
}

static int binderfs_parse_devices(struct fs_context *fc,
				  struct fs_parameter *param)
{
	struct binderfs_options *options = fc->fs_private;
	int ret = binderfs_check_devices(fc, param->string);

	if (ret)
		return ret;

	kfree(options->devices);
	options->devices = param->string;
	param->string = NULL;
	return 0;
}

static int binderfs_parse_value(struct fs_context *fc, int opt,
				struct fs_parameter *param,
				const struct fs_parse_result *value)
{
	struct binderfs_options *options = fc->fs_private;
	kuid_t uid;
	kgid_t gid;

	switch (opt) {
	case BINDERFS_OPT_MAX:
		if (value->uint_32 > BINDERFS_MINORS)
			return binderfs_invalid(fc, "max is over %u", BINDERFS_MINORS);
		options->max = value->uint_32;
		return 0;
	case BINDERFS_OPT_STATS:
		/* The files show all processes of the system. */
		if (!capable(CAP_SYS_ADMIN)) {
			binderfs_error(fc, "stats=global is for root outside of user namespaces");
			return -EPERM;
		}
		options->stats = value->uint_32;
		return 0;
	/*
	 * A number of the caller's user namespace, as in chown(2). The user
	 * namespace of the mount, which may differ, has to map it as well.
	 */
	case BINDERFS_OPT_UID:
		uid = make_kuid(current_user_ns(), value->uint_32);
		if (!kuid_has_mapping(fc->user_ns, uid))
			return binderfs_invalid(fc, "uid=%u is no user of this user namespace",
						value->uint_32);
		options->owner.uid = uid;
		return 0;
	case BINDERFS_OPT_GID:
		gid = make_kgid(current_user_ns(), value->uint_32);
		if (!kgid_has_mapping(fc->user_ns, gid))
			return binderfs_invalid(fc, "gid=%u is no group of this user namespace",
						value->uint_32);
		options->owner.gid = gid;
		return 0;
	case BINDERFS_OPT_MODE:
		return binderfs_parse_mode(fc, param->key, value->uint_32,
					   &options->owner.mode);
	case BINDERFS_OPT_CONTROL_MODE:
		return binderfs_parse_mode(fc, param->key, value->uint_32,
					   &options->control_mode);
	default:
		return binderfs_parse_devices(fc, param);
	}
}

static int binderfs_parse_param(struct fs_context *fc, struct fs_parameter *param)
{
	struct binderfs_options *options = fc->fs_private;
	struct fs_parse_result value;
	int opt = fs_parse(fc, binderfs_parameters, param, &value);
	int ret;

	if (opt < 0)
		return opt;
	ret = binderfs_parse_value(fc, opt, param, &value);
	if (!ret)
		options->given |= BIT(opt);
	return ret;
}

/* The options of a mount */

static void binderfs_free_options(struct binderfs_options *options)
{
	if (options)
		kfree(options->devices);
	kfree(options);
}

static bool binderfs_given(const struct binderfs_options *options,
			   enum binderfs_option opt)
{
	return options->given & BIT(opt);
}

/* Fails if an option that lasts as long as the mount is named and differs. */
static int binderfs_check_lasting(struct fs_context *fc,
				  const struct binderfs_options *old,
				  const struct binderfs_options *new)
{
	if (new->stats != old->stats)
		return binderfs_invalid(fc, "stats is for the lifetime of a mount");
	if (binderfs_given(new, BINDERFS_OPT_CONTROL_MODE) &&
	    new->control_mode != old->control_mode)
		return binderfs_invalid(fc,
					"control_mode is for a new mount: chmod binder-control");
	if (binderfs_given(new, BINDERFS_OPT_DEVICES) &&
	    (!old->devices || strcmp(new->devices, old->devices)))
		return binderfs_invalid(fc,
					"devices is for a new mount: binder-control adds devices");
	return 0;
}

static int binderfs_reconfigure(struct fs_context *fc)
{
	struct binderfs_mount *mount = binderfs_mount(fc->root->d_sb);
	const struct binderfs_options *new = fc->fs_private;
	struct binderfs_options *options = mount->options;
	int ret = binderfs_check_lasting(fc, options, new);

	if (ret)
		return ret;

	guard(spinlock)(&mount->options_lock);
	/* Devices over the new limit stay; no further ones can be created. */
	WRITE_ONCE(options->max, new->max);
	if (binderfs_given(new, BINDERFS_OPT_UID))
		options->owner.uid = new->owner.uid;
	if (binderfs_given(new, BINDERFS_OPT_GID))
		options->owner.gid = new->owner.gid;
	if (binderfs_given(new, BINDERFS_OPT_MODE))
		options->owner.mode = new->owner.mode;
	options->given |= new->given;
	return 0;
}

/* A remount with the options that are shown here changes nothing. */
static int binderfs_show_options(struct seq_file *seq, struct dentry *root)
{
	struct binderfs_mount *mount = binderfs_mount(root->d_sb);
	struct user_namespace *user_ns = seq_user_ns(seq);
	struct binderfs_options options;

	/* The names last as long as the mount. */
	spin_lock(&mount->options_lock);
	options = *mount->options;
	spin_unlock(&mount->options_lock);

	seq_printf(seq, ",max=%u", options.max);
	if (options.stats)
		seq_puts(seq, ",stats=global");
	if (binderfs_given(&options, BINDERFS_OPT_UID))
		seq_printf(seq, ",uid=%u", from_kuid_munged(user_ns, options.owner.uid));
	if (binderfs_given(&options, BINDERFS_OPT_GID))
		seq_printf(seq, ",gid=%u", from_kgid_munged(user_ns, options.owner.gid));
	if (binderfs_given(&options, BINDERFS_OPT_MODE))
		seq_printf(seq, ",mode=%o", options.owner.mode);
	if (binderfs_given(&options, BINDERFS_OPT_CONTROL_MODE))
		seq_printf(seq, ",control_mode=%o", options.control_mode);
	if (binderfs_given(&options, BINDERFS_OPT_DEVICES))
		seq_show_option(seq, "devices", options.devices);
	return 0;
}

dev_t rust_binderfs_region;

/* The super block */

static const struct super_operations binderfs_sops = {
	.evict_inode = rust_binderfs_evict_inode,
	.show_options = binderfs_show_options,
	.statfs = simple_statfs,
};

/* On failure the VFS calls binderfs_kill_sb(), which cleans up. */
static int binderfs_fill_super(struct super_block *sb, struct fs_context *fc)
{
	struct binderfs_mount *mount = kzalloc_obj(*mount, GFP_KERNEL_ACCOUNT);
	struct inode *root;
	int ret;

	if (!mount)
		return -ENOMEM;

	if (rust_binderfs_init_quota(mount, sb->s_user_ns)) {
		kfree(mount);
		return -ENOMEM;
	}
	mount->options = fc->fs_private;
	fc->fs_private = NULL;
	spin_lock_init(&mount->options_lock);
	rust_binder_log_dir_init(&mount->processes);

	sb->s_fs_info = mount;
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

	ret = rust_binderfs_populate(sb, fc);
	if (ret)
		return ret;

	/* Without uid= and gid= the VFS has given it to root of the user namespace. */
	root = d_inode(sb->s_root);
	if (binderfs_given(mount->options, BINDERFS_OPT_UID))
		root->i_uid = mount->options->owner.uid;
	if (binderfs_given(mount->options, BINDERFS_OPT_GID))
		root->i_gid = mount->options->owner.gid;
	return 0;
}

static void binderfs_kill_sb(struct super_block *sb)
{
	struct binderfs_mount *mount = binderfs_mount(sb);

	if (mount)
		flush_work(&mount->processes.work);
	/* Evicts all inodes, which needs the mount. */
	kill_anon_super(sb);
	if (!mount)
		return;
	rust_binderfs_exit_quota(mount);
	binderfs_free_options(mount->options);
	kfree(mount);
}

/* The filesystem type */

static int binderfs_get_tree(struct fs_context *fc)
{
	return get_tree_nodev(fc, binderfs_fill_super);
}

static void binderfs_free_fc(struct fs_context *fc)
{
	binderfs_free_options(fc->fs_private);
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
	options = kzalloc_obj(*options, GFP_KERNEL_ACCOUNT);
	if (!options)
		return -ENOMEM;

	options->max = BINDERFS_MINORS;
	options->owner.mode = BINDERFS_DEFAULT_MODE;
	options->control_mode = BINDERFS_DEFAULT_MODE;
	options->owner.uid = make_kuid(fc->user_ns, 0);
	if (!uid_valid(options->owner.uid))
		options->owner.uid = GLOBAL_ROOT_UID;
	options->owner.gid = make_kgid(fc->user_ns, 0);
	if (!gid_valid(options->owner.gid))
		options->owner.gid = GLOBAL_ROOT_GID;
	fc->fs_private = options;
	fc->ops = &binderfs_context_ops;
	return 0;
}

/*
 * The owner field keeps the module loaded as long as a mount exists. Mounts can
 * be mapped to other users (mount_setattr(2)): the VFS, which has the mapping,
 * compares all ids of entries. New entries have the owner of the mount's
 * options, never that of the task, so there is nothing to map back.
 */
static struct file_system_type binderfs_type = {
	.owner = THIS_MODULE,
	.init_fs_context = binderfs_init_fs_context,
	.parameters = binderfs_parameters,
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
	 * RCU: after all of those callbacks have run, no such walk is left.
	 */
	rcu_barrier();
	unregister_chrdev_region(rust_binderfs_region, BINDERFS_MINORS);
	rust_binderfs_check_minors();
}
