// SPDX-License-Identifier: GPL-2.0
//! The stack that grows by chunks, compared with a vector: items keep their places. A push or a pop
//! allocates and frees nothing, and the first item needs no allocation at all.

use super::*;
use crate::pure::call_stack::ChunkedStack;

/// As many as take nine chunks.
const MANY: usize = 3000;

/// Pushes as a thread does: room is brought without the lock.
fn push(stack: &mut ChunkedStack<usize>, item: usize) {
    if let Some(shortage) = stack.shortage() {
        assert_eq!(atomic(|| stack.push(item)), Err(item), "there is no room");
        let room = shortage.allocate(GFP_KERNEL).unwrap();
        assert!(atomic(|| stack.add_room(room)).is_none());
    }
    assert!(stack.has_room());
    let (before, place) = (live_allocations(), stack.len());
    assert_eq!(atomic(|| stack.push(item)), Ok(place));
    assert_eq!(live_allocations(), before, "pushing frees nothing");
}

/// Pops as a thread does: what became free is dropped without the lock.
fn pop(stack: &mut ChunkedStack<usize>) -> Option<usize> {
    let before = live_allocations();
    let popped = atomic(|| stack.pop());
    assert_eq!(live_allocations(), before, "popping frees nothing");
    drop(stack.take_surplus());
    popped
}

fn check(stack: &mut ChunkedStack<usize>, model: &[usize]) {
    assert_eq!(stack.len(), model.len());
    assert_eq!(stack.last(), model.last());
    let ends = [0, 1, 2, 8, 9, 10, MANY, usize::MAX];
    let inside = [0, 1, 2].map(|part| part * model.len() / 2);
    for place in ends.into_iter().chain(inside) {
        assert_eq!(stack.get(place), model.get(place));
        assert_eq!(stack.get_mut(place).as_deref(), model.get(place));
    }
}

#[test]
fn lesson_s06_growth_moves_nothing() {
    let before = live_allocations();
    let mut stack = ChunkedStack::new();
    let mut addresses = Vec::new();
    for item in 0..MANY {
        push(&mut stack, item);
        // The last item goes to its place in a chunk when another is pushed.
        if let Some(below) = item.checked_sub(1) {
            addresses.push(std::ptr::from_ref(stack.get(below).unwrap()));
        }
    }
    for (place, address) in addresses.iter().enumerate() {
        assert!(std::ptr::eq(stack.get(place).unwrap(), *address), "{place} has moved");
        assert_eq!(stack.get(place), Some(&place));
    }
    // Memory for so many frames is freed as they go, but for a chunk that may be needed at once.
    let full = live_allocations() - before;
    while stack.len() > 1 {
        assert_eq!(pop(&mut stack), Some(stack.len()));
    }
    let left = live_allocations() - before;
    assert!(full == 18 && left == 2, "{left} of {full} pieces of memory are left");
    drop(stack);
    assert_eq!(live_allocations(), before);
}

#[test]
fn lesson_s06_going_to_and_fro_between_chunks_allocates_nothing() {
    let mut stack = ChunkedStack::new();
    for item in 0..MANY {
        push(&mut stack, item);
    }
    for depth in (1..MANY - 1).rev().step_by(17) {
        while stack.len() > depth {
            pop(&mut stack);
        }
        let before = total_allocations();
        for _ in 0..300 {
            pop(&mut stack);
            let item = stack.len();
            push(&mut stack, item);
        }
        assert!(total_allocations() <= before + 2, "at {depth}");
    }
}

/// As many as fit without another chunk.
const FEW: usize = 9;

#[test]
fn one_item_takes_no_memory() {
    let before = total_allocations();
    let mut stack = ChunkedStack::new();
    for item in 0..3 {
        push(&mut stack, item);
        check(&mut stack, &[item]);
        assert_eq!(pop(&mut stack), Some(item));
        check(&mut stack, &[]);
    }
    assert_eq!(pop(&mut stack), None);
    assert_eq!(total_allocations(), before);
}

#[test]
fn room_that_cannot_be_had_leaves_the_stack_as_it_is() {
    for count in [1, FEW] {
        let (mut stack, mut model) = (ChunkedStack::new(), Vec::new());
        for item in 0..count {
            push(&mut stack, item);
            model.push(item);
        }
        for nth in 0..2 {
            let shortage = stack.shortage().expect("what there is is full");
            fail_after(nth);
            assert!(shortage.allocate::<usize>(GFP_KERNEL).is_err());
            check(&mut stack, &model);
        }
        // Somebody else was faster.
        let shortage = stack.shortage().expect("still");
        let rooms = [(); 2].map(|()| shortage.allocate(GFP_KERNEL).unwrap());
        let given_back = rooms.map(|room| stack.add_room(room).is_some());
        assert_eq!(given_back, [false, true]);
        check(&mut stack, &model);
        push(&mut stack, count);
        model.push(count);
        check(&mut stack, &model);
    }
}

proptest! {
    #[test]
    fn is_a_stack(steps in prop::collection::vec((prop_oneof![0..4usize, 0..600usize], any::<bool>()), 0..40)) {
        let before = live_allocations();
        let (mut stack, mut model) = (ChunkedStack::new(), Vec::new());
        for (count, grows) in steps {
            for _ in 0..count {
                if grows {
                    push(&mut stack, 7 * model.len());
                    model.push(7 * model.len());
                } else {
                    prop_assert_eq!(pop(&mut stack), model.pop());
                }
            }
            check(&mut stack, &model);
        }
        drop(stack);
        prop_assert_eq!(live_allocations(), before);
    }
}

/// As many frames as the vector of old could not have in one piece.
#[test]
fn lesson_s06_s07_depth_has_no_limit_but_memory() {
    let mut stack = ChunkedStack::new();
    for item in 0..300_000 {
        push(&mut stack, item);
    }
    for place in (0..300_000).step_by(997) {
        assert_eq!(stack.get(place), Some(&place));
    }
    for item in (0..300_000).rev() {
        assert_eq!(pop(&mut stack), Some(item));
    }
}

/// The kernel allocates less than 2 GiB at once.
#[test]
fn chunks_of_deep_stacks_are_of_one_size() {
    let (mut stack, mut shortages) = (ChunkedStack::new(), Vec::new());
    loop {
        if let Some(shortage) = stack.shortage() {
            if shortages.last() == Some(&shortage) {
                break;
            }
            assert!(stack.add_room(shortage.allocate(GFP_KERNEL).unwrap()).is_none());
            shortages.push(shortage);
        }
        assert!(stack.push(()).is_ok());
    }
    assert_eq!(shortages.len(), 24, "each but the first is twice as large");
}
