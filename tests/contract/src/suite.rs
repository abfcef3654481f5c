// SPDX-License-Identifier: GPL-2.0
//! What a test is, and the list of all of them.

use crate::stage::Stage;
use crate::tests;
use serde::Serialize;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The drivers that the suite knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Driver {
    /// The C driver, which decides what is right.
    C,
    /// Ours.
    Rust,
    /// The kernel's own Rust driver.
    Upstream,
}

impl Driver {
    /// The name of its module.
    pub fn module(self) -> &'static str {
        match self {
            Driver::C => "binder_linux",
            Driver::Rust => "binder_rust",
            Driver::Upstream => "rust_binder",
        }
    }

    /// A parameter of its module, as sysfs has it.
    pub fn parameter(self, name: &str) -> PathBuf {
        Path::new("/sys/module").join(self.module()).join("parameters").join(name)
    }
}

impl std::fmt::Display for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Driver::C => "c",
            Driver::Rust => "rust",
            Driver::Upstream => "upstream",
        })
    }
}

/// One test: it passes if the function returns, and fails if it panics.
pub struct Case {
    /// Its name within the group.
    pub short: &'static str,
    /// The rules of the contract that it checks.
    pub rules: &'static [&'static str],
    /// What it does.
    pub run: fn(&Stage),
}

/// The tests of one subject.
pub struct Group {
    /// The subject.
    pub name: &'static str,
    /// Whether processes and threads go on by themselves and meet in the driver when they like: these tests have all CPUs.
    /// In all others a thread is told one step after the other, and a second CPU would only spin for locks of the first.
    pub at_once: bool,
    /// Its tests.
    pub cases: &'static [Case],
}

/// A test with the name of its group.
#[derive(Clone, Copy)]
pub struct Test {
    group: &'static Group,
    short: &'static str,
    /// The rules of the contract that it checks.
    pub rules: &'static [&'static str],
    /// What it does.
    pub run: fn(&Stage),
}

impl Test {
    /// Whether it has all CPUs.
    pub fn at_once(&self) -> bool {
        self.group.at_once
    }

    /// The full name, `group::test`.
    pub fn name(&self) -> String {
        format!("{}::{}", self.group.name, self.short)
    }
}

/// Declares a module's tests: each name, the rules that it checks, and what it does, where that is no function of its name.
#[macro_export]
macro_rules! cases {
    ($group:literal $(, $at_once:ident)?: $($name:ident [$($rule:literal),* $(,)?] $(= $run:expr)?),* $(,)?) => {
        /// The tests of this module.
        pub const GROUP: $crate::suite::Group = $crate::suite::Group {
            name: $group,
            at_once: $crate::cases!(@at_once $($at_once)?),
            cases: &[$($crate::suite::Case {
                short: stringify!($name),
                rules: &[$($rule),*],
                run: $crate::cases!(@run $name $($run)?),
            }),*],
        };
    };
    (@at_once) => { false };
    (@at_once at_once) => { true };
    (@run $function:ident) => { $function };
    (@run $name:ident $run:expr) => { $run };
}

/// All tests, in the order of the groups.
pub fn all() -> impl Iterator<Item = Test> {
    tests::GROUPS.iter().flat_map(|group| {
        group.cases.iter().map(|case| Test { group, short: case.short, rules: case.rules, run: case.run })
    })
}

/// The tests that any of the filters selects, by a part of the name or by a rule; without a filter, all.
pub fn select(filters: &[String]) -> impl Iterator<Item = Test> + '_ {
    all().filter(move |test| {
        let name = test.name();
        let is_wanted = |filter: &String| name.contains(filter) || test.rules.contains(&filter.as_str());
        filters.is_empty() || filters.iter().any(is_wanted)
    })
}

/// The tests of these names, one a line, in that order. A name that no test has is passed over.
pub fn named(names: &str) -> Vec<Test> {
    let by_name: HashMap<_, _> = all().map(|test| (test.name(), test)).collect();
    names.lines().filter_map(|name| by_name.get(name).copied()).collect()
}

#[cfg(test)]
mod unit {
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_every_test_names_a_rule() {
        let mut names = HashSet::new();
        for test in super::all() {
            assert!(names.insert(test.name()), "{} twice", test.name());
            assert!(!test.rules.is_empty(), "{} names no rule", test.name());
        }
    }
}
