/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The common part of all plugins here, mainly the part of QEMU's interface for TCG plugins, version 1, that they use. Debian ships a QEMU that loads plugins,
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

/* Zeroed memory; without it the plugin aborts. */
static inline void *make(size_t size)
{
	void *memory = calloc(1, size);

	if (!memory)
		abort();
	return memory;
}

/* The value of an option; NULL without that option. */
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

/* Open the file that option `out` names, and register for translated blocks; returns the value for qemu_plugin_install(). */
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
 * The number of a block's instructions that are executed with it for sure: all, or all but the last.
 *
 * If an instruction reaches into another page than its block's, QEMU 7.2 moves it to the next block, but reports it in both blocks. Its
 * first report ends with the page or, because up to eight bytes are read at once, a little before. Only a callback of its own shows the
 * execution of such an instruction, and QEMU moves that callback as well.
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

/* The properties of an x86-64 instruction that plugins need. */
struct decoded {
	/* It has a LOCK prefix. */
	bool locked;
	/* It exchanges a register with memory, which locks without a prefix. */
	bool exchange;
	bool call;
	bool ret;
	bool pause;
};

/* Legacy prefixes in any order, LOCK among them, then perhaps REX, then the opcode. */
static inline struct decoded decode(const struct qemu_plugin_insn *insn)
{
	static const uint8_t others[] = { 0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf2, 0xf3 };
	const uint8_t *byte = qemu_plugin_insn_data(insn);
	const uint8_t *end = byte + qemu_plugin_insn_size(insn);
	struct decoded is = { 0 };
	bool repeats = false;

	for (; byte < end && (*byte == 0xf0 || memchr(others, *byte, sizeof(others))); byte++) {
		is.locked |= *byte == 0xf0;
		repeats |= *byte == 0xf3;
	}
	is.pause = repeats && byte < end && *byte == 0x90;
	if (byte < end && (*byte & 0xf0) == 0x40)
		byte++;
	if (byte < end) {
		is.ret = *byte == 0xc3 || *byte == 0xc2;
		is.call = *byte == 0xe8 || (*byte == 0xff && byte + 1 < end && (byte[1] >> 3 & 7) == 2);
		is.exchange = (*byte & 0xfe) == 0x86 && byte + 1 < end && byte[1] >> 6 != 3;
	}
	return is;
}

/* The marks of tools/binder-bench: NOPs with operands of their own (its src/marks.rs and src/growth/meter.rs). */

/* A measurement starts or continues; it ends or pauses. */
#define MARK_START 0x42494e01
#define MARK_END 0x42494e02
/* The loop of the idle process comes next. */
#define MARK_IDLE 0x42494e03
/* A short or a long window starts; all windows of one operation are done. */
#define MARK_SHORT_WINDOW 0x42494e04
#define MARK_LONG_WINDOW 0x42494e05
#define MARK_WINDOWS_END 0x42494e06

static inline int32_t number(const uint8_t *bytes)
{
	int32_t value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

/* The mark of an instruction, or 0. */
static inline int32_t mark(const struct qemu_plugin_insn *insn)
{
	static const uint8_t marker[] = { 0x0f, 0x1f, 0x84, 0x00 };
	const uint8_t *byte = qemu_plugin_insn_data(insn);

	return qemu_plugin_insn_size(insn) == 8 && !memcmp(byte, marker, sizeof(marker)) ? number(byte + 4) : 0;
}

/* Windows of calls are short ones or long ones. */
enum kind { SHORT, LONG, KINDS, NEITHER = KINDS };
static const char *const kind_names[KINDS] = { "short", "long" };

/* The callbacks for the marks; a window's start has its kind as data. */
struct at_marks {
	executed_cb starts;
	executed_cb ends;
	executed_cb window_starts;
	executed_cb windows_end;
};

/* For each block of user space. */
static void watch_marks(struct qemu_plugin_tb *tb, const struct at_marks *at)
{
	const struct {
		int32_t mark;
		executed_cb cb;
		uintptr_t data;
	} all[] = {
		{ MARK_START, at->starts, 0 },
		{ MARK_END, at->ends, 0 },
		{ MARK_SHORT_WINDOW, at->window_starts, SHORT },
		{ MARK_LONG_WINDOW, at->window_starts, LONG },
		{ MARK_WINDOWS_END, at->windows_end, 0 },
	};
	size_t count = qemu_plugin_tb_n_insns(tb);

	for (size_t i = 0; i < count; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		int32_t here = mark(insn);

		for (size_t row = 0; row < sizeof(all) / sizeof(*all); row++)
			if (all[row].mark == here && all[row].cb)
				qemu_plugin_register_vcpu_insn_exec_cb(insn, all[row].cb, CB_NO_REGS, (void *)all[row].data);
	}
}

#endif
