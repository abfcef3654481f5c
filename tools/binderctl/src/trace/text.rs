// SPDX-License-Identifier: GPL-2.0
//! A call as a line of text.

use binder_sys::codes::return_name;
use unicode_width::UnicodeWidthChar;

use super::calls::Call;
use super::calls::End;
use super::calls::Gaps;
use super::calls::Task;
use super::calls::ONEWAY;
use super::event::Size;
use super::names::Names;
use crate::escape;

/// What stands above the lines.
pub const HEADING: &str = "      TIME   TOTAL  QUEUED  SERVED  CALL";

/// The flag of a call that takes descriptors in its reply, which most have.
const ACCEPT_FDS: u32 = binder_sys::TransactionFlags::ACCEPT_FDS.bits();

/// The line of a call, with its beginning in seconds since `start`.
pub fn line(call: &Call, names: &mut Names, start: u64) -> String {
    let time = call.sent.saturating_sub(start);
    let total = if matches!(call.end, End::Refused(_)) { None } else { Some(call.total()) };
    let mut line = format!(
        "{:>10} {:>7} {:>7} {:>7}  {:indent$}{} -> ",
        format!("{}.{:06}", time / 1_000_000_000, time / 1000 % 1_000_000),
        duration(total),
        duration(call.queued()),
        duration(call.served()),
        "",
        task(call.caller, names),
        indent = 2 * call.depth.min(20),
    );
    match call.end {
        End::Refused(_) => line.push('?'),
        _ => line.push_str(&format!("{} node {} code {:#x}", task(call.server, names), call.node, call.code)),
    }
    if call.is_oneway() {
        line.push_str(" oneway");
    }
    if call.flags & !(ONEWAY | ACCEPT_FDS) != 0 {
        line.push_str(&format!(" flags {:#x}", call.flags));
    }
    line.push_str(&call.size.map(|bytes| format!(" {}", size(bytes))).unwrap_or_default());
    line.push_str(&call.reply_size.map(|bytes| format!(" reply {}", size(bytes))).unwrap_or_default());
    line.push_str(&end(call.end));
    line
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

/// A process by name and number, with the thread if it is not the first one.
fn task(task: Task, names: &mut Names) -> String {
    let Task { process, thread } = task;
    let name = escape::visible(names.name(process));
    let thread = if thread == 0 || thread == process { String::new() } else { format!(":{thread}") };
    match name.as_str() {
        "" => format!("{process}{thread}"),
        name => format!("{name}/{process}{thread}"),
    }
}

fn size(Size { data, offsets, extra }: Size) -> String {
    let objects = if offsets > 0 { format!("+{offsets}") } else { String::new() };
    let extra = if extra > 0 { format!("+{extra} extra") } else { String::new() };
    format!("{data}{objects}{extra} B")
}

fn end(end: End) -> String {
    let name = |code| return_name(code).unwrap_or("an unknown error");
    match end {
        End::Replied | End::Taken => String::new(),
        End::Failed(code) => format!(" FAILED: {}", name(code)),
        End::Refused(code) => format!(" REFUSED: {}", name(code)),
        End::Superseded => " superseded".into(),
        End::CallerEnded => " FAILED: caller ended".into(),
        End::Open => " still open".into(),
    }
}

/// As much of a line as a terminal has columns for.
pub fn cut(line: &str, width: usize) -> &str {
    let mut used = 0;
    let end = line.char_indices().find(|(_, c)| {
        used += c.width().unwrap_or(0);
        used > width
    });
    end.map_or(line, |(at, _)| &line[..at])
}

/// What was followed and what was not.
pub fn summary(shown: u64, ended: u64, Gaps { begun_before, lost_events, cut_off }: Gaps) -> String {
    let mut parts = vec![match shown == ended {
        true => format!("{ended} calls"),
        false => format!("{shown} of {ended} calls"),
    }];
    if begun_before > 0 {
        parts.push(format!("{begun_before} more had begun before the trace"));
    }
    if lost_events > 0 {
        parts.push(format!("at least {lost_events} events were lost: --buffer makes room for more"));
    }
    if cut_off > 0 {
        parts.push(format!("{cut_off} calls could not be followed to their end"));
    }
    parts.join("; ")
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

    #[test]
    fn a_line_is_cut_where_the_terminal_ends() {
        assert_eq!((cut("abc", 3), cut("abcd", 3), cut("a漢漢", 4)), ("abc", "abc", "a漢"));
    }

    #[test]
    fn what_is_missing_is_said() {
        assert_eq!(summary(3, 3, Gaps::default()), "3 calls");
        let gaps = Gaps { begun_before: 1, lost_events: 20, cut_off: 4 };
        assert_eq!(
            summary(2, 3, gaps),
            "2 of 3 calls; 1 more had begun before the trace; at least 20 events were lost: --buffer makes room for \
             more; 4 calls could not be followed to their end"
        );
    }
}
