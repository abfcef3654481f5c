// SPDX-License-Identifier: GPL-2.0
//! Which calls are wanted.

use super::calls::Call;
use super::event::Id;
use super::event::Pid;

/// A call is wanted that has all that is asked for, and with it the calls that are nested in it.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// One of these processes is its caller or its server.
    pub processes: Vec<Pid>,
    /// It goes to one of these nodes.
    pub nodes: Vec<Id>,
    /// It has one of these codes.
    pub codes: Vec<u32>,
    /// It failed.
    pub failed: bool,
    /// It took so many nanoseconds at least.
    pub at_least: u64,
}

impl Filter {
    /// What is wanted of a call and those that are nested in it.
    pub fn wanted<'a>(&self, calls: &'a [Call]) -> impl Iterator<Item = &'a Call> + use<'a, '_> {
        let mut inside = None;
        calls.iter().filter(move |call| {
            inside = inside.filter(|depth| call.depth > *depth);
            if inside.is_none() && self.has_all(call) {
                inside = Some(call.depth);
            }
            inside.is_some()
        })
    }

    fn has_all(&self, call: &Call) -> bool {
        fn one_of<T: PartialEq>(list: &[T], value: T) -> bool {
            list.is_empty() || list.contains(&value)
        }
        (one_of(&self.processes, call.caller.process) || one_of(&self.processes, call.server.process))
            && one_of(&self.nodes, call.node)
            && one_of(&self.codes, call.code)
            && (!self.failed || call.end.is_failure())
            && call.total() >= self.at_least
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::recorded;

    fn wanted(filter: &Filter) -> Vec<Id> {
        let (trees, _) = recorded::of_c();
        trees.iter().flat_map(|calls| filter.wanted(calls).map(|call| call.id).collect::<Vec<_>>()).collect()
    }

    #[test]
    fn nothing_asked_for_is_all() {
        assert_eq!(wanted(&Filter::default()).len(), 22);
    }

    #[test]
    fn what_is_nested_in_a_wanted_call_is_wanted() {
        let by_code = |code| wanted(&Filter { codes: vec![code], ..Filter::default() });
        // Of two calls with code 1 the one has one call nested in it, and the other has one that has another.
        assert_eq!((by_code(1).len(), by_code(2).len(), by_code(3).len()), (5, 3, 1));
    }

    #[test]
    fn callers_and_servers_are_wanted_by_their_process() {
        assert_eq!(wanted(&Filter { processes: vec![118, 125], ..Filter::default() }).len(), 2);
        assert_eq!(wanted(&Filter { processes: vec![117], nodes: vec![49], ..Filter::default() }).len(), 1);
        assert_eq!(wanted(&Filter { processes: vec![117], nodes: vec![51], ..Filter::default() }).len(), 0);
    }

    #[test]
    fn failed_and_slow_ones_are_wanted_alone() {
        assert_eq!(wanted(&Filter { failed: true, ..Filter::default() }).len(), 4);
        assert_eq!(wanted(&Filter { at_least: 600_000_000, ..Filter::default() }).len(), 1);
    }
}
