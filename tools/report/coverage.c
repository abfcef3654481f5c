// SPDX-License-Identifier: GPL-2.0
/*
 * A QEMU TCG plugin: the instructions of modules of an x86-64 kernel that are executed, and where conditional jumps lead. Each instruction has
 * a counter of its own, because a fault can end a block before its last instruction.
 *
 * At the end the plugin writes a line for each executed block: its address, the outcomes of the jump at its end, and the bytes of its
 * instructions. A `+` marks those that were executed. A module that is loaded twice can have two addresses, and two modules can have one address
 * after each other: the bytes show the module.
 *
 *	cc -shared -fPIC -O2 -fvisibility=hidden -o coverage.so coverage.c
 *	qemu-system-x86_64 ... -plugin ./coverage.so,out=FILE
 */
#include "plugin.h"

/* The address space of modules begins here in a kernel with a fixed address, and later in others. */
#define MODULES 0xffffffffa0000000

/* More than guests have. */
#define CPUS 64

/* A block that QEMU translates again is another one here. */
struct block {
	struct block *next;
	uint64_t start;
	/* The two successors of the conditional jump at its end; `target` is 0 if there is none. */
	uint64_t behind, target;
	/* FELL and JUMPED. */
	unsigned int outcomes;
	size_t count;
	struct instruction {
		uint64_t times;
		uint8_t size;
		uint8_t bytes[15];
	} instructions[];
};

enum { FELL = 1, JUMPED = 2 };

static struct block *blocks;

/* Of each CPU the block of modules that it has executed last, if that ends with a conditional jump. */
static struct block *last[CPUS];

/* The target of a conditional jump that ends at an address; 0 for other instructions. */
static uint64_t target_of(const struct instruction *insn, uint64_t end)
{
	int32_t distance;

	if (insn->size == 2 && (insn->bytes[0] & 0xf0) == 0x70)
		return end + (int8_t)insn->bytes[1];
	if (insn->size != 6 || insn->bytes[0] != 0x0f || (insn->bytes[1] & 0xf0) != 0x80)
		return 0;
	memcpy(&distance, insn->bytes + 2, sizeof(distance));
	return end + distance;
}

static void executed(unsigned int cpu, void *data)
{
	struct block *block = data, *before = last[cpu % CPUS];

	if (before && block->start == before->behind)
		before->outcomes |= FELL;
	else if (before && block->start == before->target)
		before->outcomes |= JUMPED;
	last[cpu % CPUS] = block->target ? block : NULL;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t count = qemu_plugin_tb_n_insns(tb);
	struct block *block;

	if (qemu_plugin_tb_vaddr(tb) < MODULES)
		return;
	block = make(sizeof(*block) + count * sizeof(*block->instructions));
	*block = (struct block){ blocks, qemu_plugin_tb_vaddr(tb), .count = count };
	blocks = block;
	for (size_t i = 0; i < count; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		struct instruction *each = &block->instructions[i];

		each->size = qemu_plugin_insn_size(insn);
		memcpy(each->bytes, qemu_plugin_insn_data(insn), each->size);
		qemu_plugin_register_vcpu_insn_exec_inline(insn, INLINE_ADD_U64, &each->times, 1);
		block->behind = qemu_plugin_insn_vaddr(insn) + each->size;
	}
	block->target = target_of(&block->instructions[count - 1], block->behind);
	qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, CB_NO_REGS, block);
}

static void write_blocks(qemu_plugin_id_t id, void *data)
{
	for (struct block *block = blocks; block; block = block->next) {
		if (!block->instructions->times)
			continue;
		fprintf(out, "%" PRIx64 " %u", block->start, block->outcomes);
		for (struct instruction *each = block->instructions; each < block->instructions + block->count; each++) {
			fputs(each->times ? " +" : " ", out);
			for (int at = 0; at < each->size; at++)
				fprintf(out, "%02x", each->bytes[at]);
		}
		fputc('\n', out);
	}
	close_out(id, data);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{
	int result = begin(id, argc, argv, translated);

	/* An event has one callback: this one replaces close_out(). */
	qemu_plugin_register_atexit_cb(id, write_blocks, NULL);
	return result;
}
