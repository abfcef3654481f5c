// SPDX-License-Identifier: GPL-2.0
/*
 * The parameters about messages and errors of user space. They can be changed while the module is
 * loaded, which parameters of Rust's module! macro cannot.
 */

#include <linux/jump_label.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/printk.h>
#include <linux/ratelimit.h>
#include <linux/wait.h>

#include "debug.h"

unsigned int kernel_ext_debug_mask = 0x7;
module_param_named(debug_mask, kernel_ext_debug_mask, uint, 0644);
MODULE_PARM_DESC(debug_mask, "What to print messages about, one bit a subject");

unsigned int kernel_ext_alloc_debug_mask = 0x1;
module_param_named(alloc_debug_mask, kernel_ext_alloc_debug_mask, uint, 0644);
MODULE_PARM_DESC(alloc_debug_mask, "What to print messages about concerning the spaces of processes");

static DEFINE_RATELIMIT_STATE(kernel_ext_log_rate, DEFAULT_RATELIMIT_INTERVAL,
			      DEFAULT_RATELIMIT_BURST);

bool kernel_ext_may_log(void)
{
	/* With this name the kernel tells how many messages were suppressed. */
	return ___ratelimit(&kernel_ext_log_rate, KBUILD_MODNAME);
}

struct kernel_ext_user_error kernel_ext_user_error = { STATIC_KEY_FALSE_INIT };

/* Written by the setter of the parameter, and from other than 0 to 2 by an error of user space. */
static int stop_on_user_error;
static DECLARE_WAIT_QUEUE_HEAD(stop_wait);

/* The kernel calls setters of one module one at a time. */
static int set_stop(const char *value, const struct kernel_param *param)
{
	int ret = param_set_int(value, param);

	if (READ_ONCE(stop_on_user_error))
		static_branch_enable(&kernel_ext_user_error.is_armed);
	else
		static_branch_disable(&kernel_ext_user_error.is_armed);
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

void kernel_ext_user_error_happened(void)
{
	int now = READ_ONCE(stop_on_user_error);

	if (now && now != 2 && cmpxchg(&stop_on_user_error, now, 2) == now)
		pr_warn("%s: stopped on an error of user space; write 1 to parameter stop_on_user_error to go on\n",
			KBUILD_MODNAME);
}

int kernel_ext_user_error_wait(void)
{
	return wait_event_interruptible(stop_wait, READ_ONCE(stop_on_user_error) < 2);
}
