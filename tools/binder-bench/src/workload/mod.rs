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
use crate::yardstick;

/// A workload with its options.
pub trait Workload {
    /// What it is called: its subcommand.
    fn name(&self) -> &'static str;

    /// Starts the processes that use Binder, and adds the points.
    fn add_binder(&self, stage: &mut Stage) -> Result<()>;

    /// The same of what to compare Binder with: usually one null round trip, which tells how fast the machine was.
    fn add_yardsticks(&self, carriers: &Carriers, stage: &mut Stage) -> Result<()> {
        yardstick::add_to(self.name(), carriers, stage)
    }

    /// Everything that these carry.
    fn set_up(&self, carriers: &Carriers, stage: &mut Stage) -> Result<()> {
        self.add_yardsticks(carriers, stage)?;
        if carriers.binder() {
            self.add_binder(stage)?;
        }
        Ok(())
    }

    /// Who carries calls if nobody says otherwise.
    fn carriers(&self) -> Carriers {
        Carriers::usual()
    }
}

/// Every workload with the options that it has when none are given. `handles` comes last: drivers put off the end of
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
fn defaults<O: clap::Args + Workload + 'static>() -> Box<dyn Workload> {
    let command = O::augment_args(clap::Command::new("defaults"));
    let matches: ArgMatches = command.get_matches_from(["defaults"]);
    Box::new(O::from_arg_matches(&matches).expect("every option of a workload has a default"))
}
