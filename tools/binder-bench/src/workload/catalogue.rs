// SPDX-License-Identifier: GPL-2.0
//! The list of all workloads: the only place that knows each of them.

use clap::{Args, Subcommand};

use super::Workload;
use crate::cli::Common;

/// A workload and what it is called: its subcommand.
pub type Named = (&'static str, Box<dyn Workload>);

macro_rules! workloads {
    ($($(#[$doc:meta])* $name:ident($module:ident),)*) => {
        /// A subcommand for each workload, in the order of the help.
        #[derive(Subcommand)]
        pub enum Selected {
            $($(#[$doc])* $name(Box<One<super::$module::Options>>),)*
        }

        impl Selected {
            /// The workload that was selected, and how to measure it.
            pub fn measurement(self) -> (Common, Named) {
                match self {
                    $(Selected::$name(one) => (one.common, (stringify!($module), Box::new(one.options))),)*
                }
            }
        }

        fn defaults() -> Vec<Named> {
            vec![$((stringify!($module), Box::new(default_of::<super::$module::Options>()))),*]
        }
    };
}

// `handles` comes after all others of Binder: drivers put off the end of a process, and that of one with so many handles takes long
// enough to disturb what follows.
workloads! {
    /// AOSP's binderThroughputTest: client/server pairs times payloads.
    Throughput(throughput),
    /// AOSP's binderRpcBenchmark: ping, arrays of bytes, a string of two pages, a new binder.
    Rpc(rpc),
    /// Batches of calls that nobody answers.
    Oneway(oneway),
    /// Files sent along with calls.
    Fds(fds),
    /// Binder objects sent along with calls, dropped each time or held.
    Objects(objects),
    /// Many clients, one server process with a pool of threads.
    Fanin(fanin),
    /// Calls inside calls, down to some depth.
    Nested(nested),
    /// Freezing and thawing an idle process.
    Freeze(freeze),
    /// Death notifications: asked for and withdrawn, and sent.
    Death(death),
    /// Oneway calls to a process whose space is nearly full.
    Spam(spam),
    /// A new handle in a process that has up to 100 000 already.
    Handles(handles),
    /// No Binder: two processes that share cache lines in known ways, to test what counts them.
    Sharing(sharing),
}

#[derive(Args)]
pub struct One<O: Args> {
    #[command(flatten)]
    pub options: O,
    #[command(flatten)]
    pub common: Common,
}

/// Every workload of Binder with the options that it has when none are given.
pub fn all() -> Vec<Named> {
    defaults().into_iter().filter(|(name, _)| *name != "sharing").collect()
}

/// What the command line makes of no options at all.
fn default_of<O: Args>() -> O {
    let matches = O::augment_args(clap::Command::new("defaults")).get_matches_from(["defaults"]);
    O::from_arg_matches(&matches).expect("every option of a workload has a default")
}
