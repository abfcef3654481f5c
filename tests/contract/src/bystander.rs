// SPDX-License-Identifier: GPL-2.0
//! A thread that has its CPU to itself and counts as long as it runs. Two readings of the count
//! show whether the thread ran in between, without a clock.

use crate::actor::Actor;
use crate::arena::{counter_at, Arena};
use crate::logs::until;
use crate::ops::{Op, Watch};
use crate::scheduling::allow;
use crate::stage::Stage;
use nix::unistd::Pid;
use std::sync::atomic::Ordering::Relaxed;

/// Needs two CPUs, one for the bystander and one for the conductor. See [`on_all_cpus`].
pub fn needs_two_cpus(t: &Stage) {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").expect("which CPUs there are");
    on_all_cpus();
    t.needs("two CPUs", online.starts_with("0-"));
}

/// Lets this process and its later children run on both CPUs, in a group whose tests have one.
pub fn on_all_cpus() {
    allow(Pid::from_raw(0), &[0, 1]);
}

/// The places of a thread's count and of the flag that stops it.
#[derive(Clone, Copy)]
pub struct Count {
    /// The count.
    pub counter: u64,
    /// Not zero once the thread has to stop.
    pub stop: u64,
}

impl Count {
    /// A count that nobody counts yet.
    pub fn new(arena: &Arena) -> Self {
        Self { counter: arena.reserve(8), stop: arena.reserve(8) }
    }

    /// A watch of the count before and after a step.
    pub fn watch(&self, arena: &Arena) -> Watch {
        Watch { counter: self.counter, seen: arena.reserve(16) }
    }

    /// Has a thread count, and waits until it does.
    pub fn begin(&self, actor: &Actor) {
        actor.start(Op::Spin { counter: self.counter, stop: self.stop });
        self.wait();
    }

    /// Waits until somebody counts.
    pub fn wait(&self) {
        let is_counting = || counter_at(self.counter).load(Relaxed) != 0;
        until("a thread that is to count runs", || is_counting().then_some(()));
    }

    /// Stops the thread that counts.
    pub fn stop(&self) {
        counter_at(self.stop).store(1, Relaxed);
    }

    /// Stops the thread, and waits until it has stopped.
    pub fn end(&self, actor: &Actor) {
        self.stop();
        actor.finish();
    }
}

/// The count before the first watch's step, and after the second's.
pub fn counted(first: Watch, second: Watch) -> (u64, u64) {
    (counter_at(first.seen).load(Relaxed), counter_at(second.seen + 8).load(Relaxed))
}
