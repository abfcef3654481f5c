// SPDX-License-Identifier: GPL-2.0

//! The nodes of a process, who holds each of them, and the oneway calls that wait for others; and
//! the handles of a process.

use super::{
    lines::{write_name, Line, Prefixes, RefLine},
    pause,
    snapshot::Snapshot,
    sort_by_key,
    threads::count,
    FEW,
    FLAGS, //
};
use crate::{
    common::netlink::Party,
    defs::NodeName,
    lifecycle::registry,
    node::Node,
    process::{Pid, Process, ProcessState},
    pure::node_counts::NodeCounts, //
};
use kernel::{
    prelude::*,
    seq_file::SeqFile,
    seq_print,
    sync::{atomic::Relaxed, Arc}, //
};

/// Names a node: its number, and the address of its record, which is not used as one. One that is
/// made while a log is copied may have the number or the address of another, but not both.
pub(super) type NodeKey = (u32, usize);

pub(super) fn key_of(node: &Node) -> NodeKey {
    (node.debug_id, core::ptr::from_ref(node).addr())
}

/// A node.
pub(super) struct NodeLine {
    key: NodeKey,
    name: NodeName,
    counts: NodeCounts,
}

impl NodeLine {
    /// Returns the line of a node. The caller holds the owner's state lock.
    pub(super) fn of(node: &Node, owner: &ProcessState) -> Self {
        Self {
            key: key_of(node),
            name: node.name,
            counts: node.counts(owner).clone(),
        }
    }

    pub(super) fn write(&self, is_hashed: bool, holders: &Holders, out: &SeqFile) {
        let (knows_strong, knows_weak) = self.counts.owner_refs();
        let (local_strong, local_weak) = self.counts.locals();
        let (strong_refs, refs) = self.counts.refs();
        seq_print!(out, "  node {}: ", self.key.0 as i32);
        write_name(&self.name, is_hashed, out);
        seq_print!(
            out,
            " hs {} hw {} ls {local_strong} lw {local_weak} is {strong_refs} iw {refs} tr {}",
            u8::from(knows_strong),
            u8::from(knows_weak),
            self.counts.pins()
        );
        let mut word = " proc";
        for pid in holders.of(self.key) {
            seq_print!(out, "{word} {pid}");
            word = "";
        }
        seq_print!(out, "\n");
    }
}

/// Which process holds which node, in the order of the nodes.
#[derive(Default)]
pub(super) struct Holders(KVVec<(NodeKey, Pid)>);

impl Holders {
    /// Returns the pids of those that hold a node, once for each device.
    fn of(&self, node: NodeKey) -> impl Iterator<Item = Pid> + '_ {
        let first = self.0.partition_point(|(held, _)| *held < node);
        let from_first = self.0[first..].iter();
        from_first
            .take_while(move |(held, _)| *held == node)
            .map(|(_, pid)| *pid)
    }
}

impl Snapshot {
    /// Copies the nodes of a process.
    pub(super) fn nodes(&mut self, process: &Process) -> Result {
        let to = Party {
            pid: process.pid(),
            tid: 0,
        };
        let mut next = Some((0, FEW));
        // This ends, although others may add nodes with ever higher pointers: they take the lock in
        // turn, and add one each time.
        while let Some((from, room)) = next {
            self.make_room(room)?;
            let state = process.lock_state();
            next = self.few_nodes(&state, to, from, room);
            drop(state);
        }
        Ok(())
    }

    /// Copies a few nodes, from the first whose pointer is not less than `from` on, with not more
    /// than `room` lines. Returns where the next one begins, and how many lines that needs room
    /// for; nothing at the end.
    fn few_nodes(
        &mut self,
        state: &ProcessState,
        to: Party,
        mut from: u64,
        room: usize,
    ) -> Option<(u64, usize)> {
        let end = self.lines.len() + room;
        let prefixes = Prefixes {
            work: "    ",
            transaction: "    pending async transaction",
        };
        for _ in 0..FEW {
            let node = state.nodes.first_from(from)?;
            from = node.name.ptr;
            if self.is_complete || node.counts(state).is_busy {
                let waiting = node.waiting(state);
                let lines = 1 + count(waiting.iter());
                if self.lines.len() + lines > end {
                    return Some((from, FEW.max(lines)));
                }
                self.push(Line::Node(NodeLine::of(&node, state)));
                self.queue(waiting.iter(), state, to, &prefixes);
            }
            from = from.checked_add(1)?;
        }
        Some((from, FEW))
    }

    /// Copies the handles of a process, and adds the dead nodes behind them.
    pub(super) fn refs(&mut self, process: &Process, dead: &mut KVVec<Arc<Node>>) -> Result {
        let mut next = Some(0);
        while let Some(from) = next {
            self.make_room(FEW)?;
            dead.reserve(FEW, FLAGS)?;
            let handles = process.handles.lock();
            next = handles.table.visit_leaf(from, |handle, reference| {
                let is_dead = reference.node.owner().has_ended.load(Relaxed);
                let death = reference.death.as_ref();
                let (strong, weak) = (reference.strong, reference.weak);
                self.push(Line::Ref(RefLine {
                    id: handles.debug_id(reference),
                    handle,
                    node: reference.node.debug_id,
                    is_dead,
                    strong,
                    weak,
                    death: death.map_or(0, |death| Arc::as_ptr(death).addr()),
                }));
                if is_dead {
                    // There is room.
                    let _ = dead.push_within_capacity(reference.node.clone());
                }
            });
            drop(handles);
        }
        Ok(())
    }

    /// Returns the keys of the nodes that are copied, in their order.
    pub(super) fn node_keys(&self) -> Result<KVVec<NodeKey>> {
        let mut keys = KVVec::new();
        for line in Iterator::chain(self.head.iter(), self.lines.iter()) {
            if let Line::Node(node) = line {
                pause()?;
                keys.push(node.key, FLAGS)?;
            }
        }
        sort_by_key(&mut keys, |key| *key);
        Ok(keys)
    }

    /// Looks through the handles of all processes for those that hold the nodes that were copied.
    /// The driver has no list of them, because nothing but this needs one.
    pub(super) fn find_holders(&mut self) -> Result {
        let wanted = self.node_keys()?;
        if wanted.is_empty() {
            return Ok(());
        }
        let held = &mut self.holders.0;
        let mut few = KVVec::with_capacity(FEW, FLAGS)?;
        for process in registry::opened() {
            let mut next = Some(0);
            while let Some(from) = next {
                pause()?;
                few.clear();
                let handles = process.handles.lock();
                next = handles.table.visit_leaf(from, |_, reference| {
                    // There is room.
                    let _ = few.push_within_capacity(key_of(&reference.node));
                });
                drop(handles);
                for key in &few {
                    if wanted.binary_search(key).is_ok() {
                        held.push((*key, process.pid()), FLAGS)?;
                    }
                }
            }
        }
        sort_by_key(held, |holder| *holder);
        Ok(())
    }
}
