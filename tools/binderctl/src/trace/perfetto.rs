// SPDX-License-Identifier: GPL-2.0
//! Calls as a trace that Perfetto's UI opens: the JSON form of trace events, which Chrome's tools read, too.
//!
//! Each call is a slice on its caller's track and one on the track of the thread that serves it, and an arrow goes from one
//! to the other. The file is an array of events that is written as calls end, and may lack its end.

use std::collections::HashSet;
use std::io;
use std::io::Write;

use serde::Serialize;

use super::calls::Call;
use super::calls::End;
use super::calls::Task;
use super::event::Id;
use super::event::Pid;
use super::names::Names;
use super::record;
use crate::escape;

const CATEGORY: &str = "binder";

/// Writes a trace.
#[derive(Debug)]
pub struct Trace<W: Write> {
    to: W,
    named: HashSet<Pid>,
    is_empty: bool,
}

/// An event of the format.
#[derive(Serialize)]
struct Entry<'a> {
    ph: char,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'static str>,
    pid: Pid,
    tid: Pid,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Id>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bp: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Arguments<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Arguments<'a> {
    Name { name: &'a str },
    Call { transaction: Id, node: Id, code: u32, flags: u32, end: &'static str, error: Option<&'static str> },
}

impl<W: Write> Trace<W> {
    /// Begins a trace.
    pub fn new(mut to: W) -> io::Result<Self> {
        to.write_all(b"[")?;
        Ok(Self { to, named: HashSet::new(), is_empty: true })
    }

    /// Adds a call. One of which nothing is known but that it was refused has no place in it.
    pub fn add(&mut self, call: &Call, names: &mut Names) -> io::Result<()> {
        if matches!(call.end, End::Refused(_)) {
            return Ok(());
        }
        self.process(call.caller.process, names)?;
        self.process(call.server.process, names)?;
        let title = format!("{} code {:#x}", names.name(call.server.process), call.code);
        let until = if call.is_oneway() { call.sent } else { call.ended };
        self.slice(&title, call.caller, call.sent, until, call)?;
        if let Some(received) = call.received {
            self.arrow('s', call.caller, call.sent, call.id)?;
            self.arrow('f', call.server, received, call.id)?;
            let title = format!("serve code {:#x}", call.code);
            let until = if call.is_oneway() { received } else { call.replied.unwrap_or(call.ended) };
            self.slice(&title, call.server, received, until, call)?;
        }
        Ok(())
    }

    /// Ends the trace.
    pub fn finish(mut self) -> io::Result<()> {
        self.to.write_all(b"\n]\n")?;
        self.to.flush()
    }

    fn process(&mut self, process: Pid, names: &mut Names) -> io::Result<()> {
        let name = names.name(process);
        if name.is_empty() || !self.named.insert(process) {
            return Ok(());
        }
        let entry =
            Entry { args: Some(Arguments::Name { name }), ..entry('M', "process_name", process, process) };
        self.write(&entry)
    }

    fn slice(&mut self, name: &str, track: Task, from: u64, until: u64, call: &Call) -> io::Result<()> {
        let &Call { id: transaction, node, code, flags, end, .. } = call;
        let (end, error) = (record::end(end), record::error(end));
        let call = Arguments::Call { transaction, node, code, flags, end, error };
        self.write(&Entry {
            cat: Some(CATEGORY),
            ts: Some(microseconds(from)),
            // A slice that takes no time could not be seen.
            dur: Some(microseconds(until.saturating_sub(from).max(1))),
            args: Some(call),
            ..entry('X', name, track.process, track.thread)
        })
    }

    fn arrow(&mut self, ph: char, track: Task, time: u64, id: Id) -> io::Result<()> {
        self.write(&Entry {
            cat: Some(CATEGORY),
            ts: Some(microseconds(time)),
            id: Some(id),
            bp: (ph == 'f').then_some("e"),
            ..entry(ph, "call", track.process, track.thread)
        })
    }

    fn write(&mut self, entry: &Entry) -> io::Result<()> {
        let separator = if std::mem::take(&mut self.is_empty) { "\n" } else { ",\n" };
        self.to.write_all(separator.as_bytes())?;
        self.to.write_all(escape::json(entry)?.as_bytes())
    }
}

fn entry(ph: char, name: &str, pid: Pid, tid: Pid) -> Entry<'_> {
    Entry { ph, name, cat: None, pid, tid, ts: None, dur: None, id: None, bp: None, args: None }
}

/// The unit of the format. A double has digits enough for nanoseconds within a hundred days.
fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::Value;

    use super::*;
    use crate::trace::recorded;

    fn written() -> Vec<Value> {
        let mut bytes = Vec::new();
        let mut trace = Trace::new(&mut bytes).unwrap();
        let mut names = Names::default();
        for call in recorded::of_c().0.iter().flatten() {
            trace.add(call, &mut names).unwrap();
        }
        trace.finish().unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    fn track(entry: &Value) -> (i64, i64) {
        (entry["pid"].as_i64().unwrap(), entry["tid"].as_i64().unwrap())
    }

    #[test]
    fn each_event_has_what_its_phase_needs() {
        for entry in written() {
            let has = |keys: &[&str]| keys.iter().all(|key| !entry[key].is_null());
            assert!(has(&["ph", "name", "pid", "tid"]), "{entry}");
            match entry["ph"].as_str().unwrap() {
                "X" => assert!(has(&["ts", "dur", "cat", "args"]) && entry["dur"].as_f64() > Some(0.0)),
                "s" => assert!(has(&["ts", "cat", "id"])),
                "f" => assert!(has(&["ts", "cat", "id"]) && entry["bp"] == "e"),
                "M" => assert!(has(&["args"])),
                other => panic!("{other}"),
            }
        }
    }

    #[test]
    fn slices_of_a_track_are_nested_or_apart() {
        let mut tracks = HashMap::<_, Vec<(u64, u64)>>::new();
        for slice in written().iter().filter(|entry| entry["ph"] == "X") {
            let nanoseconds = |key: &str| (slice[key].as_f64().unwrap() * 1e3).round() as u64;
            let (from, length) = (nanoseconds("ts"), nanoseconds("dur"));
            tracks.entry(track(slice)).or_default().push((from, from + length));
        }
        assert!(tracks.len() > 10);
        for slices in tracks.values() {
            for (one, other) in slices.iter().flat_map(|one| slices.iter().map(move |other| (one, other))) {
                let crosses = one.0 < other.0 && other.0 < one.1 && one.1 < other.1;
                assert!(!crosses, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn an_arrow_goes_from_a_call_to_who_serves_it() {
        let all = written();
        let of = |ph: &'static str| all.iter().filter(move |entry| entry["ph"] == ph);
        assert_eq!(of("s").count(), 20);
        for (from, to) in of("s").zip(of("f")) {
            assert_eq!((&from["id"], &from["name"], &from["cat"]), (&to["id"], &to["name"], &to["cat"]));
            assert!(from["ts"].as_f64() < to["ts"].as_f64() && track(from) != track(to));
            for end in [from, to] {
                let inside = of("X").any(|slice| slice["ts"] == end["ts"] && track(slice) == track(end));
                assert!(inside, "{end}");
            }
        }
    }
}
