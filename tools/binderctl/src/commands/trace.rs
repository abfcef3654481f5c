// SPDX-License-Identifier: GPL-2.0
//! `binderctl trace`: calls as they end, from the driver's trace events.

use std::fs::File;
use std::io;
use std::io::BufWriter;
use std::io::IsTerminal;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use clap::Args;

use crate::error::Error;
use crate::error::Kind;
use crate::error::Outcome;
use crate::error::Result;
use crate::escape;
use crate::options::Options;
use crate::signals;
use crate::terminal;
use crate::trace::calls::Call;
use crate::trace::calls::Calls;
use crate::trace::calls::Ended;
use crate::trace::event::Event;
use crate::trace::event::Id;
use crate::trace::event::Pid;
use crate::trace::event::What;
use crate::trace::filter::Filter;
use crate::trace::names::Names;
use crate::trace::perfetto;
use crate::trace::record::Record;
use crate::trace::record::Summary;
use crate::trace::source;
use crate::trace::source::Source;
use crate::trace::text;

/// How often the rings are read.
const INTERVAL: u16 = 50;

/// What to follow, and how to show it.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// Only calls from or to this process, and those nested in them. May be given several times.
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: Vec<Pid>,
    /// Only calls of this node, by the number that the driver's logs have, and those nested in them.
    #[arg(long, value_name = "NUMBER")]
    node: Vec<Id>,
    /// Only calls with this code, and those nested in them.
    #[arg(long, value_name = "CODE", value_parser = code)]
    code: Vec<u32>,
    /// Only calls that fail.
    #[arg(long, conflicts_with = "brief")]
    failed: bool,
    /// Record only what calls cannot be followed without, neither sizes nor failures: calls pay half as much for it.
    #[arg(long)]
    brief: bool,
    /// Only calls that take as long as this many milliseconds.
    #[arg(long, value_name = "MS", value_parser = positive)]
    slower_than: Option<f64>,
    /// End after so many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = positive)]
    duration: Option<f64>,
    /// End after so many lines.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Also write a trace into this file that Perfetto's UI opens (ui.perfetto.dev).
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// Memory for events that have not been read, for each CPU, in KiB.
    #[arg(long, value_name = "KIB", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(64..=1 << 20))]
    buffer: u32,
}

fn code(text: &str) -> std::result::Result<u32, std::num::ParseIntError> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    }
}

fn positive(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number < 1e9 => Ok(number),
        _ => Err("must be a number above 0".into()),
    }
}

/// Follows calls until it is told to stop.
pub fn run(arguments: &Arguments, options: &Options) -> Result<Outcome> {
    if options.device.is_some() {
        return Err(Error::new(Kind::Usage, "trace events do not say which device a call went through")
            .hint("choose calls with --pid, --node or --code"));
    }
    let stop = signals::stop_flag()?;
    let mut source = Source::start(!arguments.brief, arguments.buffer as usize)?;
    let mut follower = Follower::new(arguments, options.json, source.start_time())?;
    follower.begin(source.missing())?;
    let deadline = arguments.duration.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
    let is_over = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
    while !stop.load(Ordering::Relaxed) && !is_over() && !follower.is_done() {
        follower.nobody_reads |= terminal::reader_leaves_within(INTERVAL);
        follower.take(&source.read()?)?;
    }
    if !follower.is_done() {
        follower.take(&source.finish()?)?;
    }
    follower.finish(source::now())
}

/// Shows calls as they end.
struct Follower {
    calls: Calls,
    names: Names,
    filter: Filter,
    json: bool,
    out: BufWriter<io::Stdout>,
    perfetto: Option<(PathBuf, perfetto::Trace<BufWriter<File>>)>,
    /// When the trace began.
    start: u64,
    /// The width of the terminal, at which lines are cut.
    width: Option<usize>,
    ended: u64,
    shown: u64,
    most: u64,
    nobody_reads: bool,
}

impl Follower {
    fn new(arguments: &Arguments, json: bool, start: u64) -> Result<Self> {
        let perfetto = match &arguments.perfetto {
            None => None,
            Some(path) => {
                let create = || perfetto::Trace::new(BufWriter::new(File::create(path)?));
                Some((path.clone(), create().map_err(|error| Error::at("write", path, error))?))
            }
        };
        let filter = Filter {
            processes: arguments.pid.clone(),
            nodes: arguments.node.clone(),
            codes: arguments.code.clone(),
            failed: arguments.failed,
            at_least: (arguments.slower_than.unwrap_or(0.0) * 1e6) as u64,
        };
        Ok(Self {
            calls: Calls::default(),
            names: Names::default(),
            filter,
            json,
            out: BufWriter::new(io::stdout()),
            perfetto,
            start,
            width: io::stdout().is_terminal().then(|| terminal::size().0.into()),
            ended: 0,
            shown: 0,
            most: arguments.count.unwrap_or(u64::MAX),
            nobody_reads: false,
        })
    }

    fn begin(&mut self, missing: &[&str]) -> Result<()> {
        if self.json {
            return Ok(());
        }
        if !missing.is_empty() {
            self.print(&format!("the driver does not tell {}", missing.join(", ")))?;
        }
        self.print(text::HEADING)?;
        self.flush()
    }

    fn is_done(&self) -> bool {
        self.nobody_reads || self.shown >= self.most
    }

    fn take(&mut self, events: &[Event]) -> Result<()> {
        for event in events {
            let mut ended: Vec<Ended> = Vec::new();
            self.calls.take(event, &mut self.names, &mut |calls| ended.push(calls));
            ended.iter().try_for_each(|calls| self.show(calls))?;
            if event.what == What::Ended {
                self.names.forget(event.thread);
            }
        }
        self.flush()
    }

    fn show(&mut self, calls: &[Call]) -> Result<()> {
        self.ended += calls.len() as u64;
        let filter = self.filter.clone();
        for call in filter.wanted(calls) {
            if self.is_done() {
                return Ok(());
            }
            self.shown += 1;
            if let Some((path, trace)) = &mut self.perfetto {
                trace.add(call, &mut self.names).map_err(|error| Error::at("write", path, error))?;
            }
            let line = match self.json {
                true => json(&Record::new(call, &mut self.names))?,
                false => text::line(call, &mut self.names, self.start),
            };
            self.print(&line)?;
        }
        Ok(())
    }

    /// Shows what has not ended, and says what could not be followed.
    fn finish(mut self, now: u64) -> Result<Outcome> {
        let ended = self.ended;
        if !self.is_done() {
            let open = self.calls.finish(now);
            open.chunks(1).try_for_each(|call| self.show(call))?;
        }
        let gaps = self.calls.gaps();
        match self.json {
            true => self.print(&json(&Summary::new(self.shown, ended, gaps))?)?,
            false => self.print(&text::summary(self.shown, ended, gaps))?,
        }
        self.flush()?;
        if let Some((path, trace)) = self.perfetto {
            trace.finish().map_err(|error| Error::at("write", &path, error))?;
        }
        Ok(Outcome::Fine)
    }

    fn print(&mut self, line: &str) -> Result<()> {
        let cut = self.width.filter(|_| !self.json).map(|width| text::cut(line, width));
        let done = writeln!(self.out, "{}", cut.unwrap_or(line));
        self.written(done)
    }

    fn flush(&mut self) -> Result<()> {
        let done = self.out.flush();
        self.written(done)
    }

    fn written(&mut self, done: io::Result<()>) -> Result<()> {
        match done {
            // Whoever reads has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.nobody_reads = true,
            done => {
                done.map_err(|error| Error::new(Kind::Io, format!("cannot write the output: {error}")))?
            }
        }
        Ok(())
    }
}

fn json(value: &impl serde::Serialize) -> Result<String> {
    escape::json(value).map_err(|error| Error::new(Kind::Io, format!("cannot make JSON: {error}")))
}
