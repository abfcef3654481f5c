// SPDX-License-Identifier: GPL-2.0
//! A listener to the reports of a Binder driver over generic netlink.

use nix::errno::Errno;
use nix::sys::socket::{recv, send, socket, AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// The family and its group, which have to be asked for by name.
const FAMILY: &str = "binder";
const GROUP: &str = "report";

/// The command of messages to the group.
const REPORT: u8 = 1;

/// Of the family that names all others.
const CONTROLLER: u16 = libc::GENL_ID_CTRL as u16;
const GET_FAMILY: u8 = libc::CTRL_CMD_GETFAMILY as u8;

/// The flag and the mask of an attribute's type.
const TYPE_MASK: u16 = libc::NLA_TYPE_MASK as u16;

/// `struct nlmsghdr` and `struct genlmsghdr`.
const HEADER: usize = 16;
const GENERIC_HEADER: usize = 4;

/// The kernel's description of a family.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    pub id: u16,
    pub version: u32,
    pub header_size: u32,
    pub has_operations: bool,
    /// The name of each group, and its number.
    pub groups: Vec<(String, u32)>,
}

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

/// A socket that has joined a group.
pub struct Listener {
    socket: OwnedFd,
    family: u16,
}

impl Listener {
    /// Joins the group of reports of calls that fail, as the calling thread.
    pub fn join() -> io::Result<Self> {
        let socket = generic_socket()?;
        let family = family(&socket)?.ok_or(io::ErrorKind::NotFound)?;
        let group = family.groups.iter().find(|(name, _)| name == GROUP).ok_or(io::ErrorKind::NotFound)?.1;
        // SAFETY: The option's value is the number behind the pointer, of the size that is named.
        let joined = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_NETLINK,
                libc::NETLINK_ADD_MEMBERSHIP,
                (&raw const group).cast(),
                size_of_val(&group) as libc::socklen_t,
            )
        };
        Errno::result(joined)?;
        Ok(Self { socket, family: family.id })
    }

    /// The reports since the last time. A driver has sent those of a call before the call returns.
    #[track_caller]
    pub fn unread(&self) -> Vec<Report> {
        std::iter::from_fn(|| self.receive()).map(|attributes| decode(&attributes)).collect()
    }

    /// The attributes of the next message.
    #[track_caller]
    fn receive(&self) -> Option<Vec<u8>> {
        let message = receive(&self.socket, MsgFlags::MSG_DONTWAIT).expect("read the socket")?;
        assert_eq!(half(&message, 4), self.family, "a message of another family");
        // With the version of the family.
        assert_eq!(message[HEADER..HEADER + 2], [REPORT, 1], "command and version");
        Some(message[HEADER + GENERIC_HEADER..].to_vec())
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
    family(&generic_socket()?)
}

/// The attributes of a message by their numbers, at most `last`, which have to ascend.
#[track_caller]
fn by_number<'a>(bytes: &'a [u8], last: u16) -> impl Fn(u16) -> Option<&'a [u8]> {
    let attributes: Vec<_> = attributes(bytes).collect();
    assert!(attributes.is_sorted_by(|a, b| a.0 < b.0), "{attributes:?}");
    assert!(attributes.iter().all(|(kind, _)| (1..=last).contains(kind)), "{attributes:?}");
    move |number| attributes.iter().find(|(kind, _)| *kind == number).map(|(_, value)| *value)
}

/// Reads a report.
#[track_caller]
fn decode(bytes: &[u8]) -> Report {
    let find = by_number(bytes, 10);
    let number = |attribute: u16| find(attribute).map(|value| word(value, 0));
    let must = |attribute: u16| number(attribute).unwrap_or_else(|| panic!("no attribute {attribute}"));
    Report {
        error: must(1),
        context: string(find(2).expect("a context")),
        from: (must(3), must(4)),
        to_pid: number(5),
        to_tid: number(6),
        is_reply: find(7).inspect(|value| assert!(value.is_empty(), "a flag has no value")).is_some(),
        flags: must(8),
        code: must(9),
        data_size: must(10),
    }
}

fn generic_socket() -> nix::Result<OwnedFd> {
    let (flag, protocol) = (SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkGeneric);
    socket(AddressFamily::Netlink, SockType::Raw, flag, protocol)
}

/// Looks Binder's family up.
fn family(socket: &OwnedFd) -> io::Result<Option<Family>> {
    let name = [FAMILY.as_bytes(), &[0]].concat();
    let attribute = attribute(libc::CTRL_ATTR_FAMILY_NAME as u16, &name);
    let length = (HEADER + GENERIC_HEADER + attribute.len()) as u32;
    let mut request = length.to_ne_bytes().to_vec();
    request.extend(CONTROLLER.to_ne_bytes());
    request.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    request.extend([0; 8]);
    request.extend([GET_FAMILY, 1, 0, 0]);
    request.extend(&attribute);
    send(socket.as_raw_fd(), &request, MsgFlags::empty())?;
    let answer = receive(socket, MsgFlags::empty())?.expect("an answer");
    if half(&answer, 4) == libc::NLMSG_ERROR as u16 {
        return match -(word(&answer, HEADER) as i32) {
            libc::ENOENT => Ok(None),
            errno => Err(io::Error::from_raw_os_error(errno)),
        };
    }
    let mut family = Family { id: 0, version: 0, header_size: 0, has_operations: false, groups: Vec::new() };
    for (kind, value) in attributes(&answer[HEADER + GENERIC_HEADER..]) {
        match i32::from(kind) {
            libc::CTRL_ATTR_FAMILY_ID => family.id = half(value, 0),
            libc::CTRL_ATTR_VERSION => family.version = word(value, 0),
            libc::CTRL_ATTR_HDRSIZE => family.header_size = word(value, 0),
            libc::CTRL_ATTR_OPS => family.has_operations = true,
            libc::CTRL_ATTR_MCAST_GROUPS => {
                family.groups = attributes(value).map(|(_, one)| group(one)).collect()
            }
            _ => {}
        }
    }
    Ok(Some(family))
}

fn group(bytes: &[u8]) -> (String, u32) {
    let (mut name, mut number) = (String::new(), 0);
    for (kind, value) in attributes(bytes) {
        match i32::from(kind) {
            libc::CTRL_ATTR_MCAST_GRP_NAME => name = string(value),
            libc::CTRL_ATTR_MCAST_GRP_ID => number = word(value, 0),
            _ => {}
        }
    }
    (name, number)
}

/// Receives one message; with `MSG_DONTWAIT`, none if there is none.
fn receive(socket: &OwnedFd, flags: MsgFlags) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = vec![0; 8192];
    match recv(socket.as_raw_fd(), &mut bytes, flags) {
        Ok(length) => {
            assert_eq!(word(&bytes, 0) as usize, length, "one message at a time");
            bytes.truncate(length);
            Ok(Some(bytes))
        }
        Err(Errno::EAGAIN) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = 4 + value.len();
    let mut bytes = (length as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(length.next_multiple_of(4), 0);
    bytes
}

/// The attributes that lie one behind the other: type and value of each.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = (bytes.len() >= 4).then(|| usize::from(half(bytes, 0)))?;
        let (kind, value) = (half(bytes, 2) & TYPE_MASK, &bytes[4..length]);
        bytes = &bytes[length.next_multiple_of(4).min(bytes.len())..];
        Some((kind, value))
    })
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// A string that ends with a NUL.
fn string(value: &[u8]) -> String {
    let (nul, text) = value.split_last().expect("a string");
    assert_eq!(*nul, 0, "a string ends with a NUL");
    String::from_utf8(text.to_vec()).expect("a string")
}
