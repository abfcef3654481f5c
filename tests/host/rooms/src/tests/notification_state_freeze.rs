// SPDX-License-Identifier: GPL-2.0

//! The returns that a process reads of another's freezing, enumerated.
//!
//! Announcements are made in one order and arrive in any; in between user space reads, confirms,
//! clears, or drops its handle. After each order all remaining steps are taken, and the returns are
//! compared with the contract (FRZN-1 to FRZN-5, NODE-10) and lesson R09.

use crate::pure::freeze_state::FreezeEvent;
use crate::pure::notification_state::{FreezeNotificationState, Message};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The owner is frozen or thawed; the notification is on its way.
    Change,
    /// The oldest or the newest notification on its way arrives.
    ArriveOldest,
    ArriveNewest,
    Read,
    Confirm,
    Clear,
    DropHandle,
}

const STEPS: [Step; 7] = [
    Step::Change,
    Step::ArriveOldest,
    Step::ArriveNewest,
    Step::Read,
    Step::Confirm,
    Step::Clear,
    Step::DropHandle,
];

const DEPTH: usize = 10;

struct World {
    link: FreezeNotificationState,
    /// The number of times that the notification is queued.
    queued: u32,
    is_frozen: bool,
    number: u64,
    on_their_way: Vec<FreezeEvent>,
    /// Changes, and the first state, which is announced as well.
    announced: usize,
    told: Vec<bool>,
    owes: bool,
    is_cleared: bool,
    clear_dones: usize,
    is_dropped: bool,
}

impl World {
    fn new() -> Self {
        let first = FreezeEvent { number: 0, is_frozen: false };
        Self {
            link: FreezeNotificationState::new(),
            queued: 0,
            is_frozen: false,
            number: 0,
            on_their_way: vec![first],
            announced: 1,
            told: Vec::new(),
            owes: false,
            is_cleared: false,
            clear_dones: 0,
            is_dropped: false,
        }
    }

    fn take(&mut self, step: Step) -> bool {
        match step {
            Step::Change if self.on_their_way.len() < 3 => {
                self.is_frozen = !self.is_frozen;
                self.number += 1;
                self.announced += 1;
                let (number, is_frozen) = (self.number, self.is_frozen);
                self.on_their_way.push(FreezeEvent { number, is_frozen });
            }
            Step::ArriveOldest if !self.on_their_way.is_empty() => self.arrive(0),
            Step::ArriveNewest if self.on_their_way.len() > 1 => self.arrive(self.on_their_way.len() - 1),
            Step::Read if self.queued > 0 => self.read(),
            // User space can confirm only an unconfirmed state.
            Step::Confirm if self.owes && !self.is_dropped => {
                self.owes = false;
                self.queued += u32::from(self.link.confirm());
            }
            Step::Clear if !self.is_cleared && !self.is_dropped => {
                self.is_cleared = true;
                self.queued += u32::from(self.link.clear());
            }
            // A request that was withdrawn belongs to no handle.
            Step::DropHandle if !self.is_cleared && !self.is_dropped => {
                self.is_dropped = true;
                self.link.cancel();
            }
            _ => return false,
        }
        assert!(self.queued <= 1, "queued twice");
        true
    }

    fn arrive(&mut self, at: usize) {
        let event = self.on_their_way.remove(at);
        let is_queued = self.link.notify(event);
        assert!(!is_queued || !(self.is_cleared || self.is_dropped));
        self.queued += u32::from(is_queued);
        assert!(self.queued <= 1, "queued twice");
    }

    fn read(&mut self) {
        self.queued -= 1;
        match self.link.read() {
            None => assert!(self.is_dropped, "queued, and nothing to return"),
            Some(notice) => {
                assert!(!self.is_dropped, "{notice:?} of a handle that is gone");
                assert!(!self.owes, "{notice:?} before the last one was confirmed");
                assert_eq!(self.clear_dones, 0, "{notice:?} after the end");
                match notice {
                    Message::Event => {
                        assert!(!self.is_cleared, "returned after it was cleared");
                        self.told.push(self.link.is_frozen());
                        self.owes = true;
                    }
                    Message::ClearDone => {
                        assert!(self.is_cleared);
                        self.clear_dones += 1;
                    }
                }
            }
        }
        assert!(self.told.len() <= self.announced, "an edge was read twice");
    }

    /// Everything arrives, is read and confirmed.
    fn wind_up(mut self) {
        while self.take(Step::ArriveOldest) || self.take(Step::Read) || self.take(Step::Confirm) {}
        if self.is_dropped {
            assert_eq!(self.clear_dones, 0);
        } else if self.is_cleared {
            assert_eq!(self.clear_dones, 1, "the clear is confirmed exactly once");
        } else {
            assert_eq!(self.told.last(), Some(&self.is_frozen), "the last state is wrong");
        }
    }
}

#[test]
fn every_order_of_notifications_and_answers() {
    let orders = super::explore(&STEPS, DEPTH, &mut Vec::new(), &|taken| {
        let mut world = World::new();
        let is_possible = taken.iter().all(|step| world.take(*step));
        if is_possible {
            world.wind_up();
        }
        is_possible
    });
    assert!(orders > 30_000, "only {orders} orders");
}
