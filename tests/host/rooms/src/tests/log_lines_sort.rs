// SPDX-License-Identifier: GPL-2.0

use crate::pure::log_lines::sort_by_key;
use proptest::prelude::*;

proptest! {
    #![proptest_config(super::config())]

    #[test]
    fn sorted_as_by_the_library(items in prop::collection::vec(0..50u32, 0..100)) {
        let mut sorted = items.clone();
        sorted.sort_unstable_by_key(|item| std::cmp::Reverse(*item));
        let mut here = items;
        sort_by_key(&mut here, |item| std::cmp::Reverse(*item), || {});
        prop_assert_eq!(here, sorted);
    }
}
