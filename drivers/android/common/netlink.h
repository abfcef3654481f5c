/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reports of calls that fail, over generic netlink: what ffi/netlink.rs and the
 * filesystem call.
 */
#ifndef _RUST_BINDER_NETLINK_H
#define _RUST_BINDER_NETLINK_H

#include <linux/types.h>

/* What one report says, in the layout of the Rust struct of ffi/netlink.rs. */
struct rust_binder_report {
	const char *context;
	u32 error;
	u32 from_pid;
	u32 from_tid;
	/* 0 if it is not known. */
	u32 to_pid;
	/* 0 if the data were not for one thread. */
	u32 to_tid;
	u32 is_reply;
	u32 flags;
	u32 code;
	u32 data_size;
};

/*
 * Register the family, and unregister it if it is registered. Loading the
 * driver does not depend on it: failing is told by a message.
 */
void rust_binder_netlink_register(void);
void rust_binder_netlink_unregister(void);

/* Whether the family is registered. */
bool rust_binder_netlink_is_registered(void);

/*
 * Whether anybody has joined the group, so that a report is worth making. In
 * any context.
 */
bool rust_binder_netlink_has_listeners(void);

/*
 * Sends a report to everybody who has joined the group. A report for which
 * memory is short is lost. May sleep.
 */
void rust_binder_netlink_send(const struct rust_binder_report *report);

#endif /* _RUST_BINDER_NETLINK_H */
