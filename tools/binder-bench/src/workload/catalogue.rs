// SPDX-License-Identifier: GPL-2.0
//! The list of all workloads: the only place that knows each of them.

use clap::Args;
use clap::Subcommand;

use super::death;
use super::fanin;
use super::fds;
use super::freeze;
use super::handles;
use super::nested;
use super::objects;
use super::oneway;
use super::rpc;
use super::sharing;
use super::spam;
use super::throughput;
use super::Workload;
use crate::cli::Common;

/// A subcommand for each workload, in the order of the help.
#[derive(Subcommand)]
pub enum Selected {
    /// AOSP's binderThroughputTest: client/server pairs times payloads.
    Throughput(Box<One<throughput::Options>>),
    /// AOSP's binderRpcBenchmark: ping, arrays of bytes, a string of two pages, a new binder.
    Rpc(Box<One<rpc::Options>>),
    /// Batches of calls that nobody answers.
    Oneway(Box<One<oneway::Options>>),
    /// Files sent along with calls.
    Fds(Box<One<fds::Options>>),
    /// Binder objects sent along with calls, dropped each time or held.
    Objects(Box<One<objects::Options>>),
    /// Many clients, one server process with a pool of threads.
    Fanin(Box<One<fanin::Options>>),
    /// Calls inside calls, down to some depth.
    Nested(Box<One<nested::Options>>),
    /// Freezing and thawing an idle process.
    Freeze(Box<One<freeze::Options>>),
    /// Death notifications: asked for and withdrawn, and sent.
    Death(Box<One<death::Options>>),
    /// A new handle in a process that has up to 100 000 already.
    Handles(Box<One<handles::Options>>),
    /// Oneway calls to a process whose space is nearly full.
    Spam(Box<One<spam::Options>>),
    /// No Binder: two processes that share cache lines in known ways, to test what counts them.
    Sharing(Box<One<sharing::Options>>),
}

impl Selected {
    /// The workload that was selected, and how to measure it.
    pub fn measurement(self) -> (Common, Vec<Box<dyn Workload>>) {
        match self {
            Selected::Throughput(one) => one.parts(),
            Selected::Rpc(one) => one.parts(),
            Selected::Oneway(one) => one.parts(),
            Selected::Fds(one) => one.parts(),
            Selected::Objects(one) => one.parts(),
            Selected::Fanin(one) => one.parts(),
            Selected::Nested(one) => one.parts(),
            Selected::Freeze(one) => one.parts(),
            Selected::Death(one) => one.parts(),
            Selected::Handles(one) => one.parts(),
            Selected::Spam(one) => one.parts(),
            Selected::Sharing(one) => one.parts(),
        }
    }
}

/// One workload with its options.
#[derive(Args)]
pub struct One<O: Args> {
    /// What only this workload has.
    #[command(flatten)]
    pub options: O,
    /// What all have.
    #[command(flatten)]
    pub common: Common,
}

impl<O: Args + Workload + 'static> One<O> {
    fn parts(self) -> (Common, Vec<Box<dyn Workload>>) {
        (self.common, vec![Box::new(self.options)])
    }
}

/// Every workload of Binder with the options that it has when none are given. `handles` comes last: drivers put off the end of
/// a process, and that of one with so many handles takes long enough to disturb what follows.
pub fn all() -> Vec<Box<dyn Workload>> {
    vec![
        defaults::<throughput::Options>(),
        defaults::<rpc::Options>(),
        defaults::<oneway::Options>(),
        defaults::<fds::Options>(),
        defaults::<objects::Options>(),
        defaults::<fanin::Options>(),
        defaults::<nested::Options>(),
        defaults::<freeze::Options>(),
        defaults::<death::Options>(),
        defaults::<spam::Options>(),
        defaults::<handles::Options>(),
    ]
}

/// What the command line makes of no options at all.
fn defaults<O: Args + Workload + 'static>() -> Box<dyn Workload> {
    let command = O::augment_args(clap::Command::new("defaults"));
    let matches = command.get_matches_from(["defaults"]);
    Box::new(O::from_arg_matches(&matches).expect("every option of a workload has a default"))
}
