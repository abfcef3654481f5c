// SPDX-License-Identifier: GPL-2.0
//! Files as the drivers printed them under load, some processes of each (`tests/recorded/`), and files that have every kind of
//! line, with the largest numbers and names that look like other words (`every`). `every/understood` has the values of those lines.

use binder_logs::*;
use std::fmt::Debug;

macro_rules! recorded {
    ($driver:literal, $file:literal) => {
        include_str!(concat!("recorded/", $driver, "/", $file))
    };
}

/// A file of the C driver's: each line is understood to its end, and in both modes alike.
fn assert_known<T: Log + PartialEq + Debug>(file: &str, text: &str) -> T {
    let found = T::parse(file, text.as_bytes(), Mode::Strict).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(T::parse(file, text.as_bytes(), Mode::Lenient).expect("leniently"), found);
    found
}

#[test]
fn every_kind_of_line() {
    let text = recorded!("every", "state");
    let state: State = assert_known("state", text);
    assert_eq!(state.processes.len(), 3);
    let blocks = text.replace("\nproc ", "\nbinder proc state:\nproc ");
    assert_known::<ProcessState>("proc", &blocks[blocks.find("binder proc").expect("a block")..]);
    let processes = &text[text.find("proc 2").expect("a process")..];
    assert_known::<Transactions>("transactions", &format!("binder transactions:\n{processes}"));
    let stats: Stats = assert_known("stats", recorded!("every", "stats"));
    assert_eq!(stats.total.objects.len(), OBJECTS.len());
    let log: TransactionLog = assert_known("transaction_log", recorded!("every", "transaction_log"));
    assert_eq!(log.entries[2].context, "a node 5 handle 6 context b");
    let understood = format!("{state:?}\n{stats:?}\n{log:?}\n").replace("}, ", "},\n");
    assert!(understood == recorded!("every", "understood"), "{understood}");
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

#[test]
fn nothing_that_is_read_panics() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |end: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed as usize % end
    };
    let files = [
        recorded!("every", "state"),
        recorded!("every", "stats"),
        recorded!("every", "transaction_log"),
        recorded!("upstream", "state"),
        recorded!("upstream", "stats"),
    ];
    for text in files {
        for _ in 0..256 {
            // The rest of a file after its first line, up to any place, with other bytes here and there.
            let start = text.find('\n').expect("a line") + 1;
            let from = start + text[start + below(text.len() - start)..].find('\n').unwrap_or(0);
            let mut part = [&text[..start], &text[from..]].concat().into_bytes();
            part.truncate(1 + below(part.len()));
            let is_cut = part.last() != Some(&b'\n');
            read_as_all(&part);
            assert!(!is_cut || State::parse("state", &part, Mode::Strict).is_err());
            for _ in 0..3 {
                let at = below(part.len());
                part[at] = below(256) as u8;
                read_as_all(&part);
            }
        }
    }
}

#[test]
fn c_state() {
    let state: State = assert_known("state", recorded!("c", "state"));
    assert_eq!(state.dead_nodes[1].holders, [133, 69, 68, 67, 66]);
    let process = &state.processes[0];
    assert_eq!((process.pid, process.context.as_str()), (133, "mesh"));
    assert_known::<State>("state_hashed", recorded!("c", "state_hashed"));
}

#[test]
fn c_transactions() {
    let text = recorded!("c", "transactions");
    let transactions: Transactions = assert_known("transactions", text);
    assert!(transactions.processes.iter().all(|process| process.references.is_empty()));
    assert_known::<Transactions>("transactions_hashed", recorded!("c", "transactions_hashed"));
}

#[test]
fn c_stats() {
    let stats: Stats = assert_known("stats", recorded!("c", "stats"));
    assert_eq!(stats.total.count("BC_TRANSACTION"), 6129);
    assert_eq!(stats.total.count("BC_EXIT_LOOPER"), 0);
    assert_eq!(stats.total.objects("proc"), (15, 27));
    let process = &stats.processes[0];
    assert_eq!(process.requested_threads, Some(RequestedThreads { outstanding: 1, started: 0, max: 4 }));
    assert_eq!(process.references, Some(ReferenceCounts { count: 2, strong: 2, weak: 0 }));
    assert_eq!(process.pages, Some(Pages { active: 1, lru: 0, free: 511 }));
    assert_eq!(process.counters.count("BR_SPAWN_LOOPER"), 1);
}

#[test]
fn c_transaction_logs() {
    let log: TransactionLog = assert_known("transaction_log", recorded!("c", "transaction_log"));
    assert_eq!(log.entries.len(), 32);
    assert_eq!(log.entries[0].kind, Kind::Reply);
    let log: TransactionLog = assert_known("failed", recorded!("c", "failed_transaction_log"));
    let first = &log.entries[0];
    assert_eq!(first.from, Task { process: 135, thread: 139 });
    assert_eq!((first.return_error, first.errno, first.line), (29189, -22, 3253));
}

/// A file of upstream's: it is understood, though not in the C driver's words.
fn assert_understood<T: Log>(file: &str, text: &str) -> T {
    assert!(T::parse(file, text.as_bytes(), Mode::Strict).is_err());
    T::parse(file, text.as_bytes(), Mode::Lenient).unwrap_or_else(|why| panic!("{why}"))
}

#[test]
fn upstream_state() {
    let state: State = assert_understood("state", recorded!("upstream", "state"));
    assert_eq!(state.unknown, []);
    let all = || state.processes.iter();
    assert!(all()
        .all(|process| process.nodes.iter().all(|node| matches!(node.counts, NodeCounts::Summed { .. }))));
    assert!(all().any(|process| process.references.len() > 1), "several references in one line are parsed");
    assert!(all().any(|process| process.buffers.iter().any(|buffer| buffer.sender.is_some())));
    assert!(all().any(|process| process.threads.iter().any(|thread| !thread.stack.is_empty())));
}

#[test]
fn upstream_transactions() {
    let transactions: Transactions = assert_understood("transactions", recorded!("upstream", "transactions"));
    assert_eq!(transactions.unknown, []);
}

#[test]
fn upstream_stats() {
    let stats: Stats = assert_understood("stats", recorded!("upstream", "stats"));
    assert_eq!(stats.unknown, []);
    let process = &stats.processes[0];
    assert_eq!((process.threads, process.free_async_space), (Some(1), Some(520192)));
    assert_eq!(process.pages, None);
    assert_eq!(stats.total.count("BR_NOOP"), 10523);
}
