// SPDX-License-Identifier: GPL-2.0

use crate::pure::visits_left::VisitsLeft;

#[test]
fn twice_as_many_as_there_were_and_a_few_more() {
    for (len, allowed) in [(0, 64), (1, 66), (1000, 2064)] {
        let mut left = VisitsLeft::of(len);
        assert!((0..allowed).all(|_| left.take(1)), "of {len}");
        assert!(!left.take(1), "of {len}");
        assert!(!left.take(1), "it stays so");
    }
}

#[test]
fn many_at_once() {
    let mut left = VisitsLeft::of(0);
    assert!(left.take(40));
    assert!(!left.take(40));
    assert!(!left.take(1), "no part of what was refused is left");
    assert!(VisitsLeft::of(usize::MAX).take(usize::MAX));
}
