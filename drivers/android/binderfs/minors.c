// SPDX-License-Identifier: GPL-2.0
/*
 * Device numbers, and how many of them a mount and whoever made it may have.
 *
 * All mounts share 2^20 minors. A mount of the initial user namespace is made
 * by the administrator, who can use up all of them. Everybody can be root of a
 * user namespace and mount there, so such mounts share the lower half of the
 * minors, and their devices are counted in an account: an ordinary user has one
 * for all of its namespaces, however many and deep these are, and a namespace
 * that root makes, as for a container, has one with those inside of it. So
 * neither can a user exhaust what other users have, nor a container what other
 * containers have.
 */

#include <linux/bug.h>
#include <linux/cleanup.h>
#include <linux/errno.h>
#include <linux/idr.h>
#include <linux/ipc_namespace.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/nsproxy.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/user_namespace.h>
#include <linux/xarray.h>

#include "rust_binderfs.h"

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
	    current->nsproxy->ipc_ns != &init_ipc_ns)
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

static int binderfs_charge(struct binderfs_mount *mount)
{
	struct binderfs_account *account = mount->account;
	u32 max = READ_ONCE(binderfs_max_user_devices);

	guard(spinlock)(&binderfs_quota_lock);
	if (mount->devices >= READ_ONCE(mount->options->max) ||
	    (account && max && account->devices >= max))
		return -ENOSPC;
	mount->devices++;
	if (account)
		account->devices++;
	return 0;
}

static void binderfs_uncharge(struct binderfs_mount *mount)
{
	guard(spinlock)(&binderfs_quota_lock);
	mount->devices--;
	if (mount->account)
		mount->account->devices--;
}

bool rust_binderfs_is_full(struct binderfs_mount *mount)
{
	guard(spinlock)(&binderfs_quota_lock);
	return mount->devices >= READ_ONCE(mount->options->max);
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

/* Each evicted inode has freed its minor: one that is left is a leak. */
void rust_binderfs_check_minors(void)
{
	WARN_ON(!ida_is_empty(&binderfs_minors));
	WARN_ON(!xa_empty(&binderfs_users) || !xa_empty(&binderfs_containers));
}
