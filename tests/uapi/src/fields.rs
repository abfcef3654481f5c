// SPDX-License-Identifier: GPL-2.0

// The members of each struct, down to integers. Constants and structs are found in the headers'
// text; members are listed here, and a test sees to it that none is missing.

/// Structs with their members.
pub const FIELDS: &[(&str, &[&str])] = &[
    ("binder_object_header", &["type"]),
    (
        "flat_binder_object",
        &["hdr.type", "flags", "binder", "handle", "cookie"],
    ),
    (
        "binder_fd_object",
        &["hdr.type", "pad_flags", "pad_binder", "fd", "cookie"],
    ),
    (
        "binder_buffer_object",
        &[
            "hdr.type",
            "flags",
            "buffer",
            "length",
            "parent",
            "parent_offset",
        ],
    ),
    (
        "binder_fd_array_object",
        &["hdr.type", "pad", "num_fds", "parent", "parent_offset"],
    ),
    (
        "binder_write_read",
        &[
            "write_size",
            "write_consumed",
            "write_buffer",
            "read_size",
            "read_consumed",
            "read_buffer",
        ],
    ),
    ("binder_version", &["protocol_version"]),
    (
        "binder_node_debug_info",
        &["ptr", "cookie", "has_strong_ref", "has_weak_ref"],
    ),
    (
        "binder_node_info_for_ref",
        &[
            "handle",
            "strong_count",
            "weak_count",
            "reserved1",
            "reserved2",
            "reserved3",
        ],
    ),
    ("binder_freeze_info", &["pid", "enable", "timeout_ms"]),
    (
        "binder_frozen_status_info",
        &["pid", "sync_recv", "async_recv"],
    ),
    (
        "binder_frozen_state_info",
        &["cookie", "is_frozen", "reserved"],
    ),
    ("binder_extended_error", &["id", "command", "param"]),
    (
        "binder_transaction_data",
        &[
            "target.handle",
            "target.ptr",
            "cookie",
            "code",
            "flags",
            "sender_pid",
            "sender_euid",
            "data_size",
            "offsets_size",
            "data.ptr.buffer",
            "data.ptr.offsets",
            "data.buf[0]",
            "data.buf[7]",
        ],
    ),
    (
        "binder_transaction_data_secctx",
        &[
            "transaction_data.cookie",
            "transaction_data.data.ptr.offsets",
            "secctx",
        ],
    ),
    (
        "binder_transaction_data_sg",
        &[
            "transaction_data.cookie",
            "transaction_data.data.ptr.offsets",
            "buffers_size",
        ],
    ),
    ("binder_ptr_cookie", &["ptr", "cookie"]),
    ("binder_handle_cookie", &["handle", "cookie"]),
    ("binder_pri_desc", &["priority", "desc"]),
    ("binder_pri_ptr_cookie", &["priority", "ptr", "cookie"]),
    (
        "binderfs_device",
        &["name[0]", "name[255]", "major", "minor"],
    ),
];
