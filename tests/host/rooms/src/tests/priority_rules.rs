// SPDX-License-Identifier: GPL-2.0
//! The priorities at which calls are served, tried with all callers and all nodes. A model has the
//! rules of the C driver (nice values) and of Android's kernels (the rest).

use crate::pure::priority_rules::{NodeFlags, NodePriority, Priority, SavedPriority};

const NORMAL: u32 = 0;
const FIFO: u32 = 1;
const ROUND_ROBIN: u32 = 2;
const BATCH: u32 = 3;
const IDLE: u32 = 5;
const DEADLINE: u32 = 6;
const INHERIT: u32 = 0x800;

/// A task as `sched_setattr` would describe it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Task {
    policy: u32,
    nice: i32,
    real_time: u32,
}

impl Task {
    fn fair(policy: u32, nice: i32) -> Self {
        Self::real_time(policy, 0, nice)
    }

    fn real_time(policy: u32, real_time: u32, nice: i32) -> Self {
        Self { policy, nice, real_time }
    }

    fn priority(self) -> Priority {
        Priority(self.real_time << 24 | ((self.nice + 20) as u32) << 16 | self.policy)
    }

    /// Without the flag.
    fn of(priority: Priority) -> Self {
        let word = priority.0;
        Self { policy: word & 0xff, nice: (word >> 16 & 0xff) as i32 - 20, real_time: word >> 24 }
    }

    /// The task after a change, if there is one.
    fn after(self, change: Option<Priority>) -> Self {
        change.map_or(self, Self::of)
    }

    fn is_real_time(self) -> bool {
        self.real_time > 0
    }

    /// The kernel's scale: less is more urgent.
    fn rank(self) -> i32 {
        if self.is_real_time() {
            99 - self.real_time as i32
        } else {
            120 + self.nice
        }
    }
}

/// Every kind of task; all nice values and all real-time priorities.
fn tasks() -> Vec<Task> {
    let mut tasks = Vec::new();
    for nice in -20..20 {
        for policy in [NORMAL, BATCH, IDLE, DEADLINE] {
            tasks.push(Task::fair(policy, nice));
        }
    }
    for priority in 1..100 {
        for policy in [FIFO, ROUND_ROBIN] {
            tasks.push(Task::real_time(policy, priority, -3));
        }
    }
    tasks
}

/// Some of each kind.
fn some_tasks() -> Vec<Task> {
    let mut some = Vec::new();
    for nice in [-20, -5, 0, 7, 19] {
        some.extend([NORMAL, BATCH, DEADLINE].map(|policy| Task::fair(policy, nice)));
        some.extend([1, 50, 99].map(|priority| Task::real_time(FIFO, priority, nice)));
        some.push(Task::real_time(ROUND_ROBIN, 50, nice));
    }
    some
}

fn every_flags() -> impl Iterator<Item = u32> {
    (0..=0xff).flat_map(|value| {
        (0..4).flat_map(move |policy| [0, INHERIT].map(|inherit| value | policy << 9 | inherit))
    })
}

fn is_real_time_minimum(flags: u32) -> bool {
    matches!(flags >> 9 & 3, FIFO | ROUND_ROBIN) && (1..100).contains(&(flags & 0xff))
}

/// The rule of the C driver for nice values, where nothing is real-time.
fn nice_in_c(caller: i32, minimum: i32, is_oneway: bool, own: i32) -> i32 {
    if caller < minimum && !is_oneway {
        caller
    } else if !is_oneway || own > minimum {
        minimum
    } else {
        own
    }
}

/// The rule of Android's kernels, but for the two differences in docs/priorities.md. The caller of
/// a oneway call is the thread that serves it.
fn served_on_android(caller: Task, flags: u32, own: Task) -> Task {
    let minimum = if is_real_time_minimum(flags) {
        Task::real_time(flags >> 9 & 3, flags & 0xff, own.nice)
    } else {
        Task::fair(NORMAL, (flags & 0xff) as i32)
    };
    let is_tie_for_fifo = minimum.policy == FIFO && minimum.rank() == caller.rank();
    let model = if minimum.rank() < caller.rank() || is_tie_for_fifo { minimum } else { caller };
    if own.policy == DEADLINE && model.is_real_time() {
        own
    } else if model.is_real_time() {
        Task::real_time(model.policy, model.real_time, own.nice)
    } else {
        let policy = if own.is_real_time() { NORMAL } else { own.policy };
        Task::fair(policy, model.nice)
    }
}

#[test]
fn txn_31_nice_values_are_inherited_as_in_the_c_driver() {
    for flags in every_flags().filter(|flags| !is_real_time_minimum(*flags)) {
        let node = NodePriority::new(NodeFlags::new(flags));
        let minimum = (flags & 0xff) as i32;
        for caller in (-20..20).map(|nice| Task::fair(NORMAL, nice)) {
            for own in [-20, -1, 0, 5, 18, 19].map(|nice| Task::fair(NORMAL, nice)) {
                let (caller_word, own_word) = (caller.priority(), own.priority());
                let served = own.after(node.to_serve_call(caller_word, own_word));
                let wanted =
                    |is_oneway| Task::fair(NORMAL, nice_in_c(caller.nice, minimum, is_oneway, own.nice));
                assert_eq!(served, wanted(false), "{flags:#x} {caller:?} {own:?}");
                let served = own.after(node.to_serve_oneway(own_word));
                assert_eq!(served, wanted(true), "{flags:#x} {own:?}");
            }
        }
    }
}

#[test]
fn txn_31_real_time_is_inherited_as_on_android() {
    let (callers, owns) = (tasks(), some_tasks());
    for flags in every_flags() {
        let node = NodePriority::new(NodeFlags::new(flags));
        for own in &owns {
            let own_word = own.priority();
            for caller in &callers {
                let is_inherited = flags & INHERIT != 0 || !caller.is_real_time();
                let counted = if is_inherited { *caller } else { Task::fair(NORMAL, 0) };
                let wanted = served_on_android(counted, flags, *own);
                let served = own.after(node.to_serve_call(caller.priority(), own_word));
                assert_eq!(served, wanted, "{flags:#x} {caller:?} {own:?}");
            }
            let wanted = served_on_android(*own, flags, *own);
            let served = own.after(node.to_serve_oneway(own_word));
            assert_eq!(served, wanted, "{flags:#x} {own:?}");
        }
    }
}

#[test]
fn the_short_way_agrees_with_the_long_one() {
    let mut short = 0;
    for flags in every_flags() {
        let node = NodePriority::new(NodeFlags::new(flags));
        for task in tasks().iter().map(|task| task.priority()) {
            if node.is_served_unchanged(task, task) {
                assert_eq!(node.to_serve_call(task, task), None, "{flags:#x} {task:?}");
                assert_eq!(node.to_serve_oneway(task), None, "{flags:#x} {task:?}");
                short += 1;
            }
        }
    }
    // The usual caller and the usual node.
    let node = NodePriority::new(NodeFlags::new(0x113));
    let usual = Task::fair(NORMAL, 0).priority();
    assert!(node.is_served_unchanged(usual, usual) && short > 1000);
    let other = Task::fair(NORMAL, 1).priority();
    assert!(!node.is_served_unchanged(usual, other));
}

#[test]
fn txn_12_whatever_a_thread_became_it_gets_back_what_it_had() {
    let before = tasks();
    for meanwhile in some_tasks() {
        for saved in &before {
            let change = meanwhile.priority().to_restore(saved.priority());
            let after = meanwhile.after(change);
            if saved.policy == DEADLINE || meanwhile.policy == DEADLINE {
                // The driver neither gives nor takes deadlines.
                let nice = saved.nice;
                assert_eq!(after, Task { nice, ..meanwhile });
            } else {
                assert_eq!(after, *saved);
            }
            assert_eq!(change.is_none(), after == meanwhile, "no change");
        }
    }
}

#[test]
fn loop_7_the_default_is_the_openers() {
    for default in tasks() {
        for own in some_tasks() {
            let after = own.after(own.priority().to_default(default.priority()));
            if default.is_real_time() && own.policy != DEADLINE {
                let urgency = Task::real_time(default.policy, default.real_time, own.nice);
                assert_eq!(after, urgency);
            } else if default.is_real_time() {
                assert_eq!(after, own);
            } else {
                assert_eq!(after.nice, default.nice);
                assert!(!after.is_real_time());
                let policy = match default.policy {
                    _ if !own.is_real_time() => own.policy,
                    DEADLINE => NORMAL,
                    sharing => sharing,
                };
                assert_eq!(after.policy, policy);
            }
        }
    }
}

#[test]
fn nobody_gets_more_than_limits_allow_or_than_he_has() {
    for nice_limit in -20..=20i32 {
        for real_time_limit in [0, 1, 5, 50, 99] {
            let limits = nice_limit as u8 as u32 | real_time_limit << 8;
            for own in some_tasks() {
                for wanted in tasks() {
                    check_permitted(limits, (nice_limit, real_time_limit), own, wanted);
                }
            }
        }
    }
}

fn check_permitted(limits: u32, (nice, real_time): (i32, u32), own: Task, wanted: Task) {
    let given = Task::of(wanted.priority().within(limits, own.priority()));
    let expect = |holds: bool| {
        let limits = (nice, real_time);
        assert!(holds, "{own:?} requests {wanted:?}, gets {given:?}; {limits:?}");
    };
    if given.is_real_time() {
        let ceiling = real_time.max(own.real_time);
        expect(given.real_time <= ceiling.min(wanted.real_time));
        expect(given.policy == own.policy || real_time > 0);
        expect(real_time == 0 || given.real_time == wanted.real_time.min(ceiling));
    } else {
        expect(given.nice >= nice || given.nice == own.nice);
        if wanted.is_real_time() {
            expect((real_time == 0 && !own.is_real_time()) || own.policy == DEADLINE);
        } else {
            let least = if nice > 19 { own.nice } else { nice };
            let is_permitted = wanted.nice >= nice;
            expect(given.nice == if is_permitted { wanted.nice } else { least });
        }
    }
    if nice == -20 && real_time == 99 && own.policy != DEADLINE && !wanted.is_real_time() {
        assert_eq!(given, wanted, "the privileged get what they request");
    }
}

#[test]
fn what_is_inherited_is_not_inherited_by_children() {
    const FLAG: u32 = 0x100;
    let node = NodePriority::new(NodeFlags::new(INHERIT | 19));
    let (caller, own) = (Task::real_time(FIFO, 9, 0).priority(), Task::fair(NORMAL, 0).priority());
    let served = node.to_serve_call(caller, own).unwrap();
    assert_eq!(served.0 & FLAG, FLAG);
    // The flag does not make a task another one.
    assert!(Priority(own.0 | FLAG).is_like(own));
    // It gets back the flag that it had with the policy that it had.
    let saved = Priority(Task::real_time(ROUND_ROBIN, 9, 0).priority().0 | FLAG);
    assert_eq!(served.to_restore(saved), Some(saved));
}

/// A task keeps its own flag through every change.
#[test]
fn a_task_keeps_its_flag_whatever_it_becomes() {
    for own in some_tasks() {
        let priority = own.priority();
        assert!(!priority.resets_on_fork());
        let flagged = priority.resetting_on_fork_if(true);
        assert!(flagged.resets_on_fork());
        assert_eq!(Task::of(flagged), own);
        // A task that must have the flag keeps it.
        assert_eq!(flagged.resetting_on_fork_if(false), flagged);
        assert_eq!(priority.resetting_on_fork_if(false), priority);
    }
}

/// A oneway call is served at a real-time priority if its node demands that, by any thread.
#[test]
fn loop_7_a_node_demands_real_time_for_all_calls_or_for_none() {
    for flags in every_flags() {
        let node = NodePriority::new(NodeFlags::new(flags));
        let demands_real_time = !node.is_served_as_sharing(None);
        assert_eq!(demands_real_time, is_real_time_minimum(flags));
        for own in some_tasks().iter().filter(|own| !own.is_real_time() && own.policy != DEADLINE) {
            let served = own.after(node.to_serve_oneway(own.priority()));
            assert_eq!(served.is_real_time(), demands_real_time);
        }
    }
}

/// Of all that a task can be, nothing is taken for "none".
#[test]
fn what_is_saved_is_what_comes_back() {
    let mut none = SavedPriority::NONE;
    assert_eq!(none.take(), None);
    assert_eq!(none, SavedPriority::from(None));
    for real_time in 0..=99 {
        for nice in 0..40 {
            for reset in [0, 1 << 8] {
                for policy in 0..=6 {
                    let word = real_time << 24 | nice << 16 | reset | policy;
                    let priority = Priority(word);
                    let mut saved = SavedPriority::from(Some(priority));
                    assert_eq!(saved.take(), Some(priority));
                    assert_eq!(saved, SavedPriority::NONE);
                }
            }
        }
    }
}
