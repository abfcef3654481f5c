// SPDX-License-Identifier: GPL-2.0
//! A call stack, compared with a vector of a thread's calls: a frame names a call that the thread
//! has made as long as the call lasts, and nothing after that.

use super::*;
use crate::pure::call_stack::{CallStack, Frame, FrameId};

/// A call that the thread serves, or the outcome of one that it has made: a number.
type Transaction = u32;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The thread makes a call.
    Call,
    /// It is given one.
    Serve,
    /// It replies, in one go or in two.
    Reply(bool),
    /// The call that it made last but so many ends.
    End(usize),
    /// It reads of an outcome that was kept.
    Read,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Call),
        2 => Just(Step::Serve),
        2 => any::<bool>().prop_map(Step::Reply),
        3 => (0..4usize).prop_map(Step::End),
        1 => Just(Step::Read),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Waits(u64),
    Ended(Transaction),
    Serves(Transaction),
}

fn make_room(stack: &mut CallStack<Transaction>) {
    if let Some(shortage) = stack.shortage().unwrap() {
        let room = shortage.allocate(GFP_KERNEL).unwrap();
        assert!(atomic(|| stack.frames.add_room(room)).is_none());
    }
}

fn check(stack: &CallStack<Transaction>, model: &[Doing], made: &[FrameId]) {
    assert_eq!(stack.frames.last().is_none(), model.is_empty());
    assert_eq!(stack.is_calling(), !model.is_empty());
    let innermost = stack.frames.last().map(|frame| match frame {
        Frame::Outgoing { serial, .. } => Doing::Waits(*serial),
        Frame::Ended(outcome) => Doing::Ended(*outcome),
        Frame::Incoming(call) => Doing::Serves(*call),
        Frame::Replying => unreachable!("replies end at once here"),
    });
    assert_eq!(innermost, model.last().copied());
    for frame in made {
        let place = model.iter().position(|doing| *doing == Doing::Waits(frame.serial));
        assert_eq!(stack.waits_for(*frame), place.is_some());
        let served = match place.and_then(|place| model.get(place.checked_sub(1)?)) {
            Some(Doing::Serves(call)) => Some(call),
            _ => None,
        };
        assert_eq!(stack.served_during(*frame), served);
    }
}

fn live(steps: &[Step]) {
    let mut stack = CallStack::new();
    let (mut model, mut made, mut next) = (Vec::new(), Vec::<FrameId>::new(), 0);
    for step in steps {
        next += 1;
        match *step {
            Step::Call => {
                make_room(&mut stack);
                let frame = atomic(|| stack.push_outgoing(0));
                assert!(made.iter().all(|other| other.serial != frame.serial));
                model.push(Doing::Waits(frame.serial));
                made.push(frame);
            }
            Step::Serve => {
                make_room(&mut stack);
                atomic(|| stack.frames.push(Frame::Incoming(next)).is_ok());
                model.push(Doing::Serves(next));
            }
            Step::Reply(at_once) => {
                let wanted = match model.last() {
                    Some(Doing::Serves(call)) => Some(*call),
                    _ => None,
                };
                let served = if at_once {
                    atomic(|| stack.pop_incoming())
                } else {
                    let served = atomic(|| stack.begin_reply());
                    assert!(served.is_none() || matches!(stack.frames.last(), Some(Frame::Replying)));
                    // The calls below report no end until then.
                    assert!(served.is_none() || atomic(|| stack.pop_ended()).is_none());
                    atomic(|| stack.end_reply());
                    served
                };
                assert_eq!(served, wanted);
                if wanted.is_some() {
                    model.pop();
                }
            }
            Step::End(back) => {
                let Some(frame) = made.iter().rev().nth(back).copied() else { continue };
                let innermost = model.last() == Some(&Doing::Waits(frame.serial));
                assert_eq!(atomic(|| stack.pop_outgoing(frame)), innermost);
                if innermost {
                    model.pop();
                } else {
                    let waiting = model.iter().position(|d| *d == Doing::Waits(frame.serial));
                    let kept = atomic(|| stack.keep_outcome(frame, next));
                    assert_eq!(kept, waiting.map(|_| ()).ok_or(next));
                    if let Some(place) = waiting {
                        model[place] = Doing::Ended(next);
                    }
                }
            }
            Step::Read => {
                let wanted = match model.last() {
                    Some(Doing::Ended(outcome)) => Some(*outcome),
                    _ => None,
                };
                assert_eq!(atomic(|| stack.pop_ended()), wanted);
                if wanted.is_some() {
                    model.pop();
                }
            }
        }
        drop(stack.frames.take_surplus());
        check(&stack, &model, &made);
    }
}

proptest! {
    #[test]
    fn a_frame_names_its_call_as_long_as_that_lasts(steps in prop::collection::vec(step(), 0..200)) {
        keeps_nothing(|| live(&steps));
    }
}
