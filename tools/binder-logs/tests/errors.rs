// SPDX-License-Identifier: GPL-2.0
//! Errors for malformed files.

use binder_logs::*;

fn complaint<T: Log>(text: &[u8]) -> String {
    T::parse("log", text, Mode::Strict).map(drop).expect_err("an error").to_string()
}

#[test]
fn names_file_number_and_text() {
    let text = b"binder state:\nproc 1\ncontext binder\n  thraed 1: l 00\n";
    assert_eq!(complaint::<State>(text), r#"log:4: an unknown line: "  thraed 1: l 00""#);
    let long = format!("binder state:\n{}\n", "x".repeat(100_000));
    assert!(complaint::<State>(long.as_bytes()).len() < 300);
}

#[test]
fn order() {
    let reference = "  ref 1: desc 0 node 2 s 1 w 0 d 0000000000000000\n";
    let thread = "  thread 1: l 00 need_return 0 tr 0\n";
    let text = format!("binder state:\nproc 1\ncontext binder\n{reference}{thread}");
    assert_eq!(
        complaint::<State>(text.as_bytes()),
        format!("log:5: a line out of its order: {:?}", thread.trim_end())
    );
    let lenient = State::parse("log", text.as_bytes(), Mode::Lenient).expect("any order");
    assert_eq!((lenient.processes[0].threads.len(), lenient.processes[0].references.len()), (1, 1));
    assert!(complaint::<State>(format!("binder state:\n{thread}").as_bytes()).contains("out of its order"));
    let text = b"binder stats:\nBC_REPLY: 1\nBC_TRANSACTION: 1\n";
    assert_eq!(complaint::<Stats>(text), r#"log:3: an unknown line: "BC_TRANSACTION: 1""#);
}

#[test]
fn cut() {
    assert_eq!(complaint::<State>(b""), "log: binder state: is missing at the end");
    assert_eq!(complaint::<State>(b"binder sta"), r#"log:1: a line without an end: "binder sta""#);
    assert_eq!(
        complaint::<State>(b"binder state:\nproc 1\n"),
        "log: the context of a process is missing at the end"
    );
    assert!(
        complaint::<Stats>(b"binder stats:\nproc 1\ncontext a\n  threads: 1\n").contains("rest of a process")
    );
    assert!(complaint::<ProcessState>(b"binder proc state:\n").contains("a process is missing"));
    assert!(ProcessState::parse("log", b"", Mode::Strict).expect("the process is gone").processes.is_empty());
}

#[test]
fn numbers_beyond_their_size() {
    let entry = |id: &str, code: &str| {
        format!("{id}: call  from 1:1 to 1:0 context a node 1 handle 0 size 0:0 ret {code}/0 l=0\n")
    };
    assert!(TransactionLog::parse("log", entry("7", "29201").as_bytes(), Mode::Strict).is_ok());
    for (id, code) in
        [("99999999999999999999", "0"), ("7", "4294967296"), ("7", "-1"), ("0x7", "0"), ("", "0")]
    {
        assert!(complaint::<TransactionLog>(entry(id, code).as_bytes()).starts_with("log:1: "));
    }
}

#[test]
fn no_text() {
    let text = b"binder state:\nproc 1\ncontext \xff\n";
    assert_eq!(complaint::<State>(text), "log:3: no text: \"context \u{fffd}\"");
    assert!(complaint::<TransactionLog>(b"\xff\n").contains("no text"));
}

#[test]
fn any_number_of_references_on_a_line() {
    let references = "  ref 1: desc 0 node 2 s 1 w 0".repeat(100_000);
    let text = format!("binder state:\nproc 1\ncontext binder\n{references}  buffer: 0 size 0:0:0 pid 1");
    let state = State::parse("log", text.as_bytes(), Mode::Lenient).expect("leniently");
    assert_eq!(state.processes[0].references.len(), 100_000);
}

#[test]
fn unknown_lines_are_kept() {
    let text =
        b"binder state:\nnews\nproc 1\ncontext binder\n  \xff\n  thread 1: l 00 need_return 0 tr 0\n  cut";
    let state = State::parse("log", text, Mode::Lenient).expect("leniently");
    let found: Vec<_> = state.unknown.iter().map(|line| (line.number, line.text.as_str())).collect();
    assert_eq!(found, [(2, "news"), (5, "  \u{fffd}"), (7, "  cut")]);
    assert_eq!(state.processes[0].threads.len(), 1);
}
