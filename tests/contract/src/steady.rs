// SPDX-License-Identifier: GPL-2.0

//! What a test has seen, without the numbers that are others in each run: pids, numbers of objects, addresses, amounts of
//! memory, lines of the tests' own sources. A table that is made of two runs that end alike is the same.

/// After these words each number is one of a run, however small, until there is another word.
const NAMES: [&str; 11] =
    ["from", "id", "node", "pid", "proc", "rs", "thread", "tid", "to_pid", "to_tid", "transaction"];

/// The codes `BR_*`, which say what was seen. Some tests tell them in hexadecimal digits.
const RETURNS: std::ops::Range<u64> = 0x7200..0x7240;

/// So many digits have only codes, and what differs from run to run.
const LONG: usize = 4;

/// An ioctl's argument is told as bytes; it begins with the pid of the process that it is about.
const PID_BYTES: usize = size_of::<u32>();

/// Puts `N` for each such number in a text.
pub fn steady(text: &str) -> String {
    let mut out = String::new();
    let mut name = "";
    let mut numbers = 0;
    let mut rest = text;
    while let Some(start) = rest.find(is_part_of_word) {
        let (between, from) = rest.split_at(start);
        let (word, after) = from.split_at(from.find(|c| !is_part_of_word(c)).unwrap_or(from.len()));
        rest = after;
        out.push_str(between);
        if word.bytes().all(|c| c.is_ascii_digit()) {
            let named = NAMES.contains(&name) || name == "argument" && numbers < PID_BYTES;
            out.push_str(if named || word.len() >= LONG && !is_code(word) { "N" } else { word });
            numbers += 1;
            continue;
        }
        if word != "Some" {
            (name, numbers) = (word, 0);
        }
        out.push_str(word);
    }
    out + rest
}

fn is_code(word: &str) -> bool {
    [10, 16].iter().any(|radix| u64::from_str_radix(word, *radix).is_ok_and(|code| RETURNS.contains(&code)))
}

fn is_part_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn two_runs_say_the_same() {
        for (one, other) in [
            (
                "/logs/state:4: no line that is known here: \"  thread 465: l 02 need_return false\"",
                "/logs/state:4: no line that is known here: \"  thread 8466: l 02 need_return false\"",
            ),
            (
                "node 134298: u0000000000000070 hs true cs 36 cw 0 proc 14 7613 7612",
                "node 99: u0000000000000070 hs true cs 36 cw 0 proc 7627 7626 7625",
            ),
            (
                "Ioctl { slot: 0, argument: [219, 25, 0, 0, 1, 0, 0, 0, 96, 234, 0, 0] } at src/freeze.rs:651",
                "Ioctl { slot: 0, argument: [8, 125, 1, 0, 1, 0, 0, 0, 96, 234, 0, 0] } at src/freeze.rs:63",
            ),
            (
                "Report { error: 29201, from: (8121, 8121), to_pid: Some(7222), to_tid: None }",
                "Report { error: 29201, from: (805, 805), to_pid: Some(10106), to_tid: None }",
            ),
            ("the bystander counted from 936 to 96003563", "the bystander counted from 62871 to 122765635"),
            ("3053056 bytes of each", "3059200 bytes of each"),
            ("/tmp/binder/proc/7509: No such file (os error 2)", "/tmp/binder/proc/7522: No such file (os error 2)"),
        ] {
            assert_eq!(steady(one), steady(other));
        }
    }

    #[test]
    fn what_is_seen_stays() {
        for text in [
            "left: (29185, -2)  right: (29202, 0)",
            "(7211, ffffffea) instead of 22; u0000000000000070",
            "Nice(-20) instead of RoundRobin(30): no inheritance",
            "16 of 16; did not end within 8 s; /logs/stats:45: a line out of its order",
            "argument: [N, N, N, N, 1, 0, 0, 0, 96, 234, 0, 0]",
            "é",
            "",
        ] {
            assert_eq!(steady(text), text);
        }
        assert_eq!(steady("argument: [219, 25, 0, 0, 1, 96]"), "argument: [N, N, N, N, 1, 96]");
        assert_eq!(steady("id: 140634, command: 29201, param: -3"), "id: N, command: 29201, param: -3");
    }
}
