// SPDX-License-Identifier: GPL-2.0
/*
 * Memory, for rust/kernel/page_range: inline functions and flags of the kernel that bindgen does
 * not see. Nothing in here knows of Binder.
 */

#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/shrinker.h>
#include <linux/swap.h>
#include <linux/uaccess.h>

#include "mm.h"

struct shrinker *kernel_ext_shrinker_alloc(const char *name)
{
	return shrinker_alloc(SHRINKER_NUMA_AWARE | SHRINKER_MEMCG_AWARE, "%s", name);
}

void kernel_ext_charge_begin(struct kernel_ext_charge *charge, struct mm_struct *mm)
{
	charge->memcg = get_mem_cgroup_from_mm(mm);
	charge->before = set_active_memcg(charge->memcg);
}

void kernel_ext_charge_end(struct kernel_ext_charge *charge)
{
	set_active_memcg(charge->before);
	mem_cgroup_put(charge->memcg);
}

void kernel_ext_account_reclaimed(unsigned long pages)
{
	mm_account_reclaimed_pages(pages);
}

bool kernel_ext_is_direct_reclaim(void)
{
	return (current->flags & (PF_MEMALLOC | PF_KSWAPD)) == PF_MEMALLOC;
}

void kernel_ext_get_page(struct page *page)
{
	get_page(page);
}

bool kernel_ext_begin_nofault(const void __user *from, unsigned long len)
{
	if (!access_ok(from, len))
		return false;
	pagefault_disable();
	return true;
}

unsigned long kernel_ext_copy_nofault(void *to, const void __user *from, unsigned long len)
{
	return __copy_from_user_inatomic(to, from, len);
}

void kernel_ext_end_nofault(void)
{
	pagefault_enable();
}
