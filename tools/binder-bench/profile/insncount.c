// SPDX-License-Identifier: GPL-2.0
/*
 * A QEMU TCG plugin: how often the guest executed the instruction at each address.
 *
 * At exit it writes one line for each address, "ADDRESS COUNT LOCKED", LOCKED being 1 for an
 * instruction with a LOCK prefix. All user-space code counts as address 0: processes share addresses.
 *
 * Debian ships a QEMU that loads plugins, but not the header, so the part of the interface (version 1)
 * that is used here is declared below, after QEMU's documentation of TCG plugins.
 *
 *	cc -shared -fPIC -O2 -o insncount.so insncount.c
 *	qemu-system-x86_64 ... -plugin ./insncount.so,out=FILE
 */
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

enum { INLINE_ADD_U64 = 0 };

typedef void (*translated_cb)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*exit_cb)(qemu_plugin_id_t id, void *data);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, translated_cb cb);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, exit_cb cb, void *data);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn, int op, void *ptr,
						uint64_t value);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);

EXPORT int qemu_plugin_version = 1;

/* One counter for each address; its place must not move, because generated code adds to it. */
struct counter {
	uint64_t address;
	uint64_t count;
	bool locked;
	struct counter *next;
};

#define BUCKETS (1 << 16)
static struct counter *buckets[BUCKETS];
static const char *out_path;

static struct counter *counter_at(uint64_t address)
{
	struct counter **bucket = &buckets[(address ^ address >> 16) % BUCKETS];
	struct counter *counter;

	for (counter = *bucket; counter; counter = counter->next)
		if (counter->address == address)
			return counter;
	counter = calloc(1, sizeof(*counter));
	if (!counter)
		abort();
	counter->address = address;
	counter->next = *bucket;
	*bucket = counter;
	return counter;
}

/* LOCK stands among the legacy prefixes, in any order, before REX and the opcode. */
static bool has_lock_prefix(const struct qemu_plugin_insn *insn)
{
	static const uint8_t others[] = { 0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf2, 0xf3 };
	const uint8_t *byte = qemu_plugin_insn_data(insn);
	const uint8_t *end = byte + qemu_plugin_insn_size(insn);

	for (; byte < end; byte++) {
		if (*byte == 0xf0)
			return true;
		if (!memchr(others, *byte, sizeof(others)))
			return false;
	}
	return false;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t count = qemu_plugin_tb_n_insns(tb);

	(void)id;
	for (size_t i = 0; i < count; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint64_t address = qemu_plugin_insn_vaddr(insn);
		bool kernel = address >> 63;
		struct counter *counter = counter_at(kernel ? address : 0);

		if (kernel)
			counter->locked = has_lock_prefix(insn);
		qemu_plugin_register_vcpu_insn_exec_inline(insn, INLINE_ADD_U64, &counter->count, 1);
	}
}

static void at_exit(qemu_plugin_id_t id, void *data)
{
	FILE *out = fopen(out_path, "w");

	(void)id;
	(void)data;
	if (!out) {
		perror(out_path);
		return;
	}
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct counter *c = buckets[i]; c; c = c->next)
			if (c->count)
				fprintf(out, "%016" PRIx64 " %" PRIu64 " %d\n", c->address, c->count, c->locked);
	if (fclose(out))
		perror(out_path);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{
	(void)info;
	for (int i = 0; i < argc; i++)
		if (!strncmp(argv[i], "out=", 4))
			out_path = strdup(argv[i] + 4);
	if (!out_path) {
		fprintf(stderr, "insncount: say where to write, with out=FILE\n");
		return 1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, at_exit, NULL);
	return 0;
}
