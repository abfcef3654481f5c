// SPDX-License-Identifier: GPL-2.0
//! The type of a test, and the list of all tests.

use crate::stage::Stage;
use crate::tests;
use serde::Serialize;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The drivers that the suite can test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Driver {
    /// The C driver, which decides what is right.
    C,
    /// This project's driver.
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
        let of = |module, name| Path::new("/sys/module").join(module).join("parameters").join(name);
        let usual = of(self.module(), name);
        match (self, name) {
            _ if usual.parent().is_some_and(Path::exists) => usual,
            // Without Debian's changes, each object file of C has its parameters, and this one another name.
            (Driver::C, "alloc_debug_mask") => {
                let own = of("binder_alloc", "debug_mask");
                if own.exists() {
                    own
                } else {
                    of("binder_alloc", name)
                }
            }
            (Driver::C, _) => of("binder", name),
            _ => usual,
        }
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
pub struct Test {
    /// Its module and its line.
    pub place: (&'static str, u32),
    /// Its name within the group.
    pub short: &'static str,
    /// The rules of the contract that it checks.
    pub rules: &'static [&'static str],
    /// Its body.
    pub run: fn(&Stage),
}

impl Test {
    /// The name of the module in [`tests`] that it is in, or below which its module is.
    fn group(&self) -> &'static str {
        self.place.0.split("::").nth(2).expect("a module of tests")
    }

    /// The number of its CPUs.
    pub fn cpus(&self) -> usize {
        let name = self.name();
        1 + usize::from(tests::TWO_CPUS.iter().any(|beginning| name.starts_with(beginning)))
    }

    /// The full name, `group::test`.
    pub fn name(&self) -> String {
        format!("{}::{}", self.group(), self.short)
    }
}

/// Declares a test: its name, the rules that it checks, a function that makes its actors, if there
/// is one, and its body. The linker puts all tests in a row.
#[macro_export]
macro_rules! case {
    ($name:ident, [$($rule:literal),* $(,)?], $run:expr $(,)?) => {
        const _: () = {
            static TEST: $crate::suite::Test = $crate::suite::Test {
                place: (module_path!(), line!()),
                short: stringify!($name),
                rules: &[$($rule),*],
                run: $run,
            };
            #[used]
            #[link_section = "contract_tests"]
            static IN_THE_ROW: &$crate::suite::Test = &TEST;
        };
    };
    ($name:ident, [$($rule:literal),* $(,)?], $scene:expr, |$t:ident, $cast:pat_param| $test:block $(,)?) => {
        $crate::case!($name, [$($rule),*], |$t| {
            let $cast = $scene($t);
            $test
        });
    };
}

extern "C" {
    #[link_name = "__start_contract_tests"]
    static FIRST: [usize; 0];
    #[link_name = "__stop_contract_tests"]
    static END: [usize; 0];
}

/// All tests, in the order of their modules and lines.
pub fn all() -> impl Iterator<Item = &'static Test> {
    let (first, end) = ((&raw const FIRST).cast::<&Test>(), (&raw const END).cast::<&Test>());
    // SAFETY: the linker defines both symbols, at the start and the end of the section. The section
    // has only the references that `case!` puts there.
    let row = unsafe { std::slice::from_raw_parts(first, end.offset_from(first) as usize) };
    let mut tests = row.to_vec();
    tests.sort_by_key(|test| test.place);
    tests.into_iter()
}

/// The tests that any of the filters selects, by a part of the name or by a rule; without a filter, all.
pub fn select(filters: &[String]) -> impl Iterator<Item = &'static Test> + '_ {
    all().filter(move |test| {
        let name = test.name();
        let is_wanted = |filter: &String| name.contains(filter) || test.rules.contains(&filter.as_str());
        filters.is_empty() || filters.iter().any(is_wanted)
    })
}

/// The tests of these names, one a line, in that order. A name that no test has is passed over.
pub fn named(names: &str) -> Vec<&'static Test> {
    let by_name: HashMap<_, _> = all().map(|test| (test.name(), test)).collect();
    names.lines().filter_map(|name| by_name.get(name).copied()).collect()
}
