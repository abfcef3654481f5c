// SPDX-License-Identifier: GPL-2.0
//! What is printed is read back as it was; and whatever is read, nothing panics.

use binder_logs::*;
use binder_sys::codes::{COMMANDS, RETURNS};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn pointer() -> impl Strategy<Value = Pointer> {
    prop_oneof![any::<u64>().prop_map(Pointer::Value), Just(Pointer::Withheld)]
}

fn task() -> impl Strategy<Value = Task> {
    (any::<i32>(), any::<i32>()).prop_map(|(process, thread)| Task { process, thread })
}

/// A device's name, also with words of the lines in it.
fn name() -> impl Strategy<Value = String> {
    prop_oneof!["[ -~]{0,20}", Just("a node 5 handle 6".to_string()), Just("context b".to_string())]
}

fn held() -> impl Strategy<Value = Held> {
    let here = (option::of(any::<i64>()), any::<i64>(), any::<i64>(), any::<u64>());
    let here = here.prop_map(|(node, data_size, offsets_size, offset)| Held::Here {
        node,
        data_size,
        offsets_size,
        offset: Some(offset),
    });
    prop_oneof![Just(Held::Elsewhere), Just(Held::Free), here]
}

prop_compose! {
    fn transaction()(
        id in any::<i64>(),
        address in pointer(),
        (from, to) in (task(), task()),
        (code, flags) in any::<(u32, u32)>(),
        priority in any::<i64>(),
        (is_async, is_reply) in any::<(bool, bool)>(),
        elapsed_ms in any::<i64>(),
        held in held(),
    ) -> Transaction {
        let (address, priority, is_reply) = (Some(address), Some(priority), Some(is_reply));
        Transaction { id, address, from, to, code, flags, priority, is_async, is_reply, elapsed_ms, held }
    }
}

fn work() -> impl Strategy<Value = Work> {
    prop_oneof![
        transaction().prop_map(Work::Transaction),
        any::<u32>().prop_map(Work::Error),
        Just(Work::Complete),
        (any::<i64>(), pointer(), pointer()).prop_map(|(id, ptr, cookie)| Work::Node { id, ptr, cookie }),
        Just(Work::DeadBinder),
        Just(Work::ClearedDeadBinder),
        Just(Work::ClearedDeath),
        Just(Work::FrozenBinder),
        Just(Work::ClearedFreeze),
        any::<i64>().prop_map(Work::Unknown),
    ]
}

fn role() -> impl Strategy<Value = Role> {
    prop_oneof![Just(Role::Outgoing), Just(Role::Incoming), Just(Role::Bad)]
}

prop_compose! {
    fn thread()(
        id in any::<i32>(),
        looper in any::<u32>(),
        need_return in any::<bool>(),
        references in any::<i64>(),
        stack in vec((role(), transaction()), 0..3),
        work in vec(work(), 0..3),
    ) -> Thread {
        let stack = stack.into_iter().map(|(role, transaction)| StackEntry { role, transaction }).collect();
        let (looper, temporary_references) = (Looper::from_bits_retain(looper), Some(references));
        Thread { id, looper, need_return, temporary_references, stack, work }
    }
}

prop_compose! {
    fn node(most: usize)(
        id in any::<i64>(),
        (ptr, cookie) in (pointer(), pointer()),
        (has_strong, has_weak) in any::<(bool, bool)>(),
        counts in any::<[i64; 5]>(),
        holders in vec(any::<i32>(), 0..3),
        work in vec(transaction().prop_map(Work::Transaction), 0..=most),
    ) -> Node {
        let [local_strong, local_weak, internal_strong, references, temporary] = counts;
        let counts = NodeCounts::Full { local_strong, local_weak, internal_strong, references, temporary };
        Node { id, ptr, cookie, has_strong, has_weak, counts, holders, work }
    }
}

prop_compose! {
    fn reference()(
        id in any::<i64>(),
        handle in any::<i64>(),
        is_dead in any::<bool>(),
        (node, strong, weak) in any::<(i64, i64, i64)>(),
        death in pointer(),
    ) -> Reference {
        Reference { id, handle, is_dead, node, strong, weak, death: Some(death) }
    }
}

prop_compose! {
    fn buffer()(
        (id, offset, data_size) in any::<(i64, u64, i64)>(),
        (offsets_size, extra_size) in any::<(i64, i64)>(),
        state in prop_oneof![Just(BufferState::Active), Just(BufferState::Delivered)],
    ) -> Buffer {
        let (offsets_size, extra_size) = (Some(offsets_size), Some(extra_size));
        Buffer { id: Some(id), offset, data_size, offsets_size, extra_size, state, sender: None, is_oneway: None }
    }
}

prop_compose! {
    fn process()(
        (pid, context) in (any::<i32>(), name()),
        threads in vec(thread(), 0..3),
        nodes in vec(node(2), 0..3),
        references in vec(reference(), 0..3),
        buffers in vec(buffer(), 0..3),
        work in vec(work(), 0..3),
        (has_delivered_death, has_delivered_freeze) in any::<(bool, bool)>(),
    ) -> Process {
        Process {
            pid,
            context,
            threads,
            nodes,
            references,
            buffers,
            work,
            has_delivered_death,
            has_delivered_freeze,
        }
    }
}

/// Some of the names, in their order, each with two counts.
fn counts(names: Vec<&'static str>) -> impl Strategy<Value = Vec<(String, i64, i64)>> {
    vec(option::of(any::<(i64, i64)>()), names.len()).prop_map(move |counts| {
        let some = names.iter().zip(counts).filter_map(|(name, count)| Some((name, count?)));
        some.map(|(name, (one, other))| (name.to_string(), one, other)).collect()
    })
}

fn counters() -> impl Strategy<Value = Counters> {
    let of_codes = |codes: &[(u32, &'static str)]| {
        counts(codes.iter().map(|(_, name)| *name).collect()).prop_map(|counts| {
            counts.into_iter().map(|(name, count, _)| Counter { name, count }).collect::<Vec<_>>()
        })
    };
    let objects = counts(OBJECTS.to_vec()).prop_map(|counts| {
        let object = |(name, active, total)| ObjectCount { name, active, total };
        counts.into_iter().map(object).collect::<Vec<_>>()
    });
    (of_codes(COMMANDS), of_codes(RETURNS), objects).prop_map(|(commands, returns, objects)| Counters {
        commands,
        returns,
        objects,
    })
}

prop_compose! {
    fn process_stats()(
        (pid, context) in (any::<i32>(), name()),
        [threads, ready, free, nodes, buffers, high, pending] in any::<[i64; 7]>(),
        [outstanding, started, max] in any::<[i64; 3]>(),
        [count, strong, weak] in any::<[i64; 3]>(),
        [active, lru, unused] in any::<[i64; 3]>(),
        counters in counters(),
    ) -> ProcessStats {
        ProcessStats {
            pid,
            context,
            threads: Some(threads),
            requested_threads: Some(RequestedThreads { outstanding, started, max }),
            ready_threads: Some(ready),
            free_async_space: Some(free),
            nodes: Some(nodes),
            references: Some(ReferenceCounts { count, strong, weak }),
            buffers: Some(buffers),
            pages: Some(Pages { active, lru, free: unused }),
            pages_high_watermark: Some(high),
            pending_transactions: Some(pending),
            outstanding_transactions: None,
            counters,
        }
    }
}

prop_compose! {
    fn log_entry()(
        (id, node, handle) in any::<(i64, i64, i64)>(),
        kind in prop_oneof![Just(Kind::Call), Just(Kind::Async), Just(Kind::Reply)],
        (from, to) in (task(), task()),
        context in name(),
        (data_size, offsets_size) in any::<(i64, i64)>(),
        (return_error, errno, line) in any::<(u32, i32, u32)>(),
        is_complete in any::<bool>(),
    ) -> LogEntry {
        LogEntry {
            id, kind, from, to, context, node, handle, data_size, offsets_size, return_error, errno, line, is_complete,
        }
    }
}

/// What a value is printed as, read again in both ways.
fn assert_round_trip<T: Log + PartialEq + std::fmt::Debug>(value: &T) -> Result<(), TestCaseError> {
    let text = value.to_string();
    for mode in [Mode::Strict, Mode::Lenient] {
        match T::parse("log", text.as_bytes(), mode) {
            Ok(again) => prop_assert_eq!(&again, value),
            Err(why) => return Err(TestCaseError::fail(why.to_string())),
        }
    }
    Ok(())
}

/// Reads bytes as every kind of file, for the panic that must not come.
fn read_as_all(contents: &[u8]) {
    for mode in [Mode::Strict, Mode::Lenient] {
        let _ = State::parse("log", contents, mode);
        let _ = Transactions::parse("log", contents, mode);
        let _ = ProcessState::parse("log", contents, mode);
        let _ = Stats::parse("log", contents, mode);
        let _ = TransactionLog::parse("log", contents, mode);
    }
}

proptest! {
    // Where else a failure is kept: it says what to write here.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn state(dead_nodes in vec(node(0), 0..3), processes in vec(process(), 0..3)) {
        assert_round_trip(&State { dead_nodes, processes: processes.clone(), unknown: vec![] })?;
        assert_round_trip(&Transactions { processes: processes.clone(), unknown: vec![] })?;
        assert_round_trip(&ProcessState { processes, unknown: vec![] })?;
    }

    #[test]
    fn stats(total in counters(), processes in vec(process_stats(), 0..3)) {
        assert_round_trip(&Stats { total, processes, unknown: vec![] })?;
    }

    #[test]
    fn transaction_log(entries in vec(log_entry(), 0..40)) {
        assert_round_trip(&TransactionLog { entries, unknown: vec![] })?;
    }

    #[test]
    fn a_part_of_a_file_is_an_error_or_a_smaller_file(process in process(), cut in any::<prop::sample::Index>()) {
        let text = State { dead_nodes: vec![], processes: vec![process], unknown: vec![] }.to_string();
        let cut = cut.index(text.len());
        read_as_all(&text.as_bytes()[..cut]);
        if !text[..cut].ends_with('\n') {
            prop_assert!(State::parse("state", &text.as_bytes()[..cut], Mode::Strict).is_err());
        }
    }

    #[test]
    fn one_byte_changed(process in process(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let text = State { dead_nodes: vec![], processes: vec![process], unknown: vec![] }.to_string();
        let mut bytes = text.into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        read_as_all(&bytes);
    }

    #[test]
    fn any_bytes(contents in vec(any::<u8>(), 0..500)) {
        read_as_all(&contents);
    }

    #[test]
    fn any_lines(lines in vec("(  |    )?(proc|context|thread|node|ref|buffer|BC_REPLY|threads:|pages:)[ -~]{0,40}", 0..10)) {
        for header in ["binder state:", "binder stats:", "binder transactions:", "binder proc state:"] {
            read_as_all(format!("{header}\n{}\n", lines.join("\n")).as_bytes());
        }
    }
}
