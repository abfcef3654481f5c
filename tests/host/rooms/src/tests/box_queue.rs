// SPDX-License-Identifier: GPL-2.0

//! The queue whose cells belong to what waits in it, next to a deque. Clean under Miri as well.

use crate::box_queue::{BoxQueue, Position, Ticket};
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
    /// The one in the place of this number, if it waits.
    Take(usize),
}

fn plan() -> impl Strategy<Value = Plan> {
    prop_oneof![
        5 => Just(Plan::Push),
        3 => Just(Plan::Pop),
        2 => (1u32..6).prop_map(Plan::TakeFirst),
        3 => (0usize..12).prop_map(Plan::Take),
    ]
}

/// Places, by number.
#[derive(Default)]
struct Places {
    positions: Vec<Position<Rc<u32>>>,
    free: Vec<(usize, Ticket<Rc<u32>>)>,
    /// What was pushed last in each place.
    latest: Vec<u32>,
}

impl Places {
    /// A place for the next value.
    fn give(&mut self, value: u32) -> Ticket<Rc<u32>> {
        let (number, ticket) = self.free.pop().unwrap_or_else(|| {
            let ticket = Ticket::new(GFP_KERNEL).unwrap();
            self.positions.push(ticket.position());
            self.latest.push(0);
            (self.latest.len() - 1, ticket)
        });
        self.latest[number] = value;
        ticket
    }

    /// Something came out, and is what the model says.
    fn take_back(&mut self, taken: Option<(Rc<u32>, Ticket<Rc<u32>>)>, modelled: Option<u32>) {
        let (value, ticket) = taken.unzip();
        assert_eq!(value.as_deref(), modelled.as_ref());
        if let Some(value) = value {
            let number = self
                .latest
                .iter()
                .position(|latest| *latest == *value)
                .unwrap();
            self.free.extend(ticket.map(|ticket| (number, ticket)));
        }
    }
}

/// Looks at all values in their order, with a pause somewhere, whose place depends on a number.
fn compare_lists(queue: &BoxQueue<Rc<u32>>, model: &VecDeque<u32>, number: usize) {
    let before_pause = number % (model.len() + 1);
    let mut values = queue.iter(None);
    let mut seen: Vec<_> = values
        .by_ref()
        .take(before_pause)
        .map(|value| **value)
        .collect();
    let position = atomic(|| values.position());
    assert_eq!(position.is_some(), before_pause > 0);
    seen.extend(queue.iter(position.as_ref()).map(|value| **value));
    assert!(seen.iter().eq(model.iter()));
}

fn live(plans: &[Plan]) {
    let before = live_allocations();
    let mut queue = BoxQueue::numbered();
    let mut model = VecDeque::new();
    let mut places = Places::default();
    let mut serial = 0;
    for plan in plans {
        match *plan {
            Plan::Push => {
                serial += 1;
                let ticket = places.give(serial);
                atomic(|| queue.push_back(ticket, Rc::new(serial)));
                model.push_back(serial);
            }
            Plan::Pop => {
                let popped = atomic(|| queue.pop_front());
                places.take_back(popped, model.pop_front());
            }
            Plan::TakeFirst(divisor) => {
                let wanted = |value: &u32| value % divisor == 0;
                let taken = atomic(|| queue.take_first(|value| wanted(value)));
                let at = model.iter().position(wanted);
                places.take_back(taken, at.and_then(|at| model.remove(at)));
            }
            Plan::Take(number) => {
                let Some(position) = places.positions.get(number) else {
                    continue;
                };
                let taken = atomic(|| queue.take(position));
                let latest = places.latest[number];
                let at = model.iter().position(|value| *value == latest);
                places.take_back(taken, at.and_then(|at| model.remove(at)));
            }
        }
        assert_eq!(queue.is_empty(), model.is_empty());
        assert_eq!(queue.front().map(|value| **value), model.front().copied());
        compare_lists(&queue, &model, serial as usize);
    }
    drop(queue);
    drop(places);
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
fn a_list_goes_on_at_the_front_if_its_place_is_gone() {
    let mut queue = BoxQueue::new();
    queue.become_numbered();
    for value in 0..6 {
        queue.push_back(Ticket::new(GFP_KERNEL).unwrap(), value);
    }
    let mut values = queue.iter(None);
    assert_eq!(values.by_ref().take(2).collect::<Vec<_>>(), [&0, &1]);
    let position = values.position();
    // Not the one at the place.
    drop(queue.pop_front());
    assert_eq!(
        queue.iter(position.as_ref()).collect::<Vec<_>>(),
        [&2, &3, &4, &5]
    );
    drop(queue.pop_front());
    drop(queue.pop_front());
    assert_eq!(
        queue.iter(position.as_ref()).collect::<Vec<_>>(),
        [&3, &4, &5]
    );
}

#[test]
fn a_place_in_another_queue_is_none_here() {
    let mut queues = [BoxQueue::numbered(), BoxQueue::numbered()];
    for (number, queue) in queues.iter_mut().enumerate() {
        for value in 0..3 {
            queue.push_back(Ticket::new(GFP_KERNEL).unwrap(), 10 * number + value);
        }
    }
    let mut values = queues[0].iter(None);
    values.next();
    let position = values.position();
    assert_eq!(
        queues[1].iter(position.as_ref()).collect::<Vec<_>>(),
        [&10, &11, &12]
    );
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

#[test]
fn nothing_is_taken_out_of_a_queue_where_it_does_not_wait() {
    let mut numbered = [BoxQueue::numbered(), BoxQueue::numbered()];
    let mut plain = BoxQueue::new();
    let ticket = Ticket::new(GFP_KERNEL).unwrap();
    let position = ticket.position();
    assert!(
        numbered[0].take(&position).is_none(),
        "a ticket waits nowhere"
    );
    plain.push_back(ticket, 1);
    assert!(plain.take(&position).is_none(), "a queue without a number");
    assert!(numbered[0].take(&position).is_none());
    let (_, ticket) = plain.pop_front().unwrap();
    numbered[0].push_back(ticket, 2);
    assert!(numbered[1].take(&position).is_none(), "another queue");
    numbered.swap(0, 1);
    let (value, ticket) = numbered[1].take(&position).unwrap();
    assert_eq!(value, 2, "the queue has moved");
    assert!(numbered[1].is_empty());
    assert!(numbered[1].take(&position).is_none(), "once is enough");
    numbered[1].push_back(ticket, 3);
    drop(numbered);
    // The queue and the ticket are gone, the position is left.
    assert!(BoxQueue::numbered().take(&position).is_none());
}
