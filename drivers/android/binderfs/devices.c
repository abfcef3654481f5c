// SPDX-License-Identifier: GPL-2.0
/*
 * Devices in /dev, for programs that do not use binderfs: those that the module
 * parameter names, if the administrator sets it. Its default creates none there.
 * And when devices can be opened.
 */

#include <linux/compiler.h>
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/user_namespace.h>

#include "internal.h"

/* Devices in /dev */

/*
 * A device in /dev; struct binderfs_chrdev is the same for a device in
 * binderfs.
 */
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

	device->context = rust_binder_context_create(name, &init_user_ns);
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

	/* sysfs would detect this, too, but with a stack trace. */
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

/* Adds all devices or none, and none if the parameter has its default. */
static int binder_misc_add_all(void)
{
	char name[BINDERFS_MAX_NAME + 1];
	size_t cursor = 0;
	int ret = 0;

	if (rust_binder_has_default_devices())
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
	const struct binderfs_chrdev *chrdev = inode->i_private;

	if (!rust_binder_is_ready())
		return NULL;
	if (binderfs_is_device(inode))
		return chrdev->context;

	/*
	 * The misc core is opening the device, and has stored its record there.
	 */
	return container_of(file->private_data, struct binder_misc, misc)->context;
}

/*
 * The filesystem is registered before the devices in /dev: this is the one step
 * that fails in practice, if another driver has registered its name.
 */
int rust_binderfs_init(void)
{
	int ret = rust_binder_check_devices();

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
	 * Pairs with rust_binder_is_ready(): who reads true finds what was made above, also what
	 * was made after the filesystem was registered.
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
