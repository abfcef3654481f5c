// SPDX-License-Identifier: GPL-2.0
/*
 * Words of user space, for rust/kernel/user_words.rs: each is one instruction here, while a copy
 * of a few takes a call and a loop. Nothing in here knows of Binder.
 */

#include <linux/uaccess.h>

#include "user.h"

bool kernel_ext_get_six_words(u64 *to, const u64 __user *from)
{
	might_fault();
	if (!user_read_access_begin(from, 6 * sizeof(*from)))
		return false;
	unsafe_get_user(to[0], from, fault);
	unsafe_get_user(to[1], from + 1, fault);
	unsafe_get_user(to[2], from + 2, fault);
	unsafe_get_user(to[3], from + 3, fault);
	unsafe_get_user(to[4], from + 4, fault);
	unsafe_get_user(to[5], from + 5, fault);
	user_read_access_end();
	return true;
fault:
	user_read_access_end();
	return false;
}

bool kernel_ext_put_two_of_six_words(u64 __user *to, size_t one, u64 first,
				     size_t two, u64 second)
{
	might_fault();
	if (!user_write_access_begin(to, 6 * sizeof(*to)))
		return false;
	unsafe_put_user(first, to + one, fault);
	unsafe_put_user(second, to + two, fault);
	user_write_access_end();
	return true;
fault:
	user_write_access_end();
	return false;
}

bool kernel_ext_put_u32(u32 __user *to, u32 value)
{
	might_fault();
	if (!user_write_access_begin(to, sizeof(*to)))
		return false;
	unsafe_put_user(value, to, fault);
	user_write_access_end();
	return true;
fault:
	user_write_access_end();
	return false;
}
