// SPDX-License-Identifier: GPL-2.0

//! The priority at which a call is served, and the priority to which the serving thread returns.
//!
//! This module decides only, without the scheduler, so that host tests can try all cases:
//!
//! ```text
//!   caller ─┐                                          ┌─ limits of the serving task
//!           ├─► whichever is more urgent ─► Priority ──┴─► what it may have ─► the scheduler
//!   node  ──┘   (NodePriority)              of the task    (Limits)
//! ```
//!
//! A call is served at the priority of its caller or at the minimum of its node, whichever is more
//! urgent (contract TXN-31). A oneway call has no caller that waits, so only the node's minimum can
//! make its thread more urgent. A real-time caller counts as real-time only for nodes that inherit
//! it; for other nodes it counts as nice 0, as on Android's kernels.

/// How a task is scheduled, in one word, so that two priorities are compared at once:
///
/// ```text
///   31       24 23          16 15        9      8       7       0
///  ┌───────────┬──────────────┬───────────┬───────────┬──────────┐
///  │ real-time │ nice + 20    │     0     │ reset     │ policy   │
///  │ priority  │              │           │ on fork   │          │
///  └───────────┴──────────────┴───────────┴───────────┴──────────┘
/// ```
///
/// The same word as in `rust/kernel/sched.rs`. The real-time priority is 0 for all other policies.
/// The word that is read from a task lacks the flag; the word of a change has it, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Priority(u32);

/// The policies that are distinguished, by their numbers in the system call. All others are fair
/// policies, and have a nice value.
mod policy {
    pub(super) const NORMAL: u32 = 0;
    pub(super) const FIFO: u32 = 1;
    pub(super) const ROUND_ROBIN: u32 = 2;
    pub(super) const DEADLINE: u32 = 6;
}

/// A priority to restore, or none, in the size of one: [`crate::transaction::Transaction`] has no
/// more room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SavedPriority(u32);

impl SavedPriority {
    /// No priority. No [`Priority`] has this word, because some of its bits are always 0.
    pub(crate) const NONE: Self = Self(u32::MAX);

    pub(crate) const fn get(self) -> Option<Priority> {
        match self {
            Self::NONE => None,
            Self(word) => Some(Priority(word)),
        }
    }

    /// Takes the priority, and leaves none. Returns it in the same form.
    pub(crate) fn take_saved(&mut self) -> Self {
        core::mem::replace(self, Self::NONE)
    }

    /// Takes the priority, and leaves none.
    pub(crate) fn take(&mut self) -> Option<Priority> {
        core::mem::replace(self, Self::NONE).get()
    }

    /// Saves a priority, unless one is saved already.
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
    /// Runs before all fair tasks, and before real-time tasks of lower priority (1 to 99).
    RealTime { policy: RealTime, priority: u8 },
    /// Shares the CPU, with this nice value (-20 to 19; the minimum of a node may be beyond, and
    /// has no effect then).
    Fair { nice: i16 },
}

/// How a real-time task shares the CPU with others of its priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RealTime {
    /// Runs until it waits.
    Fifo,
    /// Runs for a time slice.
    RoundRobin,
}

impl Urgency {
    /// Returns the rank in the kernel's own scale: the lower the number, the more urgent.
    const fn rank(self) -> i16 {
        match self {
            Self::RealTime { priority, .. } => 99 - priority as i16,
            Self::Fair { nice } => 120 + nice,
        }
    }

    /// Whether it is more urgent than `other`. Of two equal ranks, the one without time slices is.
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

    pub(crate) const fn nice(self) -> i16 {
        (self.0 >> 16 & 0xff) as i16 - 20
    }

    const fn real_time_priority(self) -> u8 {
        (self.0 >> 24) as u8
    }

    const fn is_real_time(self) -> bool {
        self.real_time_priority() != 0
    }

    /// Returns the part that others inherit. A task with a deadline counts by its nice value.
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

    /// Returns the same priority with another nice value.
    const fn with_nice(self, nice: i16) -> Self {
        Self(self.0 & !(0xff << 16) | ((nice + 20) as u32) << 16)
    }

    /// Returns the priority of the same task with another urgency. The task keeps its own policy if
    /// that and the new urgency are fair; what it forks while it is real-time by inheritance does
    /// not inherit that.
    const fn with(self, urgency: Urgency) -> Self {
        if self.policy() == policy::DEADLINE && matches!(urgency, Urgency::RealTime { .. }) {
            // A deadline is more urgent than any real-time priority.
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

    /// Returns the same change for a task whose children must not inherit how it is scheduled, or
    /// for any other one.
    pub(crate) const fn resetting_on_fork_if(self, resets: bool) -> Self {
        if resets {
            Self(self.0 | Self::RESET_ON_FORK)
        } else {
            self
        }
    }

    /// Whether it is one of a task whose children do not inherit it, if that has been read.
    pub(crate) const fn resets_on_fork(self) -> bool {
        self.0 & Self::RESET_ON_FORK != 0
    }

    /// Whether tasks of the two priorities are scheduled in the same way.
    pub(crate) const fn is_like(self, other: Self) -> bool {
        (self.0 ^ other.0) & !Self::RESET_ON_FORK == 0
    }

    /// Whether a task of this priority is more urgent than one of `other`.
    pub(crate) fn is_more_urgent_than(self, other: Self) -> bool {
        self.urgency().outranks(other.urgency())
    }

    /// Returns the priority, unless it is like the task's own.
    fn unless_like(self, own: Self) -> Option<Self> {
        (!self.is_like(own)).then_some(self)
    }

    /// Returns the change that restores a saved priority. Only a task itself can get or lose a
    /// deadline: if the task has or had one, only the nice value is restored.
    pub(crate) fn to_restore(self, saved: Self) -> Option<Self> {
        if self.policy() == policy::DEADLINE || saved.policy() == policy::DEADLINE {
            self.with_nice(saved.nice()).unless_like(self)
        } else {
            saved.unless_like(self)
        }
    }

    /// Returns the change that makes a task as urgent as its process is by default. One that is
    /// real-time, whoever made it so, gets the default's policy, too, unless that is a deadline.
    pub(crate) fn to_default(self, default: Self) -> Option<Self> {
        let own = match default.policy() {
            policy::FIFO | policy::ROUND_ROBIN | policy::DEADLINE => self,
            sharing if self.is_real_time() => Self(self.0 & Self::RESET_ON_FORK | sharing),
            _ => self,
        };
        own.with(default.urgency()).unless_like(self)
    }
}

/// The flags that the owner of a node sends with it, fixed when the node first becomes known
/// (contract NODE-1). Those that mean something are in the lower half of the number; those about
/// priorities have no names in the kernel's header.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct NodeFlags {
    minimum_priority: u8,
    others: u8,
}

impl NodeFlags {
    // Of the second byte.
    const POLICY_SHIFT: u8 = 1;
    const POLICY_MASK: u8 = 3;
    const INHERIT_RT: u8 = 0x8;

    pub(crate) const fn new(flags: u32) -> Self {
        let [minimum_priority, others, ..] = flags.to_le_bytes();
        Self {
            minimum_priority,
            others,
        }
    }

    /// Returns whether a flag of the second byte of the number is set.
    pub(crate) const fn has(self, flag: u32) -> bool {
        self.others & Self::new(flag).others != 0
    }

    /// Returns the least priority at which its calls are served: a nice value, or with a real-time
    /// policy a real-time priority.
    pub(crate) const fn minimum_priority(self) -> u8 {
        self.minimum_priority
    }

    /// Returns the scheduling policy that belongs to it.
    pub(crate) const fn policy(self) -> u8 {
        self.others >> Self::POLICY_SHIFT & Self::POLICY_MASK
    }

    /// Returns whether its calls are served at the real-time priority of the caller.
    pub(crate) const fn inherits_real_time(self) -> bool {
        self.others & Self::INHERIT_RT != 0
    }
}

/// The priority settings of a node, which are fixed with its flags.
pub(crate) struct NodePriority {
    flags: NodeFlags,
    /// A caller the upper half of whose word is smaller than this is fair, and more urgent than the
    /// minimum: its call is served without a change. So the usual call is decided by two
    /// comparisons. It is 0 if the minimum is real-time.
    as_caller_below: u8,
}

impl NodePriority {
    pub(crate) const fn new(flags: NodeFlags) -> Self {
        let as_caller_below = match Self::minimum(flags) {
            Urgency::RealTime { .. } => 0,
            // Above what any fair caller has there, and below what a real-time one has.
            Urgency::Fair { nice } if nice > 19 => u8::MAX,
            Urgency::Fair { nice } => nice as u8 + 21,
        };
        Self {
            flags,
            as_caller_below,
        }
    }

    /// Returns the flags of the node.
    pub(crate) const fn flags(&self) -> NodeFlags {
        self.flags
    }

    /// Returns the least urgency at which calls are served.
    const fn minimum(flags: NodeFlags) -> Urgency {
        let value = flags.minimum_priority();
        let real_time = match flags.policy() as u32 {
            policy::FIFO => Some(RealTime::Fifo),
            policy::ROUND_ROBIN => Some(RealTime::RoundRobin),
            _ => None,
        };
        match real_time {
            Some(policy) if value >= 1 && value <= 99 => Urgency::RealTime {
                policy,
                priority: value,
            },
            // The value is not signed: one above 19, and with it each that user space means to be
            // negative, has no effect, as in the C driver.
            _ => Urgency::Fair { nice: value as i16 },
        }
    }

    /// Whether a thread with priority `own` can serve a call of `caller` without a change. `false`
    /// means only that [`Self::to_serve_call`] has to decide.
    pub(crate) const fn is_served_unchanged(&self, caller: Priority, own: Priority) -> bool {
        caller.0 == own.0 && caller.0 >> 16 < self.as_caller_below as u32
    }

    /// Whether a call of `caller` is served by a fair thread, which shares the CPU with others.
    pub(crate) const fn is_served_as_sharing(&self, caller: Priority) -> bool {
        !(self.demands_real_time() || caller.is_real_time() && self.flags.inherits_real_time())
    }

    /// Whether all calls, oneway or not, are served at a real-time priority.
    pub(crate) const fn demands_real_time(&self) -> bool {
        self.as_caller_below == 0
    }

    /// Returns the urgency at which a call is served; for a oneway call, `caller` is the thread
    /// that serves it.
    fn urgency_of_service(&self, caller: Priority) -> Urgency {
        let inherited = caller.urgency();
        let minimum = Self::minimum(self.flags);
        if minimum.outranks(inherited) {
            minimum
        } else {
            inherited
        }
    }

    /// Returns the change that lets a thread serve a call whose caller waits.
    pub(crate) fn to_serve_call(&self, caller: Priority, own: Priority) -> Option<Priority> {
        let caller = if caller.is_real_time() && !self.flags.inherits_real_time() {
            caller.with(Urgency::Fair { nice: 0 })
        } else {
            caller
        };
        own.with(self.urgency_of_service(caller)).unless_like(own)
    }

    /// Returns the change that lets a thread serve a oneway call.
    pub(crate) fn to_serve_oneway(&self, own: Priority) -> Option<Priority> {
        own.with(self.urgency_of_service(own)).unless_like(own)
    }
}

/// How urgent a task may become: any priority with `CAP_SYS_NICE`, otherwise as its resource limits
/// allow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The lowest permitted nice value; above 19 if none is permitted.
    nice: i16,
    /// The highest permitted real-time priority; 0 if none is permitted.
    real_time: u8,
}

impl Limits {
    /// Reads the limits from a word of `rust/kernel/sched.rs`.
    pub(crate) const fn from_word(word: u32) -> Self {
        Self {
            nice: word as u8 as i8 as i16,
            real_time: (word >> 8) as u8,
        }
    }

    /// Returns the priority that a task of priority `own` gets if it should be scheduled like
    /// `wanted`.
    pub(crate) fn permit(self, wanted: Priority, own: Priority) -> Priority {
        match wanted.urgency() {
            Urgency::Fair { nice } => wanted.with_nice(self.permitted_nice(nice, own)),
            Urgency::RealTime { policy, priority } => self.permit_real_time(policy, priority, own),
        }
    }

    /// Returns the nice value that a task gets instead of `wanted`. This is the C driver's rule,
    /// for lower values as well as for higher ones.
    fn permitted_nice(self, wanted: i16, own: Priority) -> i16 {
        match self.nice {
            limit if wanted >= limit => wanted,
            limit if limit > 19 => own.nice(),
            limit => limit,
        }
    }

    /// Returns a real-time priority up to the limit, or up to the one that the task has already;
    /// without either, the most urgent fair priority that is permitted.
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
