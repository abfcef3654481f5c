// SPDX-License-Identifier: GPL-2.0
//! The lines of upstream's Rust driver that are not the C driver's.

use crate::process::parse::{holders, line_of, role, work, Line};
use crate::process::{Buffer, BufferState, Looper, Node, NodeCounts, Reference, StackEntry, Thread, Work};
use crate::transaction::{Held, Transaction};
use crate::words::{hex32, number, pid, pointer, task, Parsed, Pid, Task};
use winnow::combinator::{alt, opt, preceded, seq};
use winnow::prelude::*;

/// The flag of a oneway call, by which that is known where no line says it.
const TF_ONE_WAY: u32 = 1;

/// A line of a process's block, and what follows it: the driver does not end all of them.
pub(crate) fn line(mut text: &str) -> Option<(Line, &str)> {
    let found = line_of(transaction, stack_entry, its_work, line_of_process).parse_next(&mut text).ok()?;
    let whole = text.is_empty() || matches!(found, Line::Reference(_));
    whole.then_some((found, text))
}

fn line_of_process(input: &mut &str) -> Parsed<Line> {
    alt((
        thread.map(Line::Thread),
        node.map(Line::Node),
        reference.map(Line::Reference),
        buffer.map(Line::Buffer),
        its_work.map(Line::Work),
    ))
    .parse_next(input)
}

fn stack_entry(input: &mut &str) -> Parsed<StackEntry> {
    seq!(StackEntry { role: role, transaction: transaction }).parse_next(input)
}

/// Work; what is marked as skipped is no more to be told.
fn its_work(input: &mut &str) -> Parsed<Work> {
    let sent = preceded("pending transaction ", transaction).map(Work::Transaction);
    alt((sent, preceded(opt("(skipped) "), work))).parse_next(input)
}

fn transaction(input: &mut &str) -> Parsed<Transaction> {
    let mut begin = (number, ": from ", task, " to ", to, " code ", hex32, " flags ", hex32);
    let (id, _, from, _, to, _, code, _, flags) = begin.parse_next(input)?;
    let (_, elapsed_ms, _, held) = (" elapsed ", number, "ms", held).parse_next(input)?;
    let is_async = flags & TF_ONE_WAY != 0;
    let (address, priority, is_reply) = (None, None, None);
    Ok(Transaction { id, address, from, to, code, flags, priority, is_async, is_reply, elapsed_ms, held })
}

fn to(input: &mut &str) -> Parsed<Task> {
    pid.map(|process: Pid| Task { process, thread: 0 }).parse_next(input)
}

fn held(input: &mut &str) -> Parsed<Held> {
    seq!(Held::Here {
        node: opt(preceded(" node ", number)),
        _: " size ",
        data_size: number,
        _: ':',
        offsets_size: number,
        offset: "".value(None),
    })
    .parse_next(input)
}

fn truth(input: &mut &str) -> Parsed<bool> {
    alt(("false".value(false), "true".value(true))).parse_next(input)
}

fn thread(input: &mut &str) -> Parsed<Thread> {
    seq!(Thread {
        _: "thread ",
        id: pid,
        _: ": l ",
        looper: hex32.map(Looper::from_bits_retain),
        _: " need_return ",
        need_return: truth,
        temporary_references: "".value(None),
        stack: "".default_value(),
        work: "".default_value(),
    })
    .parse_next(input)
}

fn node(input: &mut &str) -> Parsed<Node> {
    seq!(Node {
        _: "node ",
        id: number,
        _: ": u",
        ptr: pointer,
        _: " c",
        cookie: pointer,
        _: " hs ",
        has_strong: truth,
        _: " hw ",
        has_weak: truth,
        counts: counts,
        holders: holders,
        work: "".default_value(),
    })
    .parse_next(input)
}

fn counts(input: &mut &str) -> Parsed<NodeCounts> {
    seq!(NodeCounts::Summed { _: " cs ", strong: number, _: " cw ", weak: number }).parse_next(input)
}

fn reference(input: &mut &str) -> Parsed<Reference> {
    seq!(Reference {
        _: "ref ",
        id: number,
        _: ": desc ",
        handle: number,
        _: ' ',
        is_dead: opt("dead ").map(|word| word.is_some()),
        _: "node ",
        node: number,
        _: " s ",
        strong: number,
        _: " w ",
        weak: number,
        death: "".value(None),
    })
    .parse_next(input)
}

/// A buffer, as either of the driver's two allocators has it.
fn buffer(input: &mut &str) -> Parsed<Buffer> {
    let id = alt((" 0: ", ": "));
    let sizes = (winnow::ascii::dec_uint::<_, u64, _>, preceded(" size ", number), preceded(" pid ", pid));
    let oneway = alt((preceded(" oneway ", truth), opt(" oneway").map(|word| word.is_some())));
    let state = alt((" reserved".value(BufferState::Reserved), " allocated".value(BufferState::Allocated)));
    let (_, _, (offset, data_size, sender), is_oneway, state) =
        ("buffer", id, sizes, oneway, state).parse_next(input)?;
    Ok(Buffer {
        id: None,
        offset,
        data_size,
        offsets_size: None,
        extra_size: None,
        state,
        sender: Some(sender),
        is_oneway: Some(is_oneway),
    })
}
