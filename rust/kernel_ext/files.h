/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What rust/kernel/deferred_close.rs calls.
 */
#ifndef _KERNEL_EXT_FILES_H
#define _KERNEL_EXT_FILES_H

struct file_operations;

/*
 * Closes @fd, a number in the calling task's table, in the midst of a system call on a file
 * whose operations are @in_use. Does nothing if @fd is not open. If there is no memory, the
 * descriptor of a file with these operations may stay open.
 */
void kernel_ext_close_fd(unsigned int fd, const struct file_operations *in_use);

#endif /* _KERNEL_EXT_FILES_H */
