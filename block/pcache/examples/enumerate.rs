// SPDX-License-Identifier: GPL-2.0
//! Enumerates the crashes of both caches: `enumerate LENGTH`.

use pcache::crash::{cost_of_a_write, enumerate, Ours, MORE_STEPS, STEPS};
use pcache::dm_pcache::DmPcache;

fn main() {
    let length = std::env::args().nth(1).and_then(|word| word.parse().ok()).expect("enumerate LENGTH");
    println!("this cache: {:?} {:?}", cost_of_a_write::<Ours<1>>(&[0]), enumerate::<Ours<1>>(&STEPS, length));
    let of_both = enumerate::<Ours<1>>(&MORE_STEPS, length * 2 / 3);
    println!("this cache, with writes of two blocks: {of_both:?}");
    println!(
        "dm-pcache's order: {:?} {:?}",
        cost_of_a_write::<DmPcache>(&[0]),
        enumerate::<DmPcache>(&STEPS, length)
    );
    println!(
        "the same with two more fences: {:?} {:?}",
        cost_of_a_write::<DmPcache<true>>(&[0]),
        enumerate::<DmPcache<true>>(&STEPS, length)
    );
}
