// SPDX-License-Identifier: GPL-2.0
/* What Rust cannot call: inline functions and macros, and structs without a
 * binding. Their contexts and errors are described where Rust declares them.
 */

#include <linux/badblocks.h>
#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/mount.h>
#include <linux/namei.h>
#include <linux/nodemask.h>
#include <linux/rcupdate.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/xarray.h>

void nullb_copy(struct page *to, size_t to_offset, struct page *from,
		size_t from_offset, size_t size)
{
	memcpy_page(to, to_offset, from, from_offset, size);
	flush_dcache_page(to);
}

void nullb_copy_in(struct page *to, size_t offset, const void *from,
		   size_t size)
{
	memcpy_to_page(to, offset, from, size);
}

void nullb_copy_out(void *to, struct page *from, size_t offset, size_t size)
{
	memcpy_from_page(to, from, offset, size);
}

void nullb_zero(struct page *page, size_t offset, size_t size)
{
	memzero_page(page, offset, size);
}

struct page *nullb_pages_find(struct xa_state *state, unsigned long index)
{
	struct xa_node *node = state->xa_node;
	struct page *page;

	/* Most walks go on in the same leaf. */
	if (!xas_not_node(node) && !node->shift &&
	    !((state->xa_index ^ index) & ~XA_CHUNK_MASK)) {
		state->xa_index = index;
		state->xa_offset = index & XA_CHUNK_MASK;
		page = xa_entry(state->xa, node, state->xa_offset);
		if (!xa_is_internal(page))
			return page;
	}
	xas_set(state, index);
	do {
		page = xas_load(state);
	} while (xas_retry(state, page));
	return page;
}

/* The page that is there now. Others may remove it at any time. */
struct page *nullb_pages_add(struct xarray *pages, unsigned long index,
			     bool may_wait)
{
	gfp_t flags = may_wait ? GFP_NOIO : GFP_NOWAIT;
	struct page *page = alloc_page(flags | __GFP_ZERO | __GFP_HIGHMEM);
	void *old;

	if (!page)
		return NULL;
	old = xa_cmpxchg(pages, index, NULL, page, flags);
	if (!old)
		return page;
	__free_page(page);
	return xa_is_err(old) ? NULL : old;
}

static void nullb_free_page(struct rcu_head *head)
{
	__free_page(container_of(head, struct page, rcu_head));
}

void nullb_pages_remove(struct xarray *pages, unsigned long first,
			unsigned long last)
{
	struct page *page;
	unsigned long index;

	xa_for_each_range(pages, index, page, first, last) {
		page = xa_erase(pages, index);
		if (page)
			call_rcu(&page->rcu_head, nullb_free_page);
	}
}

void nullb_pages_free(struct xarray *pages)
{
	struct page *page;
	unsigned long index;

	xa_for_each(pages, index, page) {
		__free_page(page);
		cond_resched();
	}
	xa_destroy(pages);
}

unsigned int nullb_noio_begin(void)
{
	return memalloc_noio_save();
}

void nullb_noio_end(unsigned int flags)
{
	memalloc_noio_restore(flags);
}

bool nullb_is_node(int node)
{
	return node == NUMA_NO_NODE ||
	       (node >= 0 && node < MAX_NUMNODES && node_online(node));
}

bool nullb_has_subsystem(const char *name)
{
	struct file_system_type *type = get_fs_type("configfs");
	struct vfsmount *mount;
	struct path path;
	bool is_there;

	if (!type)
		return false;
	mount = kern_mount(type);
	module_put(type->owner);
	if (IS_ERR(mount))
		return false;
	is_there = !vfs_path_lookup(mount->mnt_root, mount, name, 0, &path);
	if (is_there)
		path_put(&path);
	kern_unmount(mount);
	return is_there;
}

struct badblocks *nullb_badblocks_new(void)
{
	struct badblocks *badblocks = kzalloc(sizeof(*badblocks), GFP_KERNEL);

	if (badblocks && badblocks_init(badblocks, 1)) {
		kfree(badblocks);
		return NULL;
	}
	return badblocks;
}

void nullb_badblocks_free(struct badblocks *badblocks)
{
	badblocks_exit(badblocks);
	kfree(badblocks);
}
