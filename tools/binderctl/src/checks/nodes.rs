// SPDX-License-Identifier: GPL-2.0
//! Whether processes hold objects whose own process has ended.

use std::collections::BTreeMap;

use binder_logs::State as Log;

use crate::checks::finding::Finding;
use crate::checks::finding::State;
use crate::tasks::Names;
use crate::words;

/// Counts what each process holds of what has ended.
pub fn dead(state: &Log, names: &mut Names) -> State {
    let mut held: BTreeMap<(i32, &str), usize> = BTreeMap::new();
    for process in &state.processes {
        let count = process.references.iter().filter(|reference| reference.is_dead).count();
        if count > 0 {
            *held.entry((process.pid, &process.context)).or_default() += count;
        }
    }
    let findings = held.iter().map(|((pid, context), count)| {
        let who = names.of_process(*pid);
        Finding {
            message: format!(
                "process {who} on {context} holds {} of processes that have ended",
                words::count(*count, "object")
            ),
            next_step:
                "it should drop them when it is told of the death: linkToDeath, BC_REQUEST_DEATH_NOTIFICATION"
                    .into(),
            pid: Some(*pid),
            device: Some((*context).to_owned()),
            ..Default::default()
        }
    });
    State::of(findings.collect(), words::count(state.processes.len(), "process"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use binder_logs::Log as _;
    use binder_logs::Mode;

    #[test]
    fn holders_of_dead_objects_are_found() {
        let text = "binder state:
proc 20
context binder
  ref 5: desc 1 dead node 3 s 1 w 1 d 0000000000000000
  ref 6: desc 2 node 4 s 1 w 1 d 0000000000000000
proc 21
context binder
  ref 7: desc 1 node 4 s 1 w 1 d 0000000000000000
";
        let state = Log::parse("state", text.as_bytes(), Mode::Strict).unwrap();
        let answer = dead(&state, &mut Names::none());
        assert_eq!(answer.findings().len(), 1);
        assert_eq!(
            answer.findings()[0].message,
            "process 20 on binder holds 1 object of processes that have ended"
        );
    }
}
