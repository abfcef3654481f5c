/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The part of QEMU's interface for TCG plugins, version 1, that the plugins here use. Debian ships a QEMU that loads plugins,
 * but not the header, so it is declared after QEMU's documentation.
 */
#ifndef REPORT_PLUGIN_H
#define REPORT_PLUGIN_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info;
struct qemu_plugin_hwaddr;

enum { INLINE_ADD_U64 = 0 };
enum { CB_NO_REGS = 0 };
enum { MEM_ANY = 3 };

typedef void (*translated_cb)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*exit_cb)(qemu_plugin_id_t id, void *data);
typedef void (*executed_cb)(unsigned int cpu, void *data);
typedef void (*memory_cb)(unsigned int cpu, uint32_t info, uint64_t address, void *data);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, translated_cb cb);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, exit_cb cb, void *data);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, executed_cb cb, int flags, void *data);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, int op, void *ptr, uint64_t value);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, executed_cb cb, int flags, void *data);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn, int op, void *ptr, uint64_t value);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, memory_cb cb, int flags, int kind,
				      void *data);
bool qemu_plugin_mem_is_store(uint32_t info);
unsigned int qemu_plugin_mem_size_shift(uint32_t info);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(uint32_t info, uint64_t address);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *address);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *address);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);

EXPORT int qemu_plugin_version = 1;

/* Memory that is zero and there; a plugin cannot go on without. */
static inline void *make(size_t size)
{
	void *memory = calloc(1, size);

	if (!memory)
		abort();
	return memory;
}

/* What follows the name of an option and "="; NULL without that option. */
static inline const char *option(int argc, char **argv, const char *name)
{
	size_t length = strlen(name);

	for (int i = 0; i < argc; i++)
		if (!strncmp(argv[i], name, length) && argv[i][length] == '=')
			return argv[i] + length + 1;
	return NULL;
}

/* An option's number; 0 without that option. */
static inline uint64_t number_option(int argc, char **argv, const char *name, int base)
{
	const char *value = option(argc, argv, name);

	return value ? strtoull(value, NULL, base) : 0;
}

/* The file that a plugin writes. */
static FILE *out;

static void close_out(qemu_plugin_id_t id, void *data)
{
	if (fclose(out))
		perror("what a plugin has seen");
}

/* Open the file that option `out` names, and have QEMU tell of blocks; what qemu_plugin_install() returns. */
static inline int begin(qemu_plugin_id_t id, int argc, char **argv, translated_cb translated)
{
	const char *name = option(argc, argv, "out");

	out = name ? fopen(name, "w") : NULL;
	if (!out) {
		fprintf(stderr, "a plugin needs out=FILE\n");
		return 1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, close_out, NULL);
	return 0;
}

/*
 * How many of a block's instructions are executed with it for sure: all, or all but the last.
 *
 * QEMU 7.2 takes an instruction back that reaches into another page than the block's, and begins the next block with it, but tells
 * of it in both. What it tells of the one that is taken back ends with the page or, because up to eight bytes are read at once, a
 * little before. Whether such an instruction is executed, only a callback of its own knows: that is taken back as well.
 */
static inline size_t surely_executed(const struct qemu_plugin_tb *tb)
{
	size_t count = qemu_plugin_tb_n_insns(tb);
	const struct qemu_plugin_insn *last = qemu_plugin_tb_get_insn(tb, count - 1);
	uint64_t after = qemu_plugin_insn_vaddr(last) + qemu_plugin_insn_size(last) + 7;
	bool is_doubtful = (after ^ qemu_plugin_tb_vaddr(tb)) >> 12;

	return count > 1 && is_doubtful ? count - 1 : count;
}

/* The kernel's half of the address space. */
static inline bool is_kernel(uint64_t address)
{
	return address >> 63;
}

#endif
