// SPDX-License-Identifier: GPL-2.0
//! Reports of the driver over generic netlink: family `binder`, group `report`.

use crate::error::{Error, Kind, Result};
use binder_logs::{Kind as Type, LogEntry};
use binder_sys::netlink::{messages, number, removes, text, Listener, Message};
use binder_sys::{Errno, TransactionFlags};

const FAMILY: &str = "binder";
const GROUP: &str = "report";
const REPORT: u8 = 1;

/// A transaction that failed, or almost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// A log entry, as far as a report has its fields: it has no number, handle or errno.
    pub entry: LogEntry,
    pub code: u32,
}

/// Subscribes to the driver's reports, if it has any.
pub fn subscribe() -> Result<Listener> {
    let joined = Listener::join(FAMILY, GROUP);
    let joined = joined.and_then(|listener| listener.map(Listener::with_changes).transpose());
    let joined = joined.map_err(|errno| {
        let kind = if errno == Errno::EPERM { Kind::Permission } else { Kind::Io };
        Error::new(kind, format!("cannot listen to reports over netlink: {}", errno.desc()))
            .hint_if_denied("reports of the driver need CAP_NET_ADMIN, such as root has")
    })?;
    joined.ok_or_else(|| {
        Error::new(
            Kind::NotOffered,
            "the kernel has no netlink family binder: the driver does not report failures",
        )
        .hint("binderctl explain without --follow looks into its logs")
    })
}

/// Waits for reports. Those that were lost because there were too many are not counted.
pub fn next(listener: &Listener) -> Result<Vec<Report>> {
    let family = listener.family();
    match listener.receive() {
        Ok(packet) if messages(&packet).any(|message| removes(&message, family)) => {
            Err(Error::new(Kind::Gone, "the driver was unloaded, and its reports with it"))
        }
        Ok(packet) => Ok(reports(&packet, family)),
        Err(Errno::ENOBUFS) => Ok(Vec::new()),
        Err(errno) => Err(Error::new(Kind::Io, format!("cannot read reports: {}", errno.desc()))),
    }
}

fn reports(packet: &[u8], family: u16) -> Vec<Report> {
    let is_report = |message: &Message| message.family == family && message.command == REPORT;
    messages(packet).filter(is_report).filter_map(|message| report(&message)).collect()
}

/// Reads the attributes of a report; those that are not known are left out.
fn report(message: &Message) -> Option<Report> {
    let mut report = Report::default();
    let entry = &mut report.entry;
    for (kind, value) in message.attributes() {
        let number = number(value);
        match kind {
            1 => entry.return_error = number?,
            2 => entry.context = text(value),
            3 => entry.from.process = number? as i32,
            4 => entry.from.thread = number? as i32,
            5 => entry.to.process = number? as i32,
            6 => entry.to.thread = number? as i32,
            7 => entry.kind = Type::Reply,
            8 if entry.kind == Type::Call && number? & TransactionFlags::ONE_WAY.bits() != 0 => {
                entry.kind = Type::Async;
            }
            9 => report.code = number?,
            10 => entry.data_size = number?.into(),
            _ => {}
        }
    }
    Some(report)
}
