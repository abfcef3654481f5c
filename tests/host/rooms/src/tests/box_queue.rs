// SPDX-License-Identifier: GPL-2.0

//! The queue whose places belong to what waits in it, next to a deque. Clean under Miri as well.

use crate::box_queue::{queued, BoxQueue, Placed, Ticket};
use crate::link::{has_link, Link};
use kernel::alloc::flags::GFP_KERNEL;
use kernel::sync::Arc;
use kernel::testing::{atomic, live_allocations, total_allocations};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::rc::Rc;

/// An object with a link, which is not at its beginning.
struct Large {
    number: u32,
    _more: [u64; 3],
    link: Link,
}

struct Small {
    link: Link,
    number: u32,
}

has_link!(impl for Large, link as Waiting);
has_link!(impl for Small, link as Waiting);

enum Item {
    Plain(Rc<u32>),
    Large(Arc<Large>),
    Small(Arc<Small>),
    Placed(Placed<Rc<u32>>),
}

queued!(
    Item,
    Large(Arc<Large>),
    Small(Arc<Small>),
    Placed(Placed<Rc<u32>>)
);
queued!(u32);
queued!(Rc<()>);

impl Item {
    fn number(&self) -> u32 {
        match self {
            Self::Plain(number) => **number,
            Self::Large(object) => object.number,
            Self::Small(object) => object.number,
            Self::Placed(number) => ***number,
        }
    }
}

fn large(number: u32) -> Arc<Large> {
    let (_more, link) = ([0; 3], Link::new());
    Arc::new(
        Large {
            number,
            _more,
            link,
        },
        GFP_KERNEL,
    )
    .unwrap()
}

fn small(number: u32) -> Arc<Small> {
    let link = Link::new();
    Arc::new(Small { link, number }, GFP_KERNEL).unwrap()
}

fn placed(number: u32) -> Placed<Rc<u32>> {
    Ticket::new(GFP_KERNEL).unwrap().fill(Rc::new(number))
}

/// The numbers of objects: those of other values follow.
const OBJECTS: u32 = 6;

#[derive(Clone, Debug)]
enum Plan {
    Push,
    /// A value that brings its place.
    PushPlaced,
    /// The object of this number; odd ones are small.
    PushObject(u32),
    Pop,
    /// The object of this number, if it waits.
    Take(u32),
}

fn plan() -> impl Strategy<Value = Plan> {
    prop_oneof![
        3 => Just(Plan::Push),
        3 => Just(Plan::PushPlaced),
        4 => (0..OBJECTS).prop_map(Plan::PushObject),
        3 => Just(Plan::Pop),
        3 => (0..OBJECTS).prop_map(Plan::Take),
    ]
}

/// All objects.
struct Objects {
    large: Vec<Arc<Large>>,
    small: Vec<Arc<Small>>,
}

impl Objects {
    fn new() -> Self {
        Self {
            large: (0..OBJECTS).step_by(2).map(large).collect(),
            small: (1..OBJECTS).step_by(2).map(small).collect(),
        }
    }

    fn item(&self, number: u32) -> Item {
        let at = number as usize / 2;
        if number % 2 == 0 {
            Item::Large(self.large[at].clone())
        } else {
            Item::Small(self.small[at].clone())
        }
    }

    fn take(&self, number: u32, queue: &mut BoxQueue<Item>) -> Option<Item> {
        let at = number as usize / 2;
        if number % 2 == 0 {
            queue.take_object(&*self.large[at])
        } else {
            queue.take_object(&*self.small[at])
        }
    }
}

fn numbers(queue: &BoxQueue<Item>) -> Vec<u32> {
    queue.iter().map(|item| item.number()).collect()
}

fn live(plans: &[Plan]) {
    let before = live_allocations();
    let objects = Objects::new();
    let mut queue = BoxQueue::numbered();
    let mut model = VecDeque::new();
    let (mut tickets, mut spare) = (Vec::new(), Vec::new());
    let mut serial = OBJECTS;
    for plan in plans {
        match *plan {
            Plan::Push => {
                let ticket = tickets
                    .pop()
                    .unwrap_or_else(|| Ticket::new(GFP_KERNEL).unwrap());
                atomic(|| queue.push_back(ticket, Item::Plain(Rc::new(serial))));
                model.push_back(serial);
                serial += 1;
            }
            Plan::PushPlaced => {
                let mut item = spare.pop().unwrap_or_else(|| placed(0));
                *item = Rc::new(serial);
                model.push_back(serial);
                let pushed = atomic(|| queue.push_object(Item::Placed(item)));
                assert!(pushed.is_ok());
                serial += 1;
            }
            Plan::PushObject(number) => {
                let item = objects.item(number);
                let pushed = atomic(|| queue.push_object(item));
                assert_eq!(pushed.is_err(), model.contains(&number));
                if pushed.is_ok() {
                    model.push_back(number);
                }
            }
            Plan::Pop => {
                let popped = atomic(|| queue.pop_front());
                let wanted = model.pop_front();
                assert_eq!(popped.as_ref().map(|(item, _)| item.number()), wanted);
                if let Some((item, ticket)) = popped {
                    assert_eq!(ticket.is_some(), matches!(item, Item::Plain(_)));
                    tickets.extend(ticket);
                    if let Item::Placed(item) = item {
                        spare.push(item);
                    }
                }
            }
            Plan::Take(number) => {
                let taken = atomic(|| objects.take(number, &mut queue));
                let at = model.iter().position(|waits| *waits == number);
                let modelled = at.and_then(|at| model.remove(at));
                assert_eq!(taken.map(|item| item.number()), modelled);
            }
        }
        assert_eq!(queue.is_empty(), model.is_empty());
        let front = queue.front().map(|item| item.number());
        assert_eq!(front, model.front().copied());
        assert!(numbers(&queue).iter().eq(model.iter()));
    }
    drop((queue, tickets, spare, objects));
    assert_eq!(live_allocations(), before);
}

proptest! {
    #![proptest_config(super::config())]

    #[test]
    fn like_a_deque(plans in prop::collection::vec(plan(), 1..100)) {
        live(&plans);
    }
}

/// What can happen to two objects and two queues.
#[derive(Clone, Copy)]
enum Step {
    Push(usize, u32),
    Take(usize, u32),
    Pop(usize),
}

/// Everything that can happen in so many steps: an object is in the queue into which it was put first,
/// and nowhere else, until it is taken out there.
#[test]
fn an_object_is_in_one_queue_whatever_is_tried() {
    let steps: Vec<Step> = (0..2)
        .flat_map(|queue| {
            let of_object = |number| [Step::Push(queue, number), Step::Take(queue, number)];
            (0..2)
                .flat_map(of_object)
                .chain([Step::Pop(queue)])
                .collect::<Vec<_>>()
        })
        .collect();
    let length = if cfg!(miri) { 3 } else { 5 };
    let before = live_allocations();
    super::every_path(steps.len(), length, |path| {
        let objects = Objects::new();
        let mut queues = [BoxQueue::numbered(), BoxQueue::numbered()];
        let mut models: [VecDeque<u32>; 2] = Default::default();
        for step in path {
            match steps[*step] {
                Step::Push(queue, number) => {
                    let is_free = !models.iter().any(|model| model.contains(&number));
                    let pushed = queues[queue].push_object(objects.item(number));
                    assert_eq!(pushed.is_ok(), is_free);
                    if is_free {
                        models[queue].push_back(number);
                    }
                }
                Step::Take(queue, number) => {
                    let at = models[queue].iter().position(|waits| *waits == number);
                    let wanted = at.and_then(|at| models[queue].remove(at));
                    let taken = objects.take(number, &mut queues[queue]);
                    assert_eq!(taken.map(|item| item.number()), wanted);
                }
                Step::Pop(queue) => {
                    let popped = queues[queue].pop_front();
                    let wanted = models[queue].pop_front();
                    assert_eq!(popped.map(|(item, _)| item.number()), wanted);
                }
            }
            for (queue, model) in queues.iter().zip(&models) {
                assert!(numbers(queue).iter().eq(model));
            }
        }
    });
    assert_eq!(live_allocations(), before);
}

#[test]
fn a_ticket_serves_again_and_again() {
    let mut queue = BoxQueue::new();
    let mut ticket = Ticket::new(GFP_KERNEL).unwrap();
    let before = total_allocations();
    for round in 0..100u32 {
        queue.push_back(ticket, round);
        let (value, back) = queue.pop_front().unwrap();
        assert_eq!(value, round);
        ticket = back.unwrap();
    }
    assert_eq!(total_allocations(), before);
}

#[test]
fn an_object_needs_no_other_memory() {
    let object = small(1);
    let before = total_allocations();
    let mut queue = BoxQueue::numbered();
    for _ in 0..100 {
        assert!(queue.push_object(object.clone()).is_ok());
        assert!(queue.push_object(object.clone()).is_err());
        assert!(queue.take_object(&*object).is_some());
        assert!(queue.push_object(object.clone()).is_ok());
        assert!(queue.pop_front().is_some());
    }
    assert_eq!(total_allocations(), before);
}

#[test]
fn a_value_that_brings_its_place_needs_no_other_memory() {
    let mut value = placed(0);
    let before = total_allocations();
    let mut queue = BoxQueue::new();
    for round in 0..100 {
        *Rc::get_mut(&mut value).unwrap() = round;
        assert!(queue.push_object(Item::Placed(value)).is_ok());
        let Some((Item::Placed(back), None)) = queue.pop_front() else {
            panic!("it was queued");
        };
        assert_eq!(**back, round);
        value = back;
    }
    assert_eq!(total_allocations(), before);
}

#[test]
fn what_has_no_link_is_not_queued_without_a_ticket() {
    let mut queue = BoxQueue::new();
    assert_eq!(queue.push_object(5u32), Err(5));
    assert!(queue.is_empty());
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
fn an_object_that_waits_in_a_dropped_queue_is_free_again() {
    let before = live_allocations();
    let object = large(1);
    let mut queue = BoxQueue::new();
    assert!(queue.push_object(object.clone()).is_ok());
    let mut other = BoxQueue::numbered();
    assert!(other.push_object(object.clone()).is_err());
    drop(queue);
    assert!(other.push_object(object.clone()).is_ok());
    drop(object);
    assert_eq!(other.pop_front().unwrap().0.number, 1);
    assert_eq!(live_allocations(), before);
}

#[test]
fn nothing_is_taken_out_of_a_queue_where_it_does_not_wait() {
    let mut numbered = [BoxQueue::numbered(), BoxQueue::numbered()];
    let mut plain = BoxQueue::new();
    let object = small(2);
    // It waits nowhere.
    assert!(numbered[0].take_object(&*object).is_none());
    assert!(plain.push_object(object.clone()).is_ok());
    // A queue without a number.
    assert!(plain.take_object(&*object).is_none());
    assert!(numbered[0].take_object(&*object).is_none());
    assert!(plain.pop_front().is_some());
    assert!(numbered[0].push_object(object.clone()).is_ok());
    assert!(numbered[1].take_object(&*object).is_none(), "another queue");
    numbered.swap(0, 1);
    // The queue has moved, and once is enough.
    assert!(numbered[1].take_object(&*object).is_some());
    assert!(numbered[1].is_empty());
    assert!(numbered[1].take_object(&*object).is_none());
}

/// Threads that put one object into a queue of their own each, as long as it is free.
#[test]
fn of_two_threads_one_gets_an_object() {
    let object = std::sync::Arc::new(std::sync::Mutex::new(small(0)));
    let rounds = if cfg!(miri) { 10 } else { 2000 };
    let won = std::thread::scope(|scope| {
        let threads = [(); 2].map(|()| {
            let object = object.clone();
            scope.spawn(move || {
                let object = object.lock().unwrap().clone();
                let mut queue = BoxQueue::numbered();
                let mut won = 0;
                for _ in 0..rounds {
                    if queue.push_object(object.clone()).is_ok() {
                        won += 1;
                        assert!(queue.take_object(&*object).is_some());
                    }
                    assert!(queue.is_empty());
                }
                won
            })
        });
        threads.map(|thread| thread.join().unwrap())
    });
    assert!(won.iter().sum::<usize>() >= rounds);
}
