// SPDX-License-Identifier: GPL-2.0
//! `binderctl explain`: the causes of failed calls.
//!
//! A thread can only read its own last error (`BINDER_GET_EXTENDED_ERROR`). So this command reads the driver's log of
//! failed transactions and its reports over netlink.

use crate::causes;
use crate::netlink;
use crate::prelude::*;
use binder_logs::LogEntry;

/// The arguments of `explain`.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// Explain the failed calls and replies from and to this process (default: every process), or a code and an errno
    /// that a driver has printed, such as 29201/-28.
    #[arg(value_name = "PID|CODE/ERRNO", value_parser = subject)]
    subject: Option<Subject>,
    /// Wait for further failures and explain each. Needs the driver's reports over netlink.
    #[arg(long)]
    follow: bool,
    /// With --follow: end after N failures.
    #[arg(long, value_name = "N", requires = "follow")]
    count: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Process(i32),
    Code(u32, i32),
}

fn subject(text: &str) -> std::result::Result<Subject, String> {
    let process = || text.parse().ok().filter(|&pid| pid > 0).map(Subject::Process);
    causes::parse(text)
        .map(|(code, errno)| Subject::Code(code, errno))
        .or_else(process)
        .ok_or_else(|| "expected a PID, or a code and an errno such as 29201/-28".to_owned())
}

/// A failure and its meaning.
#[derive(Clone, Debug, Serialize)]
struct Failure {
    source: &'static str,
    transaction: Option<i64>,
    kind: &'static str,
    context: String,
    from_pid: i32,
    from_tid: i32,
    to_pid: i32,
    to_tid: i32,
    handle: Option<i64>,
    code: Option<u32>,
    data_size: i64,
    #[serde(flatten)]
    meaning: Meaning,
    #[serde(skip)]
    who: String,
}

/// The meaning of a code and an errno.
#[derive(Clone, Debug, Serialize)]
struct Meaning {
    return_code: String,
    errno: Option<String>,
    what: &'static str,
    why: &'static str,
    next_step: &'static str,
}

#[derive(Serialize)]
struct Explanation {
    pid: Option<i32>,
    failures: Vec<Failure>,
}

/// Explains recorded failures, or with `--follow` new ones.
pub fn run(arguments: &Arguments, options: &Options) -> Result<bool> {
    let pid = match arguments.subject {
        Some(Subject::Code(code, errno)) => {
            options.print(&Meaning::of(code, Some(errno)))?;
            return Ok(false);
        }
        Some(Subject::Process(pid)) => Some(pid),
        None => None,
    };
    let is_wanted = |entry: &LogEntry| {
        let by_pid = pid.is_none_or(|pid| [entry.from.process, entry.to.process].contains(&pid));
        by_pid && options.wants(&entry.context)
    };
    if arguments.follow {
        return follow(is_wanted, arguments.count.unwrap_or(usize::MAX), options);
    }
    let mut names = Names::new();
    let entries = Logs::find(options)?.failed_transaction_log()?.entries;
    let wanted = entries.iter().filter(|entry| is_wanted(entry));
    let failures: Vec<_> = wanted.map(|entry| Failure::logged(entry, &mut names)).collect();
    match pid.filter(|_| failures.is_empty()) {
        Some(pid) if names.process(pid).is_none() => {
            Err(Error::new(Kind::NotThere, format!("there is no process {pid}, and none in the log")))
        }
        _ => {
            let found = !failures.is_empty();
            options.print(&Explanation { pid, failures }).map(|()| found)
        }
    }
}

fn follow(is_wanted: impl Fn(&LogEntry) -> bool, count: usize, options: &Options) -> Result<bool> {
    let reports = netlink::subscribe()?;
    let logs = Logs::find(options).ok();
    let mut names = Names::new();
    let mut left = count;
    while left > 0 {
        for report in netlink::next(&reports)?.iter().filter(|report| is_wanted(&report.entry)).take(left) {
            // The report does not have the errno; the log has, if it is not overwritten yet.
            let entries = logs.as_ref().and_then(|logs| logs.failed_transaction_log().ok());
            let entry =
                entries.iter().flat_map(|log| &log.entries).rfind(|entry| is_same(entry, &report.entry));
            options.print(&Failure::reported(report, entry, &mut names))?;
            left -= 1;
        }
    }
    Ok(count > 0)
}

fn is_same(entry: &LogEntry, report: &LogEntry) -> bool {
    (entry.from, entry.return_error, entry.data_size) == (report.from, report.return_error, report.data_size)
        && entry.context == report.context
}

impl Failure {
    fn logged(entry: &LogEntry, names: &mut Names) -> Self {
        let LogEntry { from, to, .. } = *entry;
        let target = match (to.process, to.thread) {
            (0, _) => "nobody".to_owned(),
            (pid, 0) => names.of_process(pid),
            (pid, tid) => names.of_thread(pid, tid),
        };
        Self {
            source: "failed_transaction_log",
            transaction: Some(entry.id),
            kind: match entry.kind {
                binder_logs::Kind::Call => "call",
                binder_logs::Kind::Async => "oneway call",
                binder_logs::Kind::Reply => "reply",
            },
            context: entry.context.clone(),
            from_pid: from.process,
            from_tid: from.thread,
            to_pid: to.process,
            to_tid: to.thread,
            handle: (entry.kind != binder_logs::Kind::Reply).then_some(entry.handle),
            code: None,
            data_size: entry.data_size,
            meaning: Meaning::of_entry(entry),
            who: format!("from {} to {target}", names.of_thread(from.process, from.thread)),
        }
    }

    /// A failure by its report, with what the log adds to it.
    fn reported(report: &netlink::Report, logged: Option<&LogEntry>, names: &mut Names) -> Self {
        let reported = Self::logged(&report.entry, names);
        Self {
            source: "netlink",
            transaction: logged.map(|entry| entry.id),
            handle: reported.handle.and(logged).map(|entry| entry.handle),
            code: Some(report.code),
            meaning: logged.map_or_else(|| Meaning::of(report.entry.return_error, None), Meaning::of_entry),
            ..reported
        }
    }
}

impl Meaning {
    fn of(code: u32, errno: Option<i32>) -> Self {
        Self::new(code, errno, causes::of(code, errno))
    }

    fn of_entry(entry: &LogEntry) -> Self {
        Self::new(entry.return_error, Some(entry.errno), causes::of_entry(entry))
    }

    fn new(code: u32, errno: Option<i32>, cause: causes::Cause) -> Self {
        let causes::Cause { what, why, next_step } = cause;
        Self {
            return_code: causes::code_name(code),
            errno: errno.and_then(causes::errno_name),
            what,
            why,
            next_step,
        }
    }

    fn lines(&self, indent: &str, page: &mut Page) {
        page.say(format!("{indent}what: {}", self.what));
        page.say(format!("{indent}why:  {}", self.why));
        page.say(format!("{indent}next: {}", self.next_step));
    }

    fn codes(&self) -> String {
        let errno = self.errno.as_ref().map(|errno| format!(" ({errno})")).unwrap_or_default();
        format!("{}{errno}", self.return_code)
    }
}

impl Report for Meaning {
    const SCHEMA: &'static str = "binderctl.meaning/1";

    fn show(&self, page: &mut Page) {
        page.say(self.codes());
        self.lines("  ", page);
    }
}

impl Report for Failure {
    const SCHEMA: &'static str = "binderctl.failure/1";

    fn show(&self, page: &mut Page) {
        let number = self.transaction.map(|id| format!("{id}: ")).unwrap_or_default();
        let handle = self.handle.map(|handle| format!(" handle {handle}")).unwrap_or_default();
        let code = self.code.map(|code| format!(" code {code:#x}")).unwrap_or_default();
        let Self { kind, who, context, data_size, meaning, .. } = self;
        let codes = meaning.codes();
        page.say(format!("{number}{kind} {who} on {context}{handle}{code}, {data_size} bytes: {codes}"));
        self.meaning.lines("  ", page);
    }
}

impl Report for Explanation {
    const SCHEMA: &'static str = "binderctl.explain/2";

    fn show(&self, page: &mut Page) {
        self.failures.iter().for_each(|failure| failure.show(page));
        if self.failures.is_empty() {
            page.say("no failure is recorded");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binder_logs::{Log, Mode, TransactionLog};

    #[test]
    fn an_invalid_call_without_objects_is_not_blamed_on_them() {
        for (to, offsets, is_context) in [("20:0", 0, true), ("20:0", 8, false), ("0:0", 0, false)] {
            let log = format!(
                "7: call  from 12:13 to {to} context binder node 2 handle 1 size 4:{offsets} ret 29201/-22 l=1\n"
            );
            let log = TransactionLog::parse("log", log.as_bytes(), Mode::Strict).unwrap();
            let failure = Failure::logged(&log.entries[0], &mut Names::none());
            assert_eq!(failure.meaning.what.contains("security context"), is_context, "{to} {offsets}");
        }
        assert!(Meaning::of(29201, Some(-22)).why.contains("security context"));
    }

    #[test]
    fn a_report_gets_its_errno_from_the_log() {
        let log = "7: async from 12:13 to 20:0 context binder node 2 handle 1 size 4:0 ret 29201/-28 l=0\n";
        let log = TransactionLog::parse("log", log.as_bytes(), Mode::Strict).unwrap();
        let reported = LogEntry { id: 0, node: 0, handle: 0, errno: 0, ..log.entries[0].clone() };
        assert!(is_same(&log.entries[0], &reported));
        assert!(!is_same(&log.entries[0], &LogEntry { context: "other".into(), ..reported.clone() }));
        let report = netlink::Report { entry: reported, code: 9 };
        let failure = Failure::reported(&report, Some(&log.entries[0]), &mut Names::none());
        assert_eq!((failure.kind, failure.code, failure.handle), ("oneway call", Some(9), Some(1)));
        assert_eq!((failure.transaction, failure.meaning.errno.as_deref()), (Some(7), Some("ENOSPC")));
    }
}
