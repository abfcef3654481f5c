// SPDX-License-Identifier: GPL-2.0
/*
 * The trace events, and for each a function rust_do_trace_... that ffi.rs
 * calls when the event is on.
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
static const char *const binder_command_strings[] = {
	[_IOC_NR(BC_TRANSACTION)] = "BC_TRANSACTION",
	[_IOC_NR(BC_REPLY)] = "BC_REPLY",
	[_IOC_NR(BC_ACQUIRE_RESULT)] = "BC_ACQUIRE_RESULT",
	[_IOC_NR(BC_FREE_BUFFER)] = "BC_FREE_BUFFER",
	[_IOC_NR(BC_INCREFS)] = "BC_INCREFS",
	[_IOC_NR(BC_ACQUIRE)] = "BC_ACQUIRE",
	[_IOC_NR(BC_RELEASE)] = "BC_RELEASE",
	[_IOC_NR(BC_DECREFS)] = "BC_DECREFS",
	[_IOC_NR(BC_INCREFS_DONE)] = "BC_INCREFS_DONE",
	[_IOC_NR(BC_ACQUIRE_DONE)] = "BC_ACQUIRE_DONE",
	[_IOC_NR(BC_ATTEMPT_ACQUIRE)] = "BC_ATTEMPT_ACQUIRE",
	[_IOC_NR(BC_REGISTER_LOOPER)] = "BC_REGISTER_LOOPER",
	[_IOC_NR(BC_ENTER_LOOPER)] = "BC_ENTER_LOOPER",
	[_IOC_NR(BC_EXIT_LOOPER)] = "BC_EXIT_LOOPER",
	[_IOC_NR(BC_REQUEST_DEATH_NOTIFICATION)] = "BC_REQUEST_DEATH_NOTIFICATION",
	[_IOC_NR(BC_CLEAR_DEATH_NOTIFICATION)] = "BC_CLEAR_DEATH_NOTIFICATION",
	[_IOC_NR(BC_DEAD_BINDER_DONE)] = "BC_DEAD_BINDER_DONE",
	[_IOC_NR(BC_TRANSACTION_SG)] = "BC_TRANSACTION_SG",
	[_IOC_NR(BC_REPLY_SG)] = "BC_REPLY_SG",
	[_IOC_NR(BC_REQUEST_FREEZE_NOTIFICATION)] = "BC_REQUEST_FREEZE_NOTIFICATION",
	[_IOC_NR(BC_CLEAR_FREEZE_NOTIFICATION)] = "BC_CLEAR_FREEZE_NOTIFICATION",
	[_IOC_NR(BC_FREEZE_NOTIFICATION_DONE)] = "BC_FREEZE_NOTIFICATION_DONE",
};

static const char *const binder_return_strings[] = {
	[_IOC_NR(BR_ERROR)] = "BR_ERROR",
	[_IOC_NR(BR_OK)] = "BR_OK",
	[_IOC_NR(BR_TRANSACTION)] = "BR_TRANSACTION",
	[_IOC_NR(BR_REPLY)] = "BR_REPLY",
	[_IOC_NR(BR_ACQUIRE_RESULT)] = "BR_ACQUIRE_RESULT",
	[_IOC_NR(BR_DEAD_REPLY)] = "BR_DEAD_REPLY",
	[_IOC_NR(BR_TRANSACTION_COMPLETE)] = "BR_TRANSACTION_COMPLETE",
	[_IOC_NR(BR_INCREFS)] = "BR_INCREFS",
	[_IOC_NR(BR_ACQUIRE)] = "BR_ACQUIRE",
	[_IOC_NR(BR_RELEASE)] = "BR_RELEASE",
	[_IOC_NR(BR_DECREFS)] = "BR_DECREFS",
	[_IOC_NR(BR_ATTEMPT_ACQUIRE)] = "BR_ATTEMPT_ACQUIRE",
	[_IOC_NR(BR_NOOP)] = "BR_NOOP",
	[_IOC_NR(BR_SPAWN_LOOPER)] = "BR_SPAWN_LOOPER",
	[_IOC_NR(BR_FINISHED)] = "BR_FINISHED",
	[_IOC_NR(BR_DEAD_BINDER)] = "BR_DEAD_BINDER",
	[_IOC_NR(BR_CLEAR_DEATH_NOTIFICATION_DONE)] = "BR_CLEAR_DEATH_NOTIFICATION_DONE",
	[_IOC_NR(BR_FAILED_REPLY)] = "BR_FAILED_REPLY",
	[_IOC_NR(BR_FROZEN_REPLY)] = "BR_FROZEN_REPLY",
	[_IOC_NR(BR_ONEWAY_SPAM_SUSPECT)] = "BR_ONEWAY_SPAM_SUSPECT",
	[_IOC_NR(BR_TRANSACTION_PENDING_FROZEN)] = "BR_TRANSACTION_PENDING_FROZEN",
	[_IOC_NR(BR_FROZEN_BINDER)] = "BR_FROZEN_BINDER",
	[_IOC_NR(BR_CLEAR_FREEZE_NOTIFICATION_DONE)] = "BR_CLEAR_FREEZE_NOTIFICATION_DONE",
};

/*
 * binder_netlink_report has a pointer to the name of a device, which is read
 * when the trace is, and the device may be gone by then. The kernel reads such
 * names only where they stay as long as the event: in the module's own data.
 */
#define KEPT_NAMES 16

static char kept_names[KEPT_NAMES][BINDERFS_MAX_NAME + 1];
static DEFINE_SPINLOCK(kept_names_lock);

/* A copy of a device's name that stays; names beyond the first few share one. */
static const char *kept_name(const char *name)
{
	const char *kept = "(another device)";
	int i;

	spin_lock(&kept_names_lock);
	for (i = 0; i < KEPT_NAMES; i++) {
		if (!kept_names[i][0])
			strscpy(kept_names[i], name);
		if (!strcmp(kept_names[i], name)) {
			kept = kept_names[i];
			break;
		}
	}
	spin_unlock(&kept_names_lock);
	return kept;
}

/*
 * On while any event is that is about the pages of a buffer. ffi.rs has the
 * struct, too.
 */
struct rust_binder_page_events {
	struct static_key_false key;
};

struct rust_binder_page_events rust_binder_page_events = {
	.key = STATIC_KEY_FALSE_INIT,
};

static int page_event_on(void)
{
	static_branch_inc(&rust_binder_page_events.key);
	return 0;
}

static void page_event_off(void)
{
	static_branch_dec(&rust_binder_page_events.key);
}

#define CREATE_TRACE_POINTS
#define CREATE_RUST_TRACE_POINTS
#include "events.h"
