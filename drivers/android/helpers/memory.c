// SPDX-License-Identifier: GPL-2.0
/*
 * Memory, user space and files: what the kernel's rust/helpers lack, as helpers/tasks.c has it for
 * tasks.
 */

#include <linux/android/binder.h>
#include <linux/anon_inodes.h>
#include <linux/err.h>
#include <linux/fdtable.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/shrinker.h>
#include <linux/swap.h>
#include <linux/timekeeping.h>
#include <linux/timex.h>
#include <linux/uaccess.h>

/* Memory: rust/kernel/page_range */

/*
 * Allocates a shrinker that is aware of nodes and memory cgroups, not registered. NULL if there
 * is no memory.
 */
struct shrinker *kernel_ext_shrinker_alloc(const char *name)
{
	return shrinker_alloc(SHRINKER_NUMA_AWARE | SHRINKER_MEMCG_AWARE, "%s", name);
}

/* The cgroups that the calling task's accounted allocations are charged to, and were before. */
struct kernel_ext_charge {
	struct mem_cgroup *memcg;
	struct mem_cgroup *before;
};

/*
 * From here to kernel_ext_charge_end(), what the calling task allocates with __GFP_ACCOUNT is
 * charged to the memory cgroup that @mm belongs to now. Task context.
 */
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

/* Accounts @pages pages that reclaim has freed and that were on none of its own lists. */
void kernel_ext_account_reclaimed(unsigned long pages)
{
	mm_account_reclaimed_pages(pages);
}

/* Returns whether the task reclaims because its own allocation needs memory. */
bool kernel_ext_is_direct_reclaim(void)
{
	return (current->flags & (PF_MEMALLOC | PF_KSWAPD)) == PF_MEMALLOC;
}

/* Takes another reference to @page. */
void kernel_ext_get_page(struct page *page)
{
	get_page(page);
}

/*
 * From here to kernel_ext_end_nofault(), the calling task does not wait for memory of user
 * space that is not present. Returns false, and begins nothing, if @len bytes at @from cannot
 * be user space.
 */
bool kernel_ext_begin_nofault(const void __user *from, unsigned long len)
{
	if (!access_ok(from, len))
		return false;
	pagefault_disable();
	return true;
}

void kernel_ext_end_nofault(void)
{
	pagefault_enable();
}

/*
 * Copies from user space between those two, and returns how many bytes are left because memory
 * is not present. All of @to is in one page that the caller has allocated as a page. So hardened
 * usercopy would find nothing; in a call with 64 KiB, it takes more than half of the instructions
 * that do not copy data.
 */
unsigned long kernel_ext_copy_nofault(void *to, const void __user *from, unsigned long len)
{
	unsigned long left;

	instrument_copy_from_user_before(to, from, len);
	left = raw_copy_from_user(to, from, len);
	instrument_copy_from_user_after(to, from, len, left);
	return left;
}

/*
 * Words of user space, for rust/kernel/user.rs and drivers/android/ffi/mod.rs. Each is one
 * instruction here, while a copy of a few bytes takes a call and a loop. These functions may sleep,
 * and return false if they fail.
 */

bool notrace kernel_ext_put_u32(u32 __user *to, u32 value)
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

bool notrace kernel_ext_put_two_u32(u32 __user *to, u32 first, u32 second)
{
	might_fault();
	if (!user_write_access_begin(to, 2 * sizeof(*to)))
		return false;
	unsafe_put_user(first, to, fault);
	unsafe_put_user(second, to + 1, fault);
	user_write_access_end();
	return true;
fault:
	user_write_access_end();
	return false;
}

bool notrace rust_binder_get_write_read(struct binder_write_read *to,
					const struct binder_write_read __user *from)
{
	might_fault();
	if (!user_read_access_begin(from, sizeof(*from)))
		return false;
	unsafe_get_user(to->write_size, &from->write_size, fault);
	unsafe_get_user(to->write_consumed, &from->write_consumed, fault);
	unsafe_get_user(to->write_buffer, &from->write_buffer, fault);
	unsafe_get_user(to->read_size, &from->read_size, fault);
	unsafe_get_user(to->read_consumed, &from->read_consumed, fault);
	unsafe_get_user(to->read_buffer, &from->read_buffer, fault);
	user_read_access_end();
	return true;
fault:
	user_read_access_end();
	return false;
}

bool notrace rust_binder_put_consumed(struct binder_write_read __user *to, u64 written, u64 read)
{
	might_fault();
	if (!user_write_access_begin(to, sizeof(*to)))
		return false;
	unsafe_put_user(written, &to->write_consumed, fault);
	unsafe_put_user(read, &to->read_consumed, fault);
	user_write_access_end();
	return true;
fault:
	user_write_access_end();
	return false;
}

/* Descriptors that are closed: rust/kernel/files.rs */

static int kernel_ext_release_kept(struct inode *inode, struct file *keeper)
{
	fput(keeper->private_data);
	return 0;
}

static const struct file_operations keeper_fops = {
	.owner = THIS_MODULE,
	.release = kernel_ext_release_kept,
};

/*
 * Keeps @file open until the calling task returns to user space.
 *
 * The reference belongs to a file of its own, which is released at once. The kernel ends such a
 * file on the return, and holds its owner, this module, until kernel_ext_release_kept() has
 * returned. A task work of this module would have to hold the module by itself, and could not
 * release it: the return from it is still code of the module.
 */
static int keep_until_return(struct file *file)
{
	struct file *keeper = anon_inode_getfile("[closed]", &keeper_fops, file, O_RDONLY);

	if (IS_ERR(keeper))
		return PTR_ERR(keeper);
	get_file(file);
	fput(keeper);
	return 0;
}

/*
 * A system call takes no reference to its file if its task alone uses the table, because the
 * table's reference keeps the file. In that case the table's reference must not be the last one to
 * be dropped before the call is over (see __fget_light()). Returns 0 if @fd may be closed.
 */
static int prepare_to_close(struct files_struct *files, unsigned int fd,
			    const struct file_operations *in_use)
{
	struct file *file;

	/*
	 * Pairs with atomic_dec_and_test() in put_files_struct(): what another task did to the
	 * table before it gave it up is seen below. Otherwise @fd could still lead to a file that
	 * the other task has closed, and that is freed.
	 */
	if (atomic_read_acquire(&files->count) != 1)
		return 0;
	/* No other task can change the table. */
	file = files_lookup_fd_raw(files, fd);
	if (!file || file->f_op != in_use)
		return 0;
	return keep_until_return(file);
}

/*
 * Closes @fd, a number in the calling task's table, in the midst of a system call on a file
 * whose operations are @in_use. Does nothing if @fd is not open. If there is no memory, the
 * descriptor of a file with these operations may stay open.
 */
void kernel_ext_close_fd(unsigned int fd, const struct file_operations *in_use)
{
	struct files_struct *files = current->files;

	/* A kernel thread has no table of its own. */
	if (!files || current->flags & PF_KTHREAD)
		return;
	if (prepare_to_close(files, fd, in_use))
		return;
	close_fd(fd);
}

#ifndef __x86_64__
/*
 * Returns the CPU's counter of cycles, or where there is none the kernel's clock, for
 * rust/kernel/clocks.rs.
 */
u64 kernel_ext_cycles(void)
{
	/* Defined where there is such a counter. */
#ifdef get_cycles
	return get_cycles();
#else
	return ktime_get_mono_fast_ns();
#endif
}
#endif
