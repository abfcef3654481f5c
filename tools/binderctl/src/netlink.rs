// SPDX-License-Identifier: GPL-2.0
//! Reports of the driver over generic netlink: family `binder`, group `report`.

use binder_sys::netlink::{messages, number, removes, text, Listener, Message};
use binder_sys::Errno;

use crate::error::{Error, Kind, Result};

const FAMILY: &str = "binder";
const GROUP: &str = "report";
const REPORT: u8 = 1;

/// A transaction that failed, or almost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What its sender was told.
    pub error: u32,
    pub context: String,
    pub from_pid: i32,
    pub from_tid: i32,
    /// To which process, if that was known.
    pub to_pid: i32,
    /// To which thread, if that was known.
    pub to_tid: i32,
    pub is_reply: bool,
    pub flags: u32,
    pub code: u32,
    pub data_size: u32,
}

/// A subscription to the driver's reports.
pub struct Reports {
    listener: Listener,
    waiting: Vec<Report>,
}

impl Reports {
    /// Subscribes, if the driver has reports.
    pub fn subscribe() -> Result<Self> {
        let joined = Listener::join(FAMILY, GROUP).map_err(|errno| {
            let kind = if errno == Errno::EPERM { Kind::Permission } else { Kind::Io };
            Error::new(kind, format!("cannot listen to reports over netlink: {}", errno.desc()))
                .hint_if_denied(
                    "the driver gives reports to those who may administer the network: root, CAP_NET_ADMIN",
                )
        })?;
        let listener = joined.ok_or_else(|| {
            Error::new(
                Kind::NotOffered,
                "the kernel has no netlink family binder: the driver does not report failures",
            )
            .hint("binderctl explain without --follow looks into its logs")
        })?;
        Ok(Self { listener, waiting: Vec::new() })
    }

    /// Waits for the next report. Those that were lost because there were too many are not counted.
    pub fn next(&mut self) -> Result<Report> {
        loop {
            if let Some(report) = self.waiting.pop() {
                return Ok(report);
            }
            let packet = match self.listener.receive() {
                Ok(packet) => packet,
                Err(Errno::ENOBUFS) => continue,
                Err(errno) => {
                    return Err(Error::new(Kind::Io, format!("cannot read reports: {}", errno.desc())));
                }
            };
            let family = self.listener.family();
            if messages(&packet).any(|message| removes(&message, family)) {
                return Err(Error::new(Kind::Gone, "the driver was unloaded, and its reports with it"));
            }
            self.waiting = reports(&packet, family);
            self.waiting.reverse();
        }
    }
}

fn reports(packet: &[u8], family: u16) -> Vec<Report> {
    let is_report = |message: &Message| message.family == family && message.command == REPORT;
    messages(packet).filter(is_report).filter_map(|message| report(&message)).collect()
}

/// Reads the attributes of a report; those that are not known are left out.
fn report(message: &Message) -> Option<Report> {
    let mut report = Report::default();
    for (kind, value) in message.attributes() {
        match kind {
            1 => report.error = number(value)?,
            2 => report.context = text(value),
            3 => report.from_pid = number(value)? as i32,
            4 => report.from_tid = number(value)? as i32,
            5 => report.to_pid = number(value)? as i32,
            6 => report.to_tid = number(value)? as i32,
            7 => report.is_reply = true,
            8 => report.flags = number(value)?,
            9 => report.code = number(value)?,
            10 => report.data_size = number(value)?,
            _ => {}
        }
    }
    Some(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use binder_sys::netlink::CONTROLLER;

    const FAMILY_ID: u16 = 31;
    /// Of a netlink message and of a generic one.
    const HEADERS: usize = 20;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = [&(value.len() as u16 + 4).to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn message(kind: u16, command: u8, attributes: &[Vec<u8>]) -> Vec<u8> {
        let attributes = attributes.concat();
        let length = (HEADERS + attributes.len()) as u32;
        let headers =
            [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10], &[command, 1, 0, 0]].concat();
        [headers, attributes].concat()
    }

    #[test]
    fn a_report_is_read() {
        let attributes = [
            attribute(1, &29201u32.to_ne_bytes()),
            attribute(2, b"binder\0"),
            attribute(3, &12u32.to_ne_bytes()),
            attribute(4, &13u32.to_ne_bytes()),
            attribute(7, &[]),
            attribute(99, &[1]),
        ];
        let packet = [message(FAMILY_ID, 1, &attributes), message(FAMILY_ID, 2, &[])].concat();
        let expected = Report {
            error: 29201,
            context: "binder".into(),
            from_pid: 12,
            from_tid: 13,
            is_reply: true,
            ..Default::default()
        };
        assert_eq!(reports(&packet, FAMILY_ID), [expected]);
    }

    #[test]
    fn a_family_that_goes_is_seen() {
        let gone = |id: u16, command| message(CONTROLLER, command, &[attribute(1, &id.to_ne_bytes())]);
        let is_removed = |packet: Vec<u8>| messages(&packet).any(|message| removes(&message, FAMILY_ID));
        assert!(is_removed(gone(FAMILY_ID, 2)));
        assert!(!is_removed(gone(FAMILY_ID + 1, 2)) && !is_removed(gone(FAMILY_ID, 1)));
    }

    #[test]
    fn what_is_cut_off_is_no_report() {
        let whole = message(FAMILY_ID, 1, &[attribute(1, &29201u32.to_ne_bytes())]);
        for length in 0..whole.len() {
            assert!(reports(&whole[..length], FAMILY_ID).is_empty(), "{length}");
        }
    }
}
