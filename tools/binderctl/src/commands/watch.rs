// SPDX-License-Identifier: GPL-2.0
//! `binderctl watch`: calls that are slow, as chains and cycles of waiting threads.
//!
//! The log files are read again and again: they have who waits for whom, over all devices. Calls that end between two
//! readings are in the trace events, where there are some.

use crate::checks::calls::{cycles, long, Wanted};
use crate::checks::seen::{Answer, Finding, LATER};
use crate::options::positive;
use crate::prelude::*;
use crate::trace::live::Live;
use crate::trace::record::{Record, HEADING};
use crate::trace::source;
use crate::waiting::Waiting;
use std::time::{Duration, Instant};

/// The interval of checks for signals and trace events, in milliseconds.
const TICK: u16 = 50;

/// The shortest pause after a reading of the log files, in multiples of the reading's time.
const PAUSE_TO_READING: u32 = 10;

/// The arguments of `watch`.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// Report calls that wait at least MS milliseconds for their replies.
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(i64).range(1..=1 << 30))]
    slow: i64,
    /// End after SECONDS (default: at a signal).
    #[arg(long, value_name = "SECONDS", value_parser = positive)]
    duration: Option<f64>,
    /// End after N reports.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Do not use trace events: no cost for calls, but calls that end between two readings of the logs are missed.
    #[arg(long)]
    no_trace: bool,
}

/// Reports slow calls until a signal, or the end that the arguments set. Returns true if there was one.
pub fn run(arguments: &Arguments, options: &Options) -> Result<bool> {
    let pause = Pause::new()?;
    let not = match &options.device {
        _ if arguments.no_trace => Some("--no-trace is set"),
        Some(_) => Some("trace events do not contain the device of a call"),
        None => None,
    };
    let logs = Logs::find(options)?;
    let events = Live::start(not);
    if !options.json {
        let missed = |why| format!("calls that end between two readings of the logs are missed: {why}");
        let line = events.source.as_ref().err().map_or(HEADING.into(), missed);
        options.write(&(line + "\n"))?;
    }
    let slow = Duration::from_millis(arguments.slow as u64);
    let mut watch = Watch {
        arguments,
        options,
        logs,
        slow,
        events,
        wanted: Wanted { limit_ms: arguments.slow, ..Wanted::default() },
        names: Names::new(),
        start: source::now(),
        shown: 0,
    };
    let interval = (slow / 4).clamp(Duration::from_millis(10), Duration::from_secs(1));
    let deadline = arguments.duration.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
    let is_over = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
    let mut next = Instant::now();
    while !watch.is_done() && !is_over() {
        watch.listen()?;
        let now = Instant::now();
        if now >= next {
            watch.look()?;
            next = Instant::now() + interval.max(now.elapsed() * PAUSE_TO_READING);
        }
        if pause.is_over_within(TICK.min(interval.as_millis() as u16)) {
            break;
        }
    }
    Ok(watch.shown > 0)
}

/// The state of `watch`.
struct Watch<'a> {
    arguments: &'a Arguments,
    options: &'a Options,
    logs: Logs,
    slow: Duration,
    events: Live,
    wanted: Wanted,
    names: Names,
    start: u64,
    shown: u64,
}

impl Watch<'_> {
    fn is_done(&self) -> bool {
        self.arguments.count.is_some_and(|most| self.shown >= most)
    }

    /// Reports calls that have waited for long.
    fn look(&mut self) -> Result<()> {
        let waiting = Waiting::now(&self.logs)?;
        self.names.forget_names();
        let (logs, later) = (self.logs.clone(), LATER.min(self.slow));
        let again = || {
            std::thread::sleep(later);
            // A log that cannot be read again confirms nothing, and the next look reports the reason.
            Waiting::now(&logs).unwrap_or_default()
        };
        let in_cycles = cycles(&waiting, again, &self.wanted, &mut self.names);
        for finding in in_cycles.iter().flat_map(|(findings, _)| findings) {
            self.wanted.in_cycles.extend(finding.calls.iter().map(|call| call.transaction));
        }
        self.report_waiting("cycle", in_cycles)?;
        let in_chains = long(&waiting, again, &self.wanted, &mut self.names);
        self.report_waiting("chain", in_chains)
    }

    fn report_waiting(&mut self, what: &'static str, answer: Answer) -> Result<()> {
        for finding in answer.into_iter().flat_map(|(findings, _)| findings) {
            // A call that was reported once is not reported again when it ends.
            self.wanted.in_chains.extend(finding.calls.iter().map(|call| call.transaction));
            if finding.calls.iter().any(|call| self.options.wants(&call.context)) {
                self.report(&Slow { what, finding })?;
            }
        }
        Ok(())
    }

    /// Reports calls that have ended, and took long.
    fn listen(&mut self) -> Result<()> {
        for call in self.events.ended(&mut self.names) {
            let is_told = self.wanted.in_chains.contains(&call.id.into());
            if !call.is_oneway() && !is_told && u128::from(call.total()) >= self.slow.as_nanos() {
                let record = Record::new(&call, &mut self.names, self.start);
                self.report(&record)?;
            }
        }
        Ok(())
    }

    fn report(&mut self, report: &impl Report) -> Result<()> {
        if self.is_done() {
            return Ok(());
        }
        self.shown += 1;
        self.options.print(report)
    }
}

/// A chain or a cycle of calls that wait.
#[derive(Serialize)]
struct Slow {
    what: &'static str,
    #[serde(flatten)]
    finding: Finding,
}

impl Report for Slow {
    const SCHEMA: &'static str = "binderctl.slow/1";

    fn show(&self, page: &mut Page) {
        page.say(format!("{}: {}", self.what, self.finding.message));
        page.say(format!("  next: {}", self.finding.next_step));
    }
}
