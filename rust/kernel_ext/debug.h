/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What rust/kernel/debug_mask.rs and rust/kernel/user_error.rs call.
 */
#ifndef _KERNEL_EXT_DEBUG_H
#define _KERNEL_EXT_DEBUG_H

#include <linux/jump_label.h>
#include <linux/types.h>

/* The parameters debug_mask and alloc_debug_mask. */
extern unsigned int kernel_ext_debug_mask;
extern unsigned int kernel_ext_alloc_debug_mask;

/* Whether another message may be printed now; counts the attempt. */
bool kernel_ext_may_log(void);

/* Enabled as long as stop_on_user_error is not 0. */
struct kernel_ext_user_error {
	struct static_key_false is_armed;
};

extern struct kernel_ext_user_error kernel_ext_user_error;

/* User space has made an error: whoever asks from now on waits, if the parameter says so. */
void kernel_ext_user_error_happened(void);

/* Waits while the parameter is 2 or more. Returns 0, or -ERESTARTSYS after a signal. */
int kernel_ext_user_error_wait(void);

#endif /* _KERNEL_EXT_DEBUG_H */
