/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * Reports of slow calls, and of threads that wait for each other: an addition
 * to the generic netlink family "binder". They are sent to a group of their
 * own, so who listens to "report" does not receive them.
 */
#ifndef _UAPI_LINUX_BINDER_SLOW_CALL_H
#define _UAPI_LINUX_BINDER_SLOW_CALL_H

#define BINDER_MCGRP_SLOW_CALL	"slow_call"

/* Leaves room for commands that other Binder drivers may get. */
#define BINDER_CMD_SLOW_CALL	64

/* The attributes of BINDER_CMD_SLOW_CALL, in the order in which they come. */
enum {
	/* String: the name of the device. */
	BINDER_A_SLOW_CALL_CONTEXT = 1,
	/* u32: the thread that waits, in the initial pid namespace. */
	BINDER_A_SLOW_CALL_FROM_PID,
	BINDER_A_SLOW_CALL_FROM_TID,
	/* u32: the process that the call is for. */
	BINDER_A_SLOW_CALL_TO_PID,
	/* u32: the debug id of the call; absent if it is not known. */
	BINDER_A_SLOW_CALL_DEBUG_ID,
	/* u32: for how many milliseconds the thread has waited, at least. */
	BINDER_A_SLOW_CALL_WAITED_MS,
	/* Flag: the thread waits for itself, directly or through others. */
	BINDER_A_SLOW_CALL_IS_CYCLE,
	/* String: which thread waits for which, and what the last one does. */
	BINDER_A_SLOW_CALL_CHAIN,
};

#endif /* _UAPI_LINUX_BINDER_SLOW_CALL_H */
