// SPDX-License-Identifier: GPL-2.0
/*
 * Formats that only the kernel's printf() has.
 */

#include <linux/seq_file.h>

#include "seq.h"

void kernel_ext_seq_hashed(struct seq_file *seq, const void *address)
{
	seq_printf(seq, "%p", address);
}

void kernel_ext_seq_restricted(struct seq_file *seq, const void *address)
{
	seq_printf(seq, "%pK", address);
}
