// SPDX-License-Identifier: GPL-2.0
/*
 * Does one thing of which the kernel has to complain, by default like a driver in which user space
 * chooses the size of an allocation.
 */

#include <linux/completion.h>
#include <linux/gfp.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/mmzone.h>
#include <linux/module.h>
#include <linux/slab.h>

static char *what = "pages";
module_param(what, charp, 0400);
MODULE_PARM_DESC(what, "pages, memory (needs KASAN), leak (needs kmemleak), call (needs CFI) or race (needs KCSAN)");

/* Requests more from the page allocator than it has in one piece. */
static void ask_for_pages(void)
{
	struct page *pages = alloc_pages(GFP_KERNEL, MAX_PAGE_ORDER + 1);

	if (pages)
		__free_pages(pages, MAX_PAGE_ORDER + 1);
}

/* Reads memory that was freed. */
static void read_freed_memory(void)
{
	char *memory = kmalloc(64, GFP_KERNEL);

	if (!memory)
		return;
	OPTIMIZER_HIDE_VAR(memory);
	kfree(memory);
	(void)READ_ONCE(memory[8]);
}

static noinline void forget_memory(void)
{
	void *memory = kmalloc(192, GFP_KERNEL);

	OPTIMIZER_HIDE_VAR(memory);
}

/* Leaks memory, whose address stays in what the allocator has at hand. */
static void leak_memory(void)
{
	static void *others[512];
	int i;

	for (i = 0; i < 8; i++)
		forget_memory();
	for (i = 0; i < ARRAY_SIZE(others); i++)
		others[i] = kmalloc(192, GFP_KERNEL);
	for (i = 0; i < ARRAY_SIZE(others); i++)
		kfree(others[i]);
}

static noinline int takes_a_pointer(void *pointer)
{
	return !pointer;
}

/* Calls a function as if it took what it does not take. */
static void call_by_another_type(void)
{
	int (*function)(long a, long b) = (void *)takes_a_pointer;

	OPTIMIZER_HIDE_VAR(function);
	function(1, 2);
}

static unsigned long counted;
static DECLARE_COMPLETION(other_counts);

/* Counts for a second. */
static int count(void *is_other)
{
	unsigned long end = jiffies + HZ;

	while (time_before(jiffies, end)) {
		counted++;
		barrier();
	}
	if (is_other)
		complete(&other_counts);
	return 0;
}

/* Has two threads count in one place, without a lock. */
static void race(void)
{
	struct task_struct *other = kthread_run(count, &other_counts, "watch_test");

	if (IS_ERR(other))
		return;
	count(NULL);
	wait_for_completion(&other_counts);
}

static int __init watch_test_init(void)
{
	if (!strcmp(what, "pages"))
		ask_for_pages();
	else if (!strcmp(what, "memory"))
		read_freed_memory();
	else if (!strcmp(what, "leak"))
		leak_memory();
	else if (!strcmp(what, "call"))
		call_by_another_type();
	else if (!strcmp(what, "race"))
		race();
	else
		return -EINVAL;
	return 0;
}

static void __exit watch_test_exit(void)
{
}

module_init(watch_test_init);
module_exit(watch_test_exit);
MODULE_DESCRIPTION("What the watch over a guest's log has to see");
MODULE_LICENSE("GPL");
