// SPDX-License-Identifier: GPL-2.0
//! The workloads: one file for each, and the list of them.
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
pub mod sharing;
pub mod spam;
pub mod throughput;

use clap::{Args, Subcommand};

use crate::cli::Common;
use crate::prelude::*;

pub trait Workload {
    /// Starts the workload's processes, and adds its points.
    fn set_up(&self, stage: &mut Stage) -> Result<()>;
}

/// A client that sends parcels, and gives each reply back with the next call.
pub struct Sender {
    pub talker: Talker,
    handle: u32,
    previous: Option<u64>,
}

impl Sender {
    /// A client that calls the node behind `handle`.
    pub fn new(talker: Talker, handle: u32) -> Sender {
        Sender { talker, handle, previous: None }
    }

    /// Calls with a parcel and waits for the reply.
    #[inline]
    pub fn send(&mut self, parcel: &Parcel, code: u32, flags: TransactionFlags) -> Result<()> {
        if let Some(buffer) = self.previous.take() {
            self.talker.out.free_buffer(buffer);
        }
        let call = parcel.to_handle(self.handle, code, flags);
        self.previous = Some(self.talker.call(&call)?.buffer);
        Ok(())
    }
}

/// A workload and its name, the subcommand.
pub type Named = (&'static str, Box<dyn Workload>);

macro_rules! workloads {
    ($($(#[$doc:meta])* $name:ident($module:ident),)*) => {
        /// A subcommand for each workload, in the order of the help.
        #[derive(Subcommand)]
        pub enum Selected {
            $($(#[$doc])* $name(Box<One<$module::Options>>),)*
        }

        impl Selected {
            /// The workload that was selected, and how to measure it.
            pub fn measurement(self) -> (Common, Box<dyn Workload>) {
                match self {
                    $(Selected::$name(one) => (one.common, Box::new(one.options)),)*
                }
            }
        }

        fn defaults() -> Vec<Named> {
            vec![$((stringify!($module), Box::new(default_of::<$module::Options>()))),*]
        }
    };
}

// `handles` comes last of Binder's: drivers defer the end of a process, and with so many handles it takes long enough
// to disturb the next workload.
workloads! {
    /// AOSP's binderThroughputTest: client/server pairs times payloads.
    Throughput(throughput),
    /// AOSP's binderRpcBenchmark: ping, arrays of bytes, a string of two pages, a new binder.
    Rpc(rpc),
    /// Batches of oneway calls.
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
    /// Death notifications: requested and withdrawn, and sent.
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

/// The options of a command line without options.
fn default_of<O: Args>() -> O {
    let matches = O::augment_args(clap::Command::new("defaults")).get_matches_from(["defaults"]);
    O::from_arg_matches(&matches).expect("every option of a workload has a default")
}
