// SPDX-License-Identifier: GPL-2.0
//! The queue whose objects bring their places, of both kinds, compared with deques.

use super::*;
use crate::link::{has_field, queued, Link, LinkedQueue, NumberedQueue, Placed};
use kernel::sync::Arc;
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

has_field!(impl for Large, link: Link);
has_field!(impl for Small, link: Link);

#[derive(Clone)]
enum Object {
    Large(Arc<Large>),
    Small(Arc<Small>),
}

enum Item {
    Large(Arc<Large>),
    Small(Arc<Small>),
    Placed(Placed<Rc<u32>>),
}

queued!(Item, Placed(Placed<Rc<u32>>), Large(Arc<Large>), Small(Arc<Small>));

impl Item {
    fn number(&self) -> u32 {
        match self {
            Self::Large(object) => object.number,
            Self::Small(object) => object.number,
            Self::Placed(number) => ***number,
        }
    }
}

const _: () = assert!(size_of::<LinkedQueue<Item>>() == size_of::<usize>());

/// An object of this number; odd ones are small.
fn object(number: u32) -> Object {
    if number % 2 == 0 {
        let (_more, link) = ([0; 3], Link::new());
        let large = Large { number, _more, link };
        Object::Large(Arc::new(large, GFP_KERNEL).unwrap())
    } else {
        Object::Small(small(number))
    }
}

fn small(number: u32) -> Arc<Small> {
    let link = Link::new();
    Arc::new(Small { link, number }, GFP_KERNEL).unwrap()
}

fn placed(number: u32) -> Placed<Rc<u32>> {
    Placed::new(|| Rc::new(number), GFP_KERNEL).unwrap()
}

impl Object {
    fn item(&self) -> Item {
        match self.clone() {
            Self::Large(object) => Item::Large(object),
            Self::Small(object) => Item::Small(object),
        }
    }

    fn take<const N: usize>(&self, queue: &mut LinkedQueue<Item, N>) -> Option<Item> {
        match self {
            Self::Large(object) => queue.take(&**object),
            Self::Small(object) => queue.take(&**object),
        }
    }
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
struct Scene<const N: usize> {
    objects: Vec<Object>,
    queues: [LinkedQueue<Item, N>; 2],
    models: [VecDeque<u32>; 2],
    serial: u32,
}

impl<const N: usize> Scene<N> {
    fn new(objects: u32, queue: fn() -> LinkedQueue<Item, N>) -> Self {
        Self {
            objects: (0..objects).map(object).collect(),
            queues: [queue(), queue()],
            models: Default::default(),
            serial: objects,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Push(at, number) => {
                let is_free = !self.models.iter().any(|model| model.contains(&number));
                let item = self.objects[number as usize].item();
                let pushed = atomic(|| self.queues[at].push(item));
                assert_eq!(pushed.is_ok(), is_free);
                if is_free {
                    self.models[at].push_back(number);
                }
            }
            Step::PushPlaced(at) => {
                let item = Item::Placed(placed(self.serial));
                assert!(atomic(|| self.queues[at].push(item)).is_ok());
                self.models[at].push_back(self.serial);
                self.serial += 1;
            }
            Step::Take(at, number) => {
                let object = &self.objects[number as usize];
                let taken = atomic(|| object.take(&mut self.queues[at]));
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
            let front = queue.front().map(|item| item.number());
            assert_eq!(front, model.front().copied());
            assert!(numbers(queue).iter().eq(model));
        }
    }
}

fn numbers<const N: usize>(queue: &LinkedQueue<Item, N>) -> Vec<u32> {
    queue.iter().map(|item| item.number()).collect()
}

/// All orders of so many steps: an object is in the queue into which it was put first,
/// and nowhere else, until it is taken out there.
#[test]
fn three_objects_and_two_queues_in_all_ways() {
    let mut steps = vec![Step::Swap, Step::TakeFirst(0), Step::PushPlaced(0)];
    for number in 0..3 {
        steps.extend([Step::Push(0, number), Step::Take(0, number)]);
    }
    steps.extend([Step::Push(1, 0), Step::Take(1, 0), Step::Pop(0)]);
    let length = if cfg!(miri) { 2 } else { 5 };
    let before = live_allocations();
    every_path(steps.len(), length, |path| {
        let mut scene = Scene::new(3, LinkedQueue::new);
        path.iter().for_each(|step| scene.step(steps[*step]));
        let mut scene = Scene::new(3, LinkedQueue::numbered);
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
    #![proptest_config(config())]

    #[test]
    fn like_deques(steps in prop::collection::vec(step(), 1..100)) {
        keeps_nothing(|| {
            let mut scene = Scene::new(OBJECTS, LinkedQueue::new);
            steps.iter().for_each(|step| scene.step(*step));
            let mut scene = Scene::new(OBJECTS, LinkedQueue::numbered);
            steps.iter().for_each(|step| scene.step(*step));
        });
    }
}

/// A queue that has been empty is another one: former entries are not taken for present ones.
#[test]
fn what_was_in_a_queue_before_it_was_empty_is_not_in_it() {
    let mut queue = LinkedQueue::new();
    let (first, second) = (object(1), object(2));
    assert!(queue.push(first.item()).is_ok());
    drop(queue.pop_front());
    let mut other = LinkedQueue::new();
    assert!(other.push(first.item()).is_ok());
    assert!(queue.push(second.item()).is_ok());
    assert!(first.take(&mut queue).is_none(), "it is in another one");
    assert!(first.take(&mut other).is_some());
}

#[test]
fn an_object_goes_from_one_kind_of_queue_to_the_other() {
    let mut new: LinkedQueue<_> = LinkedQueue::new();
    let mut own: NumberedQueue<_> = LinkedQueue::numbered();
    let object = small(1);
    for _ in 0..3 {
        assert!(new.push(object.clone()).is_ok());
        assert!(own.push(object.clone()).is_err());
        assert!(own.take(&*object).is_none());
        let taken = new.take(&*object).unwrap();
        assert!(own.push(taken).is_ok());
        assert!(new.push(object.clone()).is_err());
        assert!(new.take(&*object).is_none());
        assert!(own.take(&*object).is_some());
    }
}

#[test]
fn it_allocates_nothing() {
    let objects: Vec<_> = (0..10).map(object).collect();
    let mut value = placed(0);
    let before = total_allocations();
    let mut queue = LinkedQueue::new();
    for round in 0..10 {
        *Rc::get_mut(&mut value).unwrap() = round;
        assert!(queue.push(Item::Placed(value)).is_ok());
        for object in &objects {
            assert!(queue.push(object.item()).is_ok());
        }
        for object in &objects[3..] {
            assert!(object.take(&mut queue).is_some());
        }
        let Some(Item::Placed(back)) = queue.pop_front() else { panic!("it was queued") };
        assert_eq!(**back, round);
        value = back;
        while queue.pop_front().is_some() {}
    }
    assert_eq!(total_allocations(), before);
}

#[test]
fn what_waits_in_a_dropped_queue_is_free_again() {
    let before = live_allocations();
    let objects: Vec<_> = (0..4).map(object).collect();
    let value = Rc::new(9);
    let mut queue = LinkedQueue::new();
    for object in &objects {
        assert!(queue.push(object.item()).is_ok());
    }
    let last = Placed::new(|| value.clone(), GFP_KERNEL).unwrap();
    assert!(queue.push(Item::Placed(last)).is_ok());
    drop(queue);
    assert_eq!(Rc::strong_count(&value), 1);
    let mut other = LinkedQueue::new();
    for object in objects {
        assert!(other.push(object.item()).is_ok());
    }
    drop(other);
    assert_eq!(live_allocations(), before);
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
                let mut queue = LinkedQueue::numbered();
                let mut won = 0;
                for _ in 0..rounds {
                    if queue.push(object.clone()).is_ok() {
                        won += 1;
                        assert!(queue.take(&*object).is_some());
                    }
                    assert!(queue.is_empty());
                }
                won
            })
        });
        threads.map(|thread| thread.join().unwrap())
    });
    assert!(won.iter().sum::<usize>() > 0);
}
