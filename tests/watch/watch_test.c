// SPDX-License-Identifier: GPL-2.0
/*
 * Asks the page allocator for more than it ever has in one piece, like a
 * driver that lets user space choose the size of an allocation.
 */

#include <linux/gfp.h>
#include <linux/mmzone.h>
#include <linux/module.h>

static int __init watch_test_init(void)
{
	struct page *pages = alloc_pages(GFP_KERNEL, MAX_PAGE_ORDER + 1);

	if (pages)
		__free_pages(pages, MAX_PAGE_ORDER + 1);
	return 0;
}

static void __exit watch_test_exit(void)
{
}

module_init(watch_test_init);
module_exit(watch_test_exit);
MODULE_DESCRIPTION("What the watch over a guest's log has to see");
MODULE_LICENSE("GPL");
