// SPDX-License-Identifier: GPL-2.0
//! Files passed by `SCM_RIGHTS`: with one byte over a pair of SEQPACKET sockets; who gets them closes them and answers with one byte.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{recvmsg, sendmsg, ControlMessage, ControlMessageOwned, MsgFlags};
use nix::unistd::{close, read, write};

use super::stream::gone;
use crate::prelude::*;

/// More than the kernel lets anyone send at once.
const MOST: usize = 256;

pub struct FilesCaller {
    socket: OwnedFd,
    file: std::fs::File,
    files: Vec<RawFd>,
}

impl FilesCaller {
    /// A client that sends a file again and again.
    pub fn new(socket: OwnedFd, file: std::fs::File) -> FilesCaller {
        FilesCaller { socket, file, files: Vec::new() }
    }
}

impl Caller for FilesCaller {
    /// The variant is the number of files.
    fn set(&mut self, setting: Setting) -> Result<()> {
        self.files = vec![self.file.as_raw_fd(); setting.variant as usize];
        Ok(())
    }

    fn call(&mut self) -> Result<()> {
        let rights = [ControlMessage::ScmRights(&self.files)];
        let sent = sendmsg::<()>(
            self.socket.as_raw_fd(),
            &[IoSlice::new(&[0])],
            &rights,
            MsgFlags::MSG_NOSIGNAL,
            None,
        );
        match sent {
            Err(Errno::EPIPE | Errno::ECONNRESET) => return Err(gone()),
            sent => sent.context("SCM_RIGHTS")?,
        };
        match read(&self.socket, &mut [0]) {
            Ok(0) => Err(gone()),
            result => result.context("answer to files").map(drop),
        }
    }
}

/// Closes what it gets, for ever.
pub fn serve(socket: OwnedFd) -> Result<()> {
    let mut room = cmsg_space!([RawFd; MOST]);
    loop {
        let mut byte = [0];
        let mut data = [IoSliceMut::new(&mut byte)];
        let message =
            recvmsg::<()>(socket.as_raw_fd(), &mut data, Some(&mut room), MsgFlags::MSG_CMSG_CLOEXEC)
                .context("files by SCM_RIGHTS")?;
        if message.bytes == 0 {
            return Err(gone());
        }
        for rights in message.cmsgs().context("files by SCM_RIGHTS")? {
            if let ControlMessageOwned::ScmRights(files) = rights {
                files.into_iter().try_for_each(close).context("closing a received file")?;
            }
        }
        write(&socket, &[0]).context("answer to files")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_arrive_are_closed_and_the_end_is_noticed() {
        let (ours, theirs) = super::super::stream::sockets().unwrap();
        let server = std::thread::spawn(move || serve(theirs));
        // The last writer of a pipe is closed when nobody has a copy of it.
        let (reader, writer) = nix::unistd::pipe().unwrap();
        let mut caller = FilesCaller::new(ours, std::fs::File::from(writer));
        for variant in [1, 8, 200, 1] {
            caller.set(Setting { size: 0, variant }).unwrap();
            caller.call().unwrap();
        }
        drop(caller);
        assert_eq!(read(&reader, &mut [0]), Ok(0));
        assert_eq!(server.join().unwrap().unwrap_err().kind, Kind::PeerDied);
    }
}
