// SPDX-License-Identifier: GPL-2.0
//! A process's block, printed as the C driver does.

use crate::process::{
    Buffer, BufferState, Node, NodeCounts, Process, Reference, StackEntry, Thread, Work, ROLES, SIMPLE,
};
use std::fmt;

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "proc {}\ncontext {}", self.pid, self.context)?;
        self.threads.iter().try_for_each(|thread| thread.fmt(f))?;
        self.nodes.iter().try_for_each(|node| node.fmt(f))?;
        self.references.iter().try_for_each(|reference| writeln!(f, "  {reference}"))?;
        self.buffers.iter().try_for_each(|buffer| writeln!(f, "  {buffer}"))?;
        self.work.iter().try_for_each(|work| writeln!(f, "  {work}"))?;
        if self.has_delivered_death {
            writeln!(f, "  has delivered dead binder")?;
        }
        if self.has_delivered_freeze {
            writeln!(f, "  has delivered freeze binder")?;
        }
        Ok(())
    }
}

impl fmt::Display for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (looper, need_return) = (self.looper.bits(), u8::from(self.need_return));
        write!(f, "  thread {}: l {looper:02x} need_return {need_return}", self.id)?;
        if let Some(references) = self.temporary_references {
            write!(f, " tr {references}")?;
        }
        writeln!(f)?;
        self.stack.iter().try_for_each(|StackEntry { role, transaction }| {
            let role = word_for(&ROLES, role);
            writeln!(f, "    {role} transaction {transaction}")
        })?;
        self.work.iter().try_for_each(|work| writeln!(f, "    {work}"))
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (strong, weak) = (u8::from(self.has_strong), u8::from(self.has_weak));
        write!(f, "  node {}: u{} c{} hs {strong} hw {weak}{}", self.id, self.ptr, self.cookie, self.counts)?;
        if !self.holders.is_empty() {
            write!(f, " proc")?;
            self.holders.iter().try_for_each(|pid| write!(f, " {pid}"))?;
        }
        writeln!(f)?;
        self.work.iter().try_for_each(|work| match work {
            Work::Transaction(transaction) => writeln!(f, "    pending async transaction {transaction}"),
            other => writeln!(f, "    {other}"),
        })
    }
}

impl fmt::Display for NodeCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeCounts::Full { local_strong, local_weak, internal_strong, references, temporary } => {
                write!(
                    f,
                    " ls {local_strong} lw {local_weak} is {internal_strong} iw {references} tr {temporary}"
                )
            }
            NodeCounts::Summed { strong, weak } => write!(f, " cs {strong} cw {weak}"),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dead = if self.is_dead { "dead " } else { "" };
        let Self { id, handle, node, strong, weak, .. } = self;
        write!(f, "ref {id}: desc {handle} {dead}node {node} s {strong} w {weak}")?;
        self.death.map_or(Ok(()), |death| write!(f, " d {death}"))
    }
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "buffer {}: {:x} size {}", self.id.unwrap_or(0), self.offset, self.data_size)?;
        if let (Some(offsets), Some(extra)) = (self.offsets_size, self.extra_size) {
            write!(f, ":{offsets}:{extra}")?;
        }
        f.write_str(match self.state {
            BufferState::Active => " active",
            BufferState::Delivered => " delivered",
        })
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Work::Transaction(transaction) => write!(f, "pending transaction {transaction}"),
            Work::Error(code) => write!(f, "transaction error: {code}"),
            Work::Node { id, ptr, cookie } => write!(f, "node work {id}: u{ptr} c{cookie}"),
            Work::Unknown(number) => write!(f, "unknown work: type {number}"),
            simple => f.write_str(word_for(&SIMPLE, simple)),
        }
    }
}

fn word_for<'a, T: PartialEq>(words: &[(&'a str, T)], wanted: &T) -> &'a str {
    words.iter().find(|(_, value)| value == wanted).map_or("", |(word, _)| word)
}
