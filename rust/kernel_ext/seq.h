/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What rust/kernel/hashed.rs calls.
 */
#ifndef _KERNEL_EXT_SEQ_H
#define _KERNEL_EXT_SEQ_H

struct seq_file;

/* Writes an address of user space as a number that depends on it and on a secret of the kernel. */
void kernel_ext_seq_hashed(struct seq_file *seq, const void *address);

/* Writes an address of the kernel as the sysctl kptr_restrict allows the reader to see it. */
void kernel_ext_seq_restricted(struct seq_file *seq, const void *address);

#endif /* _KERNEL_EXT_SEQ_H */
