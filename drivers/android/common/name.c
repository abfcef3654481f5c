// SPDX-License-Identifier: GPL-2.0
/*
 * The module parameter name: the C driver, or upstream's in Rust, may have
 * registered the usual one, and is used beside ours if that has another.
 */

#include <linux/ctype.h>
#include <linux/errno.h>
#include <linux/genetlink.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/string.h>

#include "name.h"

/* The family's name is the one that has the least room. */
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
