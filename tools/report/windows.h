/* SPDX-License-Identifier: GPL-2.0 */
/* Windows of calls that tools/binder-bench measures, short ones and long ones (its src/count.rs), and what says when each starts. */
#ifndef REPORT_WINDOWS_H
#define REPORT_WINDOWS_H

#include "marks.h"

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
