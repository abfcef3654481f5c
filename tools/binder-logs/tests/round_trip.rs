// SPDX-License-Identifier: GPL-2.0
//! Files with random content in the C driver's format: they are read to the last word, and whatever is read, nothing panics.

use binder_logs::*;
use binder_sys::codes::{COMMANDS, RETURNS};
use std::fmt::Debug;

/// How often each test is repeated.
const CASES: usize = 256;

const TRANSACTION: &str =
    " transaction %d: %P from %p:%p to %p:%p code %x flags %x pri %d a%b r%b elapsed %dms";
const HELD: [&str; 4] = ["", " buffer free", " node %d size %d:%d offset %X", " size %d:%d offset %X"];
const WORK: [&str; 10] = [
    "pending%T",
    "transaction error: %u",
    "transaction complete",
    "node work %d: u%P c%P",
    "has dead binder",
    "has cleared dead binder",
    "has cleared death notification",
    "has frozen binder",
    "has cleared freeze notification",
    "unknown work: type %d",
];
const NODE: &str = "  node %d: u%P c%P hs %b hw %b ls %d lw %d is %d iw %d tr %d%H\n";
const STATS: &str =
    "proc %p\ncontext %s\n  threads: %d\n  requested threads: %d+%d/%d\n  ready threads %d\n  \
    free async space %d\n  nodes: %d\n  refs: %d s %d w %d\n  buffers: %d\n  pages: %d:%d:%d\n  \
    pages high watermark: %d\n  pending transactions: %d\n";
const ENTRY: &str = "%d: %K from %p:%p to %p:%p context %s node %d handle %d size %d:%d ret %u/%p l=%u%I\n";

/// Numbers that are the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 32) as usize % end
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    /// Any bits, more often few than many.
    fn bits(&mut self, most: u32) -> u64 {
        let width = self.below(most as usize + 1) as u32;
        self.next().checked_shr(64 - width).unwrap_or(0)
    }

    fn signed(&mut self, most: u32) -> i64 {
        let number = (self.bits(most) << (64 - most)) as i64 >> (64 - most);
        if self.below(2) == 0 {
            number
        } else {
            !number
        }
    }

    fn ascii(&mut self, most: usize) -> String {
        let length = self.below(most);
        (0..length).map(|_| char::from(b' ' + self.below(95) as u8)).collect()
    }

    /// None to two of something.
    fn some(&mut self, mut make: impl FnMut(&mut Self) -> String) -> String {
        (0..self.below(3)).map(|_| make(self)).collect()
    }

    /// A template with its placeholders replaced: a percent sign and a letter.
    fn fill(&mut self, template: &str) -> String {
        let mut parts = template.split('%');
        let mut text = parts.next().unwrap_or_default().to_string();
        for part in parts {
            let (kind, rest) = part.split_at(1);
            text += &match kind {
                "d" => self.signed(64).to_string(),
                "p" => self.signed(32).to_string(),
                "u" => self.bits(32).to_string(),
                "b" => self.below(2).to_string(),
                "x" => format!("{:x}", self.bits(32)),
                "l" => format!("{:02x}", self.bits(32)),
                "X" => format!("{:x}", self.bits(64)),
                "P" if self.below(4) == 0 => "(____ptrval____)".to_string(),
                "P" => format!("{:016x}", self.bits(64)),
                // A device's name may have words of the lines in it.
                "s" if self.below(4) == 0 => "a node 5 handle 6 context b".to_string(),
                "s" => self.ascii(20),
                "T" => {
                    let held = self.pick(&HELD);
                    self.fill(&format!("{TRANSACTION}{held}"))
                }
                "H" => match self.some(|random| random.fill(" %p")) {
                    none if none.is_empty() => none,
                    holders => format!(" proc{holders}"),
                },
                "K" => self.pick(&["call ", "async", "reply"]).to_string(),
                "I" => self.pick(&["", " (incomplete)"]).to_string(),
                other => panic!("{other}"),
            };
            text += rest;
        }
        text
    }

    fn work(&mut self, indent: &str) -> String {
        let template = self.pick(&WORK);
        format!("{indent}{}\n", self.fill(template))
    }

    fn process(&mut self) -> String {
        let threads = self.some(|random| {
            let thread = random.fill("  thread %p: l %l need_return %b tr %d\n");
            let stack = random.some(|random| {
                let role = random.pick(&["outgoing", "incoming", "bad"]);
                random.fill(&format!("    {role}%T\n"))
            });
            thread + &stack + &random.some(|random| random.work("    "))
        });
        let nodes = self
            .some(|random| random.fill(NODE) + &random.some(|random| random.fill("    pending async%T\n")));
        let references = self.some(|random| {
            let dead = random.pick(&["", "dead "]);
            random.fill(&format!("  ref %d: desc %d {dead}node %d s %d w %d d %P\n"))
        });
        let buffers = self.some(|random| {
            let state = random.pick(&["active", "delivered"]);
            random.fill(&format!("  buffer %d: %X size %d:%d:%d {state}\n"))
        });
        let work = self.some(|random| random.work("  "));
        let death = self.pick(&["", "  has delivered dead binder\n"]);
        let freeze = self.pick(&["", "  has delivered freeze binder\n"]);
        [&self.fill("proc %p\ncontext %s\n"), &threads, &nodes, &references, &buffers, &work, death, freeze]
            .concat()
    }

    /// Some of the commands, returns and objects, in their order.
    fn counters(&mut self, indent: &str) -> String {
        let mut text = String::new();
        let codes = COMMANDS.iter().chain(RETURNS).map(|(_, name)| (name, ": %d\n"));
        for (name, counts) in codes.chain(OBJECTS.iter().map(|name| (name, ": active %d total %d\n"))) {
            if self.below(2) == 0 {
                text += &self.fill(&format!("{indent}{name}{counts}"));
            }
        }
        text
    }
}

fn each(mut test: impl FnMut(&mut Random)) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    (0..CASES).for_each(|_| test(&mut random));
}

/// A file is understood to the last word, so it can be printed again; and in both ways the same is understood.
fn assert_known<T: Log + PartialEq + Debug>(text: &str) {
    let found = T::parse("log", text.as_bytes(), Mode::Strict).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(found.to_string(), text);
    assert_eq!(T::parse("log", text.as_bytes(), Mode::Lenient).expect("leniently"), found);
}

/// Reads bytes as every kind of file, for the panic that must not come.
fn read_as_all(contents: &[u8]) {
    for mode in [Mode::Strict, Mode::Lenient] {
        let _ = State::parse("log", contents, mode);
        let _ = Transactions::parse("log", contents, mode);
        let _ = ProcessState::parse("log", contents, mode);
        let _ = Stats::parse("log", contents, mode);
        let _ = TransactionLog::parse("log", contents, mode);
    }
}

#[test]
fn blocks_of_processes() {
    each(|random| {
        let dead = random.some(|random| random.fill(NODE));
        let header = if dead.is_empty() { "" } else { "dead nodes:\n" };
        let processes: Vec<_> = (0..random.below(3)).map(|_| random.process()).collect();
        assert_known::<State>(&format!("binder state:\n{header}{dead}{}", processes.concat()));
        assert_known::<Transactions>(&format!("binder transactions:\n{}", processes.concat()));
        let files: String =
            processes.iter().map(|process| format!("binder proc state:\n{process}")).collect();
        assert_known::<ProcessState>(&files);
    });
}

#[test]
fn stats() {
    each(|random| {
        let total = random.counters("");
        let processes = random.some(|random| random.fill(STATS) + &random.counters("  "));
        assert_known::<Stats>(&format!("binder stats:\n{total}{processes}"));
    });
}

#[test]
fn transaction_log() {
    each(|random| assert_known::<TransactionLog>(&random.some(|random| random.fill(ENTRY))));
}

#[test]
fn a_part_of_a_file_is_an_error_or_a_smaller_file() {
    each(|random| {
        let text = format!("binder state:\n{}", random.process());
        let cut = &text.as_bytes()[..random.below(text.len())];
        read_as_all(cut);
        if !cut.ends_with(b"\n") {
            assert!(State::parse("state", cut, Mode::Strict).is_err());
        }
    });
}

#[test]
fn nothing_that_is_read_panics() {
    each(|random| {
        let mut text = format!("binder state:\n{}", random.process()).into_bytes();
        let at = random.below(text.len());
        text[at] = random.next() as u8;
        read_as_all(&text);
        read_as_all(&random.next().to_ne_bytes().repeat(1 + random.below(20)));
        let words =
            ["proc ", "context ", "thread ", "node ", "ref ", "buffer ", "BC_REPLY", "threads:", "pages:"];
        let lines: String = (0..random.below(10))
            .map(|_| {
                let (indent, word) = (random.pick(&["", "  ", "    "]), random.pick(&words));
                format!("{indent}{word}{}\n", random.ascii(40))
            })
            .collect();
        for header in ["binder state:", "binder stats:", "binder transactions:", "binder proc state:"] {
            read_as_all(format!("{header}\n{lines}").as_bytes());
        }
    });
}
