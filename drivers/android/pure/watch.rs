// SPDX-License-Identifier: GPL-2.0

//! What is known of a call that a thread waits for: for how long it has been seen, and whether it
//! was told that it is slow.
//!
//! The thread notes nothing about that itself. Whoever looks for slow calls comes by every now and
//! then, and counts how often it has seen the same call. A call that is seen for the n-th time has
//! waited for n - 1 pauses, at least; so it is never called slow too early. When the pauses become
//! others, counting begins anew: that is another round.

/// What has been told of a call, in ascending order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Told {
    #[default]
    Nothing,
    /// Nothing, but the thread that makes it has queued it, and looks for a cycle.
    Queued,
    /// That it is slow.
    Slow,
    /// That it is part of a cycle.
    Cycle,
}

/// What is known of one call. It is small, because each call has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Watch {
    told: Told,
    /// The round in which `seen` was counted. Two rounds have the same number if 256 changes lie
    /// between them; a call that nobody has seen meanwhile is told early then.
    round: u8,
    /// How often it was seen.
    seen: u8,
}

impl Watch {
    /// Counts that the call is seen. Returns for how many pauses it has waited, if nothing was told
    /// of it yet.
    pub(crate) fn see(&mut self, round: u8) -> Option<u8> {
        if self.round != round {
            self.round = round;
            self.seen = 0;
        }
        let pauses = self.seen;
        self.seen = pauses.saturating_add(1);
        (self.told <= Told::Queued).then_some(pauses)
    }

    /// Whether the thread that makes the call has recorded that it is queued.
    pub(crate) fn is_queued(&self) -> bool {
        self.told != Told::Nothing
    }

    /// Records that the call is about to be told. Returns `false`, and changes nothing, if as much
    /// or more was told of it before.
    pub(crate) fn tell(&mut self, what: Told) -> bool {
        let is_new = self.told < what;
        self.told = self.told.max(what);
        is_new
    }
}
