/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The search for slow calls: what C and Rust call of each other.
 */
#ifndef _RUST_BINDER_SLOW_CALLS_H
#define _RUST_BINDER_SLOW_CALLS_H

#include <linux/types.h>

/* The parameter slow_call_ms; common/slow_calls.rs has the variable. */
extern unsigned int rust_binder_slow_call_ms;

/*
 * Looks at all threads once. @round is another number after the parameter was
 * changed. Returns the milliseconds after which that is to be done again; 0 if
 * it is not.
 */
u64 rust_binder_walk(u8 round);

/* Between these two calls, the module looks for slow calls if it is asked to. */
void rust_binder_slow_calls_begin(void);
void rust_binder_slow_calls_end(void);

#endif /* _RUST_BINDER_SLOW_CALLS_H */
