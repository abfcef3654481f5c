/* SPDX-License-Identifier: GPL-2.0 */
/* The switch: selects the active faults. */
#ifndef _RUST_BINDER_MUTANT_H
#define _RUST_BINDER_MUTANT_H

#include <linux/compiler.h>
#include <linux/types.h>

#define RUST_BINDER_LAST_MUTANT	@LAST@

extern u16 rust_binder_mutant[2];
extern u8 rust_binder_reached[1 << 16];

/* Returns true if this fault is active, and records that its place was reached. */
static inline bool rust_binder_mutant_is(u32 number)
{
	WRITE_ONCE(rust_binder_reached[number], 1);
	return rust_binder_mutant[0] == number || rust_binder_mutant[1] == number;
}

#endif
