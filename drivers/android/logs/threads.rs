// SPDX-License-Identifier: GPL-2.0

//! The threads of a process: what each of them is, calls and serves, and what is queued for it.

use super::{
    queue, search,
    slice::Slice,
    state::Record,
    transactions::{Data, Line, Party},
    work::Prefixes,
};
use crate::{
    process::{Pid, ProcessState},
    pure::{
        call_stack::{Frame, FrameId},
        visits_left::VisitsLeft, //
    },
    thread::{Thread, WaitState}, //
};
use kernel::{
    seq_print,
    sync::{atomic::Relaxed, Arc},
};

/// Where a record begins.
pub(super) struct Place {
    /// The first thread whose number is not less, or this one, if its line is written.
    thread: Pid,
    /// How many threads are left to visit, once the first one has been.
    left: Option<VisitsLeft>,
    part: Part,
}

/// What of a thread is written next.
enum Part {
    /// What it is.
    Line,
    /// Its frames, the innermost first: those below this place.
    Frames(usize),
    /// What is queued for it.
    Work(queue::Place),
}

impl Place {
    pub(super) const START: Self = Self {
        thread: Pid::MIN,
        left: None,
        part: Part::Line,
    };

    /// Returns this part of a thread.
    fn at(&self, thread: Pid, part: Part) -> Self {
        Self {
            thread,
            left: self.left,
            part,
        }
    }

    fn behind(&self, thread: Pid) -> Self {
        self.at(thread + 1, Part::Line)
    }
}

/// Writes a record. Returns the next one.
#[inline(never)] // Or all that is written has one stack frame.
pub(super) fn show(record: &mut Record<'_>, place: &Place) -> Option<Place> {
    let number = place.thread;
    let next = match &place.part {
        Part::Line => return show_first_from(record, place),
        Part::Frames(below) => {
            of_number(record, number).map(|thread| show_frames(record, &thread, *below))
        }
        Part::Work(work) => of_number(record, number)
            .and_then(|thread| show_work(record, &thread, work))
            .map(Part::Work),
    };
    Some(match next {
        Some(part) => place.at(number, part),
        None => place.behind(number),
    })
}

fn of_number(record: &Record<'_>, number: Pid) -> Option<Arc<Thread>> {
    record.process.lock_state().threads.get(&number).cloned()
}

/// Writes what a thread is.
fn show_first_from(record: &mut Record<'_>, place: &Place) -> Option<Place> {
    let state = record.process.lock_state();
    let mut left = place
        .left
        .unwrap_or_else(|| VisitsLeft::of(state.threads.len()));
    if !left.take(1) {
        return None;
    }
    let thread = state.threads.first_from(&place.thread)?;
    let looper = looper_bits(&thread, &state);
    let depth = thread.state_shared(&state).stack.depth();
    let is_empty = thread.state_shared(&state).is_available();
    drop(state);
    let place = Place {
        left: Some(left),
        ..Place::START
    };
    if is_empty && !record.is_complete {
        return Some(place.behind(thread.id));
    }
    record.head();
    // No thread is used by others but by references that need not be counted.
    seq_print!(
        record.out,
        "  thread {}: l {looper:02x} need_return {} tr 0\n",
        thread.id,
        u8::from(thread.must_return.load(Relaxed))
    );
    Some(place.at(thread.id, Part::Frames(depth)))
}

/// Returns the state of a thread in the bits of the C driver.
fn looper_bits(thread: &Thread, process: &ProcessState) -> u32 {
    let state = thread.state_shared(process);
    u32::from(state.looper.bits()) | u32::from(state.wait_state != WaitState::Awake) << 4
}

/// A frame as it is copied.
enum Copied {
    /// A call that the thread makes, to a process of this pid.
    Outgoing(FrameId, Pid),
    /// A call of the thread whose outcome it reads later.
    Ended(Line),
    Incoming(Line),
}

fn show_frames(record: &mut Record<'_>, thread: &Arc<Thread>, below: usize) -> Part {
    let own = Party::of(thread);
    let mut frames = Slice::new();
    let mut place = below;
    let state = record.process.lock_state();
    let stack = &thread.state_shared(&state).stack;
    while place > 0 && !frames.is_full() {
        place -= 1;
        match stack.get(place) {
            Some(Frame::Outgoing { serial, target, .. }) => {
                let frame = FrameId {
                    // CAST: as many frames as a `FrameId` can name.
                    place: place as u32,
                    serial: *serial,
                };
                frames.push(Copied::Outgoing(frame, *target));
            }
            Some(Frame::Ended(outcome)) => frames.push(Copied::Ended(Line::of(outcome, own))),
            Some(Frame::Incoming(call)) => frames.push(Copied::Incoming(Line::of(call, own))),
            Some(Frame::Replying) | None => {}
        }
    }
    drop(state);
    for frame in frames.iter() {
        record.head();
        match frame {
            Copied::Outgoing(frame, target) => {
                let mut line =
                    search::call(thread, *frame, *target).unwrap_or_else(|| Line::on_its_way(own));
                line.data = Data::Elsewhere;
                line.write("    outgoing transaction", record.out);
            }
            Copied::Ended(line) => line.write("    outgoing transaction", record.out),
            Copied::Incoming(line) => {
                let mut line = *line;
                line.data = search::data(record.process, line.id);
                line.write("    incoming transaction", record.out);
            }
        }
    }
    match place {
        0 => Part::Work(queue::Place::START),
        below => Part::Frames(below),
    }
}

fn show_work(
    record: &mut Record<'_>,
    thread: &Arc<Thread>,
    place: &queue::Place,
) -> Option<queue::Place> {
    let to = Party::of(thread);
    let left = place.left(|| queue::count(record.process, Some(thread)));
    let state = record.process.lock_state();
    let works = queue::of(&state, Some(thread)).iter(place.position());
    let lines = queue::Lines::of(works, left, &state, to);
    drop(state);
    let prefixes = Prefixes {
        work: "    ",
        transaction: "    pending transaction",
    };
    lines.write(&prefixes, record)
}
