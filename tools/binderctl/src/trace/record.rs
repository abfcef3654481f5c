// SPDX-License-Identifier: GPL-2.0
//! A call as it is shown: a line of text or of JSON.

use super::calls::{Call, End, Gaps, ONEWAY};
use super::event::{Id, Pid, Size};
use crate::output::{Page, Report};
use crate::tasks::{Names, Task};
use binder_sys::codes::return_name;
use binder_sys::TransactionFlags;
use serde::Serialize;

/// The line above the calls.
pub const HEADING: &str = "      TIME   TOTAL  QUEUED  SERVED  CALL";

/// The flag of a call that takes descriptors in its reply, which most have.
const ACCEPT_FDS: u32 = TransactionFlags::ACCEPT_FDS.bits();

#[derive(Serialize)]
pub struct Record {
    id: Id,
    parent: Option<Id>,
    depth: usize,
    caller: Named,
    server: Option<Named>,
    node: Option<Id>,
    code: Option<u32>,
    flags: Option<u32>,
    oneway: bool,
    size: Option<Size>,
    reply_size: Option<Size>,
    sent_ns: u64,
    queued_ns: Option<u64>,
    served_ns: Option<u64>,
    total_ns: u64,
    end: &'static str,
    error: Option<&'static str>,
    #[serde(skip)]
    since_start: u64,
    #[serde(skip)]
    outcome: String,
}

#[derive(Serialize)]
struct Named {
    process: Pid,
    thread: Option<Pid>,
    name: Option<String>,
}

impl Record {
    /// The record of a call of a trace that began at `start`.
    pub fn new(call: &Call, names: &mut Names, start: u64) -> Self {
        let is_known = !matches!(call.end, End::Refused(_));
        let (end, error, outcome) = ended(call.end);
        Self {
            id: call.id,
            parent: (call.parent != 0).then_some(call.parent),
            depth: call.depth,
            caller: Named::new(call.caller, names),
            server: is_known.then(|| Named::new(call.server, names)),
            node: is_known.then_some(call.node),
            code: is_known.then_some(call.code),
            flags: is_known.then_some(call.flags),
            oneway: call.is_oneway(),
            size: call.size,
            reply_size: call.reply_size,
            sent_ns: call.sent,
            queued_ns: call.queued(),
            served_ns: call.served(),
            total_ns: call.total(),
            end,
            error,
            since_start: call.sent.saturating_sub(start),
            outcome,
        }
    }
}

impl Report for Record {
    const SCHEMA: &'static str = "binderctl.call/1";

    /// Times, who calls whom, one step to the right for each call that it is nested in, what it carries, and what came of it.
    fn show(&self, page: &mut Page) {
        let time = format!("{}.{:06}", self.since_start / 1_000_000_000, self.since_start / 1000 % 1_000_000);
        let total = duration(self.server.is_some().then_some(self.total_ns));
        let (queued, served) = (duration(self.queued_ns), duration(self.served_ns));
        let (indent, caller) = (2 * self.depth.min(20), self.caller.words());
        let mut line = format!("{time:>10} {total:>7} {queued:>7} {served:>7}  {:indent$}{caller} -> ", "");
        match (&self.server, self.node, self.code) {
            (Some(server), Some(node), Some(code)) => {
                line += &format!("{} node {node} code {code:#x}", server.words());
            }
            _ => line.push('?'),
        }
        if self.oneway {
            line += " oneway";
        }
        if let Some(flags) = self.flags.filter(|flags| flags & !(ONEWAY | ACCEPT_FDS) != 0) {
            line += &format!(" flags {flags:#x}");
        }
        line += &self.size.map(|bytes| format!(" {}", size(bytes))).unwrap_or_default();
        line += &self.reply_size.map(|bytes| format!(" reply {}", size(bytes))).unwrap_or_default();
        page.say(line + &self.outcome);
    }
}

impl Named {
    fn new(Task { process, thread }: Task, names: &mut Names) -> Self {
        let name = names.process(process).map(str::to_owned);
        Self { process, thread: (thread != 0).then_some(thread), name }
    }

    /// A process by name and number, with the thread if it is not the first one.
    fn words(&self) -> String {
        let name = self.name.as_ref().map(|name| format!("{name}/")).unwrap_or_default();
        let thread = self.thread.filter(|thread| *thread != self.process);
        let thread = thread.map(|thread| format!(":{thread}")).unwrap_or_default();
        format!("{name}{}{thread}", self.process)
    }
}

/// The end of a call: in a word, as the return code that the caller got instead of a reply, and as the end of a line.
fn ended(end: End) -> (&'static str, Option<&'static str>, String) {
    let failed = |word: &'static str, code| {
        let error = return_name(code);
        let name = error.unwrap_or("an unknown error");
        (word, error, format!(" {}: {name}", word.to_uppercase()))
    };
    match end {
        End::Replied => ("replied", None, String::new()),
        End::Taken => ("taken", None, String::new()),
        End::Failed(code) => failed("failed", code),
        End::Refused(code) => failed("refused", code),
        End::Superseded => ("superseded", None, " superseded".into()),
        End::CallerEnded => ("caller_ended", None, " FAILED: caller ended".into()),
        End::Open => ("open", None, " still open".into()),
    }
}

/// A duration in the unit that fits it, with three digits or more.
pub fn duration(nanoseconds: Option<u64>) -> String {
    let Some(value) = nanoseconds else { return "-".into() };
    let (unit, name) = match value {
        0..1_000 => return format!("{value}ns"),
        1_000..1_000_000 => (1e3, "us"),
        1_000_000..1_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let value = value as f64 / unit;
    match value {
        ..9.995 => format!("{value:.2}{name}"),
        ..99.95 => format!("{value:.1}{name}"),
        _ => format!("{value:.0}{name}"),
    }
}

fn size(Size { data, offsets, extra }: Size) -> String {
    let objects = if offsets > 0 { format!("+{offsets}") } else { String::new() };
    let extra = if extra > 0 { format!("+{extra} extra") } else { String::new() };
    format!("{data}{objects}{extra} B")
}

/// The last line: the calls that were followed, and the gaps.
#[derive(Serialize)]
pub struct Summary {
    pub shown: u64,
    pub ended: u64,
    #[serde(flatten)]
    pub gaps: Gaps,
}

impl Report for Summary {
    const SCHEMA: &'static str = "binderctl.trace.summary/1";

    fn show(&self, page: &mut Page) {
        let Self { shown, ended, gaps: Gaps { begun_before, lost_events, cut_off } } = self;
        let mut line = match shown == ended {
            true => format!("{ended} calls"),
            false => format!("{shown} of {ended} calls"),
        };
        if *begun_before > 0 {
            line += &format!("; {begun_before} more had begun before the trace");
        }
        if *lost_events > 0 {
            line += &format!("; at least {lost_events} events were lost: --buffer makes room for more");
        }
        if *cut_off > 0 {
            line += &format!("; {cut_off} calls could not be followed to their end");
        }
        page.say(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_or_more() {
        for (nanoseconds, text) in [
            (0, "0ns"),
            (999, "999ns"),
            (1_000, "1.00us"),
            (9_996, "10.0us"),
            (99_960, "100us"),
            (1_234_567, "1.23ms"),
            (61_000_000_000, "61.0s"),
            (3_600_000_000_000, "3600s"),
        ] {
            assert_eq!(duration(Some(nanoseconds)), text);
        }
        assert_eq!(duration(None), "-");
    }
}
