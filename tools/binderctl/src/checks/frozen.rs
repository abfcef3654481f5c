// SPDX-License-Identifier: GPL-2.0
//! Whether calls wait for a process that is frozen.
//!
//! Log files do not tell who is frozen. A device does: it says of a process what came for it since it was frozen, and
//! forgets that when it is thawed. So who is frozen, and has got nothing since, is not found.

use std::collections::BTreeMap;

use binder_logs::Process;
use binder_logs::State as Log;
use binder_logs::Transaction;
use binder_logs::Work;
use binder_sys::BinderFrozenStatusInfo;

use crate::checks::finding::Finding;
use crate::checks::finding::State;
use crate::checks::read::Read;
use crate::error::Result;
use crate::instances;
use crate::instances::Instance;
use crate::words;

/// Asks a device of each process that has something waiting.
pub fn check(devices: &[(&Instance, Result<Vec<instances::Device>>)], read: &Read) -> State {
    let state = match &read.state {
        Ok(state) => state,
        Err(error) => return State::Skipped { why: error.message.clone() },
    };
    let paths = devices
        .iter()
        .flat_map(|(_, devices)| devices.as_deref().unwrap_or_default())
        .map(|device| &device.path);
    match paths.filter_map(|path| binder_sys::Device::open(path).ok()).next() {
        Some(device) => of(state, |pid| device.frozen_info(pid as u32).ok()),
        None => State::Skipped { why: "no device can be opened to ask who is frozen".into() },
    }
}

fn of(state: &Log, ask: impl Fn(i32) -> Option<BinderFrozenStatusInfo>) -> State {
    let mut waiting: BTreeMap<i32, usize> = BTreeMap::new();
    for process in &state.processes {
        *waiting.entry(process.pid).or_default() += pending(process).count();
    }
    waiting.retain(|_, count| *count > 0);
    let asked = waiting.len();
    let findings = waiting.into_iter().filter_map(|(pid, count)| {
        let info = ask(pid)?;
        // Another bit says that calls are under way, to whomever.
        let has_refused = info.sync_recv & 1 != 0;
        if !has_refused && info.async_recv == 0 {
            return None;
        }
        let refused = if has_refused { "; calls that wait for a reply were refused" } else { "" };
        Some(Finding {
            message: format!(
                "process {pid} is frozen, with {} waiting for it{refused}",
                words::count(count, "call")
            ),
            next_step: format!(
                "thaw process {pid} (BINDER_FREEZE with enable 0), or freeze its callers, too"
            ),
            pid: Some(pid),
            ..Default::default()
        })
    });
    State::of(findings.collect(), format!("{} with calls waiting", words::count(asked, "process")))
}

/// Calls that wait for a process: for any of its threads, or behind a oneway call to the same object.
fn pending(process: &Process) -> impl Iterator<Item = &Transaction> {
    let all = process.work.iter().chain(process.nodes.iter().flat_map(|node| &node.work));
    all.filter_map(|work| match work {
        Work::Transaction(transaction) => Some(transaction),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use binder_logs::Log as _;
    use binder_logs::Mode;

    fn found(sync_recv: u32, async_recv: u32) -> Vec<Finding> {
        let text = "binder state:
proc 20
context binder
  pending transaction 8: 0000000000000001 from 10:11 to 20:0 code 1 flags 1 pri 0 a1 r0 elapsed 5ms node 3 size 300:0 offset 0
proc 21
context binder
";
        let state = Log::parse("state", text.as_bytes(), Mode::Strict).unwrap();
        let ask = |pid| Some(BinderFrozenStatusInfo { pid: pid as u32, sync_recv, async_recv });
        of(&state, ask).findings().to_vec()
    }

    #[test]
    fn who_is_frozen_and_has_calls_waiting_is_found() {
        assert!(found(0, 0).is_empty() && found(2, 0).is_empty());
        assert_eq!(found(0, 1)[0].message, "process 20 is frozen, with 1 call waiting for it");
        assert!(found(1, 1)[0].message.ends_with("calls that wait for a reply were refused"));
    }
}
