// SPDX-License-Identifier: GPL-2.0
/*
 * What the kernel's rust/helpers lack: C macros and inline functions that rust/kernel/
 * of this driver needs as functions. Nothing in here knows of Binder.
 */

#include <linux/module.h>
#include <linux/ratelimit.h>
#include <linux/sched.h>
#include <linux/wait.h>

#include "kernel_ext.h"

/*
 * Wake flags of try_to_wake_up(), which the scheduler keeps in a header of its own although
 * default_wake_function() takes them from any wait entry: the waker is about to sleep, and the
 * woken task should run on the waker's CPU.
 */
#define KERNEL_EXT_WF_SYNC		0x10
#define KERNEL_EXT_WF_CURRENT_CPU	0x40

void kernel_ext_prepare_to_park(void)
{
	set_current_state(TASK_INTERRUPTIBLE | TASK_FREEZABLE);
}

void kernel_ext_park(void)
{
	schedule();
	__set_current_state(TASK_RUNNING);
}

void kernel_ext_wake(struct task_struct *task, bool handoff)
{
	struct wait_queue_entry entry = { .private = task };
	int flags = handoff ? KERNEL_EXT_WF_SYNC | KERNEL_EXT_WF_CURRENT_CPU : 0;

	default_wake_function(&entry, TASK_INTERRUPTIBLE, flags, NULL);
}

/* Rust's module! macro has no parameters that can be written. */
unsigned int kernel_ext_debug_mask = 0x7;
module_param_named(debug_mask, kernel_ext_debug_mask, uint, 0644);
MODULE_PARM_DESC(debug_mask, "What to print messages about, one bit a subject");

static DEFINE_RATELIMIT_STATE(kernel_ext_log_rate, DEFAULT_RATELIMIT_INTERVAL,
			      DEFAULT_RATELIMIT_BURST);

bool kernel_ext_may_log(void)
{
	return __ratelimit(&kernel_ext_log_rate);
}
