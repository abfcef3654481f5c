// SPDX-License-Identifier: GPL-2.0
/*
 * binderfs: a filesystem whose files are Binder devices.
 *
 * A mount is a world of its own. It starts with the devices that the module
 * parameter names, and root of the mount's user namespace makes more of them
 * through binder-control. A device's inode owns a minor number, a place in the
 * mount's quota, and one reference on the device's context; eviction of the
 * inode gives all three back, and nothing else does. So an open file keeps its
 * device whole, whatever happens to the name.
 *
 * Names that the user gives to the parameter, rather than its default, become
 * devices in /dev as well, for programs that know of no binderfs.
 */

#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/fs_context.h>
#include <linux/fs_parser.h>
#include <linux/fsnotify.h>
#include <linux/idr.h>
#include <linux/ipc_namespace.h>
#include <linux/kdev_t.h>
#include <linux/list.h>
#include <linux/magic.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/user_namespace.h>

#include <uapi/linux/android/binderfs.h>

#include "rust_binderfs.h"

#define BINDERFS_MINORS		(MINORMASK + 1)
/* What binder-control has in every mount, and no device in any. */
#define BINDERFS_MINOR_CONTROL	0
/* The last few are for the initial IPC namespace: others cannot use up all. */
#define BINDERFS_MINORS_OF_HOST	4

#define BINDERFS_INO_ROOT		1
#define BINDERFS_INO_CONTROL		2
#define BINDERFS_INO_DEVICE		3 /* plus the minor */
#define BINDERFS_INO_LAST_DEVICE	(BINDERFS_INO_DEVICE + BINDERFS_MINORS)

static dev_t binderfs_region;
static DEFINE_IDA(binderfs_minors);

/* The devices parameter */

#ifdef CONFIG_ANDROID_BINDER_DEVICES
#define BINDER_DEVICES	CONFIG_ANDROID_BINDER_DEVICES
#else
#define BINDER_DEVICES	"binder,hwbinder,vndbinder"
#endif

static char binder_default_devices[] = BINDER_DEVICES;
static char *binder_devices = binder_default_devices;
module_param_named(devices, binder_devices, charp, 0444);
MODULE_PARM_DESC(devices, "Devices of each new mount; if given, also in /dev");

/*
 * Walks its names, from a @cursor of 0 on: copies one out and returns its length.
 * An empty one ends the list. Longer ones than fit are cut short, but do not get
 * past init.
 */
static size_t binder_next_device(size_t *cursor,
				 char name[BINDERFS_MAX_NAME + 1])
{
	const char *here = binder_devices + *cursor;
	size_t len = strcspn(here, ",");

	strscpy(name, here, min_t(size_t, len, BINDERFS_MAX_NAME) + 1);
	*cursor += len + (here[len] == ',');
	return len;
}

static int binder_check_devices(void)
{
	char name[BINDERFS_MAX_NAME + 1];
	size_t cursor = 0;
	size_t len;

	do {
		len = binder_next_device(&cursor, name);
		if (len > BINDERFS_MAX_NAME)
			return -E2BIG;
	} while (len);
	return 0;
}

/* What a mount and a device consist of */

struct binderfs_options {
	u32 max;
	bool stats;
};

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

static struct binderfs_mount *binderfs_mount(const struct super_block *sb)
{
	return sb->s_fs_info;
}

static bool binderfs_is_device(const struct inode *inode)
{
	return inode->i_fop == &rust_binder_fops;
}

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

static int binderfs_alloc_minor(struct binderfs_mount *mount)
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

static void binderfs_free_minor(struct binderfs_mount *mount, int minor)
{
	ida_free(&binderfs_minors, minor);
	binderfs_uncharge(mount);
}

/* Devices, before and after they have an inode */

static struct binderfs_chrdev *
binderfs_alloc_chrdev(struct binderfs_mount *mount, const char *name)
{
	int minor = binderfs_alloc_minor(mount);
	struct binderfs_chrdev *chrdev;

	if (minor < 0)
		return ERR_PTR(minor);

	chrdev = kmalloc_obj(*chrdev);
	if (!chrdev)
		goto free_minor;

	chrdev->minor = minor;
	chrdev->context = rust_binder_context_create(name);
	if (!chrdev->context)
		goto free_chrdev;
	return chrdev;

free_chrdev:
	kfree(chrdev);
free_minor:
	binderfs_free_minor(mount, minor);
	return ERR_PTR(-ENOMEM);
}

static void binderfs_free_chrdev(struct binderfs_mount *mount,
				 struct binderfs_chrdev *chrdev)
{
	rust_binder_context_release(chrdev->context);
	binderfs_free_minor(mount, chrdev->minor);
	kfree(chrdev);
}

/* Inodes and directory entries */

static struct inode *binderfs_new_inode(struct super_block *sb, u64 ino,
					umode_t mode)
{
	struct inode *inode = new_inode(sb);

	if (!inode)
		return NULL;

	inode->i_ino = ino;
	inode->i_mode = mode;
	simple_inode_init_ts(inode);
	return inode;
}

/* Opening it leads to @fops at once: nobody looks the number up. */
static struct inode *binderfs_new_special(struct super_block *sb, u64 ino,
					  int minor,
					  const struct file_operations *fops)
{
	struct inode *inode = binderfs_new_inode(sb, ino, S_IFCHR | 0600);

	if (!inode)
		return NULL;

	init_special_inode(inode, inode->i_mode,
			   MKDEV(MAJOR(binderfs_region), minor));
	inode->i_fop = fops;
	inode->i_uid = binderfs_mount(sb)->uid;
	inode->i_gid = binderfs_mount(sb)->gid;
	return inode;
}

/*
 * Consumes the caller's reference on @inode, also on failure. The dentry that
 * comes back is good for as long as the entry stays in the directory.
 */
static struct dentry *binderfs_add(struct dentry *parent, const char *name,
				   struct inode *inode)
{
	struct dentry *dentry;

	if (!inode)
		return ERR_PTR(-ENOMEM);

	dentry = simple_start_creating(parent, name);
	if (IS_ERR(dentry)) {
		iput(inode);
		return dentry;
	}

	d_make_persistent(dentry, inode);
	if (S_ISDIR(inode->i_mode)) {
		inc_nlink(d_inode(parent));
		fsnotify_mkdir(d_inode(parent), dentry);
	} else {
		fsnotify_create(d_inode(parent), dentry);
	}
	simple_done_creating(dentry);
	return dentry;
}

static struct inode *binderfs_new_dir(struct super_block *sb, u64 ino,
				      const struct inode_operations *ops)
{
	struct inode *inode = binderfs_new_inode(sb, ino, S_IFDIR | 0755);

	if (!inode)
		return NULL;

	inode->i_op = ops;
	inode->i_fop = &simple_dir_operations;
	set_nlink(inode, 2);
	return inode;
}

static struct dentry *binderfs_add_dir(struct dentry *parent, const char *name)
{
	struct super_block *sb = parent->d_sb;

	return binderfs_add(parent, name,
			    binderfs_new_dir(sb, iunique(sb, BINDERFS_INO_LAST_DEVICE),
					     &simple_dir_inode_operations));
}

static struct dentry *binderfs_add_file(struct dentry *parent, const char *name,
					const struct file_operations *fops)
{
	struct super_block *sb = parent->d_sb;
	struct inode *inode;

	inode = binderfs_new_inode(sb, iunique(sb, BINDERFS_INO_LAST_DEVICE),
				   S_IFREG | 0444);
	if (inode)
		inode->i_fop = fops;
	return binderfs_add(parent, name, inode);
}

/*
 * Adds the device that @request names, and fills in its number. @reply may be
 * %NULL. It is written before the name is looked at, and keeps the number even
 * if that turns out to be taken or unusable.
 */
static int binderfs_add_device(struct super_block *sb,
			       struct binderfs_device *request,
			       struct binderfs_device __user *reply)
{
	struct binderfs_mount *mount = binderfs_mount(sb);
	struct binderfs_chrdev *chrdev;
	struct inode *inode;

	chrdev = binderfs_alloc_chrdev(mount, request->name);
	if (IS_ERR(chrdev))
		return PTR_ERR(chrdev);

	request->major = MAJOR(binderfs_region);
	request->minor = chrdev->minor;

	inode = binderfs_new_special(sb, BINDERFS_INO_DEVICE + chrdev->minor,
				     chrdev->minor, &rust_binder_fops);
	if (!inode) {
		binderfs_free_chrdev(mount, chrdev);
		return -ENOMEM;
	}
	inode->i_private = chrdev;

	/* From here on dropping the inode gives back everything. */
	if (reply && copy_to_user(reply, request, sizeof(*request))) {
		iput(inode);
		return -EFAULT;
	}
	return PTR_ERR_OR_ZERO(binderfs_add(sb->s_root, request->name, inode));
}

/* binder-control */

static long binderfs_control_ioctl(struct file *file, unsigned int cmd,
				   unsigned long arg)
{
	struct binderfs_device __user *user = (void __user *)arg;
	struct binderfs_device request;

	if (cmd != BINDER_CTL_ADD)
		return -EINVAL;
	if (copy_from_user(&request, user, sizeof(request)))
		return -EFAULT;

	request.name[BINDERFS_MAX_NAME] = '\0';
	return binderfs_add_device(file_inode(file)->i_sb, &request, user);
}

static const struct file_operations binderfs_control_fops = {
	.owner = THIS_MODULE,
	.open = nonseekable_open,
	.unlocked_ioctl = binderfs_control_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static int binderfs_add_control(struct super_block *sb)
{
	struct inode *inode;

	inode = binderfs_new_special(sb, BINDERFS_INO_CONTROL,
				     BINDERFS_MINOR_CONTROL,
				     &binderfs_control_fops);
	return PTR_ERR_OR_ZERO(binderfs_add(sb->s_root, "binder-control", inode));
}

/* The root directory: devices may go or get another name, all else stays. */

static int binderfs_unlink(struct inode *dir, struct dentry *dentry)
{
	if (!binderfs_is_device(d_inode(dentry)))
		return -EPERM;
	return simple_unlink(dir, dentry);
}

static int binderfs_rename(struct mnt_idmap *idmap,
			   struct inode *from_dir, struct dentry *from,
			   struct inode *to_dir, struct dentry *to,
			   unsigned int flags)
{
	if (!binderfs_is_device(d_inode(from)) || from_dir != to_dir)
		return -EPERM;
	if (d_really_is_positive(to) && !binderfs_is_device(d_inode(to)))
		return -EPERM;
	return simple_rename(idmap, from_dir, from, to_dir, to, flags);
}

static const struct inode_operations binderfs_root_iops = {
	.lookup = simple_lookup,
	.unlink = binderfs_unlink,
	.rename = binderfs_rename,
};

/* features/: a program asks by opening a file; what it reads is always 1. */

static int binderfs_feature_show(struct seq_file *seq, void *unused)
{
	seq_puts(seq, "1\n");
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(binderfs_feature);

static int binderfs_add_features(struct super_block *sb)
{
	static const char *const names[] = {
		"oneway_spam_detection",
		"extended_error",
		"freeze_notification",
		"transaction_report",
	};
	struct dentry *dir = binderfs_add_dir(sb->s_root, "features");
	struct dentry *file;

	if (IS_ERR(dir))
		return PTR_ERR(dir);

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		file = binderfs_add_file(dir, names[i], &binderfs_feature_fops);
		if (IS_ERR(file))
			return PTR_ERR(file);
	}
	return 0;
}

/* binder_logs/, on request */

static int binderfs_add_logs(struct super_block *sb)
{
	struct dentry *dir = binderfs_add_dir(sb->s_root, "binder_logs");

	if (IS_ERR(dir))
		return PTR_ERR(dir);
	return PTR_ERR_OR_ZERO(binderfs_add_dir(dir, "proc"));
}

/* The super block */

static void binderfs_evict_inode(struct inode *inode)
{
	clear_inode(inode);
	if (binderfs_is_device(inode))
		binderfs_free_chrdev(binderfs_mount(inode->i_sb),
				     inode->i_private);
}

static int binderfs_show_options(struct seq_file *seq, struct dentry *root)
{
	struct binderfs_mount *mount = binderfs_mount(root->d_sb);

	seq_printf(seq, ",max=%u", READ_ONCE(mount->max));
	if (mount->stats)
		seq_puts(seq, ",stats=global");
	return 0;
}

static const struct super_operations binderfs_sops = {
	.evict_inode = binderfs_evict_inode,
	.show_options = binderfs_show_options,
	.statfs = simple_statfs,
};

/*
 * The IPC namespace of whoever mounts decides once which minors the mount may
 * use, so there is no need to hold on to it.
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
	return mount;
}

static int binderfs_add_defaults(struct super_block *sb)
{
	struct binderfs_device request = {};
	size_t cursor = 0;

	while (binder_next_device(&cursor, request.name)) {
		int ret = binderfs_add_device(sb, &request, NULL);

		if (ret)
			return ret;
	}
	return 0;
}

static int binderfs_populate(struct super_block *sb)
{
	int ret = binderfs_add_control(sb);

	if (!ret)
		ret = binderfs_add_defaults(sb);
	if (!ret)
		ret = binderfs_add_features(sb);
	if (!ret && binderfs_mount(sb)->stats)
		ret = binderfs_add_logs(sb);
	return ret;
}

/* On failure the VFS goes on to binderfs_kill_sb(), which cleans up. */
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
	 * Mounts made in a user namespace get their device nodes disabled, lest
	 * its root make a node for any hardware. Here nobody chooses numbers:
	 * there is no mknod, and each node is a Binder device of this mount.
	 */
	sb->s_iflags &= ~SB_I_NODEV;

	sb->s_root = d_make_root(binderfs_new_dir(sb, BINDERFS_INO_ROOT,
						  &binderfs_root_iops));
	if (!sb->s_root)
		return -ENOMEM;
	return binderfs_populate(sb);
}

static void binderfs_kill_sb(struct super_block *sb)
{
	struct binderfs_mount *mount = binderfs_mount(sb);

	/* Evicts all inodes, and that needs the mount. */
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
		/* The files show all processes of the machine. */
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

	/* Devices over the new limit stay; there will be no further ones. */
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
	struct binderfs_options *options = kzalloc_obj(*options);

	if (!options)
		return -ENOMEM;

	options->max = BINDERFS_MINORS;
	fc->fs_private = options;
	fc->ops = &binderfs_context_ops;
	return 0;
}

/* The owner keeps the module loaded for as long as anything is mounted. */
static struct file_system_type binderfs_type = {
	.owner = THIS_MODULE,
	.name = "binder",
	.init_fs_context = binderfs_init_fs_context,
	.parameters = binderfs_parameters,
	.kill_sb = binderfs_kill_sb,
	.fs_flags = FS_USERNS_MOUNT,
};
MODULE_ALIAS_FS("binder");

/* Devices in /dev */

/* A device in /dev: what a device's inode in binderfs is to the other kind. */
struct binder_misc {
	struct list_head link;
	struct miscdevice misc;
	void *context;
	char name[BINDERFS_MAX_NAME + 1];
};

/* Changes during module init and exit only. */
static LIST_HEAD(binder_misc_devices);

static bool binder_misc_exists(const char *name)
{
	struct binder_misc *device;

	list_for_each_entry(device, &binder_misc_devices, link) {
		if (!strcmp(device->name, name))
			return true;
	}
	return false;
}

static struct binder_misc *binder_misc_alloc(const char *name)
{
	struct binder_misc *device = kzalloc_obj(*device);

	if (!device)
		return NULL;

	device->context = rust_binder_context_create(name);
	if (!device->context) {
		kfree(device);
		return NULL;
	}
	strscpy(device->name, name);
	device->misc.minor = MISC_DYNAMIC_MINOR;
	device->misc.name = device->name;
	device->misc.fops = &rust_binder_fops;
	return device;
}

static void binder_misc_free(struct binder_misc *device)
{
	rust_binder_context_release(device->context);
	kfree(device);
}

static int binder_misc_add(const char *name)
{
	struct binder_misc *device;
	int ret;

	/* sysfs would find out, too, but with a stack trace. */
	if (binder_misc_exists(name))
		return -EINVAL;

	device = binder_misc_alloc(name);
	if (!device)
		return -ENOMEM;

	ret = misc_register(&device->misc);
	if (ret) {
		binder_misc_free(device);
		return ret;
	}
	list_add(&device->link, &binder_misc_devices);
	return 0;
}

static void binder_misc_remove_all(void)
{
	struct binder_misc *device, *next;

	list_for_each_entry_safe(device, next, &binder_misc_devices, link) {
		misc_deregister(&device->misc);
		list_del(&device->link);
		binder_misc_free(device);
	}
}

/* All or none, and none at all when nobody has asked for any. */
static int binder_misc_add_all(void)
{
	char name[BINDERFS_MAX_NAME + 1];
	size_t cursor = 0;
	int ret = 0;

	if (binder_devices == binder_default_devices)
		return 0;

	while (!ret && binder_next_device(&cursor, name))
		ret = binder_misc_add(name);
	if (ret)
		binder_misc_remove_all();
	return ret;
}

/* The border with the driver */

const void *rust_binderfs_device_context(const struct inode *inode,
					 const struct file *file)
{
	const struct binderfs_chrdev *chrdev = inode->i_private;

	if (binderfs_is_device(inode))
		return chrdev->context;

	/* Then the misc core is opening it, and has left its record there. */
	return container_of(file->private_data, struct binder_misc, misc)->context;
}

/*
 * The filesystem comes before the devices in /dev: to register it is the one
 * step that fails in practice, when another driver has its name.
 */
int rust_binderfs_init(void)
{
	int ret = binder_check_devices();

	if (ret)
		return ret;

	ret = alloc_chrdev_region(&binderfs_region, 0, BINDERFS_MINORS, "binder");
	if (ret)
		return ret;

	ret = register_filesystem(&binderfs_type);
	if (ret)
		goto free_region;

	ret = binder_misc_add_all();
	if (ret)
		goto unregister;
	return 0;

unregister:
	unregister_filesystem(&binderfs_type);
free_region:
	unregister_chrdev_region(binderfs_region, BINDERFS_MINORS);
	return ret;
}

void rust_binderfs_exit(void)
{
	binder_misc_remove_all();
	unregister_filesystem(&binderfs_type);
	/*
	 * The last mount is gone, but a path walk without locks may still look
	 * at one of its inodes, and through it at our operations. Inodes are
	 * freed by RCU: when all of those have run, no such walk is left.
	 */
	rcu_barrier();
	unregister_chrdev_region(binderfs_region, BINDERFS_MINORS);
	/* Each evicted inode has returned its minor: one that is left leaked. */
	WARN_ON(!ida_is_empty(&binderfs_minors));
}
