/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What rust/kernel/user_words.rs calls.
 */
#ifndef _KERNEL_EXT_USER_H
#define _KERNEL_EXT_USER_H

#include <linux/compiler_types.h>
#include <linux/types.h>

/* Reads six words of user space. Returns false if they cannot be read. May sleep. */
bool kernel_ext_get_six_words(u64 *to, const u64 __user *from);

/* Writes words @one and @two of six in user space. Returns false if that fails. May sleep. */
bool kernel_ext_put_two_of_six_words(u64 __user *to, size_t one, u64 first,
				     size_t two, u64 second);

/* Writes a value of 32 bits to user space. Returns false if that fails. May sleep. */
bool kernel_ext_put_u32(u32 __user *to, u32 value);

#endif /* _KERNEL_EXT_USER_H */
