// SPDX-License-Identifier: GPL-2.0
/*
 * Sizes and offsets of the kernel's structs as the C compiler sees them, in the order in which
 * rust/kernel/layouts.rs has them.
 */

#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/list_lru.h>
#include <linux/mm.h>
#include <linux/mm_types.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/rbtree_types.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/shrinker.h>
#include <linux/slab.h>
#include <linux/spinlock_types.h>
#include <linux/stddef.h>
#include <linux/tracepoint-defs.h>
#include <linux/wait.h>

/* bindgen then takes fields of task_struct for others: see rust/kernel/layouts.rs. */
#ifndef CONFIG_SCHEDSTATS
#error "Rust reads task_struct in the wrong places without CONFIG_SCHEDSTATS: enable it"
#endif

/* The name of a struct or field, and its size or offset in bytes. */
struct kernel_ext_layout {
	const char *name;
	size_t bytes;
};

#define SIZE(type) { #type, sizeof(struct type) }
#define FIELD(type, field) { #type "." #field, offsetof(struct type, field) }

const struct kernel_ext_layout kernel_ext_layouts[] = {
	SIZE(callback_head),
	FIELD(cred, euid),
	FIELD(file, f_cred),
	FIELD(file, f_flags),
	FIELD(file, f_op),
	FIELD(file, private_data),
	SIZE(file_operations),
	FIELD(file_operations, release),
	SIZE(kmem_cache_args),
	SIZE(list_head),
	SIZE(list_lru),
	SIZE(lock_class_key),
	SIZE(mutex),
	SIZE(page),
	SIZE(poll_table_struct),
	SIZE(rb_node),
	SIZE(shrink_control),
	FIELD(shrink_control, nr_scanned),
	FIELD(shrinker, private_data),
	SIZE(spinlock),
	FIELD(task_struct, group_leader),
	FIELD(task_struct, mm),
	FIELD(task_struct, pid),
	FIELD(task_struct, tgid),
	FIELD(tracepoint, key),
	FIELD(vm_area_struct, vm_end),
	FIELD(vm_area_struct, vm_flags),
	FIELD(vm_area_struct, vm_pgoff),
	FIELD(vm_area_struct, vm_private_data),
	FIELD(vm_area_struct, vm_start),
	SIZE(vm_operations_struct),
	FIELD(vm_operations_struct, fault),
	SIZE(wait_queue_entry),
	SIZE(wait_queue_head),
};

const size_t kernel_ext_layouts_count = ARRAY_SIZE(kernel_ext_layouts);
