// SPDX-License-Identifier: GPL-2.0
/* The module's own workqueue, for rust/kernel/worker.rs. */

#include <linux/workqueue.h>

#include "worker.h"

static struct workqueue_struct *worker_queue;

bool kernel_ext_worker_begin(void)
{
	/* What is queued frees memory, so it must not wait for memory. */
	worker_queue = alloc_workqueue(KBUILD_MODNAME, WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return worker_queue;
}

void kernel_ext_worker_end(void)
{
	destroy_workqueue(worker_queue);
}

struct workqueue_struct *kernel_ext_worker_queue(void)
{
	return worker_queue;
}
