// SPDX-License-Identifier: GPL-2.0
//! A counted tree, compared with a sorted map: its number equals its entries after each step.

use super::*;
use crate::pure::counted_tree::CountedTree;
use kernel::rbtree::RBTreeNodeReservation;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(u8, u32),
    Remove(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..16u8, any::<u32>()).prop_map(|(key, value)| Step::Insert(key, value)),
        3 => (0..16u8).prop_map(Step::Remove),
    ]
}

fn live(steps: &[Step]) {
    let (mut tree, mut model) = (CountedTree::new(), BTreeMap::new());
    for step in steps {
        let (real, wanted) = match *step {
            Step::Insert(key, value) => {
                let memory = RBTreeNodeReservation::new(GFP_KERNEL).unwrap();
                let replaced = atomic(|| tree.insert(memory.into_node(key, value)));
                (replaced, model.insert(key, value).map(|old| (key, old)))
            }
            Step::Remove(key) => {
                (atomic(|| tree.remove_node(&key)), model.remove(&key).map(|value| (key, value)))
            }
        };
        assert_eq!(real.map(|node| node.to_key_value()), wanted);
        assert_eq!(tree.len(), model.len());
        assert!(tree.values().eq(model.values()));
        for key in 0..=16 {
            assert_eq!(tree.get(&key), model.get(&key));
            let next = model.range(key..).next().map(|(_, value)| *value);
            assert_eq!(tree.first_from(&key), next);
        }
    }
}

proptest! {
    #[test]
    fn counts_what_is_in_it(steps in prop::collection::vec(step(), 0..100)) {
        keeps_nothing(|| live(&steps));
    }
}
