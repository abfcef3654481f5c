/* SPDX-License-Identifier: GPL-2.0 */
/* What rust/kernel/worker.rs calls. */
#ifndef _KERNEL_EXT_WORKER_H
#define _KERNEL_EXT_WORKER_H

#include <linux/types.h>

struct workqueue_struct;

/* Makes the queue. Returns whether there was memory for it. */
bool kernel_ext_worker_begin(void);

/* Waits until all that was queued has been done, and removes the queue. */
void kernel_ext_worker_end(void);

/* Returns the queue. */
struct workqueue_struct *kernel_ext_worker_queue(void);

#endif /* _KERNEL_EXT_WORKER_H */
