// SPDX-License-Identifier: GPL-2.0
/* Inline functions of C for rust/kernel/net/netlink.rs. */

#include <net/genetlink.h>

struct sk_buff *rust_helper_genlmsg_new(size_t size, gfp_t flags)
{
	return genlmsg_new(size, flags);
}

void rust_helper_genlmsg_end(struct sk_buff *skb, void *head)
{
	genlmsg_end(skb, head);
}

int rust_helper_genlmsg_multicast(const struct genl_family *family, struct sk_buff *skb,
				  u32 port, unsigned int group, gfp_t flags)
{
	return genlmsg_multicast(family, skb, port, group, flags);
}

int rust_helper_genl_has_listeners(const struct genl_family *family, struct net *net,
				   unsigned int group)
{
	return genl_has_listeners(family, net, group);
}
