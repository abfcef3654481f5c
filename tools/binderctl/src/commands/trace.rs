// SPDX-License-Identifier: GPL-2.0
//! `binderctl trace`: calls as they end, from the driver's trace events.

use crate::options::positive;
use crate::prelude::*;
use crate::trace::calls::{Call, Calls};
use crate::trace::event::{Event, Id, Pid, What};
use crate::trace::record::{Record, Summary, HEADING};
use crate::trace::source::{self, Source};
use std::time::{Duration, Instant};

/// The interval of reading the rings, in milliseconds.
const INTERVAL: u16 = 50;

/// The arguments of `trace`.
#[derive(Args, Clone, Debug, Default)]
pub struct Arguments {
    /// Show only calls from or to this process, and those nested in them. May be repeated.
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: Vec<Pid>,
    /// Show only calls to this node, by its number in the driver's logs, and those nested in them.
    #[arg(long, value_name = "NUMBER")]
    node: Vec<Id>,
    /// Show only calls with this code, and those nested in them.
    #[arg(long, value_name = "CODE", value_parser = code)]
    code: Vec<u32>,
    /// Show only calls that fail.
    #[arg(long, conflicts_with = "brief")]
    failed: bool,
    /// Record no sizes and no failures, which halves the cost for calls.
    #[arg(long)]
    brief: bool,
    /// Show only calls that take at least MS milliseconds.
    #[arg(long, value_name = "MS", value_parser = positive)]
    slower_than: Option<f64>,
    /// End after SECONDS (default: at a signal).
    #[arg(long, value_name = "SECONDS", value_parser = positive)]
    duration: Option<f64>,
    /// End after N lines.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Size of the event buffer of each CPU, in KiB.
    #[arg(long, value_name = "KIB", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(64..=1 << 20))]
    buffer: u32,
}

fn code(text: &str) -> std::result::Result<u32, std::num::ParseIntError> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    }
}

impl Arguments {
    /// The calls that the arguments select, and those nested in them.
    fn wanted<'a>(&self, calls: &'a [Call]) -> impl Iterator<Item = &'a Call> + use<'a, '_> {
        let mut inside = None;
        calls.iter().filter(move |call| {
            inside = inside.filter(|depth| call.depth > *depth);
            if inside.is_none() && self.wants(call) {
                inside = Some(call.depth);
            }
            inside.is_some()
        })
    }

    fn wants(&self, call: &Call) -> bool {
        fn one_of<T: PartialEq>(list: &[T], value: T) -> bool {
            list.is_empty() || list.contains(&value)
        }
        (one_of(&self.pid, call.caller.process) || one_of(&self.pid, call.server.process))
            && one_of(&self.node, call.node)
            && one_of(&self.code, call.code)
            && (!self.failed || call.end.is_failure())
            && self.slower_than.is_none_or(|milliseconds| call.total() as f64 >= milliseconds * 1e6)
    }
}

/// Follows calls until a signal, or the end that the arguments set.
pub fn run(arguments: &Arguments, options: &Options) -> Result<()> {
    if options.device.is_some() {
        return Err(Error::new(Kind::Usage, "trace events do not contain the device of a call")
            .hint("choose calls with --pid, --node or --code"));
    }
    let pause = Pause::new()?;
    let mut source = Source::start(!arguments.brief, arguments.buffer as usize)?;
    if !options.json {
        if !source.missing().is_empty() {
            options.write(&format!("the driver does not report {}\n", source.missing().join(", ")))?;
        }
        options.write(&format!("{HEADING}\n"))?;
    }
    let start = source.started;
    let mut follower = Follower {
        calls: Calls::default(),
        names: Names::new(),
        arguments,
        options,
        start,
        ended: 0,
        shown: 0,
    };
    let deadline = arguments.duration.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
    let is_over = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
    while !follower.is_done() && !is_over() && !pause.is_over_within(INTERVAL) {
        follower.take(&source.read()?)?;
    }
    if !follower.is_done() {
        follower.take(&source.finish()?)?;
    }
    follower.finish(source::now())
}

/// Shows calls as they end.
struct Follower<'a> {
    calls: Calls,
    names: Names,
    arguments: &'a Arguments,
    options: &'a Options,
    start: u64,
    ended: u64,
    shown: u64,
}

impl Follower<'_> {
    fn is_done(&self) -> bool {
        self.arguments.count.is_some_and(|most| self.shown >= most)
    }

    fn take(&mut self, events: &[Event]) -> Result<()> {
        let mut text = String::new();
        for event in events {
            for calls in self.calls.take(event, &mut |thread| self.names.process_of(thread)) {
                text += &self.lines(&calls)?;
            }
            if event.what == What::Ended {
                self.names.forget(event.thread);
            }
        }
        self.options.write(&text)
    }

    fn lines(&mut self, calls: &[Call]) -> Result<String> {
        self.ended += calls.len() as u64;
        let mut text = String::new();
        for call in self.arguments.wanted(calls) {
            if self.is_done() {
                break;
            }
            self.shown += 1;
            text += &self.options.text(&Record::new(call, &mut self.names, self.start))?;
        }
        Ok(text)
    }

    /// Shows what has not ended, and what could not be followed.
    fn finish(mut self, now: u64) -> Result<()> {
        let ended = self.ended;
        let mut text = String::new();
        if !self.is_done() {
            for call in self.calls.finish(now) {
                text += &self.lines(&[call])?;
            }
        }
        let summary = Summary { shown: self.shown, ended, gaps: self.calls.gaps };
        self.options.write(&(text + &self.options.text(&summary)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::recorded;

    fn wanted(arguments: Arguments) -> usize {
        recorded::of_c().0.iter().map(|calls| arguments.wanted(calls).count()).sum()
    }

    #[test]
    fn calls_are_chosen_with_what_is_nested_in_them() {
        assert_eq!(wanted(Arguments::default()), 22);
        // Of two calls with code 1 the one has one call nested in it, and the other has one that has another.
        for (code, calls) in [(1, 5), (2, 3), (3, 1)] {
            assert_eq!(wanted(Arguments { code: vec![code], ..Default::default() }), calls);
        }
        assert_eq!(wanted(Arguments { pid: vec![118, 125], ..Default::default() }), 2);
        assert_eq!(wanted(Arguments { pid: vec![117], node: vec![49], ..Default::default() }), 1);
        assert_eq!(wanted(Arguments { pid: vec![117], node: vec![51], ..Default::default() }), 0);
        assert_eq!(wanted(Arguments { failed: true, ..Default::default() }), 4);
        assert_eq!(wanted(Arguments { slower_than: Some(600.0), ..Default::default() }), 1);
    }
}
