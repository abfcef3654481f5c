// SPDX-License-Identifier: GPL-2.0
//! The checks of `binderctl doctor`.

use crate::checks::seen::{Answer, Seen};
use crate::tasks::Names;

pub mod calls;
mod objects;
mod places;
pub mod seen;

/// A check with its name. Its input is an argument, so that tests can construct it.
pub type Check = (&'static str, fn(&Seen, &mut Names) -> Answer);

/// All checks, in the order in which one builds on another.
pub const CHECKS: [Check; 11] = [
    ("the kernel has a Binder driver", |seen, _| places::driver(seen.driver.as_ref())),
    ("binderfs is mounted", |seen, _| places::mounted(seen)),
    ("devices can be reached", |seen, _| places::reached(seen)),
    ("devices can be used by others than root", |seen, _| places::modes(seen)),
    ("log files can be read", |seen, _| places::readable(seen)),
    ("threads are left to serve calls", |seen, names| {
        seen.state()?;
        calls::pools(&seen.waiting, || seen.waiting_later(), names)
    }),
    ("no thread waits long for a reply", |seen, names| {
        seen.state()?;
        let wanted = calls::Wanted { limit_ms: seen.limits.waiting, ..Default::default() };
        calls::long(&seen.waiting, || seen.waiting_later(), &wanted, names)
    }),
    ("no threads wait for each other", |seen, names| {
        seen.state()?;
        calls::cycles(&seen.waiting, || seen.waiting_later(), &calls::Wanted::default(), names)
    }),
    ("space for oneway calls is left", |seen, names| {
        let stats = seen.stats.as_ref().map_err(|error| error.message.clone())?;
        objects::space(stats, seen.state()?, seen.log.as_ref().ok(), seen.limits.free, names)
    }),
    ("no process holds objects of ended processes", |seen, names| objects::dead(seen.state()?, names)),
    ("no call waits for a frozen process", |seen, _| calls::frozen(seen)),
];
