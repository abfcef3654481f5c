// SPDX-License-Identifier: GPL-2.0
/*
 * Reports of calls that fail, over generic netlink: family "binder", unless the
 * driver has another name, group "report"
 * (Documentation/netlink/specs/binder.yaml); and of calls that are slow, group
 * "slow_call".
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

#include "../../../include/uapi/linux/android/binder_slow_call.h"

#include "name.h"
#include "netlink.h"

enum {
	RUST_BINDER_GROUP_REPORT,
	RUST_BINDER_GROUP_SLOW_CALL,
};

/* Nobody asks the family for anything, so it has groups and no operations. */
static const struct genl_multicast_group rust_binder_groups[] = {
	[RUST_BINDER_GROUP_REPORT] = { .name = BINDER_MCGRP_REPORT },
	/* It tells of all users' threads, as the kernel's log does. */
	[RUST_BINDER_GROUP_SLOW_CALL] = {
		.name = BINDER_MCGRP_SLOW_CALL,
		.flags = GENL_MCAST_CAP_SYS_ADMIN,
	},
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

static bool has_listeners(unsigned int group)
{
	return is_registered &&
	       genl_has_listeners(&rust_binder_family, &init_net, group);
}

bool rust_binder_netlink_has_listeners(void)
{
	return has_listeners(RUST_BINDER_GROUP_REPORT);
}

/*
 * A message with its headers, and with room for @size bytes of attributes; NULL
 * if memory is short.
 */
static struct sk_buff *new_message(size_t size, u8 command, void **header)
{
	struct sk_buff *skb = genlmsg_new(size, GFP_KERNEL);

	if (!skb)
		return NULL;
	*header = genlmsg_put(skb, 0, 0, &rust_binder_family, 0, command);
	if (*header)
		return skb;
	nlmsg_free(skb);
	return NULL;
}

/* Sends a message to a group, unless there was no room for all of it. */
static void send_message(struct sk_buff *skb, void *header, int ret,
			 unsigned int group)
{
	if (ret) {
		nlmsg_free(skb);
		return;
	}
	genlmsg_end(skb, header);
	genlmsg_multicast(&rust_binder_family, skb, 0, group, GFP_KERNEL);
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
	void *header;
	struct sk_buff *skb = new_message(report_size(report),
					  BINDER_CMD_REPORT, &header);

	if (skb)
		send_message(skb, header, put_report(skb, report),
			     RUST_BINDER_GROUP_REPORT);
}

static int put_slow_call(struct sk_buff *skb,
			 const struct rust_binder_slow_call *call)
{
	if (nla_put_string(skb, BINDER_A_SLOW_CALL_CONTEXT, call->context) ||
	    nla_put_u32(skb, BINDER_A_SLOW_CALL_FROM_PID, call->from_pid) ||
	    nla_put_u32(skb, BINDER_A_SLOW_CALL_FROM_TID, call->from_tid) ||
	    nla_put_u32(skb, BINDER_A_SLOW_CALL_TO_PID, call->to_pid) ||
	    put_known(skb, BINDER_A_SLOW_CALL_DEBUG_ID, call->debug_id) ||
	    nla_put_u32(skb, BINDER_A_SLOW_CALL_WAITED_MS, call->waited_ms))
		return -EMSGSIZE;
	if (call->is_cycle && nla_put_flag(skb, BINDER_A_SLOW_CALL_IS_CYCLE))
		return -EMSGSIZE;
	return nla_put_string(skb, BINDER_A_SLOW_CALL_CHAIN, call->chain);
}

static size_t slow_call_size(const struct rust_binder_slow_call *call)
{
	return nla_total_size(strlen(call->context) + 1) +
	       nla_total_size(strlen(call->chain) + 1) +
	       5 * nla_total_size(sizeof(u32)) + nla_total_size(0);
}

void rust_binder_netlink_send_slow_call(const struct rust_binder_slow_call *call)
{
	struct sk_buff *skb;
	void *header;

	if (!has_listeners(RUST_BINDER_GROUP_SLOW_CALL))
		return;
	skb = new_message(slow_call_size(call), BINDER_CMD_SLOW_CALL, &header);
	if (skb)
		send_message(skb, header, put_slow_call(skb, call),
			     RUST_BINDER_GROUP_SLOW_CALL);
}
