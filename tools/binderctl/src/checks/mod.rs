// SPDX-License-Identifier: GPL-2.0
//! What `binderctl doctor` looks for. A check takes what it looks at as arguments, so tests can give it anything.

use std::thread;
use std::time::Duration;

use binder_logs::State;

use crate::checks::finding::Check;
use crate::checks::finding::State as Answer;
use crate::checks::read::Read;
use crate::driver::Driver;
use crate::error::Result;
use crate::instances;
use crate::logs::Logs;
use crate::options::Options;
use crate::tasks::Names;
use crate::waiting::Waiting;

mod files;
pub mod finding;
mod frozen;
mod nodes;
mod places;
mod pools;
mod read;
mod space;
mod waits;

/// From when on something counts as wrong.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Milliseconds for which a thread may wait for a reply.
    pub waiting_ms: i64,
    /// Percent of a process's oneway space that have to be free.
    pub free_percent: i64,
}

/// How long after it was read a log is read again.
const LATER: Duration = Duration::from_millis(100);

/// Makes all checks, each of which says so if it cannot be made.
pub fn all(driver: Option<&Driver>, options: &Options, limits: Limits) -> Result<Vec<Check>> {
    let instances = match options.binderfs {
        Some(_) => vec![instances::chosen(options)?],
        None => instances::mounted()?,
    };
    let devices = instances.iter().map(|instance| (instance, instance.devices())).collect::<Vec<_>>();
    let wanted = options.device_name();
    let mut checks = vec![
        Check { name: "the kernel has a Binder driver", state: places::driver(driver) },
        Check { name: "binderfs is mounted", state: places::mounted(&instances) },
        Check { name: "devices can be used by others than root", state: places::modes(&devices, wanted) },
    ];
    let logs = Logs::find(options);
    let read = Read::from(&logs, wanted);
    checks.push(Check { name: "log files can be read", state: files::readable(&logs, &read, driver) });
    let again = || {
        thread::sleep(LATER);
        Read::from(&logs, wanted).waiting()
    };
    checks.extend(of_logs(&read, again, limits, &mut Names::new()));
    checks.push(Check { name: "no call waits for a frozen process", state: frozen::check(&devices, &read) });
    Ok(checks)
}

/// The checks that need nothing but log files.
fn of_logs(read: &Read, again: impl Fn() -> Waiting, limits: Limits, names: &mut Names) -> Vec<Check> {
    let needing_state =
        |make: &mut dyn FnMut(&State, &mut Names) -> Answer, names: &mut Names| match &read.state {
            Ok(state) => make(state, names),
            Err(error) => Answer::Skipped { why: error.message.clone() },
        };
    let waiting = read.waiting();
    vec![
        Check {
            name: "threads are left to serve calls",
            state: needing_state(&mut |_, names| pools::check(&waiting, names), names),
        },
        Check {
            name: "no thread waits long for a reply",
            state: needing_state(&mut |_, names| waits::long(&waiting, limits.waiting_ms, names), names),
        },
        Check {
            name: "no threads wait for each other",
            state: needing_state(&mut |_, names| waits::cycles(&waiting, &again, names), names),
        },
        Check {
            name: "space for oneway calls is left",
            state: match (&read.stats, &read.state) {
                (Ok(stats), Ok(state)) => {
                    space::check(stats, state, read.log.as_ref().ok(), limits.free_percent, names)
                }
                (Err(error), _) | (_, Err(error)) => Answer::Skipped { why: error.message.clone() },
            },
        },
        Check {
            name: "no process holds objects of ended processes",
            state: needing_state(&mut |state, names| nodes::dead(state, names), names),
        },
    ]
}
