// SPDX-License-Identifier: GPL-2.0
//! The tree whose objects bring their places, next to sorted lists. Clean under Miri as well.

use super::*;
use crate::link::{has_field, weight_at, Branches, Keyed, Link, LinkedTree, NumberedQueue, Unplaced};
use kernel::sync::{Arc, UniqueArc};
use std::cell::Cell;

thread_local! {
    /// The number of keys that were looked at.
    static LOOKS: Cell<usize> = const { Cell::new(0) };
}

struct Object {
    key: u64,
    number: usize,
    link: Link,
}

has_field!(impl for Object, link: Link);

impl Keyed for Object {
    type Room = Link;

    fn key(&self) -> u64 {
        LOOKS.set(LOOKS.get() + 1);
        self.key
    }
}

fn object(key: u64, number: usize) -> Arc<Object> {
    let link = Link::new();
    Arc::new(Object { key, number, link }, GFP_KERNEL).unwrap()
}

/// Objects in the order of their insertion.
#[derive(Default)]
struct Model(Vec<(u64, usize)>);

impl Model {
    fn has(&self, number: usize) -> bool {
        self.0.iter().any(|entry| entry.1 == number)
    }

    fn take(&mut self, number: usize) -> Option<usize> {
        let at = self.0.iter().position(|entry| entry.1 == number)?;
        Some(self.0.remove(at).1)
    }

    fn first_from(&self, key: u64) -> Option<u64> {
        let keys = self.0.iter().map(|entry| entry.0);
        keys.filter(|other| *other >= key).min()
    }

    fn take_first(&mut self, key: u64) -> Option<usize> {
        let at = self.0.iter().position(|entry| entry.0 == key)?;
        Some(self.0.remove(at).1)
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(usize, usize),
    Take(usize, usize),
    TakeFirst(usize, u64),
    Pop(usize),
    /// Puts it into a queue and takes it out there, which fails as long as a tree has it.
    Queue(usize),
}

/// Two trees, a queue, and their models.
struct Scene {
    objects: Vec<Arc<Object>>,
    trees: [LinkedTree<Object>; 2],
    queue: NumberedQueue<Arc<Object>>,
    models: [Model; 2],
}

impl Scene {
    /// Objects of these keys.
    fn new(keys: &[u64]) -> Self {
        let numbered = keys.iter().enumerate();
        Self {
            objects: numbered.map(|(number, key)| object(*key, number)).collect(),
            trees: [LinkedTree::new(), LinkedTree::new()],
            queue: NumberedQueue::numbered(),
            models: Default::default(),
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Insert(tree, number) => {
                let is_free = !self.models.iter().any(|model| model.has(number));
                let object = self.objects[number].clone();
                let key = object.key;
                let inserted = atomic(|| self.trees[tree].insert(object));
                assert_eq!(inserted.is_ok(), is_free);
                if is_free {
                    self.models[tree].0.push((key, number));
                }
            }
            Step::Take(tree, number) => {
                let taken = atomic(|| self.trees[tree].take(&self.objects[number]));
                let wanted = self.models[tree].take(number);
                assert_eq!(taken.map(|object| object.number), wanted);
            }
            Step::TakeFirst(tree, key) => {
                let taken = atomic(|| self.trees[tree].take_first(key));
                let wanted = self.models[tree].take_first(key);
                assert_eq!(taken.map(|object| object.number), wanted);
            }
            Step::Pop(tree) => {
                let popped = atomic(|| self.trees[tree].pop_first());
                let first = self.models[tree].first_from(0);
                let wanted = first.and_then(|key| self.models[tree].take_first(key));
                assert_eq!(popped.map(|object| object.number), wanted);
            }
            Step::Queue(number) => {
                let is_free = !self.models.iter().any(|model| model.has(number));
                let pushed = self.queue.push(self.objects[number].clone());
                assert_eq!(pushed.is_ok(), is_free);
                let taken = self.queue.take(&*self.objects[number]);
                assert_eq!(taken.is_some(), is_free);
            }
        }
        for (tree, model) in self.trees.iter().zip(&self.models) {
            assert_eq!((tree.is_empty(), tree.len()), (model.0.is_empty(), model.0.len()));
            // All keys, by a walk, as somebody walks who gives up the lock.
            let mut from = 0;
            while let Some(wanted) = model.first_from(from) {
                assert_eq!(tree.first_from(from).unwrap().key, wanted);
                assert_eq!(tree.get(wanted).unwrap().key, wanted);
                from = wanted + 1;
            }
            assert!(tree.first_from(from).is_none());
            for key in 0..13 {
                let is_there = model.0.iter().any(|entry| entry.0 == key);
                assert_eq!(tree.get(key).is_some(), is_there);
            }
        }
    }

    /// Takes everything out, of each key the first that was inserted first.
    fn finish(mut self) {
        for (tree, model) in self.trees.iter_mut().zip(&mut self.models) {
            let keys: std::collections::BTreeSet<u64> = model.0.iter().map(|entry| entry.0).collect();
            for key in keys {
                while let Some(wanted) = model.take_first(key) {
                    assert_eq!(tree.take_first(key).unwrap().number, wanted);
                }
                assert!(tree.take_first(key).is_none());
            }
            assert!(tree.is_empty());
        }
    }
}

/// Everything that can happen to three objects of two keys in so many steps.
#[test]
fn three_objects_in_all_ways() {
    let mut steps = vec![Step::TakeFirst(0, 1), Step::TakeFirst(0, 2), Step::Pop(0)];
    for number in 0..3 {
        steps.extend([Step::Insert(0, number), Step::Take(0, number)]);
    }
    // The other tree and the queue only have to be in the way.
    steps.extend([Step::Insert(1, 0), Step::Take(1, 0), Step::Queue(0)]);
    let length = if cfg!(miri) { 2 } else { 5 };
    keeps_nothing(|| {
        every_path(steps.len(), length, |path| {
            let mut scene = Scene::new(&[1, 2, 1]);
            path.iter().for_each(|step| scene.step(steps[*step]));
            scene.finish();
        });
    });
}

/// Plays all orders in which six objects come, each with some in which they go.
fn in_all_orders(play: impl Fn(&[usize], &[usize])) {
    let orders = permutations(if cfg!(miri) { 3 } else { 6 });
    let some = orders.len().div_ceil(60);
    for coming in &orders {
        orders.iter().step_by(some).for_each(|going| play(coming, going));
    }
}

#[test]
fn all_orders_of_coming_and_going() {
    in_all_orders(|coming, going| {
        let keys: Vec<u64> = (0..coming.len() as u64).map(|key| key / 2).collect();
        let mut scene = Scene::new(&keys);
        for &number in coming {
            scene.step(Step::Insert(0, number));
        }
        for &number in going {
            scene.step(Step::Take(0, number));
            scene.step(Step::Take(0, number));
        }
        scene.finish();
    });
}

fn permutations(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![vec![]];
    }
    let shorter = permutations(count - 1);
    let with_last = |order: &Vec<usize>, at: usize| {
        let mut order = order.clone();
        order.insert(at, count - 1);
        order
    };
    (0..count).flat_map(|at| shorter.iter().map(move |order| with_last(order, at))).collect()
}

const OBJECTS: usize = 40;

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..2usize, 0..OBJECTS).prop_map(|(tree, number)| Step::Insert(tree, number)),
        2 => (0..2usize, 0..OBJECTS).prop_map(|(tree, number)| Step::Take(tree, number)),
        2 => (0..2usize, 0..12u64).prop_map(|(tree, key)| Step::TakeFirst(tree, key)),
        1 => (0..2usize).prop_map(Step::Pop),
        1 => (0..OBJECTS).prop_map(Step::Queue),
    ]
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn like_sorted_lists(
        keys in prop::collection::vec(0..12u64, OBJECTS),
        steps in prop::collection::vec(step(), 1..200),
    ) {
        keeps_nothing(|| {
            let mut scene = Scene::new(&keys);
            steps.into_iter().for_each(|step| scene.step(step));
            scene.finish();
        });
    }
}

#[test]
fn a_tree_allocates_nothing() {
    let objects: Vec<_> = (0..100).map(|number| object(7, number)).collect();
    let before = total_allocations();
    let mut tree = LinkedTree::new();
    for object in &objects {
        assert!(tree.insert(object.clone()).is_ok());
    }
    for object in &objects {
        assert_eq!(tree.take_first(7).unwrap().number, object.number);
    }
    assert_eq!(total_allocations(), before);
}

#[test]
fn what_is_in_a_dropped_tree_is_free_again() {
    let before = live_allocations();
    let objects: Vec<_> = (0..20).map(|number| object(number as u64, number)).collect();
    let mut tree = LinkedTree::new();
    for object in &objects {
        assert!(tree.insert(object.clone()).is_ok());
    }
    let all = tree.take_all();
    assert!(tree.is_empty());
    assert!(tree.insert(objects[0].clone()).is_err());
    drop(all);
    for object in &objects {
        assert!(tree.insert(object.clone()).is_ok());
    }
    drop((tree, objects));
    assert_eq!(live_allocations(), before);
}

/// A search for one of many objects takes few steps, for any order of inserts, and with equal keys.
#[test]
fn no_search_is_long() {
    const MANY: u64 = 4000;
    let orders: [fn(u64) -> u64; 4] =
        [|at| at, |at| MANY - at, |_| 1, |at| if at % 2 == 0 { at } else { 2 * MANY - at }];
    for order in orders {
        let mut tree = LinkedTree::new();
        let objects: Vec<_> = (0..MANY).map(|at| object(order(at), at as usize)).collect();
        let mut most = 0;
        let mut looks = |work: &mut dyn FnMut()| {
            LOOKS.set(0);
            work();
            most = most.max(LOOKS.get());
        };
        for object in &objects {
            looks(&mut || assert!(tree.insert(object.clone()).is_ok()));
        }
        for object in objects.iter().step_by(3) {
            looks(&mut || assert!(tree.take(object).is_some()));
        }
        for object in &objects {
            looks(&mut || drop(tree.take_first(object.key)));
        }
        assert!(tree.is_empty());
        // A random tree of so many has about 28 levels; 80 are as good as never seen.
        assert!(most < 80, "{most} keys were looked at");
    }
}

/// An object that can be in trees alone.
struct Leaf {
    key: u64,
    place: Branches,
}

has_field!(impl for Leaf, place: Branches);

impl Keyed for Leaf {
    type Room = Branches;

    fn key(&self) -> u64 {
        self.key
    }
}

fn leaf(key: u64) -> Unplaced<Leaf> {
    let place = Branches::new();
    Unplaced::new(UniqueArc::new(Leaf { key, place }, GFP_KERNEL).unwrap())
}

/// The keys in a tree, by a walk.
fn keys(tree: &LinkedTree<Leaf>) -> Vec<u64> {
    let mut keys = Vec::new();
    while let Some(next) = tree.first_from(keys.last().map_or(0, |last| last + 1)) {
        keys.push(next.key);
    }
    keys
}

/// As above, and objects are looked for in another tree as well.
#[test]
fn objects_without_numbers_come_and_go_in_all_orders() {
    keeps_nothing(|| {
        in_all_orders(|coming, going| {
            let mut trees = [LinkedTree::new(), LinkedTree::new()];
            let objects: Vec<_> = coming.iter().map(|&key| leaf(key as u64)).collect();
            let borrowed: Vec<_> = objects.iter().map(|one| one.object().clone()).collect();
            objects.into_iter().for_each(|object| atomic(|| trees[0].insert_unplaced(object)));
            let mut left: Vec<_> = (0..coming.len() as u64).collect();
            for &at in going {
                let object = &borrowed[at];
                assert!(trees[1].take(object).is_none(), "it is in another tree");
                let taken = atomic(|| trees[0].take(object)).unwrap();
                assert!(Arc::ptr_eq(&taken, object));
                assert!(trees[0].take(object).is_none());
                left.retain(|key| *key != object.key);
                assert_eq!(keys(&trees[0]), left);
                assert_eq!(trees[0].len(), left.len());
                assert!(trees[0].get(object.key).is_none());
            }
        });
    });
}

/// Once an object is in no tree, the holder of its only reference can insert it again.
#[test]
fn an_object_without_a_number_is_inserted_again() {
    let before = live_allocations();
    let mut trees = [LinkedTree::new(), LinkedTree::new()];
    let mut object = leaf(3);
    for round in 0..10 {
        let tree = &mut trees[round % 2];
        tree.insert_unplaced(leaf(round as u64 + 10));
        let other = object.object().clone();
        tree.insert_unplaced(object);
        let taken = tree.take(&other).unwrap();
        assert!(Arc::into_unique_or_drop(other).is_none());
        object = Unplaced::new(Arc::into_unique_or_drop(taken).unwrap());
    }
    assert_eq!(trees.each_ref().map(LinkedTree::len), [5, 5]);
    drop((trees, object));
    assert_eq!(live_allocations(), before);
}

/// Of two objects of one key one may not be found by itself. None is lost, and none is taken twice.
#[test]
fn objects_of_one_key_without_numbers_are_all_there() {
    let before = live_allocations();
    for count in 2..8 {
        let mut tree = LinkedTree::new();
        let mut objects = Vec::new();
        for key in [5, 7].repeat(count) {
            let object = leaf(key);
            objects.push(object.object().clone());
            tree.insert_unplaced(object);
        }
        let mut found = Vec::new();
        for object in &objects {
            found.extend(tree.take(object));
            assert_eq!(tree.len(), objects.len() - found.len());
        }
        assert!(found.len() >= 2);
        while let Some(object) = tree.pop_first() {
            found.push(object);
        }
        assert_eq!(found.len(), objects.len());
        for object in &objects {
            let times = found.iter().filter(|found| Arc::ptr_eq(found, object));
            assert_eq!(times.count(), 1);
        }
        drop((tree, objects, found));
        assert_eq!(live_allocations(), before);
    }
}

/// Addresses do not reveal an object's weight: another secret turns half of the pairs round.
#[test]
fn addresses_alone_do_not_tell_weights() {
    let objects = 0..256u64;
    let address = |object: u64| 0xffff_8881_0000_0000 + object * 192;
    let is_above = |one, other, secret| weight_at(address(one), secret) > weight_at(address(other), secret);
    let (one, two) = (0x1234_5678_9abc_def0, 0x0fed_cba9_8765_4321);
    let pairs: Vec<_> =
        objects.clone().flat_map(|a| objects.clone().filter(move |&b| a < b).map(move |b| (a, b))).collect();
    let turned = pairs.iter().filter(|&&(a, b)| is_above(a, b, one) != is_above(a, b, two)).count();
    let share = turned as f64 / pairs.len() as f64;
    assert!((0.4..0.6).contains(&share), "{share}");
}
