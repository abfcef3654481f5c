// SPDX-License-Identifier: GPL-2.0

//! Sorts in place. The core library's function takes 3.5 KiB of the stack for the lines of a log,
//! 72 bytes each, and does not let others have the CPU meanwhile.

/// Sorts by a key, and calls `rest` between steps, of which there are as many as half as many items
/// again. Items of the same key come in any order.
pub(crate) fn sort_by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K, rest: impl Fn()) {
    for parent in (0..items.len() / 2).rev() {
        rest();
        sift_down(items, parent, &key);
    }
    for end in (1..items.len()).rev() {
        rest();
        items.swap(0, end);
        sift_down(&mut items[..end], 0, &key);
    }
}

/// Moves an item down in a heap whose largest item is to be the first, until it is in its place.
fn sift_down<T, K: Ord>(heap: &mut [T], mut at: usize, key: &impl Fn(&T) -> K) {
    loop {
        let children = 2 * at + 1..(2 * at + 3).min(heap.len());
        let Some(largest) = children.max_by_key(|child| key(&heap[*child])) else {
            return;
        };
        if key(&heap[at]) >= key(&heap[largest]) {
            return;
        }
        heap.swap(at, largest);
        at = largest;
    }
}
