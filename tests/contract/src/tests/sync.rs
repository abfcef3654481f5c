// SPDX-License-Identifier: GPL-2.0
//! Synchronous calls and replies: what arrives, and what it arrives with.

use crate::cases;
use crate::port::{bytes, empty};
use crate::stage::Stage;

cases! { "sync":
    every_size ["TXN-29", "TXN-17", "TXN-18"],
}

/// Bytes that differ from their neighbours and from those of another seed.
fn pattern(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 31 + i / 251 + seed * 7) as u8).collect()
}

fn every_size(t: &Stage) {
    let (server, client) = (t.manager(), t.client());
    for (i, size) in [0, 1, 7, 8, 4095, 4096, 4097, 65536].into_iter().enumerate() {
        let (question, answer) = (pattern(size, i), pattern(size, i + 100));
        let got = client.round_trip(0, &server, &bytes(&question), &bytes(&answer));
        assert_eq!(got, answer, "the answer of {size} bytes");
    }
    client.round_trip(0, &server, &empty(), &empty());
}
