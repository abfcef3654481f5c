// SPDX-License-Identifier: GPL-2.0
/*
 * Parameters of the switch: the numbers of one or two active faults, and the
 * places reached since the last write to the second: bits, four to a digit.
 */

#include <linux/hex.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/string.h>

#include "rust_binder_mutant.h"

u16 rust_binder_mutant[2];
u8 rust_binder_reached[1 << 16];

/* A read returns one page at most. */
static_assert(RUST_BINDER_LAST_MUTANT < 4 * (PAGE_SIZE - 2));

module_param_array_named(mutant, rust_binder_mutant, ushort, NULL, 0444);

static int forget_reached(const char *value, const struct kernel_param *param)
{
	memset(rust_binder_reached, 0, sizeof(rust_binder_reached));
	return 0;
}

static int get_reached(char *buffer, const struct kernel_param *param)
{
	int length = 0;
	u32 place, i;

	for (place = 0; place <= RUST_BINDER_LAST_MUTANT; place += 4) {
		u8 digit = 0;

		for (i = 0; i < 4; i++)
			digit |= rust_binder_reached[place + i] << i;
		buffer[length++] = hex_asc[digit];
	}
	buffer[length++] = '\n';
	return length;
}

static const struct kernel_param_ops reached_ops = {
	.set = forget_reached,
	.get = get_reached,
};

module_param_cb(reached, &reached_ops, NULL, 0644);
