// SPDX-License-Identifier: GPL-2.0

//! The queue that is as small as a pointer, next to deques. Clean under Miri as well.

use crate::box_queue::{queued, BoxQueue, Placed, SmallQueue, Ticket};
use crate::link::{has_link, Link};
use kernel::alloc::flags::GFP_KERNEL;
use kernel::sync::Arc;
use kernel::testing::{atomic, live_allocations, total_allocations};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::rc::Rc;

/// An object with a link, which is not at its beginning.
struct Object {
    number: u32,
    link: Link,
}

has_link!(impl for Object, link as Waiting);

enum Item {
    Object(Arc<Object>),
    Placed(Placed<Rc<u32>>),
    /// It has no link.
    Plain(u32),
}

queued!(Item, Object(Arc<Object>), Placed(Placed<Rc<u32>>));

impl Item {
    fn number(&self) -> u32 {
        match self {
            Self::Object(object) => object.number,
            Self::Placed(number) => ***number,
            Self::Plain(number) => *number,
        }
    }
}

const _: () = assert!(size_of::<SmallQueue<Item>>() == size_of::<usize>());

fn object(number: u32) -> Arc<Object> {
    let link = Link::new();
    Arc::new(Object { number, link }, GFP_KERNEL).unwrap()
}

fn placed(number: u32) -> Item {
    let ticket = Ticket::new(GFP_KERNEL).unwrap();
    Item::Placed(ticket.fill(Rc::new(number)))
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The object of this number into this queue.
    Push(usize, u32),
    /// A value that brings its place.
    PushPlaced(usize),
    Take(usize, u32),
    /// The first with an odd number.
    TakeFirst(usize),
    Pop(usize),
    /// The queues take each other's places in memory.
    Swap,
}

/// Two queues, objects that either may have, and their models.
struct Scene {
    objects: Vec<Arc<Object>>,
    queues: [SmallQueue<Item>; 2],
    models: [VecDeque<u32>; 2],
    serial: u32,
}

impl Scene {
    fn new(objects: u32) -> Self {
        Self {
            objects: (0..objects).map(object).collect(),
            queues: [SmallQueue::new(), SmallQueue::new()],
            models: Default::default(),
            serial: objects,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Push(at, number) => {
                let is_free = !self.models.iter().any(|model| model.contains(&number));
                let item = Item::Object(self.objects[number as usize].clone());
                let pushed = atomic(|| self.queues[at].push_object(item));
                assert_eq!(pushed.is_ok(), is_free);
                if is_free {
                    self.models[at].push_back(number);
                }
            }
            Step::PushPlaced(at) => {
                let item = placed(self.serial);
                assert!(atomic(|| self.queues[at].push_object(item)).is_ok());
                self.models[at].push_back(self.serial);
                self.serial += 1;
            }
            Step::Take(at, number) => {
                let object = &*self.objects[number as usize];
                let taken = atomic(|| self.queues[at].take_object(object));
                let place = self.models[at].iter().position(|waits| *waits == number);
                let wanted = place.and_then(|place| self.models[at].remove(place));
                assert_eq!(taken.map(|item| item.number()), wanted);
            }
            Step::TakeFirst(at) => {
                let is_odd = |number: &u32| number % 2 == 1;
                let taken = atomic(|| self.queues[at].take_first(|item| is_odd(&item.number())));
                let place = self.models[at].iter().position(is_odd);
                let wanted = place.and_then(|place| self.models[at].remove(place));
                assert_eq!(taken.map(|item| item.number()), wanted);
            }
            Step::Pop(at) => {
                let popped = atomic(|| self.queues[at].pop_front());
                let wanted = self.models[at].pop_front();
                assert_eq!(popped.map(|item| item.number()), wanted);
            }
            Step::Swap => {
                let [one, other] = &mut self.queues;
                std::mem::swap(one, other);
                self.models.swap(0, 1);
            }
        }
        self.compare();
    }

    fn compare(&self) {
        for (queue, model) in self.queues.iter().zip(&self.models) {
            assert_eq!(queue.is_empty(), model.is_empty());
            assert!(queue
                .iter()
                .map(|item| item.number())
                .eq(model.iter().copied()));
        }
    }
}

/// Everything that can happen in so many steps.
#[test]
fn three_objects_and_two_queues_in_all_ways() {
    let mut steps = vec![Step::Swap, Step::TakeFirst(0), Step::PushPlaced(0)];
    for number in 0..3 {
        steps.extend([Step::Push(0, number), Step::Take(0, number)]);
    }
    steps.extend([Step::Push(1, 0), Step::Take(1, 0), Step::Pop(0)]);
    let length = if cfg!(miri) { 2 } else { 5 };
    let before = live_allocations();
    super::every_path(steps.len(), length, |path| {
        let mut scene = Scene::new(3);
        path.iter().for_each(|step| scene.step(steps[*step]));
    });
    assert_eq!(live_allocations(), before);
}

const OBJECTS: u32 = 12;

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..2usize, 0..OBJECTS).prop_map(|(at, number)| Step::Push(at, number)),
        2 => (0..2usize).prop_map(Step::PushPlaced),
        3 => (0..2usize, 0..OBJECTS).prop_map(|(at, number)| Step::Take(at, number)),
        1 => (0..2usize).prop_map(Step::TakeFirst),
        2 => (0..2usize).prop_map(Step::Pop),
        1 => Just(Step::Swap),
    ]
}

proptest! {
    #![proptest_config(super::config())]

    #[test]
    fn like_deques(steps in prop::collection::vec(step(), 1..100)) {
        super::keeps_nothing(|| {
            let mut scene = Scene::new(OBJECTS);
            steps.into_iter().for_each(|step| scene.step(step));
        });
    }
}

/// A queue that has been empty is another one: what was in it before is not taken for what is in it now.
#[test]
fn what_was_in_a_queue_before_it_was_empty_is_not_in_it() {
    let mut queue = SmallQueue::new();
    let (first, second) = (object(1), object(2));
    assert!(queue.push_object(Item::Object(first.clone())).is_ok());
    drop(queue.pop_front());
    let mut other = SmallQueue::new();
    assert!(other.push_object(Item::Object(first.clone())).is_ok());
    assert!(queue.push_object(Item::Object(second)).is_ok());
    assert!(queue.take_object(&*first).is_none(), "it is in another one");
    assert!(other.take_object(&*first).is_some());
}

#[test]
fn an_object_goes_from_one_kind_of_queue_to_the_other() {
    let mut small = SmallQueue::new();
    let mut large = BoxQueue::numbered();
    let object = object(1);
    for _ in 0..3 {
        assert!(small.push_object(object.clone()).is_ok());
        assert!(large.push_object(object.clone()).is_err());
        assert!(large.take_object(&*object).is_none());
        let taken = small.take_object(&*object).unwrap();
        assert!(large.push_object(taken).is_ok());
        assert!(small.push_object(object.clone()).is_err());
        assert!(small.take_object(&*object).is_none());
        assert!(large.take_object(&*object).is_some());
    }
}

#[test]
fn what_has_no_link_is_returned() {
    let mut queue = SmallQueue::new();
    let returned = queue.push_object(Item::Plain(5));
    assert!(matches!(returned, Err(Item::Plain(5))));
    assert!(queue.is_empty());
}

#[test]
fn it_allocates_nothing() {
    let objects: Vec<_> = (0..10).map(object).collect();
    let before = total_allocations();
    let mut queue = SmallQueue::new();
    for _ in 0..10 {
        for object in &objects {
            assert!(queue.push_object(object.clone()).is_ok());
        }
        for object in &objects[3..] {
            assert!(queue.take_object(&**object).is_some());
        }
        while queue.pop_front().is_some() {}
    }
    assert_eq!(total_allocations(), before);
}

#[test]
fn what_waits_in_a_dropped_queue_is_free_again() {
    let before = live_allocations();
    let objects: Vec<_> = (0..4).map(object).collect();
    let mut queue = SmallQueue::new();
    for object in &objects {
        assert!(queue.push_object(Item::Object(object.clone())).is_ok());
    }
    assert!(queue.push_object(placed(9)).is_ok());
    drop(queue);
    let mut other = SmallQueue::new();
    for object in objects {
        assert!(other.push_object(Item::Object(object)).is_ok());
    }
    drop(other);
    assert_eq!(live_allocations(), before);
}
