// SPDX-License-Identifier: GPL-2.0
/*
 * The contents of a mount of binderfs: Binder devices, binder-control, which
 * creates more of them, and directories with information about the driver.
 *
 * The inode of a device owns a minor number, one device of the mount's quota,
 * and one reference on the device's context. Eviction of the inode releases all
 * three, and nothing else does. So an open file keeps its device complete,
 * whatever happens to the name.
 *
 * All mounts share 2^20 minors. A mount of the initial user namespace is made
 * by the administrator, who can use up all of them. Everybody can be root of a
 * user namespace and mount there, so such mounts share the lower half of the
 * minors, and their devices are counted in an account. An ordinary user has one
 * account for all of its namespaces, however many and deep these are. A
 * namespace that root makes, as for a container, has one account with the
 * namespaces inside of it. So a user cannot exhaust the minors of other users,
 * nor a container those of other containers.
 */

#include <linux/bug.h>
#include <linux/cleanup.h>
#include <linux/err.h>
#include <linux/errno.h>
#include <linux/fs_context.h>
#include <linux/fsnotify.h>
#include <linux/idr.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/nsproxy.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/user_namespace.h>

#include "rust_binderfs.h"

/* Device numbers */

/* The last minors are kept for the initial IPC namespace. */
#define BINDERFS_MINORS_OF_HOST	4

static unsigned int binderfs_max_user_devices = 4096;
module_param_named(max_user_devices, binderfs_max_user_devices, uint, 0644);
MODULE_PARM_DESC(max_user_devices, "Devices that a user may have in user namespaces, or a container of root, 0 for any number");

static DEFINE_IDA(binderfs_minors);

/* Guards the numbers of devices of mounts and accounts. */
static DEFINE_SPINLOCK(binderfs_quota_lock);

/* Accounts */

struct binderfs_account {
	struct xarray *accounts;
	u32 key;
	u32 mounts;
	u32 devices;
};

/* Guards both sets of accounts, and how many mounts each account has. */
static DEFINE_MUTEX(binderfs_accounts_lock);
/* By the user that has made the outermost namespace. */
static DEFINE_XARRAY(binderfs_users);
/*
 * By the number of the outermost namespace, where root has made that. Each
 * mount keeps its namespace, which keeps those around it: nobody else has the
 * number as long as the account exists.
 */
static DEFINE_XARRAY(binderfs_containers);

static struct binderfs_account *binderfs_get_account(struct xarray *accounts,
						     u32 key)
{
	struct binderfs_account *account;

	guard(mutex)(&binderfs_accounts_lock);
	account = xa_load(accounts, key);
	if (!account) {
		account = kzalloc_obj(*account, GFP_KERNEL_ACCOUNT);
		if (!account)
			return NULL;
		account->accounts = accounts;
		account->key = key;
		if (xa_err(xa_store(accounts, key, account, GFP_KERNEL_ACCOUNT))) {
			kfree(account);
			return NULL;
		}
	}
	account->mounts++;
	return account;
}

void rust_binderfs_exit_quota(struct binderfs_mount *mount)
{
	struct binderfs_account *account = mount->account;

	if (!account)
		return;
	guard(mutex)(&binderfs_accounts_lock);
	if (--account->mounts)
		return;
	WARN_ON(account->devices);
	xa_erase(account->accounts, account->key);
	kfree(account);
}

/*
 * The IPC namespace of the task that mounts determines once which minors the
 * mount may use, so the mount needs no reference on the namespace.
 */
static u32 binderfs_last_minor(const struct user_namespace *user_ns)
{
	if (user_ns != &init_user_ns)
		return BINDERFS_MINORS / 2 - 1;
	if (IS_ENABLED(CONFIG_IPC_NS) &&
	    current->nsproxy->ipc_ns != init_task.nsproxy->ipc_ns)
		return BINDERFS_MINORS - BINDERFS_MINORS_OF_HOST - 1;
	return BINDERFS_MINORS - 1;
}

int rust_binderfs_init_quota(struct binderfs_mount *mount,
			     const struct user_namespace *user_ns)
{
	mount->last_minor = binderfs_last_minor(user_ns);
	if (user_ns == &init_user_ns)
		return 0;

	while (user_ns->parent != &init_user_ns)
		user_ns = user_ns->parent;
	if (uid_eq(user_ns->owner, GLOBAL_ROOT_UID))
		mount->account = binderfs_get_account(&binderfs_containers,
						      user_ns->ns.inum);
	else
		mount->account = binderfs_get_account(&binderfs_users,
						      __kuid_val(user_ns->owner));
	return mount->account ? 0 : -ENOMEM;
}

/* Numbers of devices */

static void binderfs_uncharge(struct binderfs_mount *mount)
{
	guard(spinlock)(&binderfs_quota_lock);
	mount->devices--;
	if (mount->account)
		mount->account->devices--;
}

/*
 * Allocate or free a minor, together with one device of the quotas of the mount
 * and of its account. Return the minor, or a negative errno: -ENOSPC if a quota
 * or the minors are exhausted.
 */
static int binderfs_alloc_minor(struct binderfs_mount *mount)
{
	struct binderfs_account *account = mount->account;
	u32 max = READ_ONCE(binderfs_max_user_devices);
	int minor;

	scoped_guard(spinlock, &binderfs_quota_lock) {
		if (mount->devices >= READ_ONCE(mount->options->max) ||
		    (account && max && account->devices >= max))
			return -ENOSPC;
		mount->devices++;
		if (account)
			account->devices++;
	}

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

/* Each evicted inode has freed its minor: one that is left is a leak. */
void rust_binderfs_check_minors(void)
{
	WARN_ON(!ida_is_empty(&binderfs_minors));
	WARN_ON(!xa_empty(&binderfs_users) || !xa_empty(&binderfs_containers));
}

/* Inodes and directory entries */

#define BINDERFS_INO_ROOT		1
#define BINDERFS_INO_CONTROL		2
#define BINDERFS_INO_DEVICE		3 /* plus the minor */

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

static struct binderfs_owner binderfs_owner(struct binderfs_mount *mount)
{
	guard(spinlock)(&mount->options_lock);
	return mount->options->owner;
}

/* Opening the inode calls @fops directly, without a lookup of the number. */
static struct inode *binderfs_new_special(struct super_block *sb, u64 ino,
					  int minor,
					  struct binderfs_owner owner,
					  const struct file_operations *fops)
{
	struct inode *inode = binderfs_new_inode(sb, ino, S_IFCHR | owner.mode);

	if (!inode)
		return NULL;

	init_special_inode(inode, inode->i_mode,
			   MKDEV(MAJOR(rust_binderfs_region), minor));
	inode->i_fop = fops;
	inode->i_uid = owner.uid;
	inode->i_gid = owner.gid;
	return inode;
}

/* Consumes the caller's reference on @inode, also on failure. */
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

/* A number that no other inode of the mount has had. */
static u64 binderfs_next_ino(struct super_block *sb)
{
	return atomic64_inc_return(&binderfs_mount(sb)->last_ino);
}

struct dentry *rust_binderfs_add_dir(struct dentry *parent, const char *name)
{
	struct super_block *sb = parent->d_sb;

	return binderfs_add(parent, name,
			    binderfs_new_dir(sb, binderfs_next_ino(sb),
					     &simple_dir_inode_operations));
}

struct dentry *rust_binderfs_add_file(struct dentry *parent, const char *name,
				      const struct file_operations *fops,
				      void *data)
{
	struct super_block *sb = parent->d_sb;
	struct inode *inode;

	inode = binderfs_new_inode(sb, binderfs_next_ino(sb), S_IFREG | 0444);
	if (inode) {
		inode->i_fop = fops;
		inode->i_private = data;
	}
	return binderfs_add(parent, name, inode);
}

/*
 * Adds the device that @request names, and writes its number to @request.
 * @reply may be %NULL. It is written before the name is checked, and keeps the
 * number even if the name is in use or invalid.
 */
static int binderfs_add_device(struct super_block *sb,
			       struct binderfs_device *request,
			       struct binderfs_device __user *reply)
{
	struct binderfs_mount *mount = binderfs_mount(sb);
	int minor = binderfs_alloc_minor(mount);
	struct inode *inode;
	void *context;

	if (minor < 0)
		return minor;

	context = rust_binder_context_create(request->name, sb->s_user_ns);
	if (!context)
		goto free_minor;

	inode = binderfs_new_special(sb, BINDERFS_INO_DEVICE + minor, minor,
				     binderfs_owner(mount), &rust_binder_fops);
	if (!inode)
		goto release_context;

	/* From here on dropping the inode releases everything. */
	inode->i_private = context;
	request->major = MAJOR(inode->i_rdev);
	request->minor = minor;
	if (reply && copy_to_user(reply, request, sizeof(*request))) {
		iput(inode);
		return -EFAULT;
	}
	return PTR_ERR_OR_ZERO(binderfs_add(sb->s_root, request->name, inode));

release_context:
	rust_binder_context_release(context);
free_minor:
	binderfs_free_minor(mount, minor);
	return -ENOMEM;
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
	struct binderfs_mount *mount = binderfs_mount(sb);
	struct binderfs_owner owner = binderfs_owner(mount);
	struct inode *inode;

	owner.mode = mount->options->control_mode;
	inode = binderfs_new_special(sb, BINDERFS_INO_CONTROL,
				     BINDERFS_MINOR_CONTROL, owner,
				     &binderfs_control_fops);
	return PTR_ERR_OR_ZERO(binderfs_add(sb->s_root, "binder-control", inode));
}

/*
 * The root directory: devices can be removed and renamed, other entries cannot.
 */

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

/*
 * features/: a program opens a file and reads whether the driver has the
 * feature.
 */

static bool binderfs_always = true;
/* A family of another driver may keep ours from being registered. */
bool rust_binder_has_reports;

static int binderfs_feature_show(struct seq_file *seq, void *unused)
{
	const bool *is_present = seq->private;

	seq_puts(seq, *is_present ? "1\n" : "0\n");
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(binderfs_feature);

static int binderfs_add_features(struct super_block *sb)
{
	static const struct {
		const char *name;
		bool *is_present;
	} features[] = {
		{ "oneway_spam_detection", &binderfs_always },
		{ "extended_error", &binderfs_always },
		{ "freeze_notification", &binderfs_always },
		{ "transaction_report", &rust_binder_has_reports },
	};
	struct dentry *dir = rust_binderfs_add_dir(sb->s_root, "features");
	struct dentry *file;

	if (IS_ERR(dir))
		return PTR_ERR(dir);

	for (size_t i = 0; i < ARRAY_SIZE(features); i++) {
		file = rust_binderfs_add_file(dir, features[i].name,
					      &binderfs_feature_fops,
					      features[i].is_present);
		if (IS_ERR(file))
			return PTR_ERR(file);
	}
	return 0;
}

/* The root directory and the end of an inode */

/* Nobody else adds devices to a mount that is being made. */
static void binderfs_explain(struct fs_context *fc,
			     struct binderfs_mount *mount, const char *name,
			     int error)
{
	int len = strlen(name);

	if (error == -EEXIST)
		binderfs_error(fc, "device '%*pE' is named twice", len, name);
	else if (error == -ENOSPC && mount->devices >= mount->options->max)
		binderfs_error(fc, "max=%u is less than the devices of a new mount",
			       mount->options->max);
	else if (error == -ENOSPC)
		binderfs_error(fc, "no device number is left for '%*pE': see max_user_devices",
			       len, name);
}

static int binderfs_add_defaults(struct super_block *sb, struct fs_context *fc)
{
	struct binderfs_mount *mount = binderfs_mount(sb);
	struct binderfs_device request = {};
	size_t cursor = 0;

	while (rust_binder_next_device(mount->options->devices, &cursor,
				       request.name)) {
		int ret = binderfs_add_device(sb, &request, NULL);

		if (ret) {
			binderfs_explain(fc, mount, request.name, ret);
			return ret;
		}
	}
	return 0;
}

int rust_binderfs_populate(struct super_block *sb, struct fs_context *fc)
{
	struct binderfs_mount *mount = binderfs_mount(sb);
	int ret;

	atomic64_set(&mount->last_ino, BINDERFS_INO_DEVICE + BINDERFS_MINORS);
	sb->s_root = d_make_root(binderfs_new_dir(sb, BINDERFS_INO_ROOT,
						  &binderfs_root_iops));
	if (!sb->s_root)
		return -ENOMEM;

	ret = binderfs_add_control(sb);
	if (!ret)
		ret = binderfs_add_defaults(sb, fc);
	if (!ret)
		ret = binderfs_add_features(sb);
	if (!ret && mount->options->stats)
		ret = rust_binderfs_add_logs(sb);
	return ret;
}

void rust_binderfs_evict_inode(struct inode *inode)
{
	clear_inode(inode);
	if (!binderfs_is_device(inode))
		return;
	rust_binder_context_release(inode->i_private);
	binderfs_free_minor(binderfs_mount(inode->i_sb), iminor(inode));
}
