/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A model of CPUs with private caches that hold whatever their CPU has used, and of MESI between them.
 *
 * A line is with some CPUs. If one of them has changed it since, that one is alone (Modified). Otherwise it is as in memory:
 * with one CPU (Exclusive), or with several (Shared). A line moves when a CPU reads what another one has changed, and when
 * a CPU writes what others have: they lose their copies.
 */
#ifndef REPORT_CACHES_H
#define REPORT_CACHES_H

#include "plugin.h"

#define LINE_SHIFT 6
#define PAGE_SHIFT 12
#define LINES_OF_PAGE (1 << (PAGE_SHIFT - LINE_SHIFT))
/* Four gigabytes. */
#define PAGES (1 << 20)

struct line {
	/* The CPUs that have a copy, as bits. */
	uint64_t with;
	/* The CPU that has changed it since others had it, and the one that wrote it last: 0 for none, 1 for CPU 0. */
	uint8_t changed_by;
	uint8_t written_by;
};

/* The effects of an access on the line's place. */
struct moved {
	/* It was read, and another CPU had changed it. */
	bool read;
	/* It was written, and others had copies. */
	bool written;
	/* It was locked, and another CPU was the last to write it. */
	bool locked;
};

static struct line *pages[PAGES];

/* Number of a line, by its physical address; NULL for memory that guests here do not have. */
static struct line *line_of(uint64_t number)
{
	uint64_t page = number >> (PAGE_SHIFT - LINE_SHIFT);

	if (page >= PAGES)
		return NULL;
	if (!pages[page])
		pages[page] = make(LINES_OF_PAGE * sizeof(struct line));
	return &pages[page][number % LINES_OF_PAGE];
}

/* A locked operation has the line for itself from its first access on, which reads. */
static struct moved use(struct line *line, unsigned int cpu, bool writes, bool locks)
{
	uint64_t mine = (uint64_t)1 << cpu;
	uint8_t me = cpu + 1;
	struct moved moved = { 0 };

	if (writes || locks) {
		moved.written = line->with & ~mine;
		moved.locked = locks && line->written_by && line->written_by != me;
		*line = (struct line){ mine, me, me };
		return moved;
	}
	if (line->with & mine)
		return moved;
	moved.read = line->changed_by;
	line->changed_by = 0;
	line->with |= mine;
	return moved;
}

#endif
