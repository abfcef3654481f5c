// SPDX-License-Identifier: GPL-2.0
/*
 * A QEMU TCG plugin: what the guest's kernel executes in the windows that tools/binder-bench measures, block by block of
 * instructions and by call chain.
 *
 * Interface version 1 cannot read registers, but it tells where a call stores its return address, and
 * where a return finds it. So every kernel stack has a shadow here, named by the aligned piece of memory
 * that it lies in: a call adds a frame at its place, a return or a call at a higher place ends all frames
 * below. Context switches, exceptions and abandoned stacks need no further care.
 *
 * A chain is the places of calls from the outermost to the innermost, as of a stack trace. When all windows of one thing
 * that is measured are done, the plugin writes
 *
 *	window KIND INSTRUCTIONS LOCKED		of each window in its order; KIND is short or long
 *	chain ID CALLER PLACE			the chain CALLER, and then a call at PLACE; chain 0 has no call
 *	block KIND CHAIN ADDRESS EXECUTIONS INSTRUCTIONS LOCKED		in all windows of a kind
 *	user KIND INSTRUCTIONS			all of user space
 *	end
 *
 * INSTRUCTIONS and LOCKED are those of all executions, LOCKED those of the kernel with a LOCK prefix. Chains are known from the
 * first call on that was not measured; before, nothing is followed, for the guest is booting.
 *
 * Meant for one CPU. Calls and returns may go through thunks, which are functions then; stacks have the size of x86-64's
 * without KASAN.
 *
 *	cc -shared -fPIC -O2 -fvisibility=hidden -o callchains.so callchains.c
 *	qemu-system-x86_64 ... -plugin ./callchains.so,out=FILE
 */
#include "marks.h"

/* The kernel's THREAD_SIZE: stacks are aligned to it. */
#define STACK_SHIFT 14
#define DEPTH 256

enum kind { SHORT, LONG, KINDS, NEITHER = KINDS };
static const char *const kind_names[KINDS] = { "short", "long" };

struct window {
	enum kind kind;
	uint64_t instructions;
	uint64_t locked;
};

#define WINDOWS 4096

struct chain {
	uint32_t id;
	uint64_t place;
	struct chain *caller;
	struct chain *callees;
	struct chain *sibling;
};

struct frame {
	uint64_t slot;
	struct chain *chain;
};

struct stack {
	uint64_t id;
	size_t depth;
	struct frame frames[DEPTH];
	struct stack *next;
};

/* What the translator made of the code at an address; there may be several of different lengths. */
struct block {
	uint64_t address;
	uint64_t instructions;
	uint64_t locked;
	struct tally *latest;
};

/* One block within one chain. */
struct tally {
	struct chain *chain;
	struct block *block;
	uint64_t executions[KINDS];
	struct tally *next;
};

#define BUCKETS (1 << 18)
static struct tally *tallies[BUCKETS];
#define STACK_BUCKETS (1 << 10)
static struct stack *stacks[STACK_BUCKETS];

static struct chain outermost;
static struct chain *current = &outermost;
static uint32_t chains = 1;
static uint64_t user_instructions, user_at_start;
static uint64_t too_deep;
static FILE *out;

/* What is known of the windows since the last ones were written. The last of them is the one that is measured. */
static enum kind kind = NEITHER;
static struct window windows[WINDOWS];
static size_t window_count;
static uint64_t user_of_kind[KINDS];
static bool following, counting;

static struct chain *extend(struct chain *caller, uint64_t place)
{
	struct chain *chain;

	for (chain = caller->callees; chain; chain = chain->sibling)
		if (chain->place == place)
			return chain;
	chain = make(sizeof(*chain));
	chain->id = chains++;
	chain->place = place;
	chain->caller = caller;
	chain->sibling = caller->callees;
	caller->callees = chain;
	return chain;
}

static struct stack *stack_of(uint64_t slot)
{
	uint64_t id = slot >> STACK_SHIFT;
	struct stack **bucket = &stacks[id % STACK_BUCKETS];
	struct stack *stack;

	for (stack = *bucket; stack; stack = stack->next)
		if (stack->id == id)
			return stack;
	stack = make(sizeof(*stack));
	stack->id = id;
	stack->next = *bucket;
	*bucket = stack;
	return stack;
}

/* The stack grows down: frames at `slot` and below are over. */
static void end_frames(struct stack *stack, uint64_t slot)
{
	while (stack->depth && stack->frames[stack->depth - 1].slot <= slot)
		stack->depth--;
	current = stack->depth ? stack->frames[stack->depth - 1].chain : &outermost;
}

/* QEMU 7.2 mistakes reads for writes where callbacks ask for one of them only; so they ask for both. */
static void called(unsigned int cpu, uint32_t info, uint64_t slot, void *place)
{
	struct stack *stack;

	(void)cpu;
	if (!following)
		return;
	if (!qemu_plugin_mem_is_store(info))
		return; /* where an indirect call finds its target */
	stack = stack_of(slot);
	end_frames(stack, slot);
	if (stack->depth == DEPTH) {
		too_deep++;
		return;
	}
	current = extend(current, (uint64_t)(uintptr_t)place);
	stack->frames[stack->depth++] = (struct frame){ slot, current };
}

static void returned(unsigned int cpu, uint32_t info, uint64_t slot, void *data)
{
	(void)cpu;
	(void)info;
	(void)data;
	if (following)
		end_frames(stack_of(slot), slot);
}

static struct tally *tally_of(struct chain *chain, struct block *block)
{
	uint64_t hash = ((uintptr_t)chain >> 4) * 0x9e3779b97f4a7c15u ^ ((uintptr_t)block >> 4);
	struct tally **bucket = &tallies[hash % BUCKETS];
	struct tally *tally;

	for (tally = *bucket; tally; tally = tally->next)
		if (tally->chain == chain && tally->block == block)
			return tally;
	tally = make(sizeof(*tally));
	tally->chain = chain;
	tally->block = block;
	tally->next = *bucket;
	*bucket = tally;
	return tally;
}

static void executed(unsigned int cpu, void *data)
{
	struct block *block = data;

	(void)cpu;
	if (!counting)
		return;
	if (!block->latest || block->latest->chain != current)
		block->latest = tally_of(current, block);
	block->latest->executions[kind]++;
	windows[window_count - 1].instructions += block->instructions;
	windows[window_count - 1].locked += block->locked;
}

static void starts(unsigned int cpu, void *data)
{
	(void)cpu;
	(void)data;
	following = true;
	counting = kind != NEITHER;
	user_at_start = user_instructions;
}

static void ends(unsigned int cpu, void *data)
{
	uint64_t executed_by_user = user_instructions - user_at_start;

	(void)cpu;
	(void)data;
	if (!counting)
		return;
	counting = false;
	user_of_kind[kind] += executed_by_user;
	windows[window_count - 1].instructions += executed_by_user;
}

static void window_starts(unsigned int cpu, void *data)
{
	(void)cpu;
	if (window_count == WINDOWS)
		abort();
	kind = (enum kind)(uintptr_t)data;
	windows[window_count++] = (struct window){ .kind = kind };
}

static void write_chains(const struct chain *chain)
{
	for (const struct chain *callee = chain->callees; callee; callee = callee->sibling) {
		fprintf(out, "chain %u %u %016" PRIx64 "\n", callee->id, chain->id, callee->place);
		write_chains(callee);
	}
}

static void write_tally(const struct tally *tally)
{
	const struct block *block = tally->block;

	for (int k = 0; k < KINDS; k++)
		if (tally->executions[k])
			fprintf(out, "block %s %u %016" PRIx64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", kind_names[k],
				tally->chain->id, block->address, tally->executions[k],
				tally->executions[k] * block->instructions, tally->executions[k] * block->locked);
}

static void windows_end(unsigned int cpu, void *data)
{
	(void)cpu;
	(void)data;
	for (size_t i = 0; i < window_count; i++)
		fprintf(out, "window %s %" PRIu64 " %" PRIu64 "\n", kind_names[windows[i].kind], windows[i].instructions,
			windows[i].locked);
	write_chains(&outermost);
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct tally *tally = tallies[i]; tally; tally = tally->next) {
			write_tally(tally);
			memset(tally->executions, 0, sizeof(tally->executions));
		}
	for (int k = 0; k < KINDS; k++)
		fprintf(out, "user %s %" PRIu64 "\n", kind_names[k], user_of_kind[k]);
	fprintf(out, "end\n");
	fflush(out);
	kind = NEITHER;
	window_count = 0;
	memset(user_of_kind, 0, sizeof(user_of_kind));
}

struct decoded {
	bool locked;
	bool call;
	bool ret;
};

/* Legacy prefixes in any order, LOCK among them, then perhaps REX, then the opcode. */
static struct decoded decode(const struct qemu_plugin_insn *insn)
{
	static const uint8_t others[] = { 0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x66, 0x67, 0xf2, 0xf3 };
	const uint8_t *byte = qemu_plugin_insn_data(insn);
	const uint8_t *end = byte + qemu_plugin_insn_size(insn);
	struct decoded is = { 0 };

	for (; byte < end && (*byte == 0xf0 || memchr(others, *byte, sizeof(others))); byte++)
		is.locked |= *byte == 0xf0;
	if (byte < end && (*byte & 0xf0) == 0x40)
		byte++;
	if (byte < end) {
		is.ret = *byte == 0xc3 || *byte == 0xc2;
		is.call = *byte == 0xe8 || (*byte == 0xff && byte + 1 < end && (byte[1] >> 3 & 7) == 2);
	}
	return is;
}

static void watch_marks(struct qemu_plugin_tb *tb, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		executed_cb cb = NULL;
		uintptr_t data = 0;

		switch (mark(insn)) {
		case MARK_START:
			cb = starts;
			break;
		case MARK_END:
			cb = ends;
			break;
		case MARK_SHORT_WINDOW:
			cb = window_starts;
			data = SHORT;
			break;
		case MARK_LONG_WINDOW:
			cb = window_starts;
			data = LONG;
			break;
		case MARK_WINDOWS_END:
			cb = windows_end;
			break;
		}
		if (cb)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, cb, CB_NO_REGS, (void *)data);
	}
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t count = qemu_plugin_tb_n_insns(tb);
	uint64_t address = qemu_plugin_tb_vaddr(tb);
	struct block *block;

	(void)id;
	if (!is_kernel(address)) {
		qemu_plugin_register_vcpu_tb_exec_inline(tb, INLINE_ADD_U64, &user_instructions, count);
		watch_marks(tb, count);
		return;
	}
	block = make(sizeof(*block));
	block->address = address;
	block->instructions = count;
	qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, CB_NO_REGS, block);
	for (size_t i = 0; i < count; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		struct decoded is = decode(insn);

		block->locked += is.locked;
		if (is.call)
			qemu_plugin_register_vcpu_mem_cb(insn, called, CB_NO_REGS, MEM_ANY,
							 (void *)(uintptr_t)qemu_plugin_insn_vaddr(insn));
		if (is.ret)
			qemu_plugin_register_vcpu_mem_cb(insn, returned, CB_NO_REGS, MEM_ANY, NULL);
	}
}

static void at_exit(qemu_plugin_id_t id, void *data)
{
	(void)id;
	(void)data;
	if (too_deep)
		fprintf(stderr, "callchains: %" PRIu64 " calls were deeper than %d\n", too_deep, DEPTH);
	if (fclose(out))
		perror("callchains");
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{
	const char *path = NULL;

	(void)info;
	for (int i = 0; i < argc; i++)
		if (!strncmp(argv[i], "out=", 4))
			path = argv[i] + 4;
	out = path ? fopen(path, "w") : NULL;
	if (!out) {
		fprintf(stderr, "callchains: say where to write, with out=FILE\n");
		return 1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, at_exit, NULL);
	return 0;
}
