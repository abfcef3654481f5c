// SPDX-License-Identifier: GPL-2.0
//! Enumerates the crashes of both caches: `enumerate LENGTH`.

use pcache::crash::{cost_of_a_write, enumerate, Ours};
use pcache::dm_pcache::DmPcache;

fn main() {
    let length = std::env::args().nth(1).and_then(|word| word.parse().ok()).expect("enumerate LENGTH");
    println!("this cache: {:?} {:?}", cost_of_a_write::<Ours<1>>(), enumerate::<Ours<1>>(length));
    println!("dm-pcache's order: {:?} {:?}", cost_of_a_write::<DmPcache>(), enumerate::<DmPcache>(length));
    println!(
        "the same with two more fences: {:?} {:?}",
        cost_of_a_write::<DmPcache<true>>(),
        enumerate::<DmPcache<true>>(length)
    );
}
