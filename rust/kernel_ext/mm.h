/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What rust/kernel/page_range calls.
 */
#ifndef _KERNEL_EXT_MM_H
#define _KERNEL_EXT_MM_H

#include <linux/compiler_types.h>
#include <linux/types.h>

struct mem_cgroup;
struct mm_struct;
struct page;
struct shrinker;

/*
 * Allocates a shrinker that is aware of nodes and memory cgroups, not registered. NULL if there
 * is no memory.
 */
struct shrinker *kernel_ext_shrinker_alloc(const char *name);

/* The cgroups that the calling task's accounted allocations are charged to, and were before. */
struct kernel_ext_charge {
	struct mem_cgroup *memcg;
	struct mem_cgroup *before;
};

/*
 * From here to kernel_ext_charge_end(), what the calling task allocates with __GFP_ACCOUNT is
 * charged to the memory cgroup that @mm belongs to now. Task context.
 */
void kernel_ext_charge_begin(struct kernel_ext_charge *charge, struct mm_struct *mm);
void kernel_ext_charge_end(struct kernel_ext_charge *charge);

/* Accounts @pages pages that reclaim has freed and that were on none of its own lists. */
void kernel_ext_account_reclaimed(unsigned long pages);

/* Whether the calling task reclaims because its own allocation needs memory to proceed. */
bool kernel_ext_is_direct_reclaim(void);

/* Takes another reference to @page. */
void kernel_ext_get_page(struct page *page);

/*
 * From here to kernel_ext_end_nofault(), the calling task does not wait for memory of user
 * space that is not present. Returns false, and begins nothing, if @len bytes at @from cannot
 * be user space.
 */
bool kernel_ext_begin_nofault(const void __user *from, unsigned long len);
void kernel_ext_end_nofault(void);

/*
 * Copies from user space between those two, and returns how many bytes are left because memory
 * is not present.
 */
unsigned long kernel_ext_copy_nofault(void *to, const void __user *from, unsigned long len);

#endif /* _KERNEL_EXT_MM_H */
