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
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/rbtree_types.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/security.h>
#include <linux/shrinker.h>
#include <linux/slab.h>
#include <linux/spinlock_types.h>
#include <linux/stddef.h>
#include <linux/tracepoint-defs.h>
#include <linux/wait.h>
#include <net/genetlink.h>

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
	FIELD(cred, euid.val),
	FIELD(file, f_cred),
	FIELD(file, f_flags),
	FIELD(file, f_op),
	FIELD(file, private_data),
	SIZE(file_operations),
	FIELD(file_operations, compat_ioctl),
	FIELD(file_operations, flush),
	FIELD(file_operations, mmap),
	FIELD(file_operations, open),
	FIELD(file_operations, owner),
	FIELD(file_operations, poll),
	FIELD(file_operations, release),
	FIELD(file_operations, unlocked_ioctl),
	FIELD(genl_family, mcgrps),
	FIELD(genl_family, module),
	FIELD(genl_family, n_mcgrps),
	FIELD(genl_family, name),
	FIELD(genl_family, version),
	FIELD(genl_multicast_group, name),
	FIELD(kernel_param, arg),
	FIELD(kernel_param, flags),
	FIELD(kernel_param, level),
	FIELD(kernel_param, mod),
	FIELD(kernel_param, name),
	FIELD(kernel_param, ops),
	FIELD(kernel_param, perm),
	FIELD(kernel_param_ops, flags),
	FIELD(kernel_param_ops, free),
	FIELD(kernel_param_ops, get),
	FIELD(kernel_param_ops, set),
	SIZE(kmem_cache_args),
	SIZE(list_head),
	FIELD(list_head, next),
	FIELD(list_head, prev),
	SIZE(list_lru),
	FIELD(list_lru_one, lock),
	SIZE(lock_class_key),
	FIELD(lsm_context, context),
	FIELD(lsm_context, len),
	SIZE(mutex),
	SIZE(page),
	SIZE(poll_table_struct),
	SIZE(rb_node),
	FIELD(rb_node, rb_left),
	FIELD(rb_node, rb_right),
	FIELD(rb_root, rb_node),
	SIZE(shrink_control),
	FIELD(shrink_control, memcg),
	FIELD(shrink_control, nid),
	FIELD(shrink_control, nr_scanned),
	FIELD(shrink_control, nr_to_scan),
	FIELD(shrinker, count_objects),
	FIELD(shrinker, private_data),
	FIELD(shrinker, scan_objects),
	SIZE(spinlock),
	FIELD(task_struct, group_leader),
	FIELD(task_struct, mm),
	FIELD(task_struct, pid),
	FIELD(task_struct, tgid),
	FIELD(tracepoint, key),
	FIELD(vm_area_struct, vm_end),
	FIELD(vm_area_struct, vm_flags),
	FIELD(vm_area_struct, vm_mm),
	FIELD(vm_area_struct, vm_ops),
	FIELD(vm_area_struct, vm_pgoff),
	FIELD(vm_area_struct, vm_private_data),
	FIELD(vm_area_struct, vm_start),
	FIELD(vm_fault, address),
	FIELD(vm_fault, vma),
	SIZE(vm_operations_struct),
	FIELD(vm_operations_struct, close),
	FIELD(vm_operations_struct, fault),
	FIELD(vm_operations_struct, open),
	SIZE(wait_queue_entry),
	SIZE(wait_queue_head),
};

const size_t kernel_ext_layouts_count = ARRAY_SIZE(kernel_ext_layouts);
