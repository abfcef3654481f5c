// SPDX-License-Identifier: GPL-2.0
//! Generic netlink, as far as a listener to a driver's reports needs it.

use nix::errno::Errno;
use nix::sys::socket::{recv, send, socket, AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType};
use std::os::fd::{AsRawFd, OwnedFd};

/// `struct nlmsghdr`, and it and `struct genlmsghdr` together.
const HEADER: usize = 16;
const HEADERS: usize = HEADER + 4;
/// Larger than any message that is expected.
const ROOM: usize = 1 << 14;

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
    /// The version of that family's protocol.
    pub version: u8,
    attributes: &'a [u8],
}

/// The messages of a packet; one that is cut off is none.
pub fn messages(mut packet: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let length = number(packet)? as usize;
        let (headers, attributes) = packet.get(..length)?.split_at_checked(HEADERS)?;
        packet = packet.get(length.next_multiple_of(4)..).unwrap_or_default();
        let (command, version) = (headers[HEADER], headers[HEADER + 1]);
        Some(Message { family: half(&headers[4..])?, command, version, attributes })
    })
}

impl<'a> Message<'a> {
    /// Its attributes: number and value of each.
    pub fn attributes(&self) -> impl Iterator<Item = (u16, &'a [u8])> {
        attributes(self.attributes)
    }
}

/// The attributes that lie one behind the other: number and value of each.
pub fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
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

/// The controller's description of a family.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Family {
    pub id: u16,
    pub version: u32,
    pub header_size: u32,
    pub has_operations: bool,
    /// The name of each group, and its number.
    pub groups: Vec<(String, u32)>,
}

impl Family {
    /// Looks a family up by its name; none if no driver has registered it.
    pub fn find(name: &str) -> nix::Result<Option<Self>> {
        Self::find_with(&generic_socket()?, name)
    }

    fn find_with(socket: &OwnedFd, name: &str) -> nix::Result<Option<Self>> {
        send(socket.as_raw_fd(), &query(name), MsgFlags::empty())?;
        let answer = receive(socket, MsgFlags::empty())?;
        let failure = number(answer.get(HEADER..).unwrap_or_default()).map(|value| -(value as i32));
        let first = messages(&answer).next();
        match first {
            Some(message) if message.family == CONTROLLER => Ok(Some(Self::described(&message))),
            _ if failure == Some(libc::ENOENT) => Ok(None),
            _ => Err(failure.map_or(Errno::EBADMSG, Errno::from_raw)),
        }
    }

    fn described(message: &Message) -> Self {
        let mut family = Self::default();
        for (kind, value) in message.attributes() {
            let number = number(value).unwrap_or_default();
            match i32::from(kind) {
                libc::CTRL_ATTR_FAMILY_ID => family.id = half(value).unwrap_or_default(),
                libc::CTRL_ATTR_VERSION => family.version = number,
                libc::CTRL_ATTR_HDRSIZE => family.header_size = number,
                libc::CTRL_ATTR_OPS => family.has_operations = true,
                libc::CTRL_ATTR_MCAST_GROUPS => {
                    family.groups = attributes(value).filter_map(|(_, entry)| group(entry)).collect();
                }
                _ => {}
            }
        }
        family
    }
}

/// The name and the number of a group in the list of a family's groups.
fn group(entry: &[u8]) -> Option<(String, u32)> {
    let part =
        |wanted| attributes(entry).find(|(kind, _)| i32::from(*kind) == wanted).map(|(_, value)| value);
    Some((text(part(libc::CTRL_ATTR_MCAST_GRP_NAME)?), number(part(libc::CTRL_ATTR_MCAST_GRP_ID)?)?))
}

/// The question to the controller for a family.
fn query(family: &str) -> Vec<u8> {
    let name = [family.as_bytes(), b"\0"].concat();
    let length = HEADERS + 4 + name.len().next_multiple_of(4);
    let mut request = (length as u32).to_ne_bytes().to_vec();
    request.extend(CONTROLLER.to_ne_bytes());
    request.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    request.extend([0; 8]);
    request.extend([libc::CTRL_CMD_GETFAMILY as u8, 1, 0, 0]);
    request.extend((4 + name.len() as u16).to_ne_bytes());
    request.extend((libc::CTRL_ATTR_FAMILY_NAME as u16).to_ne_bytes());
    request.extend(&name);
    request.resize(length, 0);
    request
}

/// A socket that has joined a group of a family.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    family: u16,
}

impl Listener {
    /// Joins a group; none if no driver has registered such a family and group.
    pub fn join(family: &str, group: &str) -> nix::Result<Option<Self>> {
        // The kernel gives the socket an address when it sends. One without an address gets nothing.
        let socket = generic_socket()?;
        let Some(family) = Family::find_with(&socket, family)? else { return Ok(None) };
        let Some((_, group)) = family.groups.into_iter().find(|(name, _)| name == group) else {
            return Ok(None);
        };
        let listener = Self { socket, family: family.id };
        listener.add_membership(group)?;
        Ok(Some(listener))
    }

    /// Joins the group that reports which families come and go, too.
    pub fn with_changes(self) -> nix::Result<Self> {
        self.add_membership(CHANGES)?;
        Ok(self)
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
        receive(&self.socket, MsgFlags::empty())
    }

    /// The next packet, if one has come.
    pub fn unread(&self) -> nix::Result<Option<Vec<u8>>> {
        match receive(&self.socket, MsgFlags::MSG_DONTWAIT) {
            Err(Errno::EAGAIN) => Ok(None),
            packet => packet.map(Some),
        }
    }
}

fn generic_socket() -> nix::Result<OwnedFd> {
    let (flag, protocol) = (SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkGeneric);
    socket(AddressFamily::Netlink, SockType::Raw, flag, protocol)
}

fn receive(socket: &OwnedFd, flags: MsgFlags) -> nix::Result<Vec<u8>> {
    let mut packet = vec![0; ROOM];
    let length = recv(socket.as_raw_fd(), &mut packet, flags)?;
    packet.truncate(length);
    Ok(packet)
}

/// Returns true if the controller's message is about the removal of the family.
pub fn removes(message: &Message, family: u16) -> bool {
    let is_family =
        |(kind, value)| i32::from(kind) == libc::CTRL_ATTR_FAMILY_ID && half(value) == Some(family);
    let is_removal = i32::from(message.command) == libc::CTRL_CMD_DELFAMILY;
    message.family == CONTROLLER && is_removal && message.attributes().any(is_family)
}
