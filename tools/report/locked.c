// SPDX-License-Identifier: GPL-2.0
/*
 * A QEMU TCG plugin: how many instructions, and how many locked operations of the kernel, are executed in each window that
 * tools/binder-bench measures. QEMU increments two counters inline, and calls the plugin at marks alone, so a boot takes hardly longer
 * with it.
 *
 * When all windows of one thing that is measured are done, the plugin writes
 *
 *	window KIND INSTRUCTIONS LOCKED		of each window in its order; KIND is short or long
 *	end
 *
 * Meant for one CPU.
 *
 *	cc -shared -fPIC -O2 -fvisibility=hidden -o locked.so locked.c
 *	qemu-system-x86_64 ... -plugin ./locked.so,out=FILE
 */
#include "plugin.h"

struct window {
	enum kind kind;
	uint64_t instructions;
	uint64_t locked;
};

#define WINDOWS 4096

/* Since the guest was started, and when what is measured last started or went on. */
static uint64_t instructions, locked;
static uint64_t instructions_at_start, locked_at_start;

/* Those since the last ones were written. The last of them is the one that is measured. */
static struct window windows[WINDOWS];
static size_t window_count;
static bool counting;

static void starts(unsigned int cpu, void *data)
{
	counting = window_count;
	instructions_at_start = instructions;
	locked_at_start = locked;
}

static void ends(unsigned int cpu, void *data)
{
	if (!counting)
		return;
	counting = false;
	windows[window_count - 1].instructions += instructions - instructions_at_start;
	windows[window_count - 1].locked += locked - locked_at_start;
}

static void window_starts(unsigned int cpu, void *data)
{
	if (window_count == WINDOWS)
		abort();
	windows[window_count++] = (struct window){ .kind = (enum kind)(uintptr_t)data };
}

static void windows_end(unsigned int cpu, void *data)
{
	for (size_t i = 0; i < window_count; i++)
		fprintf(out, "window %s %" PRIu64 " %" PRIu64 "\n", kind_names[windows[i].kind], windows[i].instructions,
			windows[i].locked);
	fprintf(out, "end\n");
	fflush(out);
	window_count = 0;
}

static const struct at_marks at_marks = { starts, ends, window_starts, windows_end };

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t count = qemu_plugin_tb_n_insns(tb), sure = surely_executed(tb);
	bool kernel = is_kernel(qemu_plugin_tb_vaddr(tb));
	uint64_t of_block = 0;

	qemu_plugin_register_vcpu_tb_exec_inline(tb, INLINE_ADD_U64, &instructions, sure);
	if (sure < count) {
		struct qemu_plugin_insn *last = qemu_plugin_tb_get_insn(tb, sure);

		qemu_plugin_register_vcpu_insn_exec_inline(last, INLINE_ADD_U64, &instructions, 1);
		if (kernel && decode(last).locked)
			qemu_plugin_register_vcpu_insn_exec_inline(last, INLINE_ADD_U64, &locked, 1);
	}
	if (!kernel) {
		watch_marks(tb, &at_marks);
		return;
	}
	for (size_t i = 0; i < sure; i++)
		of_block += decode(qemu_plugin_tb_get_insn(tb, i)).locked;
	if (of_block)
		qemu_plugin_register_vcpu_tb_exec_inline(tb, INLINE_ADD_U64, &locked, of_block);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{
	return begin(id, argc, argv, translated);
}
