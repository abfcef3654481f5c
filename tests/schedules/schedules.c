// SPDX-License-Identifier: GPL-2.0
/*
 * Random schedules of the driver. The linker sends the driver's locks, atomic operations and
 * accesses to user space here, where the task may let others run first.
 */

#include <linux/hash.h>
#include <linux/module.h>
#include <linux/sched.h>

static unsigned int seed;
module_param(seed, uint, 0400);
MODULE_PARM_DESC(seed, "Chooses the places; 0: none");

static unsigned int passed;
module_param(passed, uint, 0400);
MODULE_PARM_DESC(passed, "Places at which a task could let others run");

static unsigned int yielded;
module_param(yielded, uint, 0400);
MODULE_PARM_DESC(yielded, "Those at which it did");

static unsigned int orders;
module_param(orders, uint, 0400);
MODULE_PARM_DESC(orders, "Pairs of places at which a task went on, and the last one had stopped");

#define PAIR_BITS 20
static DECLARE_BITMAP(pairs, 1 << PAIR_BITS);

/* Marsaglia's xorshift. */
static u32 next_random(void)
{
	static u32 state;

	if (!state)
		state = seed * GOLDEN_RATIO_32;
	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state;
}

/* In kernel code a task seldom has a reason for that. */
static void (*const let_others_run)(void) = yield;

/* One of four seeds stops at a place in 4, the others at one in 16, 64 and 256. */
static void may_stop(unsigned long place)
{
	static unsigned long last;
	u32 chance, turns;

	if (!seed || !preemptible() || rcu_preempt_depth() || !task_is_running(current))
		return;
	passed++;
	chance = next_random();
	if (chance & ((4 << 2 * (seed % 4)) - 1))
		return;
	yielded++;
	last = place;
	/* Mostly others run for a short time, and otherwise until they wait. */
	for (turns = chance >> 29 ? 1 : 64; turns; turns--)
		let_others_run();
	orders += !__test_and_set_bit(hash_long(31 * last + place, PAIR_BITS), pairs);
}

typedef long called(long a, long b, long c, long d);

#define BEFORE(name)								\
	called __real_##name, __wrap_##name;					\
	long __wrap_##name(long a, long b, long c, long d)			\
	{									\
		may_stop(_RET_IP_);						\
		return __real_##name(a, b, c, d);				\
	}
#define AFTER(name)								\
	called __real_##name, __wrap_##name;					\
	long __wrap_##name(long a, long b, long c, long d)			\
	{									\
		long result = __real_##name(a, b, c, d);			\
										\
		may_stop(_RET_IP_);						\
		return result;							\
	}

BEFORE(_raw_spin_lock)
AFTER(_raw_spin_unlock)
AFTER(mutex_unlock)
BEFORE(rust_helper__copy_from_user)
BEFORE(rust_helper__copy_to_user)
BEFORE(rust_helper_atomic64_fetch_add_acquire)
BEFORE(rust_helper_atomic64_fetch_add_relaxed)
BEFORE(rust_helper_atomic64_fetch_sub_release)
BEFORE(rust_helper_atomic64_read)
BEFORE(rust_helper_atomic64_read_acquire)
BEFORE(rust_helper_atomic64_set_release)
BEFORE(rust_helper_atomic64_try_cmpxchg)
BEFORE(rust_helper_atomic64_try_cmpxchg_acquire)
BEFORE(rust_helper_atomic64_try_cmpxchg_relaxed)
BEFORE(rust_helper_atomic64_try_cmpxchg_release)
BEFORE(rust_helper_atomic_add)
BEFORE(rust_helper_atomic_fetch_add_relaxed)
BEFORE(rust_helper_atomic_fetch_add_release)
BEFORE(rust_helper_atomic_fetch_sub_relaxed)
BEFORE(rust_helper_atomic_i8_xchg_relaxed)
BEFORE(rust_helper_atomic_ptr_read_acquire)
BEFORE(rust_helper_atomic_ptr_set_release)
BEFORE(rust_helper_atomic_ptr_try_cmpxchg_release)
BEFORE(rust_helper_atomic_ptr_xchg_acquire)
BEFORE(rust_helper_atomic_read_acquire)
BEFORE(rust_helper_atomic_set_release)
BEFORE(rust_helper_atomic_try_cmpxchg_relaxed)
BEFORE(rust_helper_mmap_read_lock)
BEFORE(rust_helper_mmap_read_trylock)
BEFORE(rust_helper_mutex_lock)
BEFORE(rust_helper_refcount_dec_and_test)
BEFORE(rust_helper_spin_lock)
BEFORE(rust_helper_spin_trylock)
AFTER(rust_helper_spin_unlock)

MODULE_DESCRIPTION("Random schedules of the driver");
MODULE_LICENSE("GPL");
