/* SPDX-License-Identifier: GPL-2.0 */
/* What tools/binder-bench tells plugins: NOPs with an operand that nobody else uses (its src/marks.rs and src/growth/meter.rs). */
#ifndef REPORT_MARKS_H
#define REPORT_MARKS_H

#include "plugin.h"

/* What is measured starts or goes on, and ends or pauses. */
#define MARK_START 0x42494e01
#define MARK_END 0x42494e02
/* The loop of the idle process comes next. */
#define MARK_IDLE 0x42494e03
/* What is measured from here on belongs to a short or to a long window; all windows of one thing are done. */
#define MARK_SHORT_WINDOW 0x42494e04
#define MARK_LONG_WINDOW 0x42494e05
#define MARK_WINDOWS_END 0x42494e06

static inline int32_t number(const uint8_t *bytes)
{
	int32_t value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

/* Which mark an instruction is, or 0. */
static inline int32_t mark(const struct qemu_plugin_insn *insn)
{
	static const uint8_t marker[] = { 0x0f, 0x1f, 0x84, 0x00 };
	const uint8_t *byte = qemu_plugin_insn_data(insn);

	return qemu_plugin_insn_size(insn) == 8 && !memcmp(byte, marker, sizeof(marker)) ? number(byte + 4) : 0;
}

/* Windows of calls are short ones or long ones. */
enum kind { SHORT, LONG, KINDS, NEITHER = KINDS };
static const char *const kind_names[KINDS] = { "short", "long" };

/* What a plugin does at each mark; a window's start is told with its kind. */
struct at_marks {
	executed_cb starts;
	executed_cb ends;
	executed_cb window_starts;
	executed_cb windows_end;
};

/* For each block of user space. */
static void watch_marks(struct qemu_plugin_tb *tb, const struct at_marks *at)
{
	size_t count = qemu_plugin_tb_n_insns(tb);

	for (size_t i = 0; i < count; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		executed_cb cb = NULL;
		uintptr_t data = 0;

		switch (mark(insn)) {
		case MARK_START:
			cb = at->starts;
			break;
		case MARK_END:
			cb = at->ends;
			break;
		case MARK_SHORT_WINDOW:
			cb = at->window_starts;
			data = SHORT;
			break;
		case MARK_LONG_WINDOW:
			cb = at->window_starts;
			data = LONG;
			break;
		case MARK_WINDOWS_END:
			cb = at->windows_end;
			break;
		}
		if (cb)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, cb, CB_NO_REGS, (void *)data);
	}
}

#endif
