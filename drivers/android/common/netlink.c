// SPDX-License-Identifier: GPL-2.0
/*
 * Reports of calls that fail, over generic netlink: family "binder", unless the
 * driver has another name, group "report"
 * (Documentation/netlink/specs/binder.yaml).
 *
 * The family has no operations: whoever listens is only told. Joining the group
 * takes no capability. Reports are sent in the initial network namespace alone,
 * because they name processes by their global numbers.
 */

#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/printk.h>
#include <linux/string.h>
#include <net/genetlink.h>
#include <net/net_namespace.h>

#include <uapi/linux/android/binder_netlink.h>

#include "name.h"
#include "netlink.h"

/* Nobody asks the family for anything, so it has a group and no operations. */
static const struct genl_multicast_group rust_binder_groups[] = {
	{ .name = BINDER_MCGRP_REPORT },
};

/* The core of generic netlink writes to it while it is registered. */
static struct genl_family rust_binder_family = {
	.module = THIS_MODULE,
	.mcgrps = rust_binder_groups,
	.n_mcgrps = ARRAY_SIZE(rust_binder_groups),
	.netnsok = true,
	.version = BINDER_FAMILY_VERSION,
};

/* Written before the first device exists and after the last one is gone. */
static bool is_registered;

void rust_binder_netlink_register(void)
{
	int ret;

	strscpy(rust_binder_family.name, rust_binder_name());
	ret = genl_register_family(&rust_binder_family);
	if (!ret)
		is_registered = true;
	else
		pr_warn("no reports over netlink (%d): %s\n", ret,
			ret == -EEXIST ?
			"another driver has the family: unload it, or set name=ANOTHER here" :
			"the family cannot be registered");
}

void rust_binder_netlink_unregister(void)
{
	if (is_registered)
		genl_unregister_family(&rust_binder_family);
	is_registered = false;
}

bool rust_binder_netlink_is_registered(void)
{
	return is_registered;
}

bool rust_binder_netlink_has_listeners(void)
{
	return is_registered &&
	       genl_has_listeners(&rust_binder_family, &init_net, 0);
}

/* The bytes of a report's attributes, all of them counted. */
static size_t report_size(const struct rust_binder_report *report)
{
	return nla_total_size(strlen(report->context) + 1) +
	       8 * nla_total_size(sizeof(u32)) + nla_total_size(0);
}

/* Adds a number that is left out where it is not known. */
static int put_known(struct sk_buff *skb, int attribute, u32 value)
{
	return value ? nla_put_u32(skb, attribute, value) : 0;
}

static int put_report(struct sk_buff *skb,
		      const struct rust_binder_report *report)
{
	if (nla_put_u32(skb, BINDER_A_REPORT_ERROR, report->error) ||
	    nla_put_string(skb, BINDER_A_REPORT_CONTEXT, report->context) ||
	    nla_put_u32(skb, BINDER_A_REPORT_FROM_PID, report->from_pid) ||
	    nla_put_u32(skb, BINDER_A_REPORT_FROM_TID, report->from_tid) ||
	    put_known(skb, BINDER_A_REPORT_TO_PID, report->to_pid) ||
	    put_known(skb, BINDER_A_REPORT_TO_TID, report->to_tid))
		return -EMSGSIZE;
	if (report->is_reply && nla_put_flag(skb, BINDER_A_REPORT_IS_REPLY))
		return -EMSGSIZE;
	if (nla_put_u32(skb, BINDER_A_REPORT_FLAGS, report->flags) ||
	    nla_put_u32(skb, BINDER_A_REPORT_CODE, report->code) ||
	    nla_put_u32(skb, BINDER_A_REPORT_DATA_SIZE, report->data_size))
		return -EMSGSIZE;
	return 0;
}

void rust_binder_netlink_send(const struct rust_binder_report *report)
{
	struct sk_buff *skb = genlmsg_new(report_size(report), GFP_KERNEL);
	void *header;

	if (!skb)
		return;
	header = genlmsg_put(skb, 0, 0, &rust_binder_family, 0,
			     BINDER_CMD_REPORT);
	if (!header || put_report(skb, report)) {
		nlmsg_free(skb);
		return;
	}
	genlmsg_end(skb, header);
	genlmsg_multicast(&rust_binder_family, skb, 0, 0, GFP_KERNEL);
}
