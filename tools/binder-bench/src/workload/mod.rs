// SPDX-License-Identifier: GPL-2.0
//! What can be measured: one file for each workload.
//!
//! A workload starts its processes on a [`Stage`] and adds the points that can be measured with them. Its client is a
//! [`crate::caller::Caller`]; the loops that time and count it are the same for all.

pub mod death;
pub mod fanin;
pub mod fds;
pub mod freeze;
pub mod handles;
pub mod nested;
pub mod objects;
pub mod oneway;
pub mod rpc;
pub mod spam;
pub mod throughput;

use clap::ArgMatches;

use crate::cli::Carriers;
use crate::error::Result;
use crate::stage::Stage;

/// A workload with its options.
pub trait Workload {
    /// Starts the processes, and adds the points.
    fn set_up(&self, carriers: &Carriers, stage: &mut Stage) -> Result<()>;

    /// Who carries calls if nobody says otherwise.
    fn carriers(&self) -> Carriers {
        Carriers::usual()
    }
}

/// Every workload with the options that it has when none are given. `handles` comes last: drivers put off the end of
/// a process, and that of one with so many handles takes long enough to disturb what follows.
pub fn all() -> Vec<(&'static str, Box<dyn Workload>)> {
    vec![
        (throughput::NAME, defaults::<throughput::Options>()),
        (rpc::NAME, defaults::<rpc::Options>()),
        (oneway::NAME, defaults::<oneway::Options>()),
        (fds::NAME, defaults::<fds::Options>()),
        (objects::NAME, defaults::<objects::Options>()),
        (fanin::NAME, defaults::<fanin::Options>()),
        (nested::NAME, defaults::<nested::Options>()),
        (freeze::NAME, defaults::<freeze::Options>()),
        (death::NAME, defaults::<death::Options>()),
        (spam::NAME, defaults::<spam::Options>()),
        (handles::NAME, defaults::<handles::Options>()),
    ]
}

/// What the command line makes of no options at all.
fn defaults<O: clap::Args + Workload + 'static>() -> Box<dyn Workload> {
    let command = O::augment_args(clap::Command::new("defaults"));
    let matches: ArgMatches = command.get_matches_from(["defaults"]);
    Box::new(O::from_arg_matches(&matches).expect("every option of a workload has a default"))
}
