// SPDX-License-Identifier: GPL-2.0

//! The queue whose cells belong to what waits in it, next to a deque. Clean under Miri as well.

use crate::box_queue::{BoxQueue, Ticket};
use kernel::alloc::flags::GFP_KERNEL;
use kernel::testing::{atomic, live_allocations, total_allocations};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::rc::Rc;

#[derive(Clone, Debug)]
enum Plan {
    Push,
    Pop,
    /// Of those that are divisible by this.
    TakeFirst(u32),
    /// Likewise.
    TakeLast(u32),
}

fn plan() -> impl Strategy<Value = Plan> {
    prop_oneof![
        5 => Just(Plan::Push),
        3 => Just(Plan::Pop),
        2 => (1u32..6).prop_map(Plan::TakeFirst),
        2 => (1u32..6).prop_map(Plan::TakeLast),
    ]
}

fn live(plans: &[Plan]) {
    let before = live_allocations();
    let mut queue = BoxQueue::new();
    let mut model = VecDeque::new();
    let mut tickets = Vec::new();
    let mut serial = 0;
    for plan in plans {
        match *plan {
            Plan::Push => {
                serial += 1;
                let ticket = tickets.pop();
                let ticket = ticket.unwrap_or_else(|| Ticket::new(GFP_KERNEL).unwrap());
                atomic(|| queue.push_back(ticket, Rc::new(serial)));
                model.push_back(serial);
            }
            Plan::Pop => {
                let popped = atomic(|| queue.pop_front());
                let (value, ticket) = popped.unzip();
                assert_eq!(value.as_deref(), model.pop_front().as_ref());
                tickets.extend(ticket);
            }
            Plan::TakeFirst(divisor) => {
                let wanted = |value: &u32| value % divisor == 0;
                let taken = atomic(|| queue.take_first(|value| wanted(value)));
                let (value, ticket) = taken.unzip();
                let at = model.iter().position(wanted);
                let modelled = at.and_then(|at| model.remove(at));
                assert_eq!(value.as_deref(), modelled.as_ref());
                tickets.extend(ticket);
            }
            Plan::TakeLast(divisor) => {
                let wanted = |value: &u32| value % divisor == 0;
                let taken = atomic(|| queue.take_last(|value| wanted(value)));
                let (value, ticket) = taken.unzip();
                let at = model.iter().rposition(wanted);
                let modelled = at.and_then(|at| model.remove(at));
                assert_eq!(value.as_deref(), modelled.as_ref());
                tickets.extend(ticket);
            }
        }
        assert_eq!(queue.is_empty(), model.is_empty());
        assert_eq!(queue.front().map(|value| **value), model.front().copied());
    }
    drop(queue);
    drop(tickets);
    assert_eq!(live_allocations(), before);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 5 } else { 400 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn like_a_deque(plans in prop::collection::vec(plan(), 1..100)) {
        live(&plans);
    }
}

#[test]
fn a_ticket_serves_again_and_again() {
    let mut queue = BoxQueue::new();
    let mut ticket = Ticket::new(GFP_KERNEL).unwrap();
    let before = total_allocations();
    for round in 0..100 {
        queue.push_back(ticket, round);
        let (value, back) = queue.pop_front().unwrap();
        assert_eq!(value, round);
        ticket = back;
    }
    assert_eq!(total_allocations(), before);
}

#[test]
fn what_waits_in_a_dropped_queue_is_dropped() {
    let before = live_allocations();
    let value = Rc::new(());
    let mut queue = BoxQueue::new();
    for _ in 0..3 {
        queue.push_back(Ticket::new(GFP_KERNEL).unwrap(), value.clone());
    }
    assert_eq!(Rc::strong_count(&value), 4);
    drop(queue);
    assert_eq!(Rc::strong_count(&value), 1);
    assert_eq!(live_allocations(), before);
}
