// SPDX-License-Identifier: GPL-2.0

//! Our UAPI headers, name by name and byte by byte.

mod contract_table;

use binder_uapi_test::{Abi, FIELDS};
use contract_table::{CONSTANTS, STRUCTS};

/// A program built with the system's headers and one built with ours speak the same language.
#[test]
fn all_that_the_system_defines_is_the_same_here() {
    let (ours, system) = (Abi::ours(), Abi::of_system());
    assert!(
        system.constants.len() > 60,
        "the system's headers were not understood"
    );

    for (name, value) in &system.constants {
        assert_eq!(ours.constants.get(name), Some(value), "{name}");
    }
    for (name, layout) in &system.structs {
        assert_eq!(ours.structs.get(name), Some(layout), "struct {name}");
    }
}

/// What is younger than the system's headers has nothing else to be held against.
#[test]
fn all_that_the_contract_numbers_is_so_here() {
    let ours = Abi::ours();

    for (name, value) in CONSTANTS {
        assert_eq!(ours.constants.get(name), Some(value), "{name}");
    }
    for (name, size, members) in STRUCTS {
        let layout = ours
            .structs
            .get(name)
            .unwrap_or_else(|| panic!("no struct {name}"));
        assert_eq!(layout.size, *size, "size of struct {name}");
        for (member, offset) in *members {
            let field = layout.fields.get(member).map(|field| field.offset);
            assert_eq!(field, Some(*offset), "{name}.{member}");
        }
    }
}

/// Each constant and each struct that we define is vouched for by one of the two above.
#[test]
fn nothing_here_is_of_our_own_making() {
    let (ours, system) = (Abi::ours(), Abi::of_system());

    for name in ours.constants.keys() {
        let known = CONSTANTS.iter().any(|(listed, _)| listed == name);
        assert!(
            known || system.constants.contains_key(name),
            "{name} is known nowhere else"
        );
    }
    for name in ours.structs.keys() {
        let known = STRUCTS.iter().any(|(listed, ..)| listed == name);
        assert!(
            known || system.structs.contains_key(name),
            "struct {name} is known nowhere else"
        );
    }
}

/// The comparison sees every member: together they leave no byte of a struct uncovered.
#[test]
fn listed_members_fill_their_structs() {
    for (name, layout) in &Abi::ours().structs {
        let mut covered = vec![false; layout.size];
        for field in layout.fields.values() {
            covered[field.offset..field.offset + field.size].fill(true);
        }
        cover_what_is_listed_otherwise(name, &mut covered);

        let gaps: Vec<_> = (0..layout.size).filter(|&byte| !covered[byte]).collect();
        assert!(
            gaps.is_empty(),
            "struct {name}: no member listed for bytes {gaps:?}"
        );
    }
}

/// Arrays are listed by their ends, and embedded structs have a test of their own.
fn cover_what_is_listed_otherwise(name: &str, covered: &mut [bool]) {
    match name {
        "binder_transaction_data_sg" | "binder_transaction_data_secctx" => covered[..64].fill(true),
        "binderfs_device" => covered[..256].fill(true),
        // Padding before the first 64-bit member, in the one struct whose size depends on the ABI.
        "binder_pri_ptr_cookie" => covered[4..8].fill(true),
        _ => {}
    }
}

/// A struct that leaves the headers takes its line in the list along.
#[test]
fn listed_structs_exist() {
    let ours = Abi::ours();

    for (name, _) in FIELDS {
        assert!(
            ours.structs.contains_key(name),
            "struct {name} is listed but not defined"
        );
    }
}
