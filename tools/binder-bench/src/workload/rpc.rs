// SPDX-License-Identifier: GPL-2.0
//! The cases of AOSP's binderRpcBenchmark over the kernel's Binder: parcels as large as libbinder makes them.
//!
//! The server returns the request's contents: nothing (`pingTransaction`), an array of bytes (`throughput/N`), a string
//! of two pages (`repeatTwoPageString`, sent as UTF-16), or a new binder (`repeatBinder`). The odd sizes lie just below
//! a page and powers of two of it, and around 64 KiB.

use clap::Args;

use super::{Sender, Workload};
use crate::exchange::{self, BinderCaller};
use crate::prelude::*;

const NAME: &str = "rpc";

/// The header that libbinder writes before the arguments of a call: strict mode, work source and a magic number, four bytes each,
/// then `IBinderRpcBenchmark` in UTF-16 with its length and a final zero.
const TOKEN: u32 = 12 + 4 + 2 * 20;

/// The word that it writes before a result: the status of an exception.
const STATUS: u32 = 4;

/// The word that it writes before an array or a string: the length.
const LENGTH: u32 = 4;

/// The word that it writes behind a binder: the stability of its interface.
const STABILITY: [u8; 4] = 12u32.to_ne_bytes();

/// Characters of two pages.
const TWO_PAGES: u32 = 2 * 4096;

#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Bytes of the arrays of `throughput/N`.
    #[arg(long, value_delimiter = ',', default_values_t = [64, 1024, 2048, 4096, 8182, 16364, 32728, 65535, 65536, 65537], value_parser = clap::value_parser!(u32).range(1..=131_072))]
    pub sizes: Vec<u32>,
}

impl Options {
    /// The cases whose parcels contain only bytes: their names, and bytes of a request.
    fn cases(&self) -> Vec<(String, u32)> {
        let padded = |length: u32| TOKEN + LENGTH + length.next_multiple_of(4);
        let mut cases = vec![("pingTransaction".into(), 0)];
        cases.extend(self.sizes.iter().map(|size| (format!("throughput/{size}"), padded(*size))));
        cases.push(("repeatTwoPageString".into(), padded(2 * (TWO_PAGES + 1))));
        cases
    }
}

/// Bytes of a reply: the request's contents behind another header.
fn reply_size(request: u64) -> u64 {
    request.checked_sub(u64::from(TOKEN)).map_or(0, |arguments| arguments + u64::from(STATUS))
}

impl Workload for Options {
    fn set_up(&self, stage: &mut Stage) -> Result<()> {
        let cases = self.cases();
        let largest = cases.iter().map(|case| case.1).max().unwrap_or(0);
        let serve = |talker: Talker| {
            exchange::serve(talker.port().clone(), largest, TransactionFlags::empty(), reply_size)
        };
        let client = stage.pair(("rpc {}", 0), NAME, serve, |talker, handle| {
            Ok(BinderCaller::new(talker.port().clone(), handle, largest))
        })?;
        for (name, size) in cases {
            let label = Label { size, reply: reply_size(size.into()) as u32, ..Label::new(NAME, &name) };
            stage.add(label, 0, &[client]);
        }
        let client = stage.pair(("binder {}", 0), "rpcBinder", serve_binders, |talker, handle| {
            let sender = Sender::new(talker, handle);
            Ok(BinderRepeater { sender, next: 1 << 32, parcel: Parcel::new() })
        })?;
        let label = Label { size: TOKEN + 28, reply: STATUS + 28, ..Label::new(NAME, "repeatBinder") };
        stage.add(label, 0, &[client]);
        Ok(())
    }
}

/// Sends a binder that the driver has not seen before, and gets it back.
struct BinderRepeater {
    sender: Sender,
    next: u64,
    parcel: Parcel,
}

impl Caller for BinderRepeater {
    fn call(&mut self) -> Result<()> {
        self.next += 16;
        self.parcel.data.clear();
        self.parcel.offsets.clear();
        let object = FlatBinderObject::binder(self.next, self.next);
        self.parcel.bytes(&[0; TOKEN as usize]).object(&object).bytes(&STABILITY);
        self.sender.send(&self.parcel, 1, TransactionFlags::ACCEPT_FDS)
    }
}

/// Acquires each binder, returns it, and releases it, as libbinder does with a proxy.
fn serve_binders(mut talker: Talker) -> Result<()> {
    let mut parcel = Parcel::new();
    loop {
        let call = talker.next_call()?;
        let handle = talker.port().object(&call, TOKEN.into())?.handle();
        parcel.data.clear();
        parcel.offsets.clear();
        parcel
            .bytes(&[0; STATUS as usize])
            .object(&FlatBinderObject::strong_handle(handle))
            .bytes(&STABILITY);
        talker.out.increfs(handle).acquire(handle).free_buffer(call.buffer);
        talker.out.reply(&parcel.to_caller(TransactionFlags::empty()));
        talker.out.release(handle).decrefs(handle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parcels_are_as_large_as_libbinders() {
        let cases = Options { sizes: vec![64, 8182, 65537] }.cases();
        let sizes: Vec<(&str, u32, u64)> =
            cases.iter().map(|(name, size)| (&name[..], *size, reply_size((*size).into()))).collect();
        assert_eq!(
            sizes,
            [
                ("pingTransaction", 0, 0),
                ("throughput/64", 124, 72),
                ("throughput/8182", 8244, 8192),
                ("throughput/65537", 65600, 65548),
                ("repeatTwoPageString", 16448, 16396),
            ]
        );
    }
}
