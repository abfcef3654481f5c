// SPDX-License-Identifier: GPL-2.0
//! The halves in which a log keeps a moment.

use crate::clocks::Cycles;

#[test]
fn halves_are_those_of_the_moment() {
    for halves in [[0, 0], [u32::MAX, 0], [0, 1], [7, 1 << 31], [u32::MAX; 2]] {
        assert_eq!(Cycles::of_halves(halves).halves(), halves);
    }
    // The lower half begins anew.
    let before = Cycles::of_halves([u32::MAX, 2]);
    let after = before.later(1);
    assert_eq!(after.halves(), [0, 3]);
    assert_eq!(Cycles::of_halves(after.halves()).since(before), 1);
}
