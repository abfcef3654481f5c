// SPDX-License-Identifier: GPL-2.0
//! AOSP's binderThroughputTest in pairs: each client calls a server of its own with a payload, as fast as it can.
//!
//! Half of the workers are servers, registered as `binderWorker0`, `binderWorker1` …, and half are clients; all start
//! together and are timed call by call. A reply is empty, as there.
//!
//! Payloads that are too large for the space that libbinder maps are sent by one pair with a larger one.

use clap::Args;

use super::Workload;
use crate::exchange::{self, BinderCaller};
use crate::prelude::*;

const NAME: &str = "throughput";

/// Payloads, and numbers of pairs.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Bytes of a request.
    #[arg(long, value_delimiter = ',', default_values_t = USUAL, value_parser = clap::value_parser!(u32).range(0..=131_072))]
    pub sizes: Vec<u32>,
    /// Numbers of client/server pairs that run at the same time.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 32], value_parser = clap::value_parser!(u32).range(1..=64))]
    pub pairs: Vec<u32>,
}

/// The payloads of AOSP's table.
const USUAL: [u32; 3] = [0, 4096, 65536];

/// A request of one pair that maps four megabytes, for the usual space cannot hold it.
const LARGE: u32 = 1 << 20;

impl Workload for Options {
    fn set_up(&self, stage: &mut Stage) -> Result<()> {
        let pairs = if stage.alone { &[1] } else { &self.pairs[..] };
        add_pairs("binderWorker", (&self.sizes, pairs), stage)?;
        // `--sizes` replaces all sizes.
        if self.sizes == USUAL {
            stage.space = LARGEST_SPACE;
            add_pairs("binderLarge", (&[LARGE], &[1]), stage)?;
            stage.space = SPACE;
            add_deferred(stage)?;
        }
        Ok(())
    }
}

/// Starts as many pairs as any point needs, with services of this name, and adds the points.
fn add_pairs(service: &str, (sizes, pairs): (&[u32], &[u32]), stage: &mut Stage) -> Result<()> {
    let largest = sizes.iter().copied().max().unwrap_or(0);
    let mut clients = Vec::new();
    for pair in 0..pairs.iter().copied().max().unwrap_or(1) {
        let (name, service) = (format!("binder {{}} of pair {}", pair + 1), format!("{service}{pair}"));
        let serve =
            |talker: Talker| exchange::serve(talker.port().clone(), 0, TransactionFlags::empty(), |_| 0);
        clients.push(stage.pair((&name, pair), &service, serve, |talker, handle| {
            Ok(BinderCaller::new(talker.port().clone(), handle, largest))
        })?);
    }
    for &size in sizes {
        for &pairs in pairs {
            let label = Label { size, pairs, ..Label::new(NAME, "") };
            stage.add(label, 0, &clients[..pairs as usize]);
        }
    }
    Ok(())
}

/// Adds a pair whose server replies with deferred completions.
fn add_deferred(stage: &mut Stage) -> Result<()> {
    let flags = TransactionFlags::DEFER_COMPLETE;
    let serve = move |talker: Talker| exchange::serve(talker.port().clone(), 0, flags, |_| 0);
    let client = stage.pair(("binder {}, deferred", 0), "binderDeferred", serve, |talker, handle| {
        Ok(BinderCaller::new(talker.port().clone(), handle, 0))
    })?;
    stage.add(Label::new(NAME, "deferred"), 0, &[client]);
    Ok(())
}
