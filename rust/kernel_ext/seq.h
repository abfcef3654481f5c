/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What rust/kernel/hashed.rs calls.
 */
#ifndef _KERNEL_EXT_SEQ_H
#define _KERNEL_EXT_SEQ_H

struct seq_file;

/* Writes an address, as the kernel shows those that nobody is to learn. */
void kernel_ext_seq_hashed(struct seq_file *seq, const void *address);

#endif /* _KERNEL_EXT_SEQ_H */
