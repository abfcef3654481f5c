// SPDX-License-Identifier: GPL-2.0
/*
 * Parameters of the switch: the numbers of the faults that are there, with commas
 * between them, and which places were reached since somebody last wrote to the
 * second: bits, four to a digit.
 */

#include <linux/cleanup.h>
#include <linux/hex.h>
#include <linux/kstrtox.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "rust_binder_mutant.h"

u8 rust_binder_present[1 << 16];
u8 rust_binder_reached[1 << 16];

/* What is reached is read as a page. */
static_assert(RUST_BINDER_LAST_MUTANT < 4 * (PAGE_SIZE - 2));

static int set_present(const char *value, const struct kernel_param *param)
{
	char *all __free(kfree) = kstrdup(value, GFP_KERNEL);
	char *rest = all;
	char *word;
	u16 number;

	if (!all)
		return -ENOMEM;
	memset(rust_binder_present, 0, sizeof(rust_binder_present));
	while ((word = strsep(&rest, ",\n"))) {
		if (*word && kstrtou16(word, 10, &number))
			return -EINVAL;
		if (*word && number)
			rust_binder_present[number] = 1;
	}
	return 0;
}

static const struct kernel_param_ops present_ops = {
	.set = set_present,
};

module_param_cb(mutant, &present_ops, NULL, 0200);

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
