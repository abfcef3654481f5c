/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The limits of one process, in the layout of the Rust struct Limits
 * (common/limits.rs).
 */
#ifndef _RUST_BINDER_LIMITS_H
#define _RUST_BINDER_LIMITS_H

#include <linux/types.h>

/* Written by the setters of the parameters alone, each field by one store. */
struct rust_binder_limits {
	unsigned int max_nodes;
	unsigned int max_refs;
	unsigned int max_threads;
	unsigned int oneway_quota;
};

extern struct rust_binder_limits rust_binder_limits;

#endif /* _RUST_BINDER_LIMITS_H */
