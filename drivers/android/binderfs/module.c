// SPDX-License-Identifier: GPL-2.0
/*
 * The module: its parameters, but for those in binderfs/inodes.c and rust_binder.rs; the devices in
 * /dev that one of them names; and when devices can be opened. Parameters are in C, because those
 * of Rust's module! macro are numbers that do not change while the module is loaded.
 */

#include <linux/build_bug.h>
#include <linux/cleanup.h>
#include <linux/compiler.h>
#include <linux/ctype.h>
#include <linux/errno.h>
#include <linux/genetlink.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/printk.h>
#include <linux/ratelimit.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/user_namespace.h>
#include <linux/wait.h>

#include "rust_binderfs.h"

/* The name: another driver may have registered the usual one, and is used beside this one */

/* The netlink family's name is the one that has the least room. */
static char binder_name[GENL_NAMSIZ] = "binder";

/* mount(2) takes what follows a dot for a subtype. */
static int set_name(const char *value, const struct kernel_param *param)
{
	const char *end = value;

	while (isalnum(*end) || *end == '_' || *end == '-')
		end++;
	if (end == value || *end)
		return -EINVAL;
	return param_set_copystring(value, param);
}

static const struct kernel_param_ops name_ops = {
	.set = set_name,
	.get = param_get_string,
};

static struct kparam_string name_param = {
	.maxlen = sizeof(binder_name),
	.string = binder_name,
};

module_param_cb(name, &name_ops, &name_param, 0444);
MODULE_PARM_DESC(name, "Name of the filesystem type, beside another driver of Binder: letters, digits, - and _");

const char *rust_binder_name(void)
{
	return binder_name;
}

/* The devices that exist from the start */

/*
 * The kernel's configuration is about what is built in. A module is loaded into
 * kernels that others configured for their C driver: Debian's name one device.
 */
#if !defined(MODULE) && defined(CONFIG_ANDROID_BINDER_DEVICES)
#define BINDER_DEVICES	CONFIG_ANDROID_BINDER_DEVICES
#else
#define BINDER_DEVICES	"binder,hwbinder,vndbinder"
#endif

static char binder_default_devices[] = BINDER_DEVICES;
static char *binder_devices = binder_default_devices;
module_param_named(devices, binder_devices, charp, 0444);
MODULE_PARM_DESC(devices, "Devices of each new mount; if given, also in /dev");

size_t rust_binder_next_device(const char *option, size_t *cursor,
			       char name[BINDERFS_MAX_NAME + 1])
{
	const char *here = (option ?: binder_devices) + *cursor;
	size_t len = strcspn(here, option ? ":" : ",");

	strscpy(name, here, min_t(size_t, len, BINDERFS_MAX_NAME) + 1);
	*cursor += len + (here[len] != '\0');
	return len;
}

static int binder_check_devices(void)
{
	char name[BINDERFS_MAX_NAME + 1];
	size_t cursor = 0;
	size_t len;

	do {
		len = rust_binder_next_device(NULL, &cursor, name);
		if (len > BINDERFS_MAX_NAME)
			return -E2BIG;
		if (len && !rust_binderfs_is_name(name, len)) {
			pr_err("devices has '%*pE', which cannot be a name\n",
			       (int)len, name);
			return -EINVAL;
		}
	} while (len);
	return 0;
}

/* Limits of one process */

static_assert(sizeof(rust_binder_limits) == 4 * sizeof(u32));

module_param_named(max_nodes, rust_binder_limits.max_nodes, uint, 0644);
MODULE_PARM_DESC(max_nodes, "Nodes that a process may offer, 0 for any number");

module_param_named(max_refs, rust_binder_limits.max_refs, uint, 0644);
MODULE_PARM_DESC(max_refs, "Handles that a process may have, 0 for any number");

module_param_named(max_threads, rust_binder_limits.max_threads, uint, 0644);
MODULE_PARM_DESC(max_threads, "Threads of a process that may use a device, 0 for any number");

static int set_percent(const char *value, const struct kernel_param *param)
{
	return param_set_uint_minmax(value, param, 0, 100);
}

static const struct kernel_param_ops percent_ops = {
	.set = set_percent,
	.get = param_get_uint,
};

module_param_cb(oneway_quota, &percent_ops, &rust_binder_limits.oneway_quota, 0644);
MODULE_PARM_DESC(oneway_quota, "Percent of a receiver's oneway space for one sender, 0 for all");

/* Completions */

bool rust_binder_defer_complete = true;
module_param_named(defer_complete, rust_binder_defer_complete, bool, 0644);
MODULE_PARM_DESC(defer_complete, "The flag TF_DEFER_COMPLETE of Linux 7.4 has an effect");

/* Messages, and stopping at an error of user space */

unsigned int rust_binder_debug_mask = 0x7;
module_param_named(debug_mask, rust_binder_debug_mask, uint, 0644);
MODULE_PARM_DESC(debug_mask, "What to print messages about, one bit a subject");

unsigned int rust_binder_alloc_debug_mask = 0x1;
module_param_named(alloc_debug_mask, rust_binder_alloc_debug_mask, uint, 0644);
MODULE_PARM_DESC(alloc_debug_mask, "What to print messages about concerning the spaces of processes");

static DEFINE_RATELIMIT_STATE(log_rate, DEFAULT_RATELIMIT_INTERVAL, DEFAULT_RATELIMIT_BURST);

bool rust_binder_may_log(void)
{
	/* The kernel logs the number of suppressed messages by this name. */
	return ___ratelimit(&log_rate, KBUILD_MODNAME);
}

DEFINE_STATIC_KEY_FALSE(rust_binder_stop);

/* Written by the setter of the parameter, and from other than 0 to 2 by an error of user space. */
static int stop_on_user_error;
static DECLARE_WAIT_QUEUE_HEAD(stop_wait);

/* The kernel calls setters of one module one at a time. */
static int set_stop(const char *value, const struct kernel_param *param)
{
	int ret = param_set_int(value, param);

	if (READ_ONCE(stop_on_user_error))
		static_branch_enable(&rust_binder_stop);
	else
		static_branch_disable(&rust_binder_stop);
	if (READ_ONCE(stop_on_user_error) < 2)
		wake_up_all(&stop_wait);
	return ret;
}

static const struct kernel_param_ops stop_ops = {
	.set = set_stop,
	.get = param_get_int,
};

module_param_cb(stop_on_user_error, &stop_ops, &stop_on_user_error, 0644);
MODULE_PARM_DESC(stop_on_user_error, "Not 0: an error of user space makes it 2, and at 2 every ioctl waits");

void rust_binder_user_error_happened(void)
{
	int now = READ_ONCE(stop_on_user_error);

	if (now && now != 2 && cmpxchg(&stop_on_user_error, now, 2) == now)
		pr_warn("%s: stopped on an error of user space; write 1 to parameter stop_on_user_error to go on\n",
			KBUILD_MODNAME);
}

int rust_binder_stop_wait(void)
{
	return wait_event_interruptible(stop_wait, READ_ONCE(stop_on_user_error) < 2);
}

/* Devices in /dev, for programs that do not use binderfs: unless the parameter is given, none */

/* A device in /dev. One in binderfs is an inode, whose private data is the context. */
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

static int binder_misc_add(const char *name)
{
	struct binder_misc *device __free(kfree) = NULL;
	int ret;

	/* sysfs would detect this, too, but with a stack trace. */
	if (binder_misc_exists(name))
		return -EINVAL;

	device = kzalloc_obj(*device);
	if (!device)
		return -ENOMEM;

	device->context = rust_binder_context_create(name, &init_user_ns);
	if (!device->context)
		return -ENOMEM;

	strscpy(device->name, name);
	device->misc.minor = MISC_DYNAMIC_MINOR;
	device->misc.name = device->name;
	device->misc.fops = &rust_binder_fops;
	ret = misc_register(&device->misc);
	if (ret) {
		rust_binder_context_release(device->context);
		return ret;
	}
	list_add(&no_free_ptr(device)->link, &binder_misc_devices);
	return 0;
}

static void binder_misc_remove_all(void)
{
	struct binder_misc *device, *next;

	list_for_each_entry_safe(device, next, &binder_misc_devices, link) {
		misc_deregister(&device->misc);
		list_del(&device->link);
		rust_binder_context_release(device->context);
		kfree(device);
	}
}

/* Adds all devices or none, and none if the parameter has its default. */
static int binder_misc_add_all(void)
{
	char name[BINDERFS_MAX_NAME + 1];
	size_t cursor = 0;
	int ret = 0;

	if (binder_devices == binder_default_devices)
		return 0;

	while (!ret && rust_binder_next_device(NULL, &cursor, name))
		ret = binder_misc_add(name);
	if (ret)
		binder_misc_remove_all();
	return ret;
}

/* The end of init */

/*
 * False until init cannot fail any more. Nothing can be mounted or opened
 * before, because it could not be undone if init failed.
 */
static bool binder_ready;

bool rust_binder_is_ready(void)
{
	/* Pairs with rust_binderfs_init(). */
	return smp_load_acquire(&binder_ready);
}

/*
 * A module whose init fails is freed, even if references on it are left. An
 * open or mount that was rejected until now holds its reference a moment
 * longer, and this waits for it.
 */
static void binder_wait_for_refused(void)
{
#if defined(MODULE) && defined(CONFIG_MODULE_UNLOAD)
	/* One reference is that of init itself. */
	while (module_refcount(THIS_MODULE) > 1)
		schedule_timeout_uninterruptible(1);
#endif
}

/* The interface to the driver */

const void *rust_binderfs_device_context(const struct inode *inode,
					 const struct file *file)
{
	if (!rust_binder_is_ready())
		return NULL;
	if (binderfs_is_device(inode))
		return inode->i_private;

	/* The misc core is opening the device, and has stored its record there. */
	return container_of(file->private_data, struct binder_misc, misc)->context;
}

/*
 * The filesystem is registered before the devices in /dev: this is the one step
 * that fails in practice, if another driver has registered its name.
 */
int rust_binderfs_init(void)
{
	int ret = binder_check_devices();

	if (ret)
		return ret;

	ret = rust_binderfs_register();
	if (ret)
		return ret;

	ret = binder_misc_add_all();
	if (ret) {
		rust_binderfs_unregister();
		binder_wait_for_refused();
		return ret;
	}
	/* Its files can be opened at once, and cannot be waited for. */
	rust_binder_debugfs_init();
	/*
	 * Pairs with rust_binder_is_ready(): a reader of true sees all objects
	 * that were made above, also those that were made after the filesystem
	 * was registered.
	 */
	smp_store_release(&binder_ready, true);
	return 0;
}

void rust_binderfs_exit(void)
{
	binder_misc_remove_all();
	rust_binderfs_unregister();
	rust_binder_debugfs_exit();
}
