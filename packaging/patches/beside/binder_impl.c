// SPDX-License-Identifier: GPL-2.0
/*
 * binder.impl= on the kernel's command line: which driver of Binder registers
 * filesystem, netlink family and devices. It is a parameter of neither driver, since
 * both read it.
 */

#define pr_fmt(fmt) "binder: " fmt

#include <linux/cache.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/printk.h>
#include <linux/string.h>

#include "binder_impl.h"

static bool is_rust __ro_after_init = IS_ENABLED(CONFIG_ANDROID_BINDER_IMPL_RUST);

static int __init binder_impl_set(char *value)
{
	if (!strcmp(value, "c") || !strcmp(value, "rust"))
		is_rust = *value == 'r';
	else
		pr_err("binder.impl=%s is neither c nor rust: %s is used\n", value,
		       is_rust ? "rust" : "c");
	return 1;
}
__setup("binder.impl=", binder_impl_set);

bool binder_impl_is_c(void)
{
	return !is_rust;
}

bool binder_impl_is_rust(void)
{
	return is_rust;
}
