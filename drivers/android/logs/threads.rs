// SPDX-License-Identifier: GPL-2.0

//! The threads of a process: what each of them is, calls and serves, and what is queued for it, for
//! the process, or at one of its nodes.

use super::{
    lines::{CallKey, Line, Prefixes, TransactionLine},
    snapshot::Snapshot,
    FEW, //
};
use crate::{
    common::netlink::Party,
    kernel_ext::link::View,
    process::{Pid, Process, ProcessState},
    pure::call_stack::Frame,
    thread::{Thread, WaitState},
    transaction::TransactionBox,
    work::Work, //
};
use kernel::{
    prelude::*,
    sync::{atomic::Relaxed, Arc}, //
};

/// How much of a queue is copied, under one lock. A queue cannot be left in its middle and found
/// again there: what was next may be anywhere then.
const MOST_QUEUED: usize = 1024;

/// The line in place of the items of a queue that are not copied.
const CUT: &str = "more than 1024";

/// Where the next threads begin.
struct Place {
    /// The first thread whose number is not less.
    thread: Pid,
    /// If it is this one and its line is copied: how many of its frames are left.
    left: Option<usize>,
}

impl Snapshot {
    /// Copies the threads of a process.
    pub(super) fn threads(&mut self, process: &Process) -> Result {
        let mut place = Place {
            thread: Pid::MIN,
            left: None,
        };
        let mut next = Some(FEW);
        while let Some(room) = next {
            self.make_room(room)?;
            let state = process.lock_state();
            next = self.few_threads(&state, &mut place, room);
            drop(state);
        }
        Ok(())
    }

    /// Copies a few threads from a place on, with not more than `room` lines, and moves the place
    /// behind them. Returns how many lines the next one needs room for, or nothing at the end.
    fn few_threads(
        &mut self,
        state: &ProcessState,
        place: &mut Place,
        room: usize,
    ) -> Option<usize> {
        let end = self.lines.len() + room;
        for _ in 0..FEW {
            let thread = state.threads.first_from(&place.thread)?;
            if thread.id != place.thread {
                place.left = None;
            }
            place.thread = thread.id;
            let own = thread.state_shared(state);
            if place.left.is_none() {
                if own.is_available() && !self.is_complete {
                    place.thread += 1;
                    continue;
                }
                if self.lines.len() == end {
                    break;
                }
                self.push(Line::Thread {
                    id: thread.id,
                    looper: looper_bits(&thread, state),
                    must_return: thread.must_return.load(Relaxed),
                });
            }
            // The stack may have become shorter since its last frames were copied.
            let depth = own.stack.frames.len();
            let mut left = place.left.map_or(depth, |left| left.min(depth));
            while left > 0 && self.lines.len() < end {
                left -= 1;
                self.frame(&thread, own.stack.frames.get(left));
            }
            place.left = Some(left);
            if left > 0 {
                return Some(FEW);
            }
            let queued = count(own.work.iter());
            if self.lines.len() + queued > end {
                return Some(FEW.max(queued));
            }
            let prefixes = Prefixes {
                work: "    ",
                transaction: "    pending transaction",
            };
            self.queue(own.work.iter(), state, thread.party(), &prefixes);
            *place = Place {
                thread: thread.id + 1,
                left: None,
            };
        }
        Some(FEW)
    }

    fn frame(&mut self, thread: &Arc<Thread>, frame: Option<&Frame<TransactionBox>>) {
        let own = thread.party();
        match frame {
            Some(Frame::Outgoing { serial, target, .. }) => self.push(Line::Outgoing {
                call: CallKey {
                    thread: Arc::as_ptr(thread).addr(),
                    serial: *serial,
                },
                from: own,
                target: *target,
            }),
            // The thread reads the outcome later.
            Some(Frame::Ended(outcome)) => self.push(Line::Transaction(
                "    outgoing transaction",
                TransactionLine::of(outcome, own),
            )),
            Some(Frame::Incoming(call)) => {
                self.record_call(call);
                self.push(Line::Incoming(TransactionLine::of(call, own)));
            }
            Some(Frame::Replying) | None => {}
        }
    }

    /// Copies what is queued for any thread of a process.
    pub(super) fn process_work(&mut self, process: &Process) -> Result {
        let to = Party {
            pid: process.pid(),
            tid: 0,
        };
        let prefixes = Prefixes {
            work: "  ",
            transaction: "  pending transaction",
        };
        let mut room = FEW;
        loop {
            self.make_room(room)?;
            let state = process.lock_state();
            let queued = count(state.work.iter());
            if queued <= room {
                self.queue(state.work.iter(), &state, to, &prefixes);
                return Ok(());
            }
            drop(state);
            room = queued;
        }
    }

    /// Copies a queue, for which there is room.
    pub(super) fn queue<'a>(
        &mut self,
        works: impl Iterator<Item = View<'a, Work>>,
        state: &ProcessState,
        to: Party,
        prefixes: &Prefixes,
    ) {
        for (number, work) in works.enumerate() {
            if number == MOST_QUEUED {
                self.push(Line::Fixed(prefixes.work, CUT));
                return;
            }
            if let Work::Call(call) = &*work {
                self.record_call(call);
            }
            if let Some(line) = Line::of_work(&work, state, to, prefixes) {
                self.push(line);
            }
        }
    }
}

/// Returns how many lines are copied of a queue, at most.
pub(super) fn count<'a>(works: impl Iterator<Item = View<'a, Work>>) -> usize {
    works.take(MOST_QUEUED + 1).count()
}

/// Returns the state of a thread in the bits of the C driver.
fn looper_bits(thread: &Thread, process: &ProcessState) -> u32 {
    let state = thread.state_shared(process);
    u32::from(state.looper.bits()) | u32::from(state.wait_state != WaitState::Awake) << 4
}
