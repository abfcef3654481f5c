/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The trace events. The names, fields, sizes and print formats of the C
 * driver's events are an interface to readers of traces, so these are the same.
 * So are the names of the event classes, by which BPF programs find the types
 * of records. The arguments of the events differ: they are plain values,
 * because the objects are Rust's.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM binder

#if !defined(_RUST_BINDER_TRACE_EVENTS_H) || defined(TRACE_HEADER_MULTI_READ)
#define _RUST_BINDER_TRACE_EVENTS_H

#include <linux/tracepoint.h>
#include <linux/types.h>

/*
 * EVENT() defines an event by one of the kernel's macros. It takes each field
 * once, as (type, name, value), and goes through the list twice: to declare the
 * fields, and to give them their values. On the way two macros take turns,
 * because none is expanded within itself.
 */
#define EVENT(macro, name, proto, args, fields, print, ...)		\
	macro(name, PARAMS(proto), PARAMS(args),			\
	      TP_STRUCT__entry(AT_END(DECLARE_ODD fields)),		\
	      TP_fast_assign(AT_END(ASSIGN_ODD fields)),		\
	      PARAMS(print), ##__VA_ARGS__)
#define FIELDS(...) __VA_ARGS__
#define AT_END(...) AT_END_OF(__VA_ARGS__)
#define AT_END_OF(...) __VA_ARGS__ ## _END

#define DECLARE_ODD(type, name, ...) PARAMS(__field(type, name) DECLARE_EVEN)
#define DECLARE_EVEN(type, name, ...) PARAMS(__field(type, name) DECLARE_ODD)
#define DECLARE_ODD_END
#define DECLARE_EVEN_END

#define ASSIGN_ODD(type, name, value) PARAMS(__entry->name = (value); ASSIGN_EVEN)
#define ASSIGN_EVEN(type, name, value) PARAMS(__entry->name = (value); ASSIGN_ODD)
#define ASSIGN_ODD_END
#define ASSIGN_EVEN_END

/* ioctls, and the two halves of BINDER_WRITE_READ */

EVENT(TRACE_EVENT, binder_ioctl,
	TP_PROTO(u32 command, unsigned long argument),
	TP_ARGS(command, argument),
	FIELDS(
		(unsigned int, cmd, command)
		(unsigned long, arg, argument)
	),
	TP_printk("cmd=0x%x arg=0x%lx", __entry->cmd, __entry->arg)
);

EVENT(DECLARE_EVENT_CLASS, binder_function_return_class,
	TP_PROTO(int result),
	TP_ARGS(result),
	FIELDS((int, ret, result)),
	TP_printk("ret=%d", __entry->ret)
);

#define RETURN_EVENT(name)					\
	DEFINE_EVENT(binder_function_return_class, name,	\
		TP_PROTO(int result), TP_ARGS(result))
RETURN_EVENT(binder_ioctl_done);
RETURN_EVENT(binder_read_done);
RETURN_EVENT(binder_write_done);

#define CODE_EVENT(name, names)						\
	EVENT(TRACE_EVENT, name,					\
		TP_PROTO(u32 code),					\
		TP_ARGS(code),						\
		FIELDS((uint32_t, cmd, code)),				\
		TP_printk("cmd=0x%x %s", __entry->cmd,			\
			_IOC_NR(__entry->cmd) < ARRAY_SIZE(names) ?	\
				names[_IOC_NR(__entry->cmd)] : "unknown") \
	)
CODE_EVENT(binder_command, binder_command_strings);
CODE_EVENT(binder_return, binder_return_strings);

EVENT(TRACE_EVENT, binder_wait_for_work,
	TP_PROTO(bool takes_common_work, bool has_calls, bool has_own_work),
	TP_ARGS(takes_common_work, has_calls, has_own_work),
	FIELDS(
		(bool, proc_work, takes_common_work)
		(bool, transaction_stack, has_calls)
		(bool, thread_todo, has_own_work)
	),
	TP_printk("proc_work=%d transaction_stack=%d thread_todo=%d",
		__entry->proc_work, __entry->transaction_stack, __entry->thread_todo)
);

/* Calls and replies */

EVENT(TRACE_EVENT, binder_transaction,
	TP_PROTO(u32 id, u32 node, int process, int thread, bool is_reply, u32 code, u32 flags),
	TP_ARGS(id, node, process, thread, is_reply, code, flags),
	FIELDS(
		(int, debug_id, id)
		(int, target_node, node)
		(int, to_proc, process)
		(int, to_thread, thread)
		(int, reply, is_reply)
		(unsigned int, code, code)
		(unsigned int, flags, flags)
	),
	TP_printk("transaction=%d dest_node=%d dest_proc=%d dest_thread=%d reply=%d flags=0x%x code=0x%x",
		__entry->debug_id, __entry->target_node, __entry->to_proc,
		__entry->to_thread, __entry->reply, __entry->flags, __entry->code)
);

EVENT(TRACE_EVENT, binder_transaction_received,
	TP_PROTO(u32 id),
	TP_ARGS(id),
	FIELDS((int, debug_id, id)),
	TP_printk("transaction=%d", __entry->debug_id)
);

/* Code and flags are printed under each other's names: the format is what it is. */
EVENT(TRACE_EVENT, binder_txn_latency_free,
	TP_PROTO(u32 id, int from_process, int from_thread, int to_process, int to_thread,
		 u32 code, u32 flags),
	TP_ARGS(id, from_process, from_thread, to_process, to_thread, code, flags),
	FIELDS(
		(int, debug_id, id)
		(int, from_proc, from_process)
		(int, from_thread, from_thread)
		(int, to_proc, to_process)
		(int, to_thread, to_thread)
		(unsigned int, code, code)
		(unsigned int, flags, flags)
	),
	TP_printk("transaction=%d from %d:%d to %d:%d flags=0x%x code=0x%x",
		__entry->debug_id, __entry->from_proc, __entry->from_thread,
		__entry->to_proc, __entry->to_thread, __entry->code, __entry->flags)
);

EVENT(TRACE_EVENT, binder_netlink_report,
	TP_PROTO(const char *device, u32 answer, int from_process, int from_thread, int to_process,
		 int to_thread, bool is_reply, u32 flags, u32 code, size_t size),
	TP_ARGS(device, answer, from_process, from_thread, to_process, to_thread, is_reply, flags,
		code, size),
	FIELDS(
		(const char *, context, kept_name(device))
		(u32, error, answer)
		(int, from_pid, from_process)
		(int, from_tid, from_thread)
		(int, to_pid, to_process)
		(int, to_tid, to_thread)
		(bool, is_reply, is_reply)
		(unsigned int, flags, flags)
		(unsigned int, code, code)
		(size_t, data_size, size)
	),
	TP_printk("from %d:%d to %d:%d context=%s error=%d is_reply=%d flags=0x%x code=0x%x size=%zu",
		__entry->from_pid, __entry->from_tid, __entry->to_pid, __entry->to_tid,
		__entry->context, __entry->error, __entry->is_reply, __entry->flags,
		__entry->code, __entry->data_size)
);

/* Objects in the data of a call or a reply */

EVENT(TRACE_EVENT, binder_transaction_node_to_ref,
	TP_PROTO(u32 id, u32 node, u64 pointer, u32 ref, u32 handle),
	TP_ARGS(id, node, pointer, ref, handle),
	FIELDS(
		(int, debug_id, id)
		(int, node_debug_id, node)
		(binder_uintptr_t, node_ptr, pointer)
		(int, ref_debug_id, ref)
		(uint32_t, ref_desc, handle)
	),
	TP_printk("transaction=%d node=%d src_ptr=0x%016llx ==> dest_ref=%d dest_desc=%d",
		__entry->debug_id, __entry->node_debug_id, (u64)__entry->node_ptr,
		__entry->ref_debug_id, __entry->ref_desc)
);

EVENT(TRACE_EVENT, binder_transaction_ref_to_node,
	TP_PROTO(u32 id, u32 ref, u32 handle, u32 node, u64 pointer),
	TP_ARGS(id, ref, handle, node, pointer),
	FIELDS(
		(int, debug_id, id)
		(int, ref_debug_id, ref)
		(uint32_t, ref_desc, handle)
		(int, node_debug_id, node)
		(binder_uintptr_t, node_ptr, pointer)
	),
	TP_printk("transaction=%d node=%d src_ref=%d src_desc=%d ==> dest_ptr=0x%016llx",
		__entry->debug_id, __entry->node_debug_id, __entry->ref_debug_id,
		__entry->ref_desc, (u64)__entry->node_ptr)
);

EVENT(TRACE_EVENT, binder_transaction_ref_to_ref,
	TP_PROTO(u32 id, u32 node, u32 from_ref, u32 from_handle, u32 to_ref, u32 to_handle),
	TP_ARGS(id, node, from_ref, from_handle, to_ref, to_handle),
	FIELDS(
		(int, debug_id, id)
		(int, node_debug_id, node)
		(int, src_ref_debug_id, from_ref)
		(uint32_t, src_ref_desc, from_handle)
		(int, dest_ref_debug_id, to_ref)
		(uint32_t, dest_ref_desc, to_handle)
	),
	TP_printk("transaction=%d node=%d src_ref=%d src_desc=%d ==> dest_ref=%d dest_desc=%d",
		__entry->debug_id, __entry->node_debug_id, __entry->src_ref_debug_id,
		__entry->src_ref_desc, __entry->dest_ref_debug_id, __entry->dest_ref_desc)
);

#define FILE_EVENT(name, label)						\
	EVENT(TRACE_EVENT, name,					\
		TP_PROTO(u32 id, u32 number, size_t at),		\
		TP_ARGS(id, number, at),				\
		FIELDS((int, debug_id, id) (int, fd, number) (size_t, offset, at)), \
		TP_printk("transaction=%d " label "=%d offset=%zu",	\
			__entry->debug_id, __entry->fd, __entry->offset) \
	)
FILE_EVENT(binder_transaction_fd_send, "src_fd");
FILE_EVENT(binder_transaction_fd_recv, "dest_fd");

/* Buffers, and the pages behind them */

EVENT(DECLARE_EVENT_CLASS, binder_buffer_class,
	TP_PROTO(u32 id, size_t data, size_t offsets, size_t extra),
	TP_ARGS(id, data, offsets, extra),
	FIELDS(
		(int, debug_id, id)
		(size_t, data_size, data)
		(size_t, offsets_size, offsets)
		(size_t, extra_buffers_size, extra)
	),
	TP_printk("transaction=%d data_size=%zd offsets_size=%zd extra_buffers_size=%zd",
		__entry->debug_id, __entry->data_size, __entry->offsets_size,
		__entry->extra_buffers_size)
);

#define BUFFER_EVENT(name)						\
	DEFINE_EVENT(binder_buffer_class, name,				\
		TP_PROTO(u32 id, size_t data, size_t offsets, size_t extra),	\
		TP_ARGS(id, data, offsets, extra))
BUFFER_EVENT(binder_transaction_alloc_buf);
BUFFER_EVENT(binder_transaction_buffer_release);
BUFFER_EVENT(binder_transaction_failed_buffer_release);
BUFFER_EVENT(binder_transaction_update_buffer_release);

EVENT(TRACE_EVENT_FN, binder_update_page_range,
	TP_PROTO(int process, bool are_taken, size_t at, size_t bytes),
	TP_ARGS(process, are_taken, at, bytes),
	FIELDS(
		(int, proc, process)
		(bool, allocate, are_taken)
		(size_t, offset, at)
		(size_t, size, bytes)
	),
	TP_printk("proc=%d allocate=%d offset=%zu size=%zu",
		__entry->proc, __entry->allocate, __entry->offset, __entry->size),
	page_event_on, page_event_off
);

EVENT(DECLARE_EVENT_CLASS, binder_lru_page_class,
	TP_PROTO(int process, size_t index),
	TP_ARGS(process, index),
	FIELDS(
		(int, proc, process)
		(size_t, page_index, index)
	),
	TP_printk("proc=%d page_index=%zu", __entry->proc, __entry->page_index)
);

#define PAGE_EVENT(name)						\
	DEFINE_EVENT(binder_lru_page_class, name,			\
		TP_PROTO(int process, size_t index), TP_ARGS(process, index))
PAGE_EVENT(binder_alloc_page_start);
PAGE_EVENT(binder_alloc_page_end);
PAGE_EVENT(binder_unmap_kernel_start);
PAGE_EVENT(binder_unmap_kernel_end);
PAGE_EVENT(binder_unmap_user_start);
PAGE_EVENT(binder_unmap_user_end);

/* These have to be found out first, which one key for all of them turns on. */
#define BUFFER_PAGE_EVENT(name)						\
	DEFINE_EVENT_FN(binder_lru_page_class, name,			\
		TP_PROTO(int process, size_t index), TP_ARGS(process, index),	\
		page_event_on, page_event_off)
BUFFER_PAGE_EVENT(binder_alloc_lru_start);
BUFFER_PAGE_EVENT(binder_alloc_lru_end);
BUFFER_PAGE_EVENT(binder_free_lru_start);
BUFFER_PAGE_EVENT(binder_free_lru_end);

#endif /* _RUST_BINDER_TRACE_EVENTS_H */

#undef TRACE_INCLUDE_PATH
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_PATH .
#define TRACE_INCLUDE_FILE events
#include <trace/define_trace.h>
