// SPDX-License-Identifier: GPL-2.0
/*
 * A QEMU TCG plugin: the instructions that the guest executes in each phase of a measurement, and the longest stretch with preemption off,
 * or with interrupts off, for a driver.
 *
 * Instructions are counted where they are executed, not read from the guest's clock: QEMU's clock sometimes advances without
 * instructions, by as much as several milliseconds. Not counted are those of hard interrupts, almost all of which are the tick,
 * and those of the process that keeps the guest from being idle. A block that a fault ends early counts as a whole.
 *
 * The kernel counts up and down in one variable, __preempt_count, with instructions that have their operand in
 * them, and masks interrupts with CLI and STI. So the code alone shows the instructions to watch; no register is read, which interface
 * version 1 could not do. Time spent in interrupts, and in soft interrupts that they bring along, is subtracted: an interruption
 * does not make a stretch longer. A soft interrupt is a stretch of its own, up to the first callback of RCU in it. Callbacks
 * are left out: the kernel can stop between two of them, and one that frees an object may give back a whole slab. With the C
 * driver, the kernel frees those objects, and one of its callbacks took up to 22 238 instructions.
 *
 * A stretch is the driver's when the driver's code led to it, or ran in it; its place is the first such code. The
 * driver is the one loaded module: all code from MODULES on. Phases start and end with NOPs of tools/binder-bench
 * (src/marks.rs). At the end of each, the plugin writes
 *
 *	INSTRUCTIONS PREEMPT_OFF PLACE IRQS_OFF PLACE	instructions, and addresses in the driver
 *
 * Meant for one CPU.
 *
 *	cc -shared -fPIC -O2 -fvisibility=hidden -o stretches.so stretches.c
 *	qemu-system-x86_64 ... -plugin ./stretches.so,out=FILE,count=ADDRESS,entry=ADDRESS,batch=ADDRESS,behind=ADDRESS
 *
 * ADDRESS is that of __preempt_count, of entry_SYSCALL_64, of the function that calls the callbacks of RCU, and of the symbol
 * behind it, in hexadecimal.
 */
#include "plugin.h"

/* The kernel's own text is below, and modules are above, wherever the kernel puts them. */
#define MODULES 0xffffffffa0000000u

/* Parts of __preempt_count: while it serves a soft interrupt, while it handles an interrupt. */
#define SOFTIRQ 0x100
#define HARDIRQ 0x1000000

/* The loop: an addition, 1 000 NOPs, and a jump. */
#define IDLE_BYTES (4 + 1000 + 5)

/* Driver's code that ran so few instructions before a stretch has led to it. */
#define FRESH 64

/* An instruction that matters, and how many of its block come after it. */
struct watched {
	int64_t delta;
	uint64_t rest;
};

struct stretch {
	bool on;
	uint64_t start;
	uint64_t paused;
	uint64_t place;
};

struct longest {
	uint64_t instructions;
	uint64_t place;
};

#define NESTED 8
struct nested {
	uint64_t start;
	bool soft;
	struct stretch stretch;
};

static uint64_t executed, user_executed, in_interrupts;
static uint64_t at_start;
static uint64_t idle_address;
static int64_t preempt_count;
static struct stretch preempt_off, irqs_off;
static struct longest preempt_longest, irqs_longest;
static struct nested nested[NESTED];
static unsigned int depth;
static uint64_t driver_place, driver_ran;
static uint64_t count_address, entry_address, batch_address, behind_address;
static bool measuring;

/* The instructions executed before this one: its whole block has been counted already. */
static uint64_t now(const struct watched *at)
{
	return executed - at->rest;
}

static void start(struct stretch *stretch, uint64_t when)
{
	stretch->on = true;
	stretch->start = when;
	stretch->paused = 0;
	stretch->place = driver_place && (int64_t)(when - driver_ran) <= FRESH ? driver_place : 0;
}

static void end(struct stretch *stretch, uint64_t when, struct longest *longest)
{
	uint64_t length = when - stretch->start - stretch->paused;

	if (stretch->on && stretch->place && measuring && length > longest->instructions)
		*longest = (struct longest){ length, stretch->place };
	stretch->on = false;
}

/* Adds an interruption: an interrupt in another one is a part of it for everything around it. */
static void pause(uint64_t length)
{
	if (depth) {
		nested[depth - 1].stretch.paused += length;
		return;
	}
	preempt_off.paused += length;
	irqs_off.paused += length;
}

static void interrupted(uint64_t when, bool soft)
{
	if (depth == NESTED)
		return;
	nested[depth].start = when;
	nested[depth].soft = soft;
	if (soft)
		start(&nested[depth].stretch, when);
	else
		nested[depth].stretch.on = false;
	depth++;
}

static void resumed(uint64_t when)
{
	if (!depth)
		return;
	depth--;
	if (nested[depth].soft)
		end(&nested[depth].stretch, when, &preempt_longest);
	else
		in_interrupts += when - nested[depth].start;
	pause(when - nested[depth].start);
}

static void counted(unsigned int cpu, void *data)
{
	const struct watched *at = data;
	uint64_t when = now(at);

	preempt_count += at->delta;
	if (at->delta == HARDIRQ || at->delta == SOFTIRQ)
		interrupted(when, at->delta == SOFTIRQ);
	else if (at->delta == -HARDIRQ || at->delta == -SOFTIRQ)
		resumed(when);
	else if (!depth && preempt_count && !preempt_off.on)
		start(&preempt_off, when);
	else if (!depth && !preempt_count)
		end(&preempt_off, when, &preempt_longest);
}

static void batch_runs(unsigned int cpu, void *data)
{
	if (depth && nested[depth - 1].soft)
		nested[depth - 1].stretch.on = false;
}

static void masked(unsigned int cpu, void *data)
{
	if (!depth && !irqs_off.on)
		start(&irqs_off, now(data));
}

static void unmasked(unsigned int cpu, void *data)
{
	if (!depth)
		end(&irqs_off, now(data), &irqs_longest);
}

/* No task enters from user space with preemption off: an error until now is reset here. */
static void entered(unsigned int cpu, void *data)
{
	preempt_count = 0;
	depth = 0;
	preempt_off.on = false;
	irqs_off.on = false;
}

static void driver_runs(unsigned int cpu, void *data)
{
	driver_place = (uint64_t)(uintptr_t)data;
	driver_ran = executed;
	if (preempt_off.on && !depth && !preempt_off.place)
		preempt_off.place = driver_place;
	if (irqs_off.on && !depth && !irqs_off.place)
		irqs_off.place = driver_place;
	if (depth && nested[depth - 1].stretch.on && !nested[depth - 1].stretch.place)
		nested[depth - 1].stretch.place = driver_place;
}

static uint64_t busy(void)
{
	return executed + user_executed - in_interrupts;
}

static void phase_starts(unsigned int cpu, void *data)
{
	entered(0, NULL);
	preempt_longest = irqs_longest = (struct longest){ 0 };
	measuring = true;
	at_start = busy();
}

static void phase_ends(unsigned int cpu, void *data)
{
	measuring = false;
	fprintf(out, "%" PRIu64 " %" PRIu64 " %016" PRIx64 " %" PRIu64 " %016" PRIx64 "\n", busy() - at_start,
		preempt_longest.instructions, preempt_longest.place, irqs_longest.instructions, irqs_longest.place);
}

static const struct at_marks at_marks = { .starts = phase_starts, .ends = phase_ends };

/* By how much an instruction changes __preempt_count: GS, REX.W, opcode, a place relative to the next instruction. */
static int64_t change_of_count(const struct qemu_plugin_insn *insn)
{
	const uint8_t *byte = qemu_plugin_insn_data(insn);
	size_t size = qemu_plugin_insn_size(insn);
	uint8_t opcode, operand;

	if (size < 8 || byte[0] != 0x65 || byte[1] != 0x48)
		return 0;
	opcode = byte[2];
	operand = byte[3];
	if (qemu_plugin_insn_vaddr(insn) + size + number(byte + 4) != count_address)
		return 0;
	if (opcode == 0xff && operand == 0x05)
		return 1;
	if (opcode == 0xff && operand == 0x0d)
		return -1;
	if (opcode == 0x81 && operand == 0x05 && size == 12)
		return number(byte + 8);
	if (opcode == 0x83 && operand == 0x05 && size == 9)
		return (int8_t)byte[8];
	/* Only __local_bh_enable_ip() adds a register, which has one less than what disabling added. */
	if (opcode == 0x01 && operand == 0x05)
		return 1 - 0x200;
	return 0;
}

static void *watch(int64_t delta, uint64_t rest)
{
	struct watched *at = make(sizeof(*at));

	*at = (struct watched){ delta, rest };
	return at;
}

static void translate_user(struct qemu_plugin_tb *tb, size_t count)
{
	size_t idle = 0;

	for (size_t i = 0; i < count; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint64_t address = qemu_plugin_insn_vaddr(insn);

		if (mark(insn) == MARK_IDLE)
			idle_address = address + qemu_plugin_insn_size(insn);
		if (idle_address && address - idle_address < IDLE_BYTES)
			idle++;
	}
	watch_marks(tb, &at_marks);
	qemu_plugin_register_vcpu_tb_exec_inline(tb, INLINE_ADD_U64, &user_executed, count - idle);
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t count = qemu_plugin_tb_n_insns(tb);
	uint64_t address = qemu_plugin_tb_vaddr(tb);

	if (!is_kernel(address)) {
		translate_user(tb, count);
		return;
	}
	qemu_plugin_register_vcpu_tb_exec_inline(tb, INLINE_ADD_U64, &executed, count);
	if (address >= MODULES)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, driver_runs, CB_NO_REGS, (void *)(uintptr_t)address);
	if (address >= batch_address && address < behind_address)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, batch_runs, CB_NO_REGS, NULL);
	for (size_t i = 0; i < count; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		const uint8_t *byte = qemu_plugin_insn_data(insn);
		size_t size = qemu_plugin_insn_size(insn);
		int64_t delta = change_of_count(insn);

		if (delta)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, counted, CB_NO_REGS, watch(delta, count - i));
		if (size == 1 && byte[0] == 0xfa)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, masked, CB_NO_REGS, watch(0, count - i));
		/* STI, POPF, and IRETQ */
		if ((size == 1 && (byte[0] == 0xfb || byte[0] == 0x9d)) || (size == 2 && byte[0] == 0x48 && byte[1] == 0xcf))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, unmasked, CB_NO_REGS, watch(0, count - i));
		if (qemu_plugin_insn_vaddr(insn) == entry_address)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, entered, CB_NO_REGS, NULL);
	}
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{
	count_address = number_option(argc, argv, "count", 16);
	entry_address = number_option(argc, argv, "entry", 16);
	batch_address = number_option(argc, argv, "batch", 16);
	behind_address = number_option(argc, argv, "behind", 16);
	if (!count_address || !entry_address || !batch_address || !behind_address) {
		fprintf(stderr, "stretches: count=, entry=, batch= or behind=ADDRESS is missing\n");
		return 1;
	}
	return begin(id, argc, argv, translated);
}
