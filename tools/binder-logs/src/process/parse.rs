// SPDX-License-Identifier: GPL-2.0
//! The lines of a process's block, taken apart.

use super::{Buffer, BufferState, Looper, Node, NodeCounts, Reference, Role, StackEntry, Thread, Work};
use crate::transaction::{transaction, Transaction};
use crate::words::{flag, hex, hex32, number, pid, pointer, Parsed, Pid};
use winnow::ascii::dec_uint;
use winnow::combinator::{alt, opt, preceded, repeat, seq};
use winnow::error::ContextError;
use winnow::prelude::*;

/// A line of a block.
pub(crate) enum Line {
    Thread(Thread),
    Stack(StackEntry),
    ThreadWork(Work),
    Node(Node),
    NodeWork(Work),
    Reference(Reference),
    Buffer(Buffer),
    Work(Work),
    DeliveredDeath,
    DeliveredFreeze,
}

/// A line of the C driver's.
pub(crate) fn line(input: &mut &str) -> Parsed<Line> {
    line_of(transaction, stack_entry, work, line_of_process).parse_next(input)
}

/// A line, made of what a driver prints: `of_process`, or further in, what is about the thread or the node above it.
pub(crate) fn line_of<'a>(
    transaction: impl Parser<&'a str, Transaction, ContextError>,
    stack_entry: impl Parser<&'a str, StackEntry, ContextError>,
    work: impl Parser<&'a str, Work, ContextError>,
    of_process: impl Parser<&'a str, Line, ContextError>,
) -> impl Parser<&'a str, Line, ContextError> {
    let below = alt((
        preceded("pending async transaction ", transaction.map(Work::Transaction)).map(Line::NodeWork),
        stack_entry.map(Line::Stack),
        work.map(Line::ThreadWork),
    ));
    alt((preceded("    ", below), preceded("  ", of_process)))
}

fn line_of_process(input: &mut &str) -> Parsed<Line> {
    alt((
        thread.map(Line::Thread),
        node.map(Line::Node),
        reference.map(Line::Reference),
        buffer.map(Line::Buffer),
        "has delivered dead binder".map(|_| Line::DeliveredDeath),
        "has delivered freeze binder".map(|_| Line::DeliveredFreeze),
        work.map(Line::Work),
    ))
    .parse_next(input)
}

fn thread(input: &mut &str) -> Parsed<Thread> {
    seq!(Thread {
        _: "thread ",
        id: pid,
        _: ": l ",
        looper: hex32.map(Looper::from_bits_retain),
        _: " need_return ",
        need_return: flag,
        _: " tr ",
        temporary_references: number.map(Some),
        stack: "".default_value(),
        work: "".default_value(),
    })
    .parse_next(input)
}

/// The words for a thread's part in a call.
pub(crate) fn role(input: &mut &str) -> Parsed<Role> {
    let words =
        alt(("outgoing".value(Role::Outgoing), "incoming".value(Role::Incoming), "bad".value(Role::Bad)));
    (words, " transaction ").map(|(role, _)| role).parse_next(input)
}

fn stack_entry(input: &mut &str) -> Parsed<StackEntry> {
    seq!(StackEntry { role: role, transaction: transaction }).parse_next(input)
}

/// Work of any kind, as the C driver has it.
pub(crate) fn work(input: &mut &str) -> Parsed<Work> {
    alt((
        preceded("pending transaction ", transaction).map(Work::Transaction),
        preceded("transaction error: ", dec_uint).map(Work::Error),
        "transaction complete".value(Work::Complete),
        seq!(Work::Node { _: "node work ", id: number, _: ": u", ptr: pointer, _: " c", cookie: pointer }),
        preceded("has ", news_of_others),
        preceded("unknown work: type ", number).map(Work::Unknown),
    ))
    .parse_next(input)
}

/// Deaths and freezes.
fn news_of_others(input: &mut &str) -> Parsed<Work> {
    alt((
        "dead binder".value(Work::DeadBinder),
        "cleared dead binder".value(Work::ClearedDeadBinder),
        "cleared death notification".value(Work::ClearedDeath),
        "frozen binder".value(Work::FrozenBinder),
        "cleared freeze notification".value(Work::ClearedFreeze),
    ))
    .parse_next(input)
}

/// A node.
pub(crate) fn node(input: &mut &str) -> Parsed<Node> {
    seq!(Node {
        _: "node ",
        id: number,
        _: ": u",
        ptr: pointer,
        _: " c",
        cookie: pointer,
        _: " hs ",
        has_strong: flag,
        _: " hw ",
        has_weak: flag,
        counts: counts,
        holders: holders,
        work: "".default_value(),
    })
    .parse_next(input)
}

fn counts(input: &mut &str) -> Parsed<NodeCounts> {
    seq!(NodeCounts::Full {
        _: " ls ",
        local_strong: number,
        _: " lw ",
        local_weak: number,
        _: " is ",
        internal_strong: number,
        _: " iw ",
        references: number,
        _: " tr ",
        temporary: number,
    })
    .parse_next(input)
}

/// Those who hold a node.
pub(crate) fn holders(input: &mut &str) -> Parsed<Vec<Pid>> {
    let some = preceded(" proc", repeat(1.., preceded(' ', pid)));
    opt(some).map(Option::unwrap_or_default).parse_next(input)
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
        _: " d ",
        death: pointer.map(Some),
    })
    .parse_next(input)
}

fn buffer(input: &mut &str) -> Parsed<Buffer> {
    seq!(Buffer {
        _: "buffer ",
        id: number.map(Some),
        _: ": ",
        offset: hex,
        _: " size ",
        data_size: number,
        _: ':',
        offsets_size: number.map(Some),
        _: ':',
        extra_size: number.map(Some),
        _: ' ',
        state: alt(("active".value(BufferState::Active), "delivered".value(BufferState::Delivered))),
        sender: "".value(None),
        is_oneway: "".value(None),
    })
    .parse_next(input)
}
