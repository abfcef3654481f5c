// SPDX-License-Identifier: GPL-2.0

//! The wire against the numbers of the contract's section 1, written out (lesson R13).

use crate::defs::{Command, Object, Return, LARGEST_RETURN};
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

proptest! {
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
}
