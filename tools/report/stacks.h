/* SPDX-License-Identifier: GPL-2.0 */
/*
 * By which calls the kernel has come to where it is.
 *
 * Interface version 1 cannot read registers, but it reports the addresses at which calls store and returns load the return address. So
 * every kernel stack has a shadow here, named by its aligned piece of memory. A call adds a frame at its place; a return or a call at a
 * higher place ends all frames below. Context switches, exceptions and abandoned stacks need no further care.
 *
 * Calls and returns may go through thunks, which are functions then; stacks have the size of x86-64's
 * without KASAN.
 */
#ifndef REPORT_STACKS_H
#define REPORT_STACKS_H

#include "plugin.h"

/* The kernel's THREAD_SIZE: stacks are aligned to it. */
#define STACK_SHIFT 14
#define DEPTH 256
#define STACK_BUCKETS (1 << 10)
/* More than any guest here has. */
#define CPUS 64

/* The places of calls from the outermost to the innermost, as of a stack trace. */
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

static struct chain outermost;
/* That of each CPU, once calls are followed. */
static struct chain *current[CPUS] = { [0 ... CPUS - 1] = &outermost };
static uint32_t chains = 1;
static struct stack *stacks[STACK_BUCKETS];
static uint64_t too_deep;
/* From the first call on that was not measured; before, the guest is booting. */
static bool following;

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
static void end_frames(unsigned int cpu, struct stack *stack, uint64_t slot)
{
	while (stack->depth && stack->frames[stack->depth - 1].slot <= slot)
		stack->depth--;
	current[cpu] = stack->depth ? stack->frames[stack->depth - 1].chain : &outermost;
}

/* Callbacks for reads alone or writes alone get wrong accesses from QEMU 7.2, so these callbacks take both. */
static void called(unsigned int cpu, uint32_t info, uint64_t slot, void *place)
{
	struct stack *stack;

	if (!following)
		return;
	if (!qemu_plugin_mem_is_store(info))
		return; /* where an indirect call finds its target */
	stack = stack_of(slot);
	end_frames(cpu, stack, slot);
	if (stack->depth == DEPTH) {
		too_deep++;
		return;
	}
	current[cpu] = extend(current[cpu], (uint64_t)(uintptr_t)place);
	stack->frames[stack->depth++] = (struct frame){ slot, current[cpu] };
}

static void returned(unsigned int cpu, uint32_t info, uint64_t slot, void *data)
{
	if (following)
		end_frames(cpu, stack_of(slot), slot);
}

/* For each instruction of the kernel. */
static void follow_calls(struct qemu_plugin_insn *insn, struct decoded is)
{
	if (is.call)
		qemu_plugin_register_vcpu_mem_cb(insn, called, CB_NO_REGS, MEM_ANY,
						 (void *)(uintptr_t)qemu_plugin_insn_vaddr(insn));
	if (is.ret)
		qemu_plugin_register_vcpu_mem_cb(insn, returned, CB_NO_REGS, MEM_ANY, NULL);
}

static void write_chains(FILE *out, const struct chain *chain)
{
	for (const struct chain *callee = chain->callees; callee; callee = callee->sibling) {
		fprintf(out, "chain %u %u %016" PRIx64 "\n", callee->id, chain->id, callee->place);
		write_chains(out, callee);
	}
}

#endif
