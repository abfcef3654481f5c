// SPDX-License-Identifier: GPL-2.0
//! All rules of the contract and all lessons, and why some have no test of their own.
//!
//! A rule or a lesson without a test needs a reason, which is printed as long as there is no test.

use crate::suite;
use std::collections::HashSet;

/// The parts of the contract, each with the number of its last rule. Numbers begin at 1.
pub const PARTS: &[(&str, u32)] = &[
    ("ABI", 3),
    ("PARAM", 7),
    ("BFS", 15),
    ("OPEN", 3),
    ("MMAP", 8),
    ("FORK", 1),
    ("REL", 3),
    ("POLL", 7),
    ("IOCTL", 4),
    ("WR", 13),
    ("CTX", 5),
    ("NODE", 15),
    ("LOOP", 10),
    ("TREL", 3),
    ("TXN", 32),
    ("OBJ", 13),
    ("ALLOC", 9),
    ("FRZ", 7),
    ("FRZN", 6),
    ("DN", 6),
    ("LSM", 2),
    ("LOG", 14),
    ("NL", 3),
];

/// The rows of the contract's table of ioctls; as rules, `IOCTL-` and the name.
pub const IOCTLS: &[&str] = &[
    "WRITE_READ",
    "SET_MAX_THREADS",
    "SET_CONTEXT_MGR",
    "SET_CONTEXT_MGR_EXT",
    "THREAD_EXIT",
    "VERSION",
    "GET_NODE_DEBUG_INFO",
    "GET_NODE_INFO_FOR_REF",
    "FREEZE",
    "GET_FROZEN_INFO",
    "ENABLE_ONEWAY_SPAM_DETECTION",
    "GET_EXTENDED_ERROR",
];

/// The rows of the contract's table of objects that have tests of their own; as rules, `OBJ-` and
/// the name. The `NODE` rules cover nodes and handles.
pub const OBJECTS: &[&str] = &["FD", "FDA", "PTR"];

/// Why a rule has no test.
pub const REASONS: &[(&str, &str)] = &[
    (
        "ABI-3",
        "an alignment of 8 is what every test of layout sees; there is no 32-bit kernel to compare with",
    ),
    ("PARAM-6", "a name, not a behaviour: ours is `binder_rust`; the guests load it by that name"),
    (
        "PARAM-7",
        "`make test` loads and unloads ours a hundred times in each guest; the incumbents cannot be unloaded",
    ),
];

/// A fault that an incumbent once had.
pub struct Lesson {
    /// Its number; a test that is named `lesson_` and this guards against it.
    pub id: &'static str,
    /// The fault.
    pub fault: &'static str,
    /// The check that guards against the fault, where no test has the lesson's name.
    pub reason: &'static str,
}

const fn lesson(id: &'static str, fault: &'static str, reason: &'static str) -> Lesson {
    Lesson { id, fault, reason }
}

/// All lessons: `r` from upstream's Rust driver, `c` from the C driver, `s` and `t` from ours.
pub const LESSONS: &[Lesson] = &[
    lesson("r01", "a list of deaths was walked without its lock", ""),
    lesson("r02", "a lock taken in a scrutinee was taken again in the body", ""),
    lesson("r03", "pages went into a new mapping at the old address", ""),
    lesson("r04", "offsets were read back from memory that the receiver maps", ""),
    lesson("r05", "spam detection did not count the request itself", ""),
    lesson("r06", "cleanup walked 64-bit offsets in pointer-sized steps", ""),
    lesson("r07", "nobody had ever run the shrinker's callback", ""),
    lesson("r08", "extended errors went into a copy", ""),
    lesson("r09", "freeze listeners outlived their node, edges were lost", ""),
    lesson("r10", "dropping a superseded oneway call advanced the node's queue", ""),
    lesson("r11", "thread exit dropped pending work on counts", ""),
    lesson("r12", "a sleeping lock on the handle table blocked a caller", "handles are under a spinlock; a debug kernel (`um`) fails the suite when one sleeps or allocates under it"),
    lesson("r13", "tables of names and numbers slipped", ""),
    lesson("r14", "the context manager could call itself", ""),
    lesson("r15", "empty fd arrays and unaligned offsets were parsed wrongly", ""),
    lesson("r16", "an index of the target was written twice", ""),
    lesson("r17", "every ioctl made a thread record, even a stranger's", ""),
    lesson("r18", "epoll's queue lived in the thread", ""),
    lesson("r19", "a failed fd in a reply told the caller nothing", ""),
    lesson("r20", "calls went to a process that had unmapped its space", ""),
    lesson("r21", "the oneway flag on a reply was charged", ""),
    lesson("r22", "freezing failed at once while a call was served", ""),
    lesson("r23", "a failed log file failed open() and left the process behind", ""),
    lesson("r24", "messages without a rate limit", ""),
    lesson("r25", "Rust saw other offsets of task_struct than C", "the driver compares them when it is loaded; so does `tests/layouts` without it, in `make test` on each kernel (`make test ONLY=layouts`)"),
    lesson("c01", "a thread was freed while epoll had its wait queue", ""),
    lesson("c02", "a buffer was looked up while another thread freed it", ""),
    lesson("c03", "a parent index escaped its bounds", ""),
    lesson("c04", "work was released while a count was dropped", ""),
    lesson("c05", "a weak handle was added to a process that was dying", ""),
    lesson("c06", "cleanup released objects that were never translated", ""),
    lesson("c07", "a pointer fix-up could overwrite the offsets", ""),
    lesson("c08", "a check of alignment was lost", ""),
    lesson("c09", "freeze records leaked or outlived their handle", ""),
    lesson(
        "c10",
        "the list of devices against eviction",
        "`lesson_c10_mounts_come_and_go` of `make test ONLY=client`, in `make test`",
    ),
    lesson("c11", "a bitmap was freed on a failed growth and again", ""),
    lesson("c12", "a transaction used its target after the lock was gone", ""),
    lesson("c13", "a length was read after it had been zeroed", ""),
    lesson("c14", "superseded transactions leaked their descriptors", ""),
    lesson("c15", "a fault in delivery leaked the buffer and stalled the node", ""),
    lesson("c16", "BINDER_THREAD_EXIT lost queued work", ""),
    lesson("c17", "write_size did not bound a command's payload", ""),
    lesson("c18", "a pointer object at offset 0 could not be a parent", ""),
    lesson("c19", "a failed freeze of several files was not rolled back", ""),
    lesson("c20", "finding a free handle took 47 ms", ""),
    lesson("s01", "a node was known by a number that can come again", ""),
    lesson("s02", "the news of a node were looked for in a queue of any length", ""),
    lesson("s03", "a call went to a thread that had stopped waiting during the copy", ""),
    lesson("s04", "the outcome of an outer call came before the completion of the reply at hand", ""),
    lesson("s05", "a pending task work was text of a module that could be unloaded", ""),
    lesson("s06", "calls nested deep cost their depth at every step", ""),
    lesson("s07", "vectors grew with user input beyond the largest allocation", ""),
    lesson("s08", "a dead process kept its pages and books while others held its nodes", ""),
    lesson("s09", "the record of an exited thread kept its task", ""),
    lesson("s10", "counts of a dead node went up and never down", ""),
    lesson("s11", "a device that was sent to its own process and never read was never closed", ""),
    lesson("s12", "memory was freed under a spinlock", "`tests/host`, where the shim of the kernel sees it"),
    lesson("s13", "the table of handles did not compile for 32-bit kernels", "`make check` compiles the rooms that need no kernel for 32 bits"),
    lesson("s14", "opening a device took 2 984 bytes of stack", "`make check` and `make test` read each function's frame from the module (`tools/lab/frames.py`); a mutation shows it"),
    lesson("s15", "an inherited policy reads otherwise than Android's", ""),
    lesson("s16", "what must be done once could be done again", "`lesson_s16_devices_are_made_once`, which KUnit runs (`make test ONLY=kunit`)"),
    lesson("s17", "a space could not give up idle pages while it was given others", ""),
    lesson("s18", "fields of task_struct were read where bindgen has them", "the driver compares its structs with C's when it is loaded, and does not stay where they differ; a mutation shows it"),
    lesson("s19", "a thread's own completion did not wake who polls", ""),
    lesson("s20", "a handle that went home brought a released node back into use", ""),
    lesson("s21", "pages that reclaim had taken waited for a grace period", ""),
    lesson("s22", "the news of a node were nowhere while a thread ended", ""),
    lesson("s23", "a feature was announced that is not there", ""),
    lesson("s24", "poll searched a list of any length under the state lock", ""),
    lesson("s25", "a oneway call waited for a thread that slept", ""),
    lesson("t01", "a stranger froze processes, by numbers of another namespace", ""),
    lesson("t02", "logs that everybody reads printed kernel addresses", ""),
    lesson(
        "t03",
        "a sender was preempted before it woke whom it had chosen",
        "`rust/kernel/sched.rs:expect_unpreempted` warns of it in each test, in the guest that checks locks",
    ),
    lesson("t04", "others learned of a death when the dying task got CPU time", ""),
];

/// Every rule's name, in the order of the contract.
pub fn rules() -> impl Iterator<Item = String> {
    let numbered = PARTS.iter().flat_map(|(part, last)| {
        let rows = match *part {
            "IOCTL" => IOCTLS,
            "OBJ" => OBJECTS,
            _ => &[],
        };
        let numbers = (1..=*last).map(move |number| format!("{part}-{number}"));
        numbers.chain(rows.iter().map(move |row| format!("{part}-{row}")))
    });
    numbered
}

/// Why a rule has no test.
pub fn reason(rule: &str) -> Option<&'static str> {
    REASONS.iter().find(|(name, _)| *name == rule).map(|(_, reason)| *reason)
}

/// The lessons that a test's name mentions: `lesson_r11_c16_what_it_does` is about two.
pub fn lessons_of(test: &str) -> impl Iterator<Item = &str> {
    let function = test.rsplit("::").next().unwrap_or(test);
    let words = function.strip_prefix("lesson_").unwrap_or("").split('_');
    words.take_while(|word| LESSONS.iter().any(|lesson| lesson.id == *word))
}

/// The mistakes in these lists and in tests' rules. `host`: the host tests that name lessons.
pub fn mistakes(host: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let mut expect = |holds: bool, wrong: String| found.extend((!holds).then_some(wrong));
    let known: HashSet<_> = rules().collect();
    let tests: Vec<_> = suite::all().collect();
    let names: Vec<_> = tests.iter().map(|test| test.name()).collect();
    let tested: HashSet<_> = tests.iter().flat_map(|test| test.rules).copied().collect();
    for (test, name) in tests.iter().zip(&names) {
        expect(!test.rules.is_empty(), format!("{name} names no rule"));
        for rule in test.rules.iter().filter(|rule| !rule.starts_with("lesson ")) {
            expect(known.contains(*rule), format!("{name} names {rule}, which is none"));
        }
    }
    let unique: HashSet<_> = names.iter().collect();
    expect(unique.len() == names.len(), "two tests have one name".to_string());
    for beginning in crate::tests::TWO_CPUS {
        let begins = |name: &String| name.starts_with(beginning);
        expect(names.iter().any(begins), format!("no name begins with {beginning}"));
    }
    for rule in &known {
        expect(
            tested.contains(rule.as_str()) || reason(rule).is_some(),
            format!("{rule} has no test and no reason"),
        );
    }
    for (rule, _) in REASONS {
        expect(known.contains(*rule), format!("there is a reason for {rule}, which is no rule"));
    }
    let all: Vec<_> = names.iter().chain(host).collect();
    let of_lessons: HashSet<_> = all.iter().flat_map(|test| lessons_of(test)).collect();
    for lesson in LESSONS {
        expect(
            of_lessons.contains(lesson.id) || !lesson.reason.is_empty(),
            format!("{} has no test and no reason", lesson.id),
        );
    }
    for test in all.iter().filter(|test| test.contains("lesson_")) {
        expect(lessons_of(test).next().is_some(), format!("{test} names no lesson that there is"));
    }
    found
}
