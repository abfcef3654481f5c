// SPDX-License-Identifier: GPL-2.0
//! `binderctl explain`: why calls failed, in words.
//!
//! The error that a thread can ask for (`BINDER_GET_EXTENDED_ERROR`) is its own alone, so this looks into what the
//! driver tells everybody: its log of failed transactions, its reports over netlink, its messages.

use binder_logs::{LogEntry, Task};
use binder_sys::TransactionFlags;
use clap::Args;
use serde::Serialize;

use crate::causes;
use crate::error::{Error, Kind, Result};
use crate::kernel_log;
use crate::logs::Logs;
use crate::netlink::{self, Reports};
use crate::options::Options;
use crate::output::{Output, Page, Report, Span, Style};
use crate::tasks::Names;

/// What to explain.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// A process, whose failed calls and replies are explained, those to it too; or what a driver has printed, such as
    /// 29201/-28. Every process by default.
    #[arg(value_name = "PID|CODE/ERRNO", value_parser = subject)]
    subject: Option<Subject>,
    /// Wait for further failures, and explain each when it happens. Needs the driver's reports over netlink.
    #[arg(long)]
    follow: bool,
    /// With --follow: end after so many.
    #[arg(long, value_name = "N", requires = "follow")]
    count: Option<u64>,
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
        .ok_or_else(|| "a process's number is wanted, or a code and an errno such as 29201/-28".to_owned())
}

/// What is known of a failure, and what it means.
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

/// A code and an errno in words.
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
    messages: Vec<String>,
    not_available: Vec<String>,
}

/// Explains what has failed, or what fails from now on.
pub fn run(arguments: &Arguments, options: &Options, output: Output) -> Result<bool> {
    let pid = match arguments.subject {
        Some(Subject::Code(code, errno)) => {
            output.print(&Meaning::of(code, Some(errno)))?;
            return Ok(false);
        }
        Some(Subject::Process(pid)) => Some(pid),
        None => None,
    };
    if arguments.follow {
        return follow(pid, arguments.count.unwrap_or(u64::MAX), options, output);
    }
    let explanation = past(pid, options)?;
    let found = !explanation.failures.is_empty() || !explanation.messages.is_empty();
    output.print(&explanation)?;
    Ok(found)
}

fn past(pid: Option<i32>, options: &Options) -> Result<Explanation> {
    let mut names = Names::new();
    let mut not_available = Vec::new();
    let mut take = |error: Error| not_available.push(error);
    let entries = Logs::find(options).and_then(|logs| logs.failed_transaction_log());
    let entries = entries.map(|log| log.entries).map_err(&mut take).unwrap_or_default();
    let messages = pid.map_or(Ok(Vec::new()), kernel_log::about).map_err(&mut take).unwrap_or_default();
    let is_wanted = |entry: &LogEntry| {
        let by_pid = pid.is_none_or(|pid| [entry.from.process, entry.to.process].contains(&pid));
        by_pid && options.wants(&entry.context)
    };
    let failures: Vec<Failure> = entries
        .iter()
        .filter(|entry| is_wanted(entry))
        .map(|entry| Failure::logged(entry, &mut names))
        .collect();
    // Without its first source this can say little; if there is nothing else either, that is what to say.
    if failures.is_empty() && messages.is_empty() && !not_available.is_empty() {
        return Err(not_available.swap_remove(0));
    }
    match pid {
        Some(pid) if failures.is_empty() && messages.is_empty() && names.process(pid).is_none() => {
            Err(Error::new(Kind::NotThere, format!("there is no process {pid}, and no log knows of one")))
        }
        _ => {
            let not_available = not_available.into_iter().map(|error| error.message).collect();
            Ok(Explanation { pid, failures, messages, not_available })
        }
    }
}

fn follow(pid: Option<i32>, count: u64, options: &Options, output: Output) -> Result<bool> {
    let mut reports = Reports::subscribe()?;
    let logs = Logs::find(options).ok();
    let mut names = Names::new();
    let mut seen = 0;
    while seen < count {
        let report = reports.next()?;
        let by_pid = pid.is_none_or(|pid| [report.from_pid, report.to_pid].contains(&pid));
        if by_pid && options.wants(&report.context) {
            // The report does not have the errno; the log has, if it is not overwritten yet.
            let entries = logs.as_ref().and_then(|logs| logs.failed_transaction_log().ok());
            let entry = entries.iter().flat_map(|log| &log.entries).rfind(|entry| is_same(entry, &report));
            output.print(&Failure::reported(&report, entry, &mut names))?;
            seen += 1;
        }
    }
    Ok(seen > 0)
}

fn is_same(entry: &LogEntry, report: &netlink::Report) -> bool {
    (entry.from.process, entry.from.thread) == (report.from_pid, report.from_tid)
        && entry.return_error == report.error
        && entry.context == report.context
        && entry.data_size == i64::from(report.data_size)
}

impl Failure {
    fn new(
        source: &'static str,
        context: &str,
        from: Task,
        to: Task,
        meaning: Meaning,
        names: &mut Names,
    ) -> Self {
        Self {
            source,
            transaction: None,
            kind: "call",
            context: context.to_owned(),
            from_pid: from.process,
            from_tid: from.thread,
            to_pid: to.process,
            to_tid: to.thread,
            handle: None,
            code: None,
            data_size: 0,
            meaning,
            who: who(names, from, to),
        }
    }

    fn logged(entry: &LogEntry, names: &mut Names) -> Self {
        let meaning = Meaning::of(entry.return_error, Some(entry.errno));
        Self {
            transaction: Some(entry.id),
            kind: match entry.kind {
                binder_logs::Kind::Call => "call",
                binder_logs::Kind::Async => "oneway call",
                binder_logs::Kind::Reply => "reply",
            },
            handle: (entry.kind != binder_logs::Kind::Reply).then_some(entry.handle),
            data_size: entry.data_size,
            ..Self::new("failed_transaction_log", &entry.context, entry.from, entry.to, meaning, names)
        }
    }

    fn reported(report: &netlink::Report, entry: Option<&LogEntry>, names: &mut Names) -> Self {
        let is_oneway = TransactionFlags::from_bits_retain(report.flags).contains(TransactionFlags::ONE_WAY);
        let from = Task { process: report.from_pid, thread: report.from_tid };
        let to = Task { process: report.to_pid, thread: report.to_tid };
        let meaning = Meaning::of(report.error, entry.map(|entry| entry.errno));
        Self {
            transaction: entry.map(|entry| entry.id),
            kind: match (report.is_reply, is_oneway) {
                (true, _) => "reply",
                (_, true) => "oneway call",
                _ => "call",
            },
            handle: entry.filter(|_| !report.is_reply).map(|entry| entry.handle),
            code: Some(report.code),
            data_size: report.data_size.into(),
            ..Self::new("netlink", &report.context, from, to, meaning, names)
        }
    }
}

fn who(names: &mut Names, from: Task, to: Task) -> String {
    let target = match (to.process, to.thread) {
        (0, _) => "nobody".to_owned(),
        (pid, 0) => names.of_process(pid),
        (pid, tid) => names.of_thread(pid, tid),
    };
    format!("from {} to {target}", names.of_thread(from.process, from.thread))
}

impl Meaning {
    fn of(code: u32, errno: Option<i32>) -> Self {
        let causes::Cause { what, why, next_step } = causes::of(code, errno);
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

    fn codes(&self) -> Span {
        let errno = self.errno.as_ref().map(|errno| format!(" ({errno})")).unwrap_or_default();
        Span::new(Style::Bad, format!("{}{errno}", self.return_code))
    }
}

impl Report for Meaning {
    const SCHEMA: &'static str = "binderctl.meaning/1";

    fn show(&self, page: &mut Page) {
        page.line([self.codes()]);
        self.lines("  ", page);
    }
}

impl Report for Failure {
    const SCHEMA: &'static str = "binderctl.failure/1";

    fn show(&self, page: &mut Page) {
        let number = self.transaction.map(|id| format!("{id}: ")).unwrap_or_default();
        let handle = self.handle.map(|handle| format!(" handle {handle}")).unwrap_or_default();
        let code = self.code.map(|code| format!(" code {code:#x}")).unwrap_or_default();
        let rest = format!(" on {}{handle}{code}, {} bytes: ", self.context, self.data_size);
        let kind = Span::new(Style::Strong, self.kind);
        page.line([number.into(), kind, format!(" {}{rest}", self.who).into(), self.meaning.codes()]);
        self.meaning.lines("  ", page);
    }
}

impl Report for Explanation {
    const SCHEMA: &'static str = "binderctl.explain/1";

    fn show(&self, page: &mut Page) {
        for failure in &self.failures {
            failure.show(page);
        }
        if self.failures.is_empty() && self.not_available.is_empty() {
            page.say("no failure is recorded");
        }
        if !self.messages.is_empty() {
            page.gap();
            page.say("the kernel's log says:");
            self.messages.iter().for_each(|message| page.say(format!("  {message}")));
        }
        for why in &self.not_available {
            page.line([Span::new(Style::Dim, format!("not known: {why}"))]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binder_logs::{Log, Mode, TransactionLog};

    #[test]
    fn a_subject_is_a_process_or_what_a_driver_has_printed() {
        assert_eq!(subject("12"), Ok(Subject::Process(12)));
        assert_eq!(subject("29201/-28"), Ok(Subject::Code(29201, -28)));
        assert!(subject("0").is_err() && subject("x").is_err() && subject("-1").is_err());
    }

    #[test]
    fn a_recorded_failure_is_put_into_words() {
        let log = "7: call  from 12:13 to 0:0 context binder node 0 handle 0 size 4:0 ret 29189/-22 l=3253\n";
        let log = TransactionLog::parse("log", log.as_bytes(), Mode::Strict).unwrap();
        let mut page = Page::default();
        Failure::logged(&log.entries[0], &mut Names::none()).show(&mut page);
        let text = page.render(false);
        assert!(
            text.starts_with(
                "7: call from 12:13 to nobody on binder handle 0, 4 bytes: BR_DEAD_REPLY (EINVAL)\n"
            ),
            "{text}"
        );
        assert!(text.contains("what: the object that was called is gone\n"), "{text}");
    }

    #[test]
    fn a_report_gets_its_errno_from_the_log() {
        let log = "7: async from 12:13 to 20:0 context binder node 2 handle 1 size 4:0 ret 29201/-28 l=0\n";
        let log = TransactionLog::parse("log", log.as_bytes(), Mode::Strict).unwrap();
        let report = netlink::Report {
            error: 29201,
            context: "binder".into(),
            from_pid: 12,
            from_tid: 13,
            to_pid: 20,
            flags: 1,
            data_size: 4,
            ..Default::default()
        };
        assert!(is_same(&log.entries[0], &report));
        let failure = Failure::reported(&report, Some(&log.entries[0]), &mut Names::none());
        assert_eq!((failure.kind, failure.meaning.errno.as_deref()), ("oneway call", Some("ENOSPC")));
        assert!(!is_same(&log.entries[0], &netlink::Report { from_tid: 14, ..report }));
    }
}
