// SPDX-License-Identifier: GPL-2.0
//! Generic netlink, as far as a listener to a driver's reports needs it.

use nix::errno::Errno;
use nix::sys::socket::{recv, send, MsgFlags};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `struct nlmsghdr` and `struct genlmsghdr` together.
const HEADERS: usize = 20;
/// Larger than any message that is expected.
const ROOM: usize = 1 << 14;
/// Attributes of a group in the list of a family's groups.
const GROUP_NAME: u16 = 1;
const GROUP_ID: u16 = 2;

/// The family that lists all others, and its group that reports which of them come and go.
pub const CONTROLLER: u16 = libc::GENL_ID_CTRL as u16;
const CHANGES: u32 = libc::GENL_ID_CTRL as u32;

/// One message of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The number of the family that sent it.
    pub family: u16,
    /// Its command.
    pub command: u8,
    attributes: &'a [u8],
}

/// The messages of a packet; one that is cut off is none.
pub fn messages(mut packet: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let length = number(packet)? as usize;
        let (headers, attributes) = packet.get(..length)?.split_at_checked(HEADERS)?;
        packet = packet.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(Message { family: half(&headers[4..])?, command: headers[16], attributes })
    })
}

impl<'a> Message<'a> {
    /// Its attributes: number and value of each.
    pub fn attributes(&self) -> impl Iterator<Item = (u16, &'a [u8])> {
        attributes(self.attributes)
    }
}

fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (length, kind) = (half(rest)? as usize, half(rest.get(2..)?)?);
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind & libc::NLA_TYPE_MASK as u16, value))
    })
}

fn half(bytes: &[u8]) -> Option<u16> {
    bytes.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

/// The number that a value of four bytes is.
pub fn number(value: &[u8]) -> Option<u32> {
    value.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

/// The text of a value, without the zero byte at its end.
pub fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value.strip_suffix(b"\0").unwrap_or(value)).into_owned()
}

/// A socket that has joined a group of a family, and the group that reports that a family goes.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    family: u16,
}

impl Listener {
    /// Joins a group; none if no driver has registered such a family and group.
    pub fn join(family: &str, group: &str) -> nix::Result<Option<Self>> {
        let flags = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: A system call without pointers.
        let fd = Errno::result(unsafe { libc::socket(libc::AF_NETLINK, flags, libc::NETLINK_GENERIC) })?;
        // SAFETY: The system call has just made the descriptor, and nothing else uses it.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let Some((family, group)) = find(&socket, family, group)? else { return Ok(None) };
        let listener = Self { socket, family };
        listener.add_membership(CHANGES)?;
        listener.add_membership(group)?;
        Ok(Some(listener))
    }

    fn add_membership(&self, group: u32) -> nix::Result<()> {
        let (level, option) = (libc::SOL_NETLINK, libc::NETLINK_ADD_MEMBERSHIP);
        let (value, size) = ((&raw const group).cast(), size_of_val(&group) as libc::socklen_t);
        // SAFETY: The value is a number that is alive during the call, of the size that is passed.
        Errno::result(unsafe { libc::setsockopt(self.socket.as_raw_fd(), level, option, value, size) })
            .map(drop)
    }

    /// The number of the family.
    pub fn family(&self) -> u16 {
        self.family
    }

    /// Waits for the next packet.
    pub fn receive(&self) -> nix::Result<Vec<u8>> {
        receive(&self.socket)
    }
}

fn receive(socket: &OwnedFd) -> nix::Result<Vec<u8>> {
    let mut packet = vec![0; ROOM];
    let length = recv(socket.as_raw_fd(), &mut packet, MsgFlags::empty())?;
    packet.truncate(length);
    Ok(packet)
}

/// Queries the controller for the numbers of a family and of one of its groups.
fn find(socket: &OwnedFd, family: &str, group: &str) -> nix::Result<Option<(u16, u32)>> {
    let name = [family.as_bytes(), b"\0"].concat();
    let value_length = name.len().next_multiple_of(4);
    let mut request = ((HEADERS + 4 + value_length) as u32).to_ne_bytes().to_vec();
    request.extend(CONTROLLER.to_ne_bytes());
    request.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    request.extend([0; 8]);
    request.extend([libc::CTRL_CMD_GETFAMILY as u8, 1, 0, 0]);
    request.extend((4 + name.len() as u16).to_ne_bytes());
    request.extend((libc::CTRL_ATTR_FAMILY_NAME as u16).to_ne_bytes());
    request.extend(&name);
    request.resize(HEADERS + 4 + value_length, 0);
    send(socket.as_raw_fd(), &request, MsgFlags::empty())?;
    let answer = receive(socket)?;
    // An unknown family is answered with an error.
    let Some(answer) = messages(&answer).find(|message| message.family == CONTROLLER) else {
        return Ok(None);
    };
    let value = |wanted| answer.attributes().find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
    let id = value(libc::CTRL_ATTR_FAMILY_ID as u16).and_then(half);
    let groups = attributes(value(libc::CTRL_ATTR_MCAST_GROUPS as u16).unwrap_or_default());
    let number = groups.into_iter().find_map(|(_, entry)| {
        let part = |wanted| attributes(entry).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
        number(part(GROUP_ID)?).filter(|_| part(GROUP_NAME).is_some_and(|name| text(name) == group))
    });
    Ok(id.zip(number))
}

/// Returns true if the controller's message is about the removal of the family.
pub fn removes(message: &Message, family: u16) -> bool {
    let is_family =
        |(kind, value)| i32::from(kind) == libc::CTRL_ATTR_FAMILY_ID && half(value) == Some(family);
    let is_removal = i32::from(message.command) == libc::CTRL_CMD_DELFAMILY;
    message.family == CONTROLLER && is_removal && message.attributes().any(is_family)
}
