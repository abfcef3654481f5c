// SPDX-License-Identifier: GPL-2.0
/*
 * The trace events, and for each a function rust_do_trace_... that
 * ffi/trace.rs calls when the event is on.
 */
#include <linux/android/binder.h>
#include <linux/jump_label.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <uapi/linux/android/binderfs.h>

/*
 * The names of commands and return codes by their numbers. The format files
 * have the names of these arrays in them.
 */
#define NAMED(code) \
	[_IOC_NR(code)] = #code

static const char *const binder_command_strings[] = {
	NAMED(BC_TRANSACTION),
	NAMED(BC_REPLY),
	NAMED(BC_ACQUIRE_RESULT),
	NAMED(BC_FREE_BUFFER),
	NAMED(BC_INCREFS),
	NAMED(BC_ACQUIRE),
	NAMED(BC_RELEASE),
	NAMED(BC_DECREFS),
	NAMED(BC_INCREFS_DONE),
	NAMED(BC_ACQUIRE_DONE),
	NAMED(BC_ATTEMPT_ACQUIRE),
	NAMED(BC_REGISTER_LOOPER),
	NAMED(BC_ENTER_LOOPER),
	NAMED(BC_EXIT_LOOPER),
	NAMED(BC_REQUEST_DEATH_NOTIFICATION),
	NAMED(BC_CLEAR_DEATH_NOTIFICATION),
	NAMED(BC_DEAD_BINDER_DONE),
	NAMED(BC_TRANSACTION_SG),
	NAMED(BC_REPLY_SG),
	NAMED(BC_REQUEST_FREEZE_NOTIFICATION),
	NAMED(BC_CLEAR_FREEZE_NOTIFICATION),
	NAMED(BC_FREEZE_NOTIFICATION_DONE),
};

static const char *const binder_return_strings[] = {
	NAMED(BR_ERROR),
	NAMED(BR_OK),
	NAMED(BR_TRANSACTION),
	NAMED(BR_REPLY),
	NAMED(BR_ACQUIRE_RESULT),
	NAMED(BR_DEAD_REPLY),
	NAMED(BR_TRANSACTION_COMPLETE),
	NAMED(BR_INCREFS),
	NAMED(BR_ACQUIRE),
	NAMED(BR_RELEASE),
	NAMED(BR_DECREFS),
	NAMED(BR_ATTEMPT_ACQUIRE),
	NAMED(BR_NOOP),
	NAMED(BR_SPAWN_LOOPER),
	NAMED(BR_FINISHED),
	NAMED(BR_DEAD_BINDER),
	NAMED(BR_CLEAR_DEATH_NOTIFICATION_DONE),
	NAMED(BR_FAILED_REPLY),
	NAMED(BR_FROZEN_REPLY),
	NAMED(BR_ONEWAY_SPAM_SUSPECT),
	NAMED(BR_TRANSACTION_PENDING_FROZEN),
	NAMED(BR_FROZEN_BINDER),
	NAMED(BR_CLEAR_FREEZE_NOTIFICATION_DONE),
};

#undef NAMED

/*
 * binder_netlink_report has a pointer to the name of a device, which is read
 * when the trace is, and the device may be gone by then. The kernel reads such
 * names only where they stay as long as the event: in the module's own data.
 */
#define KEPT_NAMES 16

static char kept_names[KEPT_NAMES][BINDERFS_MAX_NAME + 1];
/* Taken by tasks that trace, with preemption disabled. */
static DEFINE_RAW_SPINLOCK(kept_names_lock);

/* A copy of a device's name that stays; names beyond the first few share one. */
static const char *kept_name(const char *name)
{
	const char *kept = "(another device)";
	int i;

	raw_spin_lock(&kept_names_lock);
	for (i = 0; i < KEPT_NAMES; i++) {
		if (!kept_names[i][0])
			strscpy(kept_names[i], name);
		if (!strcmp(kept_names[i], name)) {
			kept = kept_names[i];
			break;
		}
	}
	raw_spin_unlock(&kept_names_lock);
	return kept;
}

/* On while any event is that is about the pages of a buffer. */
DEFINE_STATIC_KEY_FALSE(rust_binder_page_events);

static int page_event_on(void)
{
	static_branch_inc(&rust_binder_page_events);
	return 0;
}

static void page_event_off(void)
{
	static_branch_dec(&rust_binder_page_events);
}

#define CREATE_TRACE_POINTS
#define CREATE_RUST_TRACE_POINTS
#include "events.h"
