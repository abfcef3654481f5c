// SPDX-License-Identifier: GPL-2.0
//! The parcels of Android 14's `IServiceManager`, as libbinder writes and reads them.

use crate::talk::{Outcome, Remote, Thread};
use binder_sys::*;
use std::sync::Arc;

const INTERFACE: &str = "android.os.IServiceManager";
/// The first letters of a parcel of the system's libbinder.
const SYSTEM: u32 = u32::from_be_bytes(*b"SYST");
const NO_WORK_SOURCE: i32 = -1;
/// What the object's interface is promised to stay: the same within the system's partition.
const SYSTEM_STABILITY: i32 = 0b00_1100;
const DUMP_PRIORITY_DEFAULT: i32 = 8;

const GET_SERVICE: u32 = 1;
const ADD_SERVICE: u32 = 3;
/// `IBinder::PING_TRANSACTION`.
pub const PING: u32 = u32::from_be_bytes(*b"_PNG");

fn int(parcel: &mut Parcel, value: i32) {
    parcel.bytes(&value.to_ne_bytes());
}

/// A string of 16-bit characters: their number, they themselves, a zero, and bytes up to the next multiple of four.
fn string(parcel: &mut Parcel, text: &str) {
    let characters: Vec<u16> = text.encode_utf16().collect();
    int(parcel, characters.len() as i32);
    for character in characters.iter().chain([&0]) {
        parcel.bytes(&character.to_ne_bytes());
    }
    parcel.data.resize(parcel.data.len().next_multiple_of(4), 0);
}

/// What every call begins with.
fn call() -> Parcel {
    let mut parcel = Parcel::new();
    int(&mut parcel, 0);
    int(&mut parcel, NO_WORK_SOURCE);
    int(&mut parcel, SYSTEM as i32);
    string(&mut parcel, INTERFACE);
    parcel
}

/// Tells the manager of a service; the exception that it throws, if it does.
pub fn add_service(thread: &mut Thread, name: &str, node: u64) -> Result<(), i32> {
    let mut parcel = call();
    string(&mut parcel, name);
    parcel.object(
        &FlatBinderObject::binder(node, node)
            .with_flags(ObjectFlags::ACCEPTS_FDS | ObjectFlags::TXN_SECURITY_CTX),
    );
    int(&mut parcel, SYSTEM_STABILITY);
    int(&mut parcel, 0);
    int(&mut parcel, DUMP_PRIORITY_DEFAULT);
    match thread.call(0, ADD_SERVICE, &parcel) {
        Outcome::Reply(answer) => match first_int(&answer.data) {
            0 => Ok(()),
            exception => Err(exception),
        },
        _ => panic!("the service manager does not answer"),
    }
}

/// Asks the manager for a service; none while there is none.
pub fn get_service(thread: &mut Thread, name: &str) -> Option<Arc<Remote>> {
    let mut parcel = call();
    string(&mut parcel, name);
    match thread.call(0, GET_SERVICE, &parcel) {
        Outcome::Reply(answer) => {
            assert_eq!(first_int(&answer.data), 0, "the service manager throws an exception for {name}");
            answer.objects.into_iter().next()
        }
        _ => panic!("the service manager does not answer"),
    }
}

fn first_int(data: &[u8]) -> i32 {
    data.get(..4).map_or(i32::MIN, |bytes| i32::from_ne_bytes(bytes.try_into().expect("four bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_padded_to_four_bytes() {
        let mut parcel = Parcel::new();
        string(&mut parcel, "ab");
        assert_eq!(parcel.data, [2, 0, 0, 0, b'a', 0, b'b', 0, 0, 0, 0, 0]);
        string(&mut parcel, "a");
        assert_eq!(parcel.data.len(), 20);
    }

    #[test]
    fn calls_begin_with_the_token_of_the_interface() {
        let parcel = call();
        assert_eq!(parcel.data[8..12], 0x5359_5354u32.to_ne_bytes());
        assert_eq!(parcel.data.len() % 4, 0);
        assert_eq!(first_int(&parcel.data[12..]), INTERFACE.len() as i32);
    }
}
