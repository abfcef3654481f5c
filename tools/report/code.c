// SPDX-License-Identifier: GPL-2.0
/*
 * A QEMU TCG plugin: the kernel's code that is executed in each window that tools/binder-bench measures. Instruction counts do not show how
 * much of a CPU's cache for code a call takes, nor the jumps that a CPU has to predict.
 *
 * The plugin writes
 *
 *	window KIND BRANCHES INDIRECT	at the end of a window: its taken branches, and its indirect jumps and calls
 *
 * After the last window of one thing that is measured, it writes the blocks of code that were executed, and a line `end`:
 *
 *	block START END INSTRUCTIONS TIMES	its addresses, its instructions, and how often all long windows executed it
 *
 * Meant for one CPU.
 *
 *	cc -shared -fPIC -O2 -fvisibility=hidden -o code.so code.c
 *	qemu-system-x86_64 ... -plugin ./code.so,out=FILE
 */
#include "plugin.h"

/* Instructions that QEMU executes in a row. A block that it translates again is another one here. */
struct block {
	struct block *next;
	uint64_t start;
	uint64_t end;
	size_t instructions;
	uint64_t times;
	bool indirect;
};

static struct block *blocks;

/* The window that is measured, and what it has executed so far. */
static enum kind kind = NEITHER;
static uint64_t branches, indirect;
static bool counting;

/* Where the block ends that was executed last, and whether it ends with an indirect jump or call. */
static uint64_t last_end;
static bool last_indirect;

static void executed(unsigned int cpu, void *data)
{
	struct block *block = data;

	if (!counting)
		return;
	branches += last_end != block->start;
	indirect += last_indirect;
	block->times += kind == LONG;
	last_end = block->end;
	last_indirect = block->indirect;
}

static void starts(unsigned int cpu, void *data)
{
	counting = kind != NEITHER;
}

static void ends(unsigned int cpu, void *data)
{
	counting = false;
}

/* The window before ends here; `data` is the kind of the next one. */
static void window_starts(unsigned int cpu, void *data)
{
	if (kind != NEITHER)
		fprintf(out, "window %s %" PRIu64 " %" PRIu64 "\n", kind_names[kind], branches, indirect);
	kind = (enum kind)(uintptr_t)data;
	branches = 0;
	indirect = 0;
}

static void windows_end(unsigned int cpu, void *data)
{
	window_starts(cpu, (void *)NEITHER);
	for (struct block *block = blocks; block; block = block->next) {
		if (block->times)
			fprintf(out, "block %" PRIx64 " %" PRIx64 " %zu %" PRIu64 "\n", block->start, block->end, block->instructions, block->times);
		block->times = 0;
	}
	fprintf(out, "end\n");
	fflush(out);
}

static const struct at_marks at_marks = { starts, ends, window_starts, windows_end };

/*
 * CALL and JMP with an operand in a register or in memory: opcode FF /2 and /4. A kernel with retpolines calls a function instead that
 * puts the register's value in the place of its return address: MOV to (%rsp).
 */
static bool is_indirect(const struct qemu_plugin_tb *tb)
{
	size_t count = qemu_plugin_tb_n_insns(tb);
	const struct qemu_plugin_insn *first = qemu_plugin_tb_get_insn(tb, 0), *last = qemu_plugin_tb_get_insn(tb, count - 1);
	const uint8_t *byte = qemu_plugin_insn_data(first), *end;

	if (qemu_plugin_insn_size(first) == 4 && (*byte & 0xfb) == 0x48 && byte[1] == 0x89 && (byte[2] & 0xc7) == 0x04 && byte[3] == 0x24)
		return true;
	byte = qemu_plugin_insn_data(last);
	end = byte + qemu_plugin_insn_size(last);
	while (byte < end && ((*byte & 0xf0) == 0x40 || *byte == 0x2e || *byte == 0x3e || *byte == 0x65))
		byte++;
	return end - byte > 1 && *byte == 0xff && ((byte[1] >> 3 & 7) == 2 || (byte[1] >> 3 & 7) == 4);
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	const struct qemu_plugin_insn *last = qemu_plugin_tb_get_insn(tb, qemu_plugin_tb_n_insns(tb) - 1);
	struct block *block;

	if (!is_kernel(qemu_plugin_tb_vaddr(tb))) {
		watch_marks(tb, &at_marks);
		return;
	}
	block = make(sizeof(*block));
	block->start = qemu_plugin_tb_vaddr(tb);
	block->end = qemu_plugin_insn_vaddr(last) + qemu_plugin_insn_size(last);
	block->instructions = qemu_plugin_tb_n_insns(tb);
	block->indirect = is_indirect(tb);
	block->next = blocks;
	blocks = block;
	qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, CB_NO_REGS, block);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{
	return begin(id, argc, argv, translated);
}
