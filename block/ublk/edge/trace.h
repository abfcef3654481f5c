/* SPDX-License-Identifier: GPL-2.0 */
/* Events of requests, when a server gets and when it has ended them. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM ublk_rust

#if !defined(_UBLK_RUST_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _UBLK_RUST_TRACE_H

#include <linux/tracepoint.h>

TRACE_EVENT(ublk_rust_request,
	TP_PROTO(u32 device, u16 queue, u16 tag, u32 operation, u64 sector,
		 u32 sectors),
	TP_ARGS(device, queue, tag, operation, sector, sectors),
	TP_STRUCT__entry(
		__field(u32, device)
		__field(u16, queue)
		__field(u16, tag)
		__field(u32, operation)
		__field(u64, sector)
		__field(u32, sectors)
	),
	TP_fast_assign(
		__entry->device = device;
		__entry->queue = queue;
		__entry->tag = tag;
		__entry->operation = operation;
		__entry->sector = sector;
		__entry->sectors = sectors;
	),
	TP_printk("device=%u queue=%u tag=%u operation=0x%x sector=%llu sectors=%u",
		  __entry->device, __entry->queue, __entry->tag,
		  __entry->operation, __entry->sector, __entry->sectors)
);

TRACE_EVENT(ublk_rust_result,
	TP_PROTO(u32 device, u16 queue, u16 tag, s32 result),
	TP_ARGS(device, queue, tag, result),
	TP_STRUCT__entry(
		__field(u32, device)
		__field(u16, queue)
		__field(u16, tag)
		__field(s32, result)
	),
	TP_fast_assign(
		__entry->device = device;
		__entry->queue = queue;
		__entry->tag = tag;
		__entry->result = result;
	),
	TP_printk("device=%u queue=%u tag=%u result=%d", __entry->device,
		  __entry->queue, __entry->tag, __entry->result)
);

#endif /* _UBLK_RUST_TRACE_H */

#undef TRACE_INCLUDE_PATH
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_PATH .
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
