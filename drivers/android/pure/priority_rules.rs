// SPDX-License-Identifier: GPL-2.0

//! The priority at which a call is served, and the priority to which the serving thread returns.
//!
//! This module decides only, without the scheduler, so that host tests can try all cases:
//!
//! ```text
//!   caller ─┐                                          ┌─ limits of the serving task
//!           ├─► whichever is more urgent ─► Priority ──┴─► what it may have ─► the scheduler
//!   node  ──┘   (NodePriority)              of the task    (Priority::within)
//! ```
//!
//! A call is served at the priority of its caller or at the minimum of its node, whichever is more
//! urgent (contract TXN-31). A oneway call has no caller that waits, so only the node's minimum can
//! make its thread more urgent. A real-time caller counts as real-time only for nodes that inherit
//! it; for other nodes it counts as nice 0, as on Android's kernels.

/// The scheduling of a task, in the word that `rust/kernel/sched.rs` draws, so that two priorities
/// are compared at once. The real-time priority is 1 to 99 for the policies
/// [`FIFO`](policy::FIFO) and [`ROUND_ROBIN`](policy::ROUND_ROBIN), and 0 for all others. The word
/// that is read from a task lacks the flag; the word of a change has it, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Priority(pub(crate) u32);

/// The policies that are distinguished, by their numbers in the system call. All others are fair
/// policies: their tasks share the CPU, by their nice values (-20 to 19).
mod policy {
    pub(super) const NORMAL: u32 = 0;
    /// Real-time: runs until it waits.
    pub(super) const FIFO: u32 = 1;
    /// Real-time: runs for a time slice.
    pub(super) const ROUND_ROBIN: u32 = 2;
    pub(super) const DEADLINE: u32 = 6;
}

/// A priority to restore, or none, in the size of one: a thread's record has no more room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SavedPriority(u32);

impl SavedPriority {
    /// No priority. No [`Priority`] has this word, because some of its bits are always 0.
    pub(crate) const NONE: Self = Self(u32::MAX);

    /// Takes the priority, and leaves none.
    pub(crate) fn take(&mut self) -> Option<Priority> {
        match core::mem::replace(self, Self::NONE) {
            Self::NONE => None,
            Self(word) => Some(Priority(word)),
        }
    }
}

impl From<Option<Priority>> for SavedPriority {
    fn from(priority: Option<Priority>) -> Self {
        priority.map_or(Self::NONE, |priority| Self(priority.0))
    }
}

impl Priority {
    const RESET_ON_FORK: u32 = 1 << 8;
    const POLICY: u32 = 0xff;
    const NICE: u32 = 0xff << 16;

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
        self.0 >> 24 != 0
    }

    /// Returns the same priority with another nice value.
    const fn with_nice(self, nice: i16) -> Self {
        Self(self.0 & !Self::NICE | ((nice + 20) as u32) << 16)
    }

    /// Returns the priority of the same task if it is as urgent as `other`. The task keeps its own
    /// policy if both are fair; what it forks while it is real-time by inheritance does not inherit
    /// that.
    const fn as_urgent_as(self, other: Self) -> Self {
        if !other.is_real_time() {
            let base = if self.is_real_time() {
                Self(policy::NORMAL | self.0 & Self::RESET_ON_FORK)
            } else {
                self
            };
            base.with_nice(other.nice())
        } else if self.policy() == policy::DEADLINE {
            // A deadline is more urgent than any real-time priority.
            self
        } else {
            Self(other.0 & !Self::NICE | self.0 & Self::NICE | Self::RESET_ON_FORK)
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

    /// Returns whether it is one of a task whose children do not inherit it, if that has been read.
    pub(crate) const fn resets_on_fork(self) -> bool {
        self.0 & Self::RESET_ON_FORK != 0
    }

    /// Returns whether tasks of the two priorities are scheduled in the same way.
    pub(crate) const fn is_like(self, other: Self) -> bool {
        (self.0 ^ other.0) & !Self::RESET_ON_FORK == 0
    }

    /// Returns whether a task of this priority is more urgent than one of `other`. A task with a
    /// deadline counts by its nice value. Of two equal ones, the one without time slices is.
    pub(crate) fn is_more_urgent_than(self, other: Self) -> bool {
        // The kernel's own scale: the lower the number, the more urgent.
        let rank = |of: Self| match of.is_real_time() {
            true => 99 - i16::from(of.real_time_priority()),
            false => 120 + of.nice(),
        };
        rank(self) < rank(other) || rank(self) == rank(other) && self.policy() == policy::FIFO
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

    /// Returns the priority that a task of priority `own` gets if it should be scheduled like this.
    /// That is a real-time priority up to the limit, or up to the one that the task has already.
    /// Without either, it is the most urgent fair priority that is permitted.
    ///
    /// `limits` is the upper limit of the task's priority, in a word of `rust/kernel/sched.rs`: any
    /// priority with `CAP_SYS_NICE`, otherwise as its resource limits allow.
    pub(crate) fn within(self, limits: u32, own: Self) -> Self {
        let [lowest_nice, highest, ..] = limits.to_le_bytes();
        // This is the C driver's rule, for lower values as well as for higher ones.
        let permitted_nice = |wanted| match i16::from(lowest_nice as i8) {
            limit if wanted >= limit => wanted,
            limit if limit > 19 => own.nice(),
            limit => limit,
        };
        if !self.is_real_time() {
            return self.with_nice(permitted_nice(self.nice()));
        }
        let ceiling = highest.max(own.real_time_priority());
        if ceiling == 0 {
            return own.with_nice(permitted_nice(-20));
        }
        let policy = match highest {
            0 => own.policy(),
            _ => self.policy(),
        };
        let priority = self.real_time_priority().min(ceiling);
        own.as_urgent_as(Self(u32::from(priority) << 24 | policy))
    }

    /// Returns the change that makes a task as urgent as its process is by default. A real-time
    /// task gets the default's policy, too, however it became real-time, unless that policy is a
    /// deadline.
    pub(crate) fn to_default(self, default: Self) -> Option<Self> {
        let own = match default.policy() {
            policy::FIFO | policy::ROUND_ROBIN | policy::DEADLINE => self,
            sharing if self.is_real_time() => Self(self.0 & Self::RESET_ON_FORK | sharing),
            _ => self,
        };
        own.as_urgent_as(default).unless_like(self)
    }
}

/// The flags that the owner of a node sends with it, fixed when the node first becomes known
/// (contract NODE-1). Those that mean something are in the lower half of the number; those about
/// priorities have no names in the kernel's header.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct NodeFlags([u8; 2]); // Not `u16`, with whose alignment a node has no room for it.

impl NodeFlags {
    const POLICY_SHIFT: u8 = 1;
    const POLICY_MASK: u8 = 3;
    const INHERIT_RT: u32 = 0x800;

    pub(crate) const fn new(flags: u32) -> Self {
        let [minimum_priority, others, ..] = flags.to_le_bytes();
        Self([minimum_priority, others])
    }

    /// Returns whether a flag of the second byte of the number is set.
    pub(crate) const fn has(self, flag: u32) -> bool {
        self.0[1] & Self::new(flag).0[1] != 0
    }
}

/// The priority settings of a node, which are fixed with its flags.
#[derive(Clone, Copy)]
pub(crate) struct NodePriority {
    /// The flags that the owner sent when the node became known.
    pub(crate) flags: NodeFlags,
    /// A caller the upper half of whose word is smaller than this is fair, and more urgent than the
    /// minimum: its call is served without a change. So the usual call is decided by two
    /// comparisons. It is 0 if the minimum is real-time.
    as_caller_below: u8,
}

impl NodePriority {
    pub(crate) const fn new(flags: NodeFlags) -> Self {
        let as_caller_below = match Self::minimum(flags) {
            // Above what any fair caller has there, and below what a real-time one has.
            None => u8::MAX,
            Some(minimum) if minimum.is_real_time() => 0,
            Some(minimum) => (minimum.nice() + 21) as u8,
        };
        Self {
            flags,
            as_caller_below,
        }
    }

    /// Returns the least priority at which calls are served, if there is one.
    const fn minimum(flags: NodeFlags) -> Option<Priority> {
        // A nice value, or with a real-time policy a real-time priority.
        let [value, others] = flags.0;
        match (others >> NodeFlags::POLICY_SHIFT & NodeFlags::POLICY_MASK) as u32 {
            policy @ (policy::FIFO | policy::ROUND_ROBIN) if value >= 1 && value <= 99 => {
                Some(Priority((value as u32) << 24 | policy))
            }
            // The value is not signed: one above 19, and with it each that user space means to be
            // negative, has no effect, as in the C driver.
            _ if value > 19 => None,
            _ => Some(Priority(policy::NORMAL).with_nice(value as i16)),
        }
    }

    /// Returns whether a thread with priority `own` can serve a call of `caller` without a change.
    /// `false` means only that [`Self::to_serve_call`] has to decide.
    pub(crate) const fn is_served_unchanged(&self, caller: Priority, own: Priority) -> bool {
        caller.0 == own.0 && caller.0 >> 16 < self.as_caller_below as u32
    }

    /// Returns true if a fair thread, which shares the CPU with others, serves a call of `caller`,
    /// or a oneway call if no caller waits.
    pub(crate) const fn is_served_as_sharing(&self, caller: Option<Priority>) -> bool {
        match caller {
            Some(caller) if self.flags.has(NodeFlags::INHERIT_RT) && caller.is_real_time() => false,
            // The minimum of the node.
            _ => self.as_caller_below > 0,
        }
    }

    /// Returns the change that lets a thread serve a call whose caller waits.
    pub(crate) fn to_serve_call(self, caller: Priority, own: Priority) -> Option<Priority> {
        let caller = if caller.is_real_time() && !self.flags.has(NodeFlags::INHERIT_RT) {
            Priority(policy::NORMAL).with_nice(0)
        } else {
            caller
        };
        let served = match Self::minimum(self.flags) {
            Some(minimum) if minimum.is_more_urgent_than(caller) => minimum,
            _ => caller,
        };
        own.as_urgent_as(served).unless_like(own)
    }

    /// Returns the change that lets a thread serve a oneway call: only the node can make it more
    /// urgent.
    pub(crate) fn to_serve_oneway(self, own: Priority) -> Option<Priority> {
        let minimum = Self::minimum(self.flags)?;
        let is_raised = minimum.is_more_urgent_than(own);
        is_raised
            .then(|| own.as_urgent_as(minimum))?
            .unless_like(own)
    }
}
