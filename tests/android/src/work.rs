// SPDX-License-Identifier: GPL-2.0
//! What all services do: they answer bytes with a number that depends on each of them.

use crate::shared::{Calls, Started};
use crate::talk::{Answer, Message, Outcome, Remote, Thread};
use binder_sys::{FlatBinderObject, Parcel};
use nix::errno::Errno;
use rand::rngs::SmallRng;
use rand::Rng;

/// Answer the bytes.
pub const WORK: u32 = 1;
/// An application introduces itself to the system, with its number and an object.
pub const ATTACH: u32 = 2;
/// An application asks the system for another one's object.
pub const PEER: u32 = 3;
/// Nobody waits for an answer: the sender's number, and how many there were before.
pub const NOTE: u32 = 4;

/// The one object of a process.
pub const NODE: u64 = 0x1000;

/// The largest call.
const LARGEST: usize = 4000;

/// A number that depends on each byte and its place.
fn sum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// The answer to [`WORK`].
pub fn answer(call: &Message) -> Answer {
    numbers(&[sum(&call.data)])
}

/// Numbers as an answer.
pub fn numbers(values: &[u64]) -> Answer {
    Answer { parcel: parcel_of(values), keeps: None }
}

/// Numbers as a parcel.
pub fn parcel_of(values: &[u64]) -> Parcel {
    let mut parcel = Parcel::new();
    for value in values {
        parcel.bytes(&value.to_ne_bytes());
    }
    parcel
}

/// A number out of a message.
pub fn number(data: &[u8], index: usize) -> u64 {
    let bytes = &data[index * 8..index * 8 + 8];
    u64::from_ne_bytes(bytes.try_into().expect("eight bytes"))
}

/// Numbers, and an object that the answer passes on, or none.
pub fn passed_on(values: &[u64], remote: Option<std::sync::Arc<Remote>>) -> Answer {
    let mut parcel = parcel_of(values);
    if let Some(remote) = &remote {
        parcel.object(&FlatBinderObject::strong_handle(remote.handle));
    }
    Answer { parcel, keeps: remote }
}

/// Whom a call is for.
#[derive(Clone, Copy)]
pub struct Callee<'a> {
    handle: u32,
    kind: Kind<'a>,
}

/// How a call may end, beside that there was no space.
#[derive(Clone, Copy)]
enum Kind<'a> {
    /// It is answered: the callee lives as long as all, is never frozen, and may be called.
    Service,
    /// It is answered, or its callee is dead or frozen, which that one writes down.
    Application(&'a Started),
    /// The security module refuses it.
    Forbidden,
}

impl<'a> Callee<'a> {
    /// A service, which answers.
    pub fn service(handle: u32) -> Self {
        Self { handle, kind: Kind::Service }
    }

    /// An application, which may be dead or frozen.
    pub fn application(handle: u32, app: &'a Started) -> Self {
        Self { handle, kind: Kind::Application(app) }
    }

    /// A service that the policy does not let the caller call.
    pub fn forbidden(handle: u32) -> Self {
        Self { handle, kind: Kind::Forbidden }
    }
}

/// Makes a call whose answer it checks, and counts how it ended.
pub fn call(thread: &mut Thread, callee: Callee<'_>, calls: &Calls, random: &mut SmallRng) {
    let length = random.random_range(0..LARGEST);
    let mut parcel = Parcel::new();
    parcel.data.resize(length, 0);
    random.fill(&mut parcel.data[..]);
    if let Some(message) = counted(thread, callee, WORK, &parcel, calls) {
        assert_eq!(number(&message.data, 0), sum(&parcel.data), "the answer is another call's");
    }
}

/// Makes a call and counts how it ended; the answer, if there is one. It may not end in another way than its callee's kind allows.
pub fn counted(
    thread: &mut Thread,
    callee: Callee<'_>,
    code: u32,
    parcel: &Parcel,
    calls: &Calls,
) -> Option<Message> {
    calls.made.add();
    match (thread.call(callee.handle, code, parcel), callee.kind) {
        (Outcome::Reply(message), Kind::Service | Kind::Application(_)) => {
            calls.replied.add();
            return Some(message);
        }
        (Outcome::Dead, Kind::Application(app)) => {
            app.seen_dead.add();
            calls.dead.add();
        }
        (Outcome::Frozen, Kind::Application(app)) => {
            app.seen_frozen.add();
            calls.frozen.add();
        }
        (Outcome::Failed(error), Kind::Forbidden) if -error == Errno::EPERM as i32 => calls.refused.add(),
        (Outcome::Failed(error), _) if -error == Errno::ENOSPC as i32 => calls.no_space.add(),
        (end, _) => panic!("a call {} ends so: {}", callee.kind.shown(), end.shown()),
    }
    None
}

impl Kind<'_> {
    fn shown(self) -> &'static str {
        match self {
            Self::Service => "of a service",
            Self::Application(_) => "of an application",
            Self::Forbidden => "that the policy forbids",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_depends_on_each_byte() {
        let bytes: Vec<u8> = (0..100).collect();
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert_ne!(sum(&bytes), sum(&other));
        }
        assert_ne!(sum(&bytes), sum(&bytes[..99]));
    }
}
