/* SPDX-License-Identifier: GPL-2.0 */
#ifndef LAYOUTS_C_SIDE_H
#define LAYOUTS_C_SIDE_H

#include <linux/types.h>

/* A size or an offset in bytes, and whose it is. */
struct layout {
	const char *name;
	size_t bytes;
};

/* Read by layouts.rs. */
extern const struct layout layouts_of_c[];
extern const size_t layouts_of_c_count;

#endif
