// SPDX-License-Identifier: GPL-2.0
/*
 * Closes descriptors, for rust/kernel/deferred_close.rs. In C, because the C compiler knows the
 * offsets of task_struct's fields in any kernel. Nothing in here knows of Binder.
 */

#include <linux/anon_inodes.h>
#include <linux/err.h>
#include <linux/fdtable.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/sched.h>

#include "files.h"

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
 * The reference belongs to a file of its own, which is released at once: the kernel ends such a
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
 * A system call takes no reference to the file that it is about if its task alone uses the
 * table, because the table's reference keeps the file; in that case that must not be the last
 * one to be dropped before the call is over (see __fget_light()). Returns 0 if @fd may be
 * closed.
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

void kernel_ext_close_fd(unsigned int fd, const struct file_operations *in_use)
{
	struct files_struct *files = current->files;
	struct file *file;

	/* A kernel thread has no table of its own. */
	if (!files || current->flags & PF_KTHREAD)
		return;
	if (prepare_to_close(files, fd, in_use))
		return;
	file = file_close_fd(fd);
	if (file)
		filp_close(file, files);
}
