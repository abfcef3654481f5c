// SPDX-License-Identifier: GPL-2.0
//! Whether calls wait for a thread where there is none to serve them.

use crate::checks::finding::Finding;
use crate::checks::finding::State;
use crate::tasks;
use crate::tasks::Names;
use crate::waiting::Pool;
use crate::waiting::Waiting;
use crate::words;

/// Looks at each process that has a call waiting for any of its threads.
pub fn check(waiting: &Waiting, names: &mut Names) -> State {
    let mut findings = Vec::new();
    for ((pid, context), pool) in &waiting.pools {
        let Some(longest) = pool.pending.iter().map(|(_, elapsed)| elapsed).max() else { continue };
        if !pool.idle.is_empty() || pool.may_grow && !pool.threads.is_empty() && !tasks::is_stopped(*pid) {
            continue;
        }
        let (why, next_step) = reason(*pid, pool);
        let who = names.of_process(*pid);
        let calls = words::count(pool.pending.len(), "call");
        findings.push(Finding {
            message: format!(
                "process {who} on {context}: {why}; waiting: {calls}, the longest for {longest} ms"
            ),
            next_step,
            pid: Some(*pid),
            device: Some(context.clone()),
            ..Default::default()
        });
    }
    State::of(findings, words::count(waiting.pools.len(), "pool"))
}

fn reason(pid: i32, pool: &Pool) -> (String, String) {
    let limit = pool.max.map(|max| format!(" (the driver may ask for {max})")).unwrap_or_default();
    if tasks::is_stopped(pid) {
        ("it is stopped".into(), format!("let it go on: kill -CONT {pid}, or detach the debugger"))
    } else if pool.threads.is_empty() {
        (
            "none of its threads has joined the pool".into(),
            "have it call joinThreadPool, or BC_ENTER_LOOPER and read".into(),
        )
    } else {
        (
            format!("its pool{limit} is busy: {}", words::count(pool.threads.len(), "thread")),
            "see below whom they wait for; allow more with setThreadPoolMaxThreadCount (BINDER_SET_MAX_THREADS), or make its calls shorter".into(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn found(threads: &[i32], idle: &[i32], pending: &[(i64, i64)], may_grow: bool) -> Vec<Finding> {
        let pool = Pool {
            threads: threads.iter().copied().collect(),
            idle: idle.iter().copied().collect(),
            pending: pending.to_vec(),
            max: Some(1),
            may_grow,
        };
        // No process has this number.
        let pools = BTreeMap::from([((i32::MAX, "binder".to_owned()), pool)]);
        check(&Waiting { pools, ..Default::default() }, &mut Names::none()).findings().to_vec()
    }

    #[test]
    fn calls_that_nobody_will_take_soon_are_found() {
        let findings = found(&[1, 2], &[], &[(5, 10), (4, 70)], false);
        assert!(findings[0].message.contains("its pool (the driver may ask for 1) is busy: 2 threads; waiting: 2 calls, the longest for 70 ms"), "{findings:?}");
        assert!(found(&[], &[], &[(5, 10)], true)[0]
            .message
            .contains("none of its threads has joined the pool"));
    }

    #[test]
    fn what_will_be_taken_is_not() {
        assert!(found(&[1, 2], &[2], &[(5, 10)], false).is_empty());
        assert!(found(&[1, 2], &[], &[(5, 10)], true).is_empty());
        assert!(found(&[1], &[], &[], false).is_empty());
    }
}
