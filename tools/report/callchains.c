// SPDX-License-Identifier: GPL-2.0
/*
 * A QEMU TCG plugin: what the guest's kernel executes in the windows that tools/binder-bench measures, block by block of
 * instructions and by call chain.
 *
 * When all windows of one thing that is measured are done, the plugin writes
 *
 *	window KIND INSTRUCTIONS LOCKED		of each window in its order; KIND is short or long
 *	chain ID CALLER PLACE			the chain CALLER, and then a call at PLACE; chain 0 has no call
 *	block KIND CHAIN ADDRESS EXECUTIONS INSTRUCTIONS LOCKED		in all windows of a kind
 *	user KIND INSTRUCTIONS			all of user space
 *	end
 *
 * INSTRUCTIONS and LOCKED are those of all executions, LOCKED those of the kernel with a LOCK prefix. Chains (stacks.h) are
 * known from the first call on that was not measured; before, nothing is followed, for the guest is booting.
 *
 * Meant for one CPU.
 *
 *	cc -shared -fPIC -O2 -fvisibility=hidden -o callchains.so callchains.c
 *	qemu-system-x86_64 ... -plugin ./callchains.so,out=FILE
 */
#include "stacks.h"
#include "windows.h"

struct window {
	enum kind kind;
	uint64_t instructions;
	uint64_t locked;
};

#define WINDOWS 4096

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

static uint64_t user_instructions, user_at_start;
static FILE *out;

/* What is known of the windows since the last ones were written. The last of them is the one that is measured. */
static enum kind kind = NEITHER;
static struct window windows[WINDOWS];
static size_t window_count;
static uint64_t user_of_kind[KINDS];
static bool counting;

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

	if (!counting)
		return;
	if (!block->latest || block->latest->chain != current[cpu])
		block->latest = tally_of(current[cpu], block);
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
	write_chains(out, &outermost);
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

static const struct at_marks at_marks = { starts, ends, window_starts, windows_end };

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t count = qemu_plugin_tb_n_insns(tb), sure = surely_executed(tb);
	uint64_t address = qemu_plugin_tb_vaddr(tb);
	struct block *block;

	(void)id;
	if (!is_kernel(address)) {
		qemu_plugin_register_vcpu_tb_exec_inline(tb, INLINE_ADD_U64, &user_instructions, sure);
		if (sure < count)
			qemu_plugin_register_vcpu_insn_exec_inline(qemu_plugin_tb_get_insn(tb, sure), INLINE_ADD_U64,
								   &user_instructions, 1);
		watch_marks(tb, &at_marks);
		return;
	}
	block = make(sizeof(*block));
	block->address = address;
	block->instructions = sure;
	qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, CB_NO_REGS, block);
	for (size_t i = 0; i < count; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		struct decoded is = decode(insn);

		if (i == sure) {
			block = make(sizeof(*block));
			block->address = qemu_plugin_insn_vaddr(insn);
			block->instructions = 1;
			qemu_plugin_register_vcpu_insn_exec_cb(insn, executed, CB_NO_REGS, block);
		}
		block->locked += is.locked;
		follow_calls(insn, is);
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
	(void)info;
	out = output(argc, argv);
	if (!out) {
		fprintf(stderr, "callchains: say where to write, with out=FILE\n");
		return 1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, at_exit, NULL);
	return 0;
}
