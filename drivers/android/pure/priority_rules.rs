// SPDX-License-Identifier: GPL-2.0

//! At which priority a call is served, and what the thread that serves it goes back to.
//!
//! Decisions only, without the scheduler, so that host tests can try all that there is:
//!
//! ```text
//!   caller ─┐                                          ┌─ limits of the serving task
//!           ├─► whichever is more urgent ─► Priority ──┴─► what it may have ─► the scheduler
//!   node  ──┘   (NodePriority)              of the task    (Limits)
//! ```
//!
//! A call is served as urgently as its caller runs, or as its node demands, whichever is more
//! (contract TXN-31). A oneway call has no caller who waits, so only the node's demand can make its
//! thread more urgent. That a caller is real-time counts only for nodes that said so; elsewhere it
//! counts as nice 0, as on Android's kernels.

use crate::defs::NodeFlags;

/// How a task is scheduled, in one word, so that two of them are compared at once:
///
/// ```text
///   31       24 23          16 15        9      8       7       0
///  ┌───────────┬──────────────┬───────────┬───────────┬──────────┐
///  │ real-time │ nice + 20    │     0     │ reset     │ policy   │
///  │ priority  │              │           │ on fork   │          │
///  └───────────┴──────────────┴───────────┴───────────┴──────────┘
/// ```
///
/// The same as in `rust/kernel/sched.rs`. The real-time priority is 0 for all other policies. A task
/// that is asked how it is scheduled leaves out the flag; one that was changed tells it, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Priority(u32);

/// The policies that count for themselves, by their numbers in the system call. All others are
/// those of tasks that share, and have a nice value.
mod policy {
    pub(super) const NORMAL: u32 = 0;
    pub(super) const FIFO: u32 = 1;
    pub(super) const ROUND_ROBIN: u32 = 2;
    pub(super) const DEADLINE: u32 = 6;
}

/// A priority to go back to, or none, in the room of one: [`crate::transaction::Transaction`] has no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SavedPriority(u32);

impl SavedPriority {
    /// No priority has this word: some of its bits are always 0.
    pub(crate) const NONE: Self = Self(u32::MAX);

    pub(crate) const fn get(self) -> Option<Priority> {
        match self {
            Self::NONE => None,
            Self(word) => Some(Priority(word)),
        }
    }

    /// Takes it out, and leaves none.
    pub(crate) fn take(&mut self) -> Option<Priority> {
        core::mem::replace(self, Self::NONE).get()
    }

    /// Saves a priority, unless there is one already.
    pub(crate) fn keep_first(&mut self, priority: Priority) {
        if *self == Self::NONE {
            *self = Self(priority.0);
        }
    }
}

impl From<Option<Priority>> for SavedPriority {
    fn from(priority: Option<Priority>) -> Self {
        priority.map_or(Self::NONE, |priority| Self(priority.0))
    }
}

/// The part of a [`Priority`] that is inherited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Runs before everyone who shares, and before those of lower priority (1 to 99).
    RealTime { policy: RealTime, priority: u8 },
    /// Shares, with this nice value (-20 to 19; what a node demands may be beyond, and is moot then).
    Fair { nice: i16 },
}

/// What a real-time task does to others of its priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RealTime {
    /// Runs until it waits.
    Fifo,
    /// Takes turns.
    RoundRobin,
}

impl Urgency {
    /// Where it stands among all, the most urgent first: the kernel's own scale.
    const fn rank(self) -> i16 {
        match self {
            Self::RealTime { priority, .. } => 99 - priority as i16,
            Self::Fair { nice } => 120 + nice,
        }
    }

    /// Whether it goes before `other`. Of two equals, the one that does not take turns does.
    fn outranks(self, other: Self) -> bool {
        let is_fifo = matches!(
            self,
            Self::RealTime {
                policy: RealTime::Fifo,
                ..
            }
        );
        self.rank() < other.rank() || (self.rank() == other.rank() && is_fifo)
    }
}

impl Priority {
    const RESET_ON_FORK: u32 = 1 << 8;
    const POLICY: u32 = 0xff;

    pub(crate) const fn from_word(word: u32) -> Self {
        Self(word)
    }

    pub(crate) const fn word(self) -> u32 {
        self.0
    }

    const fn policy(self) -> u32 {
        self.0 & Self::POLICY
    }

    const fn nice(self) -> i16 {
        (self.0 >> 16 & 0xff) as i16 - 20
    }

    const fn real_time_priority(self) -> u8 {
        (self.0 >> 24) as u8
    }

    const fn is_real_time(self) -> bool {
        self.real_time_priority() != 0
    }

    /// The part that others inherit. Whoever has a deadline counts by the nice value.
    const fn urgency(self) -> Urgency {
        let policy = match self.policy() {
            policy::FIFO => RealTime::Fifo,
            policy::ROUND_ROBIN => RealTime::RoundRobin,
            _ => return Urgency::Fair { nice: self.nice() },
        };
        Urgency::RealTime {
            policy,
            priority: self.real_time_priority(),
        }
    }

    const fn with_nice(self, nice: i16) -> Self {
        Self(self.0 & !(0xff << 16) | ((nice + 20) as u32) << 16)
    }

    /// The same task with another urgency. Of the policies that share it keeps its own; what it forks
    /// while it is real-time by inheritance does not inherit that.
    const fn with(self, urgency: Urgency) -> Self {
        if self.policy() == policy::DEADLINE && matches!(urgency, Urgency::RealTime { .. }) {
            // More urgent than any.
            return self;
        }
        match urgency {
            Urgency::Fair { nice } if self.is_real_time() => {
                Self(policy::NORMAL | self.0 & Self::RESET_ON_FORK).with_nice(nice)
            }
            Urgency::Fair { nice } => self.with_nice(nice),
            Urgency::RealTime { policy, priority } => {
                let policy = match policy {
                    RealTime::Fifo => policy::FIFO,
                    RealTime::RoundRobin => policy::ROUND_ROBIN,
                };
                let kept = self.0 & (0xff << 16);
                Self((priority as u32) << 24 | kept | Self::RESET_ON_FORK | policy)
            }
        }
    }

    /// Whether a task of the one priority is scheduled like one of the other.
    pub(crate) const fn is_like(self, other: Self) -> bool {
        (self.0 ^ other.0) & !Self::RESET_ON_FORK == 0
    }

    /// Whether a task of this priority goes before one of `other`.
    pub(crate) fn is_more_urgent_than(self, other: Self) -> bool {
        self.urgency().outranks(other.urgency())
    }

    fn unless_like(self, own: Self) -> Option<Self> {
        (!self.is_like(own)).then_some(self)
    }

    /// What a task has to change in order to be scheduled as it once was. Deadlines come and go by the
    /// task's own will alone: with one, or with one that it had, only the nice value goes back.
    pub(crate) fn to_restore(self, saved: Self) -> Option<Self> {
        if self.policy() == policy::DEADLINE || saved.policy() == policy::DEADLINE {
            self.with_nice(saved.nice()).unless_like(self)
        } else {
            saved.unless_like(self)
        }
    }

    /// What a task has to change in order to be as urgent as its process is by default.
    pub(crate) fn to_default(self, default: Self) -> Option<Self> {
        self.with(default.urgency()).unless_like(self)
    }
}

/// What a node says of the priority at which it is served, fixed with its flags.
pub(crate) struct NodePriority {
    minimum: Urgency,
    inherits_real_time: bool,
    /// A caller whose word is smaller than this shares, and is more urgent than the minimum: it is
    /// served as it is. So the usual call is decided by two comparisons.
    as_caller_below: u32,
}

impl NodePriority {
    pub(crate) const fn new(flags: NodeFlags) -> Self {
        let value = flags.minimum_priority();
        let real_time = match flags.policy() as u32 {
            policy::FIFO => Some(RealTime::Fifo),
            policy::ROUND_ROBIN => Some(RealTime::RoundRobin),
            _ => None,
        };
        let minimum = match real_time {
            Some(policy) if value >= 1 && value <= 99 => Urgency::RealTime {
                policy,
                priority: value,
            },
            // Not signed: more than 19, and with it all that user space means to be negative, demands
            // nothing, as in the C driver.
            _ => Urgency::Fair { nice: value as i16 },
        };
        let as_caller_below = match minimum {
            Urgency::RealTime { .. } => 0,
            Urgency::Fair { nice } if nice > 19 => 1 << 24,
            Urgency::Fair { nice } => (nice as u32 + 21) << 16,
        };
        Self {
            minimum,
            inherits_real_time: flags.inherits_real_time(),
            as_caller_below,
        }
    }

    /// Whether a thread scheduled like `own` can serve a call of `caller` as it is. `false` only says
    /// that it takes a closer look.
    pub(crate) const fn is_served_unchanged(&self, caller: Priority, own: Priority) -> bool {
        caller.0 == own.0 && caller.0 < self.as_caller_below
    }

    /// Whether a call of `caller` is served by a thread that shares the CPU with others.
    pub(crate) const fn is_served_as_sharing(&self, caller: Priority) -> bool {
        let demands_real_time = matches!(self.minimum, Urgency::RealTime { .. });
        !(demands_real_time || caller.is_real_time() && self.inherits_real_time)
    }

    /// How urgently a call is served; for a oneway call, `caller` is the thread that serves it.
    fn urgency_of_service(&self, caller: Priority) -> Urgency {
        let inherited = caller.urgency();
        if self.minimum.outranks(inherited) {
            self.minimum
        } else {
            inherited
        }
    }

    /// What a thread has to change in order to serve a call that its caller waits for.
    pub(crate) fn to_serve_call(&self, caller: Priority, own: Priority) -> Option<Priority> {
        let caller = if caller.is_real_time() && !self.inherits_real_time {
            caller.with(Urgency::Fair { nice: 0 })
        } else {
            caller
        };
        own.with(self.urgency_of_service(caller)).unless_like(own)
    }

    /// What a thread has to change in order to serve a call that nobody waits for.
    pub(crate) fn to_serve_oneway(&self, own: Priority) -> Option<Priority> {
        own.with(self.urgency_of_service(own)).unless_like(own)
    }
}

/// How far a task may go: all the way with `CAP_SYS_NICE`, else as its resource limits say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The lowest nice value; above 19 if it may choose none.
    nice: i16,
    /// The highest real-time priority; 0 if it may have none.
    real_time: u8,
}

impl Limits {
    /// From a word of `rust/kernel/sched.rs`.
    pub(crate) const fn from_word(word: u32) -> Self {
        Self {
            nice: word as u8 as i8 as i16,
            real_time: (word >> 8) as u8,
        }
    }

    /// What a task gets that should be scheduled like `wanted`, and is like `own`.
    pub(crate) fn permit(self, wanted: Priority, own: Priority) -> Priority {
        match wanted.urgency() {
            Urgency::Fair { nice } => wanted.with_nice(self.permitted_nice(nice, own)),
            Urgency::RealTime { policy, priority } => self.permit_real_time(policy, priority, own),
        }
    }

    /// The C driver's rule, for lower values as well as for higher ones.
    fn permitted_nice(self, wanted: i16, own: Priority) -> i16 {
        match self.nice {
            limit if wanted >= limit => wanted,
            limit if limit > 19 => own.nice(),
            limit => limit,
        }
    }

    /// Real-time as far as the limit goes, or as the task is already; without either, as urgent as one
    /// that shares may be.
    fn permit_real_time(self, policy: RealTime, wanted: u8, own: Priority) -> Priority {
        match own.urgency() {
            _ if self.real_time > 0 => {
                let ceiling = self.real_time.max(own.real_time_priority());
                let priority = wanted.min(ceiling);
                own.with(Urgency::RealTime { policy, priority })
            }
            Urgency::RealTime { policy, priority } => {
                let priority = wanted.min(priority);
                own.with(Urgency::RealTime { policy, priority })
            }
            Urgency::Fair { .. } => own.with_nice(self.permitted_nice(-20, own)),
        }
    }
}
