// SPDX-License-Identifier: GPL-2.0
//! A listener to the reports of a Binder driver over generic netlink.

use binder_sys::netlink::{messages, number, text, Family, Message};
use std::io;

/// The family and its group, which have to be asked for by name.
const FAMILY: &str = "binder";
const GROUP: &str = "report";

/// The command of messages to the group.
const REPORT: u8 = 1;

/// One report, with the attributes that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub error: u32,
    pub context: String,
    pub from: (u32, u32),
    pub to_pid: Option<u32>,
    pub to_tid: Option<u32>,
    pub is_reply: bool,
    pub flags: u32,
    pub code: u32,
    pub data_size: u32,
}

/// A socket that has joined the group.
pub struct Listener(binder_sys::netlink::Listener);

impl Listener {
    /// Joins the group of reports of calls that fail, as the calling thread.
    pub fn join() -> io::Result<Self> {
        let joined = binder_sys::netlink::Listener::join(FAMILY, GROUP)?;
        Ok(Self(joined.ok_or(io::ErrorKind::NotFound)?))
    }

    /// The reports since the last time. A driver has sent those of a call before the call returns.
    #[track_caller]
    pub fn unread(&self) -> Vec<Report> {
        let packets = std::iter::from_fn(|| self.0.unread().expect("read the socket"));
        packets.map(|packet| self.report(&packet)).collect()
    }

    /// Reads the one message of a packet.
    #[track_caller]
    fn report(&self, packet: &[u8]) -> Report {
        let messages: Vec<_> = messages(packet).collect();
        let [message] = messages[..] else { panic!("one message at a time: {messages:?}") };
        // With the version of the family.
        let head = (message.family, message.command, message.version);
        assert_eq!(head, (self.0.family(), REPORT, 1), "family, command and version");
        decode(&message)
    }

    /// The only report since the last time.
    #[track_caller]
    pub fn only(&self) -> Report {
        let reports = self.unread();
        assert_eq!(reports.len(), 1, "{reports:?}");
        reports[0].clone()
    }
}

/// The kernel's description of Binder's family; none where no driver has registered it.
pub fn binder_family() -> io::Result<Option<Family>> {
    family(FAMILY)
}

/// The same of a driver that was loaded with another name.
pub fn family(name: &str) -> io::Result<Option<Family>> {
    Ok(Family::find(name)?)
}

/// Reads a report, whose attributes have to ascend.
#[track_caller]
fn decode(message: &Message) -> Report {
    let attributes: Vec<_> = message.attributes().collect();
    assert!(attributes.is_sorted_by(|a, b| a.0 < b.0), "{attributes:?}");
    assert!(attributes.iter().all(|(kind, _)| (1..=10).contains(kind)), "{attributes:?}");
    let find = |wanted| attributes.iter().find(|(kind, _)| *kind == wanted).map(|(_, value)| *value);
    let value = |attribute| find(attribute).map(|value| number(value).expect("four bytes"));
    let must = |attribute| value(attribute).unwrap_or_else(|| panic!("no attribute {attribute}"));
    let context = find(2).expect("a context");
    assert_eq!(context.last(), Some(&0), "a string ends with a NUL");
    Report {
        error: must(1),
        context: text(context),
        from: (must(3), must(4)),
        to_pid: value(5),
        to_tid: value(6),
        is_reply: find(7).inspect(|value| assert!(value.is_empty(), "a flag has no value")).is_some(),
        flags: must(8),
        code: must(9),
        data_size: must(10),
    }
}
