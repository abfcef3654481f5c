// SPDX-License-Identifier: GPL-2.0
/*
 * Sizes and offsets as the C compiler sees them, by the names that layouts.rs
 * knows them by.
 */

#include <linux/completion.h>
#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/mm_types.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/stddef.h>
#include <linux/task_work.h>
#include <linux/wait.h>

#include "c_side.h"

#define SIZE(type) { #type, sizeof(struct type) }
#define FIELD(type, field) { #type "." #field, offsetof(struct type, field) }

const struct layout layouts_of_c[] = {
	SIZE(callback_head),
	FIELD(callback_head, next),
	FIELD(callback_head, func),
	FIELD(cred, euid),
	FIELD(file, f_cred),
	FIELD(file, f_flags),
	FIELD(file, private_data),
	SIZE(file_operations),
	FIELD(file_operations, owner),
	FIELD(file_operations, poll),
	FIELD(file_operations, unlocked_ioctl),
	FIELD(file_operations, compat_ioctl),
	FIELD(file_operations, mmap),
	FIELD(file_operations, open),
	FIELD(file_operations, flush),
	FIELD(file_operations, release),
	SIZE(lock_class_key),
	SIZE(mutex),
	SIZE(page),
	SIZE(poll_table_struct),
	FIELD(task_struct, files),
	FIELD(task_struct, flags),
	FIELD(task_struct, group_leader),
	FIELD(task_struct, mm),
	FIELD(task_struct, pid),
	FIELD(task_struct, tgid),
	FIELD(vm_area_struct, vm_end),
	FIELD(vm_area_struct, vm_flags),
	FIELD(vm_area_struct, vm_mm),
	FIELD(vm_area_struct, vm_ops),
	FIELD(vm_area_struct, vm_pgoff),
	FIELD(vm_area_struct, vm_private_data),
	FIELD(vm_area_struct, vm_start),
	SIZE(vm_operations_struct),
	FIELD(vm_operations_struct, close),
	FIELD(vm_operations_struct, fault),
	FIELD(vm_operations_struct, open),
	SIZE(wait_queue_entry),
	SIZE(wait_queue_head),
};

const size_t layouts_of_c_count = ARRAY_SIZE(layouts_of_c);
