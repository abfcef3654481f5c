/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * The language that programs and a Binder driver speak: protocol version 8.
 *
 * A program opens a device and exchanges two streams with the driver through
 * BINDER_WRITE_READ: commands (BC_*) go in, returns (BR_*) come out. An element
 * of either stream is a 32-bit number followed at once by its payload. The
 * number is made like an ioctl number, so it contains the size of the payload.
 *
 * Addresses and sizes take 64 bits whatever the word size of the program. There
 * is one protocol for 32-bit and 64-bit programs, and nothing to convert.
 */
#ifndef _UAPI_LINUX_BINDER_H
#define _UAPI_LINUX_BINDER_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define BINDER_CURRENT_PROTOCOL_VERSION	8

typedef __u64 binder_uintptr_t;
typedef __u64 binder_size_t;

/* ------------------------------------------------------------------ objects */

#define B_PACK_CHARS(c1, c2, c3, c4) \
	(((c1) << 24) | ((c2) << 16) | ((c3) << 8) | (c4))
#define B_TYPE_LARGE	0x85

/*
 * The objects that may be embedded in the data of a transaction. The offsets
 * array of the data has the start of each object; each begins with its type.
 */
enum {
	/* A node of the process that sends it. */
	BINDER_TYPE_BINDER	= B_PACK_CHARS('s', 'b', '*', B_TYPE_LARGE),
	BINDER_TYPE_WEAK_BINDER	= B_PACK_CHARS('w', 'b', '*', B_TYPE_LARGE),
	/* A node of some other process, by the sender's handle. */
	BINDER_TYPE_HANDLE	= B_PACK_CHARS('s', 'h', '*', B_TYPE_LARGE),
	BINDER_TYPE_WEAK_HANDLE	= B_PACK_CHARS('w', 'h', '*', B_TYPE_LARGE),
	/* Memory that lies elsewhere and is sent along (scatter-gather). */
	BINDER_TYPE_PTR		= B_PACK_CHARS('p', 't', '*', B_TYPE_LARGE),
	/* An open file, and an array of them inside such memory. */
	BINDER_TYPE_FD		= B_PACK_CHARS('f', 'd', '*', B_TYPE_LARGE),
	BINDER_TYPE_FDA		= B_PACK_CHARS('f', 'd', 'a', B_TYPE_LARGE),
};

/* The start of each object. */
struct binder_object_header {
	__u32	type;
};

/* Strong or weak: @binder if the node is the owner's, @handle if a ref's. */
struct flat_binder_object {
	struct binder_object_header	hdr;
	__u32				flags;
	union {
		__u32			handle;
		binder_uintptr_t	binder;
	};
	binder_uintptr_t		cookie;
};

/* Fixed by the owner when the node is first sent. */
enum flat_binder_object_flags {
	/* A nice value: calls to this node are served at least so urgently. */
	FLAT_BINDER_FLAG_PRIORITY_MASK		= 0xff,
	/* Calls to this node may carry open files. */
	FLAT_BINDER_FLAG_ACCEPTS_FDS		= 1 << 8,
	/* The policy of that priority lies above this bit; it is 0 for a nice value. */
	FLAT_BINDER_FLAG_SCHED_POLICY_SHIFT	= 9,
	/* Calls to this node are served with the real-time priority of their caller. */
	FLAT_BINDER_FLAG_INHERIT_RT		= 1 << 11,
	/* Its calls arrive as BR_TRANSACTION_SEC_CTX. */
	FLAT_BINDER_FLAG_TXN_SECURITY_CTX	= 1 << 12,
};

/* Laid out like flat_binder_object; the receiver finds its own @fd here. */
struct binder_fd_object {
	struct binder_object_header	hdr;
	__u32				pad_flags;
	union {
		__u32			fd;
		binder_uintptr_t	pad_binder;
	};
	binder_uintptr_t		cookie;
};

/*
 * @length bytes at @buffer, which the driver copies after the offsets. With
 * BINDER_BUFFER_FLAG_HAS_PARENT the pointer to them, @parent_offset bytes into
 * the buffer object with index @parent in the offsets, is rewritten as well.
 */
struct binder_buffer_object {
	struct binder_object_header	hdr;
	__u32				flags;
	binder_uintptr_t		buffer;
	binder_size_t			length;
	binder_size_t			parent;
	binder_size_t			parent_offset;
};

enum {
	BINDER_BUFFER_FLAG_HAS_PARENT	= 1,
};

/* @num_fds descriptors of 32 bits each in the buffer object named by @parent. */
struct binder_fd_array_object {
	struct binder_object_header	hdr;
	__u32				pad;
	binder_size_t			num_fds;
	binder_size_t			parent;
	binder_size_t			parent_offset;
};

/* ------------------------------------------------------------- transactions */

enum transaction_flags {
	TF_ONE_WAY	= 1 << 0,	/* the caller waits for no reply */
	TF_ROOT_OBJECT	= 1 << 2,	/* left to programs */
	TF_STATUS_CODE	= 1 << 3,	/* the data is one 32-bit status */
	TF_ACCEPT_FDS	= 1 << 4,	/* the reply may carry open files */
	TF_CLEAR_BUF	= 1 << 5,	/* zero the buffer when it is freed */
	TF_UPDATE_TXN	= 1 << 6,	/* replace the same call, if queued */
	TF_DEFER_COMPLETE = 1 << 7,	/* a reply's completion ends no wait */
};

/*
 * A call or a reply in either direction. Who sends names the target by
 * @target.handle; who receives finds its node as @target.ptr and @cookie, and
 * the data in its own mapping of the device.
 */
struct binder_transaction_data {
	union {
		binder_uintptr_t	ptr;
		__u32			handle;
	} target;
	binder_uintptr_t		cookie;
	__u32				code;
	__u32				flags;
	__s32				sender_pid;
	__u32				sender_euid;
	binder_size_t			data_size;
	binder_size_t			offsets_size;
	union {
		__u8			buf[8];
		struct {
			binder_uintptr_t	buffer;
			binder_uintptr_t	offsets;
		} ptr;
	} data;
};

/* With room for @buffers_size bytes of buffer objects. */
struct binder_transaction_data_sg {
	struct binder_transaction_data	transaction_data;
	binder_size_t			buffers_size;
};

/* With the address of the sender's security context, a string. */
struct binder_transaction_data_secctx {
	struct binder_transaction_data	transaction_data;
	binder_uintptr_t		secctx;
};

/* -------------------------------------------- payloads of the other commands */

/* A node, to its owner. */
struct binder_ptr_cookie {
	binder_uintptr_t	ptr;
	binder_uintptr_t	cookie;
};

/*
 * A ref, and the name that its holder gives to a registration on it. The size
 * is part of the command numbers: 12 bytes, so packed by the attribute itself,
 * because outside of the kernel nothing defines the shorter spelling.
 */
struct binder_handle_cookie {
	__u32			handle;
	binder_uintptr_t	cookie;
} __attribute__((packed));

struct binder_frozen_state_info {
	binder_uintptr_t	cookie;
	__u32			is_frozen;
	__u32			reserved;
};

/* Two that only commands refer to which no driver serves any more. */
struct binder_pri_desc {
	__s32			priority;
	__u32			desc;
};

struct binder_pri_ptr_cookie {
	__s32			priority;
	binder_uintptr_t	ptr;
	binder_uintptr_t	cookie;
};

/* ------------------------------------------------- commands: program to driver */

enum binder_driver_command_protocol {
	/* Call, answer, and give back the buffer that either arrived in. */
	BC_TRANSACTION			= _IOW('c', 0, struct binder_transaction_data),
	BC_TRANSACTION_SG		= _IOW('c', 17, struct binder_transaction_data_sg),
	BC_REPLY			= _IOW('c', 1, struct binder_transaction_data),
	BC_REPLY_SG			= _IOW('c', 18, struct binder_transaction_data_sg),
	BC_FREE_BUFFER			= _IOW('c', 3, binder_uintptr_t),

	/* Join the pool that serves incoming calls: asked to, or unasked; leave it. */
	BC_REGISTER_LOOPER		= _IO('c', 11),
	BC_ENTER_LOOPER			= _IO('c', 12),
	BC_EXIT_LOOPER			= _IO('c', 13),

	/* Counts of a handle: weak up, strong up, strong down, weak down. */
	BC_INCREFS			= _IOW('c', 4, __u32),
	BC_ACQUIRE			= _IOW('c', 5, __u32),
	BC_RELEASE			= _IOW('c', 6, __u32),
	BC_DECREFS			= _IOW('c', 7, __u32),

	/* The owner confirms that it has taken the requested count. */
	BC_INCREFS_DONE			= _IOW('c', 8, struct binder_ptr_cookie),
	BC_ACQUIRE_DONE			= _IOW('c', 9, struct binder_ptr_cookie),

	/* Request notification when the owner of a node dies. */
	BC_REQUEST_DEATH_NOTIFICATION	= _IOW('c', 14, struct binder_handle_cookie),
	BC_CLEAR_DEATH_NOTIFICATION	= _IOW('c', 15, struct binder_handle_cookie),
	BC_DEAD_BINDER_DONE		= _IOW('c', 16, binder_uintptr_t),

	/* Request notification when the owner of a node is frozen or thawed. */
	BC_REQUEST_FREEZE_NOTIFICATION	= _IOW('c', 19, struct binder_handle_cookie),
	BC_CLEAR_FREEZE_NOTIFICATION	= _IOW('c', 20, struct binder_handle_cookie),
	BC_FREEZE_NOTIFICATION_DONE	= _IOW('c', 21, binder_uintptr_t),

	/* Numbers taken, and refused. */
	BC_ACQUIRE_RESULT		= _IOW('c', 2, __s32),
	BC_ATTEMPT_ACQUIRE		= _IOW('c', 10, struct binder_pri_desc),
};

/* -------------------------------------------------- returns: driver to program */

enum binder_driver_return_protocol {
	/* A call to serve, without and with its security context; a reply. */
	BR_TRANSACTION			= _IOR('r', 2, struct binder_transaction_data),
	BR_TRANSACTION_SEC_CTX		= _IOR('r', 2, struct binder_transaction_data_secctx),
	BR_REPLY			= _IOR('r', 3, struct binder_transaction_data),

	/* The last call or reply was sent; it waits for a frozen target; it was too many. */
	BR_TRANSACTION_COMPLETE		= _IO('r', 6),
	BR_TRANSACTION_PENDING_FROZEN	= _IO('r', 20),
	BR_ONEWAY_SPAM_SUSPECT		= _IO('r', 19),

	/* It came to nothing: target dead, target frozen, anything else. */
	BR_DEAD_REPLY			= _IO('r', 5),
	BR_FROZEN_REPLY			= _IO('r', 18),
	BR_FAILED_REPLY			= _IO('r', 17),
	BR_ERROR			= _IOR('r', 0, __s32),

	/* To the owner: others began or ceased to hold the node, weakly or strongly. */
	BR_INCREFS			= _IOR('r', 7, struct binder_ptr_cookie),
	BR_ACQUIRE			= _IOR('r', 8, struct binder_ptr_cookie),
	BR_RELEASE			= _IOR('r', 9, struct binder_ptr_cookie),
	BR_DECREFS			= _IOR('r', 10, struct binder_ptr_cookie),

	/* Death and freeze, and the end of a registration, by cookie. */
	BR_DEAD_BINDER			= _IOR('r', 15, binder_uintptr_t),
	BR_CLEAR_DEATH_NOTIFICATION_DONE = _IOR('r', 16, binder_uintptr_t),
	BR_FROZEN_BINDER		= _IOR('r', 21, struct binder_frozen_state_info),
	BR_CLEAR_FREEZE_NOTIFICATION_DONE = _IOR('r', 22, binder_uintptr_t),

	/* Opens each read; or, in its place, a request for one more pool thread. */
	BR_NOOP				= _IO('r', 12),
	BR_SPAWN_LOOPER			= _IO('r', 13),

	/* Numbers taken, and never sent. */
	BR_OK				= _IO('r', 1),
	BR_ACQUIRE_RESULT		= _IOR('r', 4, __s32),
	BR_ATTEMPT_ACQUIRE		= _IOR('r', 11, struct binder_pri_ptr_cookie),
	BR_FINISHED			= _IO('r', 14),
};

/* ------------------------------------------------------------------- ioctls */

/* Both *_consumed are read and advanced, so a call can go on where one stopped. */
struct binder_write_read {
	binder_size_t		write_size;
	binder_size_t		write_consumed;
	binder_uintptr_t	write_buffer;
	binder_size_t		read_size;
	binder_size_t		read_consumed;
	binder_uintptr_t	read_buffer;
};

struct binder_version {
	__s32	protocol_version;
};

/* The node after @ptr in the caller's address order; 0 ends the walk. */
struct binder_node_debug_info {
	binder_uintptr_t	ptr;
	binder_uintptr_t	cookie;
	__u32			has_strong_ref;
	__u32			has_weak_ref;
};

struct binder_node_info_for_ref {
	__u32	handle;
	__u32	strong_count;
	__u32	weak_count;
	__u32	reserved1;
	__u32	reserved2;
	__u32	reserved3;
};

struct binder_freeze_info {
	__u32	pid;
	__u32	enable;
	__u32	timeout_ms;
};

/* Calls that came while frozen. @sync_recv: bit 0 one came, bit 1 one waits. */
struct binder_frozen_status_info {
	__u32	pid;
	__u32	sync_recv;
	__u32	async_recv;
};

/* Why this thread's last transaction failed: a BR_* and a negative errno. */
struct binder_extended_error {
	__u32	id;
	__u32	command;
	__s32	param;
};

enum {
	BINDER_VERSION			= _IOWR('b', 9, struct binder_version),
	BINDER_WRITE_READ		= _IOWR('b', 1, struct binder_write_read),
	BINDER_GET_EXTENDED_ERROR	= _IOWR('b', 17, struct binder_extended_error),

	/* Threads. */
	BINDER_SET_MAX_THREADS		= _IOW('b', 5, __u32),
	BINDER_THREAD_EXIT		= _IOW('b', 8, __s32),

	/* The caller becomes handle 0 to all other processes of the device. */
	BINDER_SET_CONTEXT_MGR		= _IOW('b', 7, __s32),
	BINDER_SET_CONTEXT_MGR_EXT	= _IOW('b', 13, struct flat_binder_object),

	/* Nodes: one's own, and what a handle refers to. */
	BINDER_GET_NODE_DEBUG_INFO	= _IOWR('b', 11, struct binder_node_debug_info),
	BINDER_GET_NODE_INFO_FOR_REF	= _IOWR('b', 12, struct binder_node_info_for_ref),

	/* Stop a process from being called. */
	BINDER_FREEZE			= _IOW('b', 14, struct binder_freeze_info),
	BINDER_GET_FROZEN_INFO		= _IOWR('b', 15, struct binder_frozen_status_info),

	BINDER_ENABLE_ONEWAY_SPAM_DETECTION = _IOW('b', 16, __u32),

	/* Numbers taken, never served. */
	BINDER_SET_IDLE_TIMEOUT		= _IOW('b', 3, __s64),
	BINDER_SET_IDLE_PRIORITY	= _IOW('b', 6, __s32),
};

#endif /* _UAPI_LINUX_BINDER_H */
