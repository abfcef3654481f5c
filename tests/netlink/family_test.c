// SPDX-License-Identifier: GPL-2.0
/*
 * Has the driver's netlink family as long as it is loaded, like another driver
 * of Binder.
 */

#include <linux/module.h>
#include <net/genetlink.h>

static struct genl_family family_test_family = {
	.name = "binder",
	.version = 1,
	.module = THIS_MODULE,
};

static int __init family_test_init(void)
{
	return genl_register_family(&family_test_family);
}

static void __exit family_test_exit(void)
{
	genl_unregister_family(&family_test_family);
}

module_init(family_test_init);
module_exit(family_test_exit);
MODULE_DESCRIPTION("Has the netlink family that the driver needs");
MODULE_LICENSE("GPL");
