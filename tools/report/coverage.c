// SPDX-License-Identifier: GPL-2.0
/*
 * A QEMU TCG plugin: the instructions of modules of an x86-64 kernel that are executed. Each has a counter of its own, because a fault can end
 * a block before its last instruction.
 *
 * At the end the plugin writes the address of each executed block and the bytes of its instructions, those that were executed with a `+`. A
 * module that is loaded twice can have two addresses, and two modules can have one address after each other: the bytes show the module.
 *
 *	cc -shared -fPIC -O2 -fvisibility=hidden -o coverage.so coverage.c
 *	qemu-system-x86_64 ... -plugin ./coverage.so,out=FILE
 */
#include "plugin.h"

/* The address space of modules begins here in a kernel with a fixed address, and later in others. */
#define MODULES 0xffffffffa0000000

/* A block that QEMU translates again is another one here. */
struct block {
	struct block *next;
	uint64_t start;
	size_t count;
	struct instruction {
		uint64_t times;
		uint8_t size;
		uint8_t bytes[15];
	} instructions[];
};

static struct block *blocks;

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t count = qemu_plugin_tb_n_insns(tb);
	struct block *block;

	if (qemu_plugin_tb_vaddr(tb) < MODULES)
		return;
	block = make(sizeof(*block) + count * sizeof(*block->instructions));
	*block = (struct block){ blocks, qemu_plugin_tb_vaddr(tb), count };
	blocks = block;
	for (size_t i = 0; i < count; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		struct instruction *each = &block->instructions[i];

		each->size = qemu_plugin_insn_size(insn);
		memcpy(each->bytes, qemu_plugin_insn_data(insn), each->size);
		qemu_plugin_register_vcpu_insn_exec_inline(insn, INLINE_ADD_U64, &each->times, 1);
	}
}

static void write_blocks(qemu_plugin_id_t id, void *data)
{
	for (struct block *block = blocks; block; block = block->next) {
		if (!block->instructions->times)
			continue;
		fprintf(out, "%" PRIx64, block->start);
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
