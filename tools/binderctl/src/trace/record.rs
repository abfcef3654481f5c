// SPDX-License-Identifier: GPL-2.0
//! A call as JSON.

use binder_sys::codes::return_name;
use serde::Serialize;

use super::calls::Call;
use super::calls::End;
use super::calls::Gaps;
use super::calls::Task;
use super::event::Id;
use super::event::Pid;
use super::event::Size;
use super::names::Names;

/// One call.
#[derive(Serialize)]
pub struct Record {
    schema: &'static str,
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
}

#[derive(Serialize)]
struct Named {
    process: Pid,
    thread: Option<Pid>,
    name: Option<String>,
}

/// What comes last.
#[derive(Serialize)]
pub struct Summary {
    schema: &'static str,
    shown: u64,
    ended: u64,
    #[serde(flatten)]
    gaps: Gaps,
}

impl Summary {
    /// So many calls of so many were shown.
    pub fn new(shown: u64, ended: u64, gaps: Gaps) -> Self {
        Self { schema: "binderctl.trace.summary/1", shown, ended, gaps }
    }
}

impl Record {
    /// The record of a call.
    pub fn new(call: &Call, names: &mut Names) -> Self {
        let is_known = !matches!(call.end, End::Refused(_));
        Self {
            schema: "binderctl.call/1",
            id: call.id,
            parent: (call.parent != 0).then_some(call.parent),
            depth: call.depth,
            caller: named(call.caller, names),
            server: is_known.then(|| named(call.server, names)),
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
            end: end(call.end),
            error: error(call.end),
        }
    }
}

fn named(Task { process, thread }: Task, names: &mut Names) -> Named {
    let name = names.name(process);
    Named {
        process,
        thread: (thread != 0).then_some(thread),
        name: (!name.is_empty()).then(|| name.to_owned()),
    }
}

/// How a call ended, in a word.
pub fn end(end: End) -> &'static str {
    match end {
        End::Replied => "replied",
        End::Taken => "taken",
        End::Failed(_) => "failed",
        End::Refused(_) => "refused",
        End::Superseded => "superseded",
        End::CallerEnded => "caller_ended",
        End::Open => "open",
    }
}

/// What the caller was told instead of a reply.
pub fn error(end: End) -> Option<&'static str> {
    match end {
        End::Failed(code) | End::Refused(code) => return_name(code),
        _ => None,
    }
}
