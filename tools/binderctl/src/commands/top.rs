// SPDX-License-Identifier: GPL-2.0
//! `binderctl top`: a table of processes again and again, from the log files and the trace events.

use crate::prelude::*;
use crate::trace::calls::{Call, End};
use crate::trace::event::Pid;
use crate::trace::live::Live;
use crate::trace::record::duration;
use binder_logs::{Looper, State, Stats};
use hdrhistogram::Histogram;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// The interval of checks for signals and trace events, in milliseconds.
const TICK: u16 = 50;

/// The arguments of `top`.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// End after N tables (default: at a signal).
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Print a table every SECONDS.
    #[arg(short, long, value_name = "SECONDS", default_value_t = 1.0, value_parser = delay)]
    delay: f64,
    /// Sort by COLUMN.
    #[arg(short, long, value_name = "COLUMN", default_value = "in", value_parser = COLUMNS.map(|(name, ..)| name))]
    sort: String,
    /// Show only processes whose name or device contains TEXT, or whose PID is TEXT.
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// Do not use trace events: no latencies, and no cost for calls.
    #[arg(long)]
    no_trace: bool,
}

fn delay(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("must be a number of seconds from 0.1 to 3600".into()),
    }
}

/// Numbers of a row: the word to sort by it, its title, and its value.
type Column = (&'static str, &'static str, fn(&Row) -> Option<f64>);

const COLUMNS: [Column; 10] = [
    ("pid", "PID", |row| Some(row.pid.into())),
    ("threads", "THR", |row| Some(row.threads as f64)),
    ("busy", "BUSY", |row| Some(row.busy as f64)),
    ("nodes", "NODES", |row| Some(row.nodes as f64)),
    ("refs", "REFS", |row| Some(row.references as f64)),
    ("in", "IN/s", |row| row.calls_in_per_second),
    ("out", "OUT/s", |row| row.calls_out_per_second),
    ("oneway", "1WAY", |row| row.oneway_free_bytes.map(|bytes| bytes as f64)),
    ("median", "MEDIAN", |row| row.median_ns.map(|time| time as f64)),
    ("p99", "P99", |row| row.p99_ns.map(|time| time as f64)),
];

/// The processes at one time.
#[derive(Serialize)]
struct Table {
    processes: Vec<Row>,
    /// The reason why there are no calls a second and no oneway space.
    no_counts: Option<String>,
    /// The reason why there are no latencies.
    no_latency: Option<String>,
    lost_events: u64,
}

/// A process and a device that it has open.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Row {
    pid: Pid,
    name: String,
    device: String,
    threads: usize,
    /// Threads that make or serve a call.
    busy: usize,
    /// Threads that wait for work.
    idle: usize,
    nodes: usize,
    references: usize,
    buffers: usize,
    /// Transactions that wait for any of its threads.
    pending: Option<i64>,
    calls_in_per_second: Option<f64>,
    calls_out_per_second: Option<f64>,
    oneway_free_bytes: Option<i64>,
    median_ns: Option<u64>,
    p99_ns: Option<u64>,
}

/// Prints tables until a signal, or until `--count`.
pub fn run(arguments: &Arguments, options: &Options) -> Result<()> {
    let pause = Pause::new()?;
    let mut watch = Watch::start(arguments, options)?;
    let delay = Duration::from_secs_f64(arguments.delay);
    for nth in 0..arguments.count.unwrap_or(u64::MAX) {
        let next = Instant::now() + delay;
        while Instant::now() < next {
            if pause.is_over_within(TICK) {
                return Ok(());
            }
            watch.listen();
        }
        let gap = if nth > 0 && !options.json { "\n" } else { "" };
        let table = watch.table()?;
        options.write(&format!("{gap}{}", options.text(&table)?))?;
    }
    Ok(())
}

/// The sources of tables.
struct Watch<'a> {
    arguments: &'a Arguments,
    options: &'a Options,
    logs: Logs,
    events: Live,
    names: Names,
    latencies: Latencies,
    before: Option<(Instant, Counts)>,
}

impl<'a> Watch<'a> {
    fn start(arguments: &'a Arguments, options: &'a Options) -> Result<Self> {
        let logs = Logs::find(options)?;
        // Tables without latencies are useful too.
        let events = Live::start(arguments.no_trace.then_some("--no-trace is set"));
        let mut watch = Self {
            arguments,
            options,
            logs,
            events,
            names: Names::new(),
            latencies: Latencies::default(),
            before: None,
        };
        watch.table()?;
        Ok(watch)
    }

    /// Takes the calls that the trace events complete.
    fn listen(&mut self) {
        for call in self.events.ended(&mut self.names) {
            self.latencies.take(&call);
        }
    }

    /// The current table, with the rates and latencies since the previous one.
    fn table(&mut self) -> Result<Table> {
        let (stats, no_counts) = match self.logs.stats() {
            Ok(stats) => (Some(stats), None),
            Err(error) if error.kind == Kind::NotOffered => (None, Some(error.message)),
            Err(error) => return Err(error),
        };
        let now = Instant::now();
        let state = self.logs.state()?;
        let (mut rows, counts) = rows(&state, stats.as_ref());
        if let Some((then, before)) = self.before.replace((now, counts)) {
            let (_, counts) = self.before.as_ref().expect("it was put there");
            add_rates(&mut rows, counts, &before, now.duration_since(then).as_secs_f64());
        }
        let latencies = std::mem::take(&mut self.latencies);
        self.names.forget_names();
        let mut processes: Vec<Row> = rows.into_values().collect();
        for row in &mut processes {
            row.name = self.names.process(row.pid).unwrap_or_default().to_owned();
            (row.median_ns, row.p99_ns) = latencies.of(row.pid).unzip();
        }
        let filter = &self.arguments.filter;
        processes.retain(|row| {
            let is_named = row.name.contains(filter) || row.device.contains(filter);
            self.options.wants(&row.device) && (is_named || row.pid.to_string() == *filter)
        });
        sort(&mut processes, &self.arguments.sort);
        let no_latency = self.events.source.as_ref().err().cloned();
        let lost_events = self.events.calls.gaps.lost_events;
        Ok(Table { processes, no_counts, no_latency, lost_events })
    }
}

/// A process, and which one of those with the same number: each log lists them in the same order.
type Key = (Pid, usize);

/// Calls that a process was given and has made since it opened the device.
type Counts = HashMap<Key, (i64, i64)>;

/// Puts the files together. A driver may have no `stats`.
fn rows(state: &State, stats: Option<&Stats>) -> (BTreeMap<Key, Row>, Counts) {
    let (mut rows, mut counts) = (BTreeMap::new(), Counts::new());
    let mut seen = HashMap::new();
    for process in &state.processes {
        let threads = &process.threads;
        let row = Row {
            pid: process.pid,
            device: process.context.clone(),
            threads: threads.len(),
            busy: threads.iter().filter(|thread| !thread.stack.is_empty()).count(),
            idle: threads
                .iter()
                .filter(|thread| thread.stack.is_empty() && thread.looper.contains(Looper::WAITING))
                .count(),
            nodes: process.nodes.len(),
            references: process.references.len(),
            buffers: process.buffers.len(),
            ..Row::default()
        };
        rows.insert(key(&mut seen, process.pid), row);
    }
    seen.clear();
    for process in stats.iter().flat_map(|stats| &stats.processes) {
        let key = key(&mut seen, process.pid);
        // A process in only one of the two files was opened or closed between the readings.
        let Some(row) = rows.get_mut(&key) else { continue };
        (row.oneway_free_bytes, row.pending) = (process.free_async_space, process.pending_transactions);
        let count = |names: [&str; 2]| names.iter().map(|name| process.counters.count(name)).sum();
        let given = count(["BR_TRANSACTION", "BR_TRANSACTION_SEC_CTX"]);
        counts.insert(key, (given, count(["BC_TRANSACTION", "BC_TRANSACTION_SG"])));
    }
    (rows, counts)
}

fn key(seen: &mut HashMap<Pid, usize>, pid: Pid) -> Key {
    let nth = seen.entry(pid).or_default();
    *nth += 1;
    (pid, *nth)
}

fn add_rates(rows: &mut BTreeMap<Key, Row>, now: &Counts, before: &Counts, seconds: f64) {
    for (key, row) in rows {
        let (Some(now), Some(before)) = (now.get(key), before.get(key)) else { continue };
        // A number that was given to another process has smaller counts than before.
        let rate = |now: i64, before: i64| (now >= before).then(|| (now - before) as f64 / seconds);
        (row.calls_in_per_second, row.calls_out_per_second) = (rate(now.0, before.0), rate(now.1, before.1));
    }
}

/// Sorts by a column: the largest number first, but the smallest PID and oneway space. Unknown values come last.
fn sort(rows: &mut [Row], column: &str) {
    let (_, _, value) = COLUMNS.iter().find(|(name, ..)| *name == column).unwrap_or(&COLUMNS[0]);
    let sign = if ["pid", "oneway"].contains(&column) { 1.0 } else { -1.0 };
    let key = |row: &Row| value(row).map_or(f64::MAX, |value| sign * value);
    rows.sort_by(|one, other| key(one).total_cmp(&key(other)));
}

impl Report for Table {
    const SCHEMA: &'static str = "binderctl.top/1";

    fn show(&self, page: &mut Page) {
        if let Some(why) = &self.no_counts {
            page.say(format!("no calls/s, no oneway space: {why}"));
        }
        if let Some(why) = &self.no_latency {
            page.say(format!("no latencies: {why}"));
        }
        if self.lost_events > 0 {
            page.say(format!("latencies lack {} trace events that were lost", self.lost_events));
        }
        let titles = COLUMNS.iter().map(|(_, title, _)| *title).chain(["DEVICE", "PROCESS"]).collect();
        let row = |row: &Row| {
            let cells = COLUMNS.iter().map(|(name, _, value)| match value(row) {
                Some(time) if ["median", "p99"].contains(name) => duration(Some(time as u64)),
                Some(value) => format!("{value:.0}"),
                None => "-".into(),
            });
            cells.chain([row.device.clone(), row.name.clone()]).collect()
        };
        page.table(0, titles, &self.processes.iter().map(row).collect::<Vec<_>>());
    }
}

/// The latencies of the calls that each process served, to two digits.
#[derive(Default)]
struct Latencies(HashMap<Pid, Histogram<u64>>);

impl Latencies {
    /// Takes a call that has ended. Those that fail and those without a reply have no latency.
    fn take(&mut self, call: &Call) {
        if call.end == End::Replied {
            let new = || Histogram::new(2).expect("the crate accepts a precision of 2");
            *self.0.entry(call.server.process).or_insert_with(new) += call.total();
        }
    }

    /// The longest latency of half of the calls that a process served, and of 99 % of them.
    fn of(&self, server: Pid) -> Option<(u64, u64)> {
        let times = self.0.get(&server)?;
        Some((times.value_at_quantile(0.5), times.value_at_quantile(0.99)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::seen::tests::state;
    use crate::trace::recorded;
    use binder_logs::{Log, Mode};

    const STATE: &str = "proc 61
context binder
  thread 61: l 12 need_return 0 tr 0
    outgoing transaction 8: 0000000012345678 from 61:61 to 63:63 code 3 flags 0 pri 0 a0 r0 elapsed 2ms
    incoming transaction 7: 0000000012345677 from 64:64 to 61:61 code 2 flags 0 pri 0 a0 r0 elapsed 3ms node 1 size 8:0 offset 0
  thread 62: l 12 need_return 0 tr 0
  thread 66: l 00 need_return 0 tr 0
  node 1: u0000000000000000 c0000000000000000 hs 1 hw 1 ls 1 lw 0 is 2 iw 2 tr 0 proc 63 64
  buffer 7: 0 size 8:0:0 delivered
proc 61
context hwbinder
";

    const STATS: &str = "binder stats:
proc 61
context binder
  free async space 520192
  pending transactions: 0
  BC_TRANSACTION: 4
  BC_TRANSACTION_SG: 3
  BR_TRANSACTION: 9
";

    fn sample(with_stats: bool) -> (BTreeMap<Key, Row>, Counts) {
        let stats = Stats::parse("stats", STATS.as_bytes(), Mode::Lenient).unwrap();
        rows(&state(STATE), with_stats.then_some(&stats))
    }

    #[test]
    fn the_files_are_put_together() {
        let (rows, counts) = sample(true);
        let row = &rows[&(61, 1)];
        assert_eq!((row.nodes, row.references, row.buffers), (1, 0, 1));
        assert_eq!((row.busy, row.idle, row.threads), (1, 1, 3));
        assert_eq!((row.oneway_free_bytes, row.pending), (Some(520_192), Some(0)));
        // A process with two devices has two rows.
        assert_eq!(rows[&(61, 2)].device, "hwbinder");
        assert_eq!(counts, HashMap::from([((61, 1), (9, 7))]));
        let (rows, counts) = sample(false);
        assert_eq!((rows[&(61, 1)].oneway_free_bytes, counts.len()), (None, 0));
    }

    #[test]
    fn rates_are_those_between_two_tables() {
        let (mut rows, now) = sample(true);
        let rates = |rows: &BTreeMap<Key, Row>, nth| {
            let row: &Row = &rows[&(61, nth)];
            (row.calls_in_per_second, row.calls_out_per_second)
        };
        add_rates(&mut rows, &now, &HashMap::from([((61, 1), (4, 7))]), 10.0);
        assert_eq!((rates(&rows, 1), rates(&rows, 2)), ((Some(0.5), Some(0.0)), (None, None)));
        // The number has gone to another process.
        add_rates(&mut rows, &now, &HashMap::from([((61, 1), (99, 99))]), 10.0);
        assert_eq!(rates(&rows, 1), (None, None));
    }

    fn row(pid: Pid, calls_in: f64, oneway: i64) -> Row {
        let (calls_in_per_second, oneway_free_bytes) = (Some(calls_in), Some(oneway));
        let (device, name) = ("binder".into(), format!("process {pid}"));
        Row { pid, device, name, calls_in_per_second, oneway_free_bytes, ..Row::default() }
    }

    #[test]
    fn busy_servers_and_full_spaces_come_first() {
        let order = |column| {
            let mut rows =
                [row(3, 1.0, 40), row(1, 7.0, 50), row(2, 4.0, 20), Row { pid: 4, ..Row::default() }];
            sort(&mut rows, column);
            rows.map(|row| row.pid)
        };
        assert_eq!(order("pid"), [1, 2, 3, 4]);
        assert_eq!(order("in"), [1, 2, 3, 4]);
        assert_eq!(order("oneway"), [2, 3, 1, 4]);
    }

    #[test]
    fn a_table_has_a_line_for_each_process_and_says_what_is_missing() {
        let no_latency = Some("there are no trace events".into());
        let table =
            Table { processes: vec![row(90, 100.4, 520_192)], no_counts: None, no_latency, lost_events: 0 };
        let mut page = Page::default();
        table.show(&mut page);
        let expected = "no latencies: there are no trace events
PID  THR  BUSY  NODES  REFS  IN/s  OUT/s    1WAY  MEDIAN  P99  DEVICE  PROCESS
 90    0     0      0     0   100  -      520192  -       -    binder  process 90
";
        assert_eq!(page.text(), expected);
    }

    #[test]
    fn latencies_are_quantiles_of_calls_with_a_reply() {
        let mut latencies = Latencies::default();
        recorded::of_c().0.iter().flatten().for_each(|call| latencies.take(call));
        // 51.8 ms, 152 ms, 190 ms, 279 ms and 623 ms; two digits are right to 1 %.
        let (median, p99) = latencies.of(90).unwrap();
        assert!((188..=192).contains(&(median / 1_000_000)), "{median}");
        assert!((617..=629).contains(&(p99 / 1_000_000)), "{p99}");
        assert_eq!(latencies.of(91), None);
    }
}
