// SPDX-License-Identifier: GPL-2.0
//! What all services do: they answer bytes with a number that depends on each of them.

use crate::shared::Calls;
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

/// An object that the answer passes on, or none.
pub fn passed_on(remote: Option<std::sync::Arc<Remote>>) -> Answer {
    let mut parcel = Parcel::new();
    if let Some(remote) = &remote {
        parcel.object(&FlatBinderObject::strong_handle(remote.handle));
    }
    Answer { parcel, keeps: remote }
}

/// Makes a call whose answer it checks, and counts how it ended.
pub fn call(thread: &mut Thread, handle: u32, calls: &Calls, random: &mut SmallRng) {
    let length = random.random_range(0..LARGEST);
    let mut parcel = Parcel::new();
    parcel.data.resize(length, 0);
    random.fill(&mut parcel.data[..]);
    if let Some(message) = counted(thread, handle, WORK, &parcel, calls) {
        assert_eq!(number(&message.data, 0), sum(&parcel.data), "the answer is another call's");
    }
}

/// Makes a call and counts how it ended; the answer, if there is one.
pub fn counted(
    thread: &mut Thread,
    handle: u32,
    code: u32,
    parcel: &Parcel,
    calls: &Calls,
) -> Option<Message> {
    calls.made.add();
    match thread.call(handle, code, parcel) {
        Outcome::Reply(message) => {
            calls.replied.add();
            return Some(message);
        }
        Outcome::Dead => calls.dead.add(),
        Outcome::Frozen => calls.frozen.add(),
        Outcome::Failed(error) => match Errno::from_raw(-error) {
            Errno::EPERM => calls.refused.add(),
            Errno::ENOSPC => calls.no_space.add(),
            other => panic!("a call fails: {other}"),
        },
        Outcome::Accepted | Outcome::Pending => panic!("a call with an answer ends without one"),
    }
    None
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
