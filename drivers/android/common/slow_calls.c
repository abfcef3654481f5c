// SPDX-License-Identifier: GPL-2.0
/*
 * The module parameter slow_call_ms, which can be changed while the module is
 * loaded, and the work that looks for slow calls while it is not 0.
 *
 * The work queues itself again. It holds nothing: the module waits for its end
 * before it is unloaded, and who writes 0 waits for its end, too.
 */

#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/workqueue.h>

#include "slow_calls.h"

/* Guards is_ready, and orders the changes of the parameter. */
static DEFINE_MUTEX(slow_calls_lock);

/* Whether the work may be queued: not before there is anything to look at, and not at unload. */
static bool is_ready;

/* How often the parameter was set. */
static u8 slow_calls_round;

static void look_for_slow_calls(struct work_struct *unused);
static DECLARE_DELAYED_WORK(slow_calls_work, look_for_slow_calls);

static void look_for_slow_calls(struct work_struct *unused)
{
	u64 pause_ms = rust_binder_walk(READ_ONCE(slow_calls_round));

	if (pause_ms)
		queue_delayed_work(system_dfl_long_wq, &slow_calls_work,
				   msecs_to_jiffies(min_t(u64, pause_ms, UINT_MAX)));
}

/* Begins to look, or stops. Called with the lock held. */
static void start_or_stop(void)
{
	if (is_ready && READ_ONCE(rust_binder_slow_call_ms))
		mod_delayed_work(system_dfl_long_wq, &slow_calls_work, 0);
	else
		cancel_delayed_work_sync(&slow_calls_work);
}

void rust_binder_slow_calls_begin(void)
{
	mutex_lock(&slow_calls_lock);
	is_ready = true;
	start_or_stop();
	mutex_unlock(&slow_calls_lock);
}

void rust_binder_slow_calls_end(void)
{
	mutex_lock(&slow_calls_lock);
	is_ready = false;
	start_or_stop();
	mutex_unlock(&slow_calls_lock);
}

static int set_slow_call_ms(const char *value, const struct kernel_param *param)
{
	int ret;

	mutex_lock(&slow_calls_lock);
	ret = param_set_uint(value, param);
	if (!ret)
		WRITE_ONCE(slow_calls_round, slow_calls_round + 1);
	/* Parameters of a command line are set before any work can be queued. */
	if (!ret && is_ready)
		start_or_stop();
	mutex_unlock(&slow_calls_lock);
	return ret;
}

static const struct kernel_param_ops slow_call_ms_ops = {
	.set = set_slow_call_ms,
	.get = param_get_uint,
};

module_param_cb(slow_call_ms, &slow_call_ms_ops, &rust_binder_slow_call_ms, 0644);
MODULE_PARM_DESC(slow_call_ms, "Tell calls that wait for longer than this, and threads that wait for each other; 0 for never");
