// SPDX-License-Identifier: GPL-2.0
/*
 * A QEMU TCG plugin: the cache lines that move between the guest's CPUs in the windows that tools/binder-bench measures, which
 * code moves them, and how often the kernel turns round while it waits for a lock.
 *
 * Every access to memory goes through a model of caches (caches.h), by its physical address. When all windows of one thing
 * that is measured are done, the plugin writes
 *
 *	chain ID CALLER PLACE			the chain CALLER, and then a call at PLACE; chain 0 has no call
 *	event KIND WHAT AT CHAIN ADDRESS TIMES	the effect of the instruction at ADDRESS on a line, in all windows of a kind
 *	unknown ACCESSES			without a physical address from QEMU, and calls that were too deep
 *	end
 *
 * AT is the physical address that was accessed. KIND is short or long. WHAT is read (of a line that another CPU has changed), write (of a line that others have), locked
 * (an operation with LOCK on a line that another CPU was the last to write), or pause (PAUSE, in the kernel: one turn of
 * a loop that waits; there AT is 0). Accesses of user space have chain 0.
 *
 * Under -icount QEMU would run a CPU until its timer expires. Here CPUs take turns after a random number of instructions, with equal
 * numbers for equal SEEDs, and, by QEMU, at each PAUSE.
 *
 * Left out: instruction fetches, page-table walks, evictions and prefetches of a cache, and
 * store buffers. Of an access that lies in two pages only the first is seen.
 *
 *	cc -shared -fPIC -O2 -fvisibility=hidden -o lines.so lines.c
 *	qemu-system-x86_64 ... -plugin ./lines.so,out=FILE,turn=INSTRUCTIONS,seed=SEED
 */
#include "caches.h"
#include "stacks.h"

enum what { READ, WRITE, LOCKED, PAUSE };
static const char *const names[] = { "read", "write", "locked", "pause" };

/* An instruction. */
struct place {
	uint64_t address;
	bool kernel;
	bool locks;
};

/* The effects of one instruction at one address within one chain. */
struct tally {
	enum what what;
	uint64_t at;
	struct chain *chain;
	uint64_t address;
	uint64_t times[KINDS];
	struct tally *next;
};

#define BUCKETS (1 << 16)
static struct tally *tallies[BUCKETS];

static uint64_t usual_turn, random_state;
static uint64_t left_of_turn;
static unsigned int whose_turn;
static uint64_t unknown;

/* The kind of the window that is open, and how many processes measure. */
static enum kind kind = NEITHER;
static unsigned int measuring;

/* QEMU's own functions: the plugin interface has none that ends a CPU's turn. */
struct CPUState;
__attribute__((weak)) struct CPUState *qemu_get_cpu(int index);
__attribute__((weak)) void cpu_exit(struct CPUState *cpu);

static bool counting(void)
{
	return kind != NEITHER && measuring;
}

static size_t bucket_of(uint64_t one, uint64_t other)
{
	return ((one * 0x9e3779b97f4a7c15u ^ other) * 0x9e3779b97f4a7c15u) >> 48;
}

static void count(enum what what, uint64_t at, struct chain *chain, uint64_t address)
{
	struct tally **bucket, *tally;

	if (!counting())
		return;
	bucket = &tallies[bucket_of(at << 2 | what, address ^ (uintptr_t)chain << 8)];
	for (tally = *bucket; tally; tally = tally->next)
		if (tally->at == at && tally->address == address && tally->chain == chain && tally->what == what)
			break;
	if (!tally) {
		tally = make(sizeof(*tally));
		*tally = (struct tally){
			.what = what,
			.at = at,
			.chain = chain,
			.address = address,
			.next = *bucket,
		};
		*bucket = tally;
	}
	tally->times[kind]++;
}

static void use_line(unsigned int cpu, uint64_t physical, bool writes, const struct place *place)
{
	struct chain *chain = place->kernel ? current[cpu] : &outermost;
	struct line *line = line_of(physical >> LINE_SHIFT);
	struct moved moved;

	if (!line) {
		unknown++;
		return;
	}
	moved = use(line, cpu, writes, place->locks);
	if (moved.read)
		count(READ, physical, chain, place->address);
	if (moved.written)
		count(WRITE, physical, chain, place->address);
	if (moved.locked)
		count(LOCKED, physical, chain, place->address);
}

static void accessed(unsigned int cpu, uint32_t info, uint64_t address, void *data)
{
	const struct place *place = data;
	struct qemu_plugin_hwaddr *hardware;
	uint64_t first, last;
	bool writes;

	if (!following)
		return;
	hardware = qemu_plugin_get_hwaddr(info, address);
	if (!hardware) {
		unknown++;
		return;
	}
	if (qemu_plugin_hwaddr_is_io(hardware))
		return;
	first = qemu_plugin_hwaddr_phys_addr(hardware);
	last = first + ((uint64_t)1 << qemu_plugin_mem_size_shift(info)) - 1;
	writes = qemu_plugin_mem_is_store(info);
	use_line(cpu, first, writes, place);
	if (first >> LINE_SHIFT != last >> LINE_SHIFT && first >> PAGE_SHIFT == last >> PAGE_SHIFT)
		use_line(cpu, last, writes, place);
}

static void paused(unsigned int cpu, void *data)
{
	count(PAUSE, 0, current[cpu], (uint64_t)(uintptr_t)data);
}

/* From half to one and a half times the usual one, by a generator of Marsaglia's. */
static uint64_t length_of_turn(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return usual_turn / 2 + random_state % (usual_turn + 1);
}

static void take_turns(unsigned int cpu, uint64_t instructions)
{
	if (cpu != whose_turn) {
		whose_turn = cpu;
		left_of_turn = length_of_turn();
	}
	if (left_of_turn > instructions) {
		left_of_turn -= instructions;
		return;
	}
	left_of_turn = length_of_turn();
	cpu_exit(qemu_get_cpu(cpu));
}

static void executed(unsigned int cpu, void *data)
{
	uint64_t instructions = (uintptr_t)data;

	if (!following)
		return;
	take_turns(cpu, instructions);
}

static void starts(unsigned int cpu, void *data)
{
	following = true;
	measuring++;
}

static void ends(unsigned int cpu, void *data)
{
	measuring--;
}

static void window_starts(unsigned int cpu, void *data)
{
	kind = (enum kind)(uintptr_t)data;
}

static void write_tally(struct tally *tally)
{
	for (int k = 0; k < KINDS; k++)
		if (tally->times[k])
			fprintf(out, "event %s %s %" PRIx64 " %u %016" PRIx64 " %" PRIu64 "\n", kind_names[k], names[tally->what],
				tally->at, tally->chain->id, tally->address, tally->times[k]);
	memset(tally->times, 0, sizeof(tally->times));
}

static void windows_end(unsigned int cpu, void *data)
{
	write_chains(out, &outermost);
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct tally *tally = tallies[i]; tally; tally = tally->next)
			write_tally(tally);
	fprintf(out, "unknown %" PRIu64 "\nend\n", unknown + too_deep);
	fflush(out);
	kind = NEITHER;
	unknown = 0;
}

static const struct at_marks at_marks = { starts, ends, window_starts, windows_end };

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t length = qemu_plugin_tb_n_insns(tb);
	bool kernel = is_kernel(qemu_plugin_tb_vaddr(tb));
	struct place *places = make(length * sizeof(*places));

	qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, CB_NO_REGS, (void *)(uintptr_t)length);
	for (size_t i = 0; i < length; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint64_t address = qemu_plugin_insn_vaddr(insn);
		struct decoded is = decode(insn);

		places[i] = (struct place){
			.address = address,
			.kernel = kernel,
			.locks = is.locked || is.exchange,
		};
		qemu_plugin_register_vcpu_mem_cb(insn, accessed, CB_NO_REGS, MEM_ANY, &places[i]);
		if (kernel && is.pause)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, paused, CB_NO_REGS, (void *)(uintptr_t)address);
		if (kernel)
			follow_calls(insn, is);
	}
	if (!kernel)
		watch_marks(tb, &at_marks);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{
	usual_turn = number_option(argc, argv, "turn", 10);
	random_state = number_option(argc, argv, "seed", 10);
	if (!usual_turn || !random_state || !qemu_get_cpu || !cpu_exit) {
		fprintf(stderr, "lines: turn=INSTRUCTIONS or seed=SEED is missing, or this QEMU has no function that ends a CPU's turn\n");
		return 1;
	}
	return begin(id, argc, argv, translated);
}
