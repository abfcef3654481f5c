// SPDX-License-Identifier: GPL-2.0
/*
 * The module parameters that limit what one process may have. They can be
 * changed while the module is loaded, which parameters of Rust's module! macro
 * cannot. common/limits.rs has the struct and describes the fields.
 */

#include <linux/build_bug.h>
#include <linux/module.h>
#include <linux/moduleparam.h>

#include "limits.h"

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
