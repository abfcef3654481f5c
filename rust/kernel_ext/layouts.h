/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What rust/kernel/layouts.rs compares with.
 */
#ifndef _KERNEL_EXT_LAYOUTS_H
#define _KERNEL_EXT_LAYOUTS_H

#include <linux/types.h>

/* The name of a struct or field, and its size or offset in bytes. */
struct kernel_ext_layout {
	const char *name;
	size_t bytes;
};

extern const struct kernel_ext_layout kernel_ext_layouts[];
extern const size_t kernel_ext_layouts_count;

#endif /* _KERNEL_EXT_LAYOUTS_H */
