// SPDX-License-Identifier: GPL-2.0
//! Reports of the driver over generic netlink: family `binder`, group `report`.

use std::io;

use netlink_packet_core::NetlinkBuffer;
use netlink_packet_core::NetlinkMessage;
use netlink_packet_core::NetlinkPayload;
use netlink_packet_core::NlasIterator;
use netlink_packet_core::NLM_F_REQUEST;
use netlink_packet_generic::ctrl::nlas::GenlCtrlAttrs;
use netlink_packet_generic::ctrl::nlas::McastGrpAttrs;
use netlink_packet_generic::ctrl::GenlCtrl;
use netlink_packet_generic::ctrl::GenlCtrlCmd;
use netlink_packet_generic::GenlMessage;
use netlink_sys::protocols::NETLINK_GENERIC;
use netlink_sys::Socket;
use nix::errno::Errno;

use crate::error::reason;
use crate::error::Error;
use crate::error::Kind;
use crate::error::Result;

const FAMILY: &str = "binder";
const GROUP: &str = "report";
const REPORT: u8 = 1;
/// The controller of families, and its group that tells which of them come and go.
const CONTROLLER: u16 = 16;
const CHANGES: u32 = 16;
/// Of a netlink message and of a generic one.
const HEADERS: usize = 20;

/// A transaction that failed, or almost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What its sender was told.
    pub error: u32,
    /// The device.
    pub context: String,
    /// The process that sent it.
    pub from_pid: i32,
    /// The thread that sent it.
    pub from_tid: i32,
    /// To which process, if that was known.
    pub to_pid: i32,
    /// To which thread, if that was known.
    pub to_tid: i32,
    /// Whether it is a reply.
    pub is_reply: bool,
    /// Its flags.
    pub flags: u32,
    /// What was asked for.
    pub code: u32,
    /// Bytes of data.
    pub data_size: u32,
}

/// A subscription to the driver's reports.
pub struct Reports {
    socket: Socket,
    family: u16,
    waiting: Vec<Report>,
}

impl Reports {
    /// Subscribes, if the driver has reports.
    pub fn subscribe() -> Result<Self> {
        let failed = |error: io::Error| {
            let kind =
                if error.kind() == io::ErrorKind::PermissionDenied { Kind::Permission } else { Kind::Io };
            Error::new(kind, format!("cannot listen to reports over netlink: {}", reason(&error)))
        };
        let mut socket = Socket::new(NETLINK_GENERIC).map_err(failed)?;
        socket.bind_auto().map_err(failed)?;
        let (family, group) = family(&socket).map_err(failed)?.ok_or_else(|| {
            Error::new(
                Kind::NotOffered,
                "the kernel has no netlink family binder: the driver does not report failures",
            )
            .hint("binderctl explain without --follow looks into its logs")
        })?;
        socket.add_membership(CHANGES).map_err(failed)?;
        socket.add_membership(group).map_err(|error| {
            failed(error).hint_if_denied(
                "the driver gives reports to those who may administer the network: root, CAP_NET_ADMIN",
            )
        })?;
        Ok(Self { socket, family, waiting: Vec::new() })
    }

    /// Waits for the next report. Those that were lost because there were too many are not told.
    pub fn next(&mut self) -> Result<Report> {
        loop {
            if let Some(report) = self.waiting.pop() {
                return Ok(report);
            }
            let bytes = match self.socket.recv_from_full() {
                Ok((bytes, _)) => bytes,
                Err(error) if error.raw_os_error() == Some(Errno::ENOBUFS as i32) => continue,
                Err(error) => {
                    return Err(Error::new(Kind::Io, format!("cannot read reports: {}", reason(&error))));
                }
            };
            let (reports, is_gone) = messages(&bytes, self.family);
            if is_gone {
                return Err(Error::new(Kind::Gone, "the driver was unloaded, and its reports with it"));
            }
            self.waiting = reports;
            self.waiting.reverse();
        }
    }
}

/// Asks the controller for the family's number and its group's.
fn family(socket: &Socket) -> io::Result<Option<(u16, u32)>> {
    let ask = GenlCtrl { cmd: GenlCtrlCmd::GetFamily, nlas: vec![GenlCtrlAttrs::FamilyName(FAMILY.into())] };
    let mut request = NetlinkMessage::from(GenlMessage::from_payload(ask));
    request.header.flags = NLM_F_REQUEST;
    request.finalize();
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);
    socket.send_to(&bytes, &netlink_sys::SocketAddr::new(0, 0), 0)?;
    let (answer, _) = socket.recv_from_full()?;
    let answer = NetlinkMessage::<GenlMessage<GenlCtrl>>::deserialize(&answer)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
    let NetlinkPayload::InnerMessage(found) = answer.payload else { return Ok(None) };
    let mut number = None;
    let mut group = None;
    for attribute in found.payload.nlas {
        match attribute {
            GenlCtrlAttrs::FamilyId(id) => number = Some(id),
            GenlCtrlAttrs::McastGroups(groups) => group = groups.iter().find_map(|group| number_of(group)),
            _ => {}
        }
    }
    Ok(number.zip(group))
}

fn number_of(group: &[McastGrpAttrs]) -> Option<u32> {
    let is_ours =
        group.iter().any(|attribute| matches!(attribute, McastGrpAttrs::Name(name) if name == GROUP));
    group.iter().find_map(|attribute| match attribute {
        McastGrpAttrs::Id(id) if is_ours => Some(*id),
        _ => None,
    })
}

/// The reports among the messages of one packet, and whether one of these says that the family is gone.
fn messages(mut bytes: &[u8], family: u16) -> (Vec<Report>, bool) {
    let mut reports = Vec::new();
    let mut is_gone = false;
    while let Ok(message) = NetlinkBuffer::new_checked(bytes) {
        let length = (message.length() as usize).min(bytes.len());
        match message.message_type() {
            kind if kind == family => reports.extend(report(&bytes[..length])),
            CONTROLLER => is_gone |= removes(&bytes[..length], family),
            _ => {}
        }
        // Messages begin at multiples of four.
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    (reports, is_gone)
}

fn removes(message: &[u8], family: u16) -> bool {
    let Ok(message) = NetlinkMessage::<GenlMessage<GenlCtrl>>::deserialize(message) else { return false };
    let NetlinkPayload::InnerMessage(change) = message.payload else { return false };
    change.payload.cmd == GenlCtrlCmd::DelFamily
        && change.payload.nlas.contains(&GenlCtrlAttrs::FamilyId(family))
}

/// Reads the attributes of a report; those that are not known are left out.
fn report(message: &[u8]) -> Option<Report> {
    let (headers, attributes) = message.split_at_checked(HEADERS)?;
    if headers[16] != REPORT {
        return None;
    }
    let mut report = Report::default();
    for attribute in NlasIterator::new(attributes) {
        let attribute = attribute.ok()?;
        let value = attribute.value();
        let number = value.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
        match attribute.kind() {
            1 => report.error = number?,
            2 => {
                report.context =
                    String::from_utf8_lossy(value.strip_suffix(b"\0").unwrap_or(value)).into_owned()
            }
            3 => report.from_pid = number? as i32,
            4 => report.from_tid = number? as i32,
            5 => report.to_pid = number? as i32,
            6 => report.to_tid = number? as i32,
            7 => report.is_reply = true,
            8 => report.flags = number?,
            9 => report.code = number?,
            10 => report.data_size = number?,
            _ => {}
        }
    }
    Some(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAMILY_ID: u16 = 31;

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
        let (reports, is_gone) = messages(&packet, FAMILY_ID);
        let expected = Report {
            error: 29201,
            context: "binder".into(),
            from_pid: 12,
            from_tid: 13,
            is_reply: true,
            ..Default::default()
        };
        assert_eq!((reports, is_gone), (vec![expected], false));
    }

    #[test]
    fn a_family_that_goes_is_seen() {
        let gone = |id: u16| message(CONTROLLER, 2, &[attribute(1, &id.to_ne_bytes())]);
        assert!(messages(&gone(FAMILY_ID), FAMILY_ID).1);
        assert!(!messages(&gone(FAMILY_ID + 1), FAMILY_ID).1);
    }

    #[test]
    fn what_is_cut_off_is_no_report() {
        let whole = message(FAMILY_ID, 1, &[attribute(1, &29201u32.to_ne_bytes())]);
        for length in 0..whole.len() {
            assert!(messages(&whole[..length], FAMILY_ID).0.is_empty(), "{length}");
        }
    }
}
