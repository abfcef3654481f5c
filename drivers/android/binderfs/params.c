// SPDX-License-Identifier: GPL-2.0
/*
 * The module's parameters, but for those in binderfs/minors.c and rust_binder.rs: in C, because
 * parameters of Rust's module! macro are numbers that do not change while the module is loaded.
 */

#include <linux/build_bug.h>
#include <linux/ctype.h>
#include <linux/errno.h>
#include <linux/genetlink.h>
#include <linux/jump_label.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/printk.h>
#include <linux/ratelimit.h>
#include <linux/string.h>
#include <linux/wait.h>

#include "internal.h"

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

bool rust_binder_has_default_devices(void)
{
	return binder_devices == binder_default_devices;
}

int rust_binder_check_devices(void)
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
	/* With this name the kernel tells how many messages were suppressed. */
	return ___ratelimit(&log_rate, KBUILD_MODNAME);
}

struct rust_binder_stop rust_binder_stop = { STATIC_KEY_FALSE_INIT };

/* Written by the setter of the parameter, and from other than 0 to 2 by an error of user space. */
static int stop_on_user_error;
static DECLARE_WAIT_QUEUE_HEAD(stop_wait);

/* The kernel calls setters of one module one at a time. */
static int set_stop(const char *value, const struct kernel_param *param)
{
	int ret = param_set_int(value, param);

	if (READ_ONCE(stop_on_user_error))
		static_branch_enable(&rust_binder_stop.is_armed);
	else
		static_branch_disable(&rust_binder_stop.is_armed);
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
