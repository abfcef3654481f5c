// SPDX-License-Identifier: GPL-2.0

//! The wire against the numbers of the contract's section 1, written out (lesson R13).

use crate::defs::LARGEST_RETURN;
use crate::defs::{
    ioctl, Command, ExtendedError, FileArrayObject, FileObject, FlatObject, HandleCookie,
    NodeFlags, NodeName, Object, PointerObject, Return, Strength, WriteRead,
};
use crate::defs::{NodeDebugInfo, NodeInfoForRef, TransactionData, TransactionRequest};
use proptest::prelude::*;

#[test]
fn lesson_r13_each_command_has_its_number_and_size() {
    let wanted = [
        (Command::Transaction, 0x4040_6300, 64),
        (Command::Reply, 0x4040_6301, 64),
        (Command::FreeBuffer, 0x4008_6303, 8),
        (Command::IncRefs, 0x4004_6304, 4),
        (Command::Acquire, 0x4004_6305, 4),
        (Command::Release, 0x4004_6306, 4),
        (Command::DecRefs, 0x4004_6307, 4),
        (Command::IncRefsDone, 0x4010_6308, 16),
        (Command::AcquireDone, 0x4010_6309, 16),
        (Command::RegisterLooper, 0x0000_630b, 0),
        (Command::EnterLooper, 0x0000_630c, 0),
        (Command::ExitLooper, 0x0000_630d, 0),
        (Command::RequestDeathNotification, 0x400c_630e, 12),
        (Command::ClearDeathNotification, 0x400c_630f, 12),
        (Command::DeadBinderDone, 0x4008_6310, 8),
    ];
    for (command, code, size) in wanted {
        assert_eq!(command.code(), code, "{code:#x}");
        assert_eq!(command.payload_size(), size, "{code:#x}");
        assert!(Command::from_code(code) == Some(command), "{code:#x}");
    }
    // Never sent, or not theirs: ACQUIRE_RESULT, ATTEMPT_ACQUIRE, a return, a wrong size.
    for code in [0x4004_6302, 0x4008_630a, 0x0000_720c, 0x4010_6300, 0] {
        assert!(Command::from_code(code).is_none(), "{code:#x}");
    }
}

#[test]
fn lesson_r13_each_return_has_its_number_and_size() {
    let wanted = [
        (Return::Error, 0x8004_7200, 4),
        (Return::Ok, 0x0000_7201, 0),
        (Return::Transaction, 0x8040_7202, 64),
        (Return::TransactionSecCtx, 0x8048_7202, 72),
        (Return::Reply, 0x8040_7203, 64),
        (Return::DeadReply, 0x0000_7205, 0),
        (Return::TransactionComplete, 0x0000_7206, 0),
        (Return::IncRefs, 0x8010_7207, 16),
        (Return::Acquire, 0x8010_7208, 16),
        (Return::Release, 0x8010_7209, 16),
        (Return::DecRefs, 0x8010_720a, 16),
        (Return::Noop, 0x0000_720c, 0),
        (Return::SpawnLooper, 0x0000_720d, 0),
        (Return::DeadBinder, 0x8008_720f, 8),
        (Return::ClearDeathNotificationDone, 0x8008_7210, 8),
        (Return::FailedReply, 0x0000_7211, 0),
        (Return::OnewaySpamSuspect, 0x0000_7213, 0),
    ];
    for (answer, code, size) in wanted {
        assert_eq!(answer.code(), code, "{code:#x}");
        assert_eq!(answer.payload_size(), size, "{code:#x}");
        assert!(answer.payload_size() + 4 <= LARGEST_RETURN);
    }
}

#[test]
fn each_ioctl_has_its_number() {
    assert_eq!(ioctl::WRITE_READ, 0xc030_6201);
    assert_eq!(ioctl::SET_MAX_THREADS, 0x4004_6205);
    assert_eq!(ioctl::SET_CONTEXT_MGR, 0x4004_6207);
    assert_eq!(ioctl::THREAD_EXIT, 0x4004_6208);
    assert_eq!(ioctl::VERSION, 0xc004_6209);
    assert_eq!(ioctl::GET_NODE_DEBUG_INFO, 0xc018_620b);
    assert_eq!(ioctl::GET_NODE_INFO_FOR_REF, 0xc018_620c);
    assert_eq!(ioctl::SET_CONTEXT_MGR_EXT, 0x4018_620d);
    assert_eq!(ioctl::ENABLE_ONEWAY_SPAM_DETECTION, 0x4004_6210);
    assert_eq!(ioctl::GET_EXTENDED_ERROR, 0xc00c_6211);
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn double_word(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}

proptest! {
    #[test]
    fn write_read_is_read_from_its_places(words: [u64; 6]) {
        let decoded = WriteRead::decode(&words);
        prop_assert_eq!(decoded.write_size, words[0]);
        prop_assert_eq!(decoded.write_consumed, words[1]);
        prop_assert_eq!(decoded.write_buffer, words[2]);
        prop_assert_eq!(decoded.read_size, words[3]);
        prop_assert_eq!(decoded.read_consumed, words[4]);
        prop_assert_eq!(decoded.read_buffer, words[5]);
        prop_assert_eq!(words[WriteRead::WRITE_CONSUMED], decoded.write_consumed);
        prop_assert_eq!(words[WriteRead::READ_CONSUMED], decoded.read_consumed);
    }

    #[test]
    fn a_cookie_follows_its_handle_without_a_gap(bytes: [u8; 12]) {
        let decoded = HandleCookie::decode(&bytes);
        prop_assert_eq!(decoded.handle, word(&bytes, 0));
        prop_assert_eq!(decoded.cookie, double_word(&bytes, 4));
    }

    #[test]
    fn a_request_is_read_from_its_places(bytes: [[u8; 32]; 2]) {
        let bytes: [u8; 64] = bytes.concat().try_into().unwrap();
        let request = TransactionRequest::decode(&bytes);
        prop_assert_eq!(request.handle, word(&bytes, 0));
        prop_assert_eq!(request.code, word(&bytes, 16));
        prop_assert_eq!(request.flags, word(&bytes, 20));
        prop_assert_eq!(request.data_size, double_word(&bytes, 32));
        prop_assert_eq!(request.offsets_size, double_word(&bytes, 40));
        prop_assert_eq!(request.data, double_word(&bytes, 48));
        prop_assert_eq!(request.offsets, double_word(&bytes, 56));
    }

    #[test]
    fn a_notice_is_written_to_its_places(n: [u64; 6], w: [u32; 3], sender_pid: i32) {
        let notice = TransactionData {
            node: NodeName { ptr: n[0], cookie: n[1] },
            code: w[0],
            flags: w[1],
            sender_pid,
            sender_euid: w[2],
            data_size: n[2],
            offsets_size: n[3],
            data: n[4],
            offsets: n[5],
        };
        let bytes = notice.encode();
        prop_assert_eq!([0, 8, 32, 40, 48, 56].map(|at| double_word(&bytes, at)), n);
        prop_assert_eq!([16, 20, 28].map(|at| word(&bytes, at)), w);
        prop_assert_eq!(word(&bytes, 24), sender_pid as u32);
        let longer = notice.encode_with_context(n[5]);
        prop_assert_eq!((&longer[..64], double_word(&longer, 64)), (&bytes[..], n[5]));
    }

    #[test]
    fn a_node_or_handle_is_what_it_was(kind in 0usize..5, flags: u32, ptr: u64, cookie: u64) {
        // BINDER, WEAK_BINDER, HANDLE, WEAK_HANDLE, and a file, which is no node.
        let types = [0x7362_2a85u32, 0x7762_2a85, 0x7368_2a85, 0x7768_2a85, 0x6664_2a85];
        let mut bytes = [0; 24];
        bytes[..4].copy_from_slice(&types[kind].to_ne_bytes());
        bytes[4..8].copy_from_slice(&flags.to_ne_bytes());
        bytes[8..16].copy_from_slice(&ptr.to_ne_bytes());
        bytes[16..].copy_from_slice(&cookie.to_ne_bytes());
        match FlatObject::decode(&bytes) {
            Some(object @ FlatObject::Binder { strength, flags: found, name }) => {
                prop_assert!(kind < 2);
                prop_assert!((strength == Strength::Strong) == (kind == 0));
                prop_assert_eq!((found, name.ptr, name.cookie), (flags, ptr, cookie));
                prop_assert_eq!(object.encode(), bytes);
            }
            Some(object @ FlatObject::Handle { strength, flags: found, handle }) => {
                prop_assert!(kind == 2 || kind == 3);
                prop_assert!((strength == Strength::Strong) == (kind == 2));
                prop_assert_eq!((found, handle), (flags, word(&bytes, 8)));
                // What is not part of a handle is not passed on.
                prop_assert_eq!(&object.encode()[..12], &bytes[..12]);
                prop_assert_eq!(&object.encode()[12..], &[0; 12]);
            }
            None => prop_assert_eq!(kind, 4),
        }
    }

    #[test]
    fn an_object_of_any_kind_is_what_it_was(words: [u32; 10], length in 0usize..=40) {
        // Each type with its size and the bytes of it that have no meaning, not even to others.
        let types = [
            (0x7362_2a85u32, 24, 0..0),
            (0x7762_2a85, 24, 0..0),
            (0x7368_2a85, 24, 12..24),
            (0x7768_2a85, 24, 12..24),
            (0x6664_2a85, 24, 12..16),
            (0x6664_6185, 32, 0..0),
            (0x7074_2a85, 40, 0..0),
        ];
        for (kind, size, unused) in types.clone() {
            let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            bytes[..4].copy_from_slice(&kind.to_ne_bytes());
            let Some(object) = Object::decode(&bytes[..length]) else {
                prop_assert!(length < size, "{kind:#x} of {length} bytes");
                continue;
            };
            prop_assert!(length >= size);
            prop_assert_eq!(object.size(), size);
            bytes[unused].fill(0);
            bytes[size..].fill(0);
            prop_assert_eq!(&object.encode()[..], &bytes[..]);
        }
        let known = types.iter().any(|(kind, _, _)| *kind == words[0]);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        prop_assert_eq!(Object::decode(&bytes).is_some(), known);
    }

    #[test]
    fn objects_are_read_from_their_places(words: [u32; 10]) {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes[..4].copy_from_slice(&0x7074_2a85u32.to_ne_bytes());
        let Some(Object::Pointer(pointer)) = Object::decode(&bytes) else { unreachable!() };
        let numbers = [pointer.address, pointer.length, pointer.parent, pointer.parent_offset];
        prop_assert_eq!(numbers, [8, 16, 24, 32].map(|at| double_word(&bytes, at)));
        prop_assert_eq!(pointer.has_parent(), word(&bytes, 4) & 1 != 0);
        bytes[..4].copy_from_slice(&0x6664_6185u32.to_ne_bytes());
        let Some(Object::FileArray(array)) = Object::decode(&bytes) else { unreachable!() };
        let numbers = [array.count, array.parent, array.parent_offset];
        prop_assert_eq!(numbers, [8, 16, 24].map(|at| double_word(&bytes, at)));
        bytes[..4].copy_from_slice(&0x6664_2a85u32.to_ne_bytes());
        let Some(Object::File(file)) = Object::decode(&bytes) else { unreachable!() };
        prop_assert_eq!((file.flags, file.fd), (word(&bytes, 4), word(&bytes, 8)));
        prop_assert_eq!(file.cookie, double_word(&bytes, 16));
    }
}

#[test]
fn flags_of_a_node_are_told_apart() {
    for (bits, accepts_fds, wants_context) in [
        (0, false, false),
        (0x100, true, false),
        (0x1000, false, true),
        (!0, true, true),
        (0x2cff, false, false),
    ] {
        let flags = NodeFlags::new(bits);
        assert_eq!(flags.accepts_fds(), accepts_fds, "{bits:#x}");
        assert_eq!(flags.wants_security_context(), wants_context, "{bits:#x}");
    }
}

#[test]
fn sizes_of_objects() {
    let sizes = [
        FlatObject::SIZE,
        FileObject::SIZE,
        FileArrayObject::SIZE,
        PointerObject::SIZE,
    ];
    assert_eq!((sizes, Object::MAX_SIZE), ([24, 24, 32, 40], 40));
}

#[test]
fn small_answers_are_written_to_their_places() {
    let info = NodeDebugInfo {
        name: NodeName { ptr: 1, cookie: 2 },
        has_strong_ref: true,
        has_weak_ref: false,
    };
    let bytes = info.encode();
    assert_eq!((double_word(&bytes, 0), double_word(&bytes, 8)), (1, 2));
    assert_eq!((word(&bytes, 16), word(&bytes, 20)), (1, 0));

    let info = NodeInfoForRef {
        handle: 1,
        strong_count: 2,
        weak_count: 3,
        reserved: [4, 5, 6],
    };
    let bytes = info.encode();
    assert_eq!(
        [0, 4, 8, 12, 16, 20].map(|at| word(&bytes, at)),
        [1, 2, 3, 0, 0, 0]
    );

    let mut error = ExtendedError::none(7);
    error.command = Return::FailedReply;
    error.param = -22;
    let bytes = error.encode();
    assert_eq!(
        [0, 4, 8].map(|at| word(&bytes, at)),
        [7, 0x7211, -22i32 as u32]
    );
}
