// SPDX-License-Identifier: GPL-2.0

//! Objects that pass files: by one descriptor, or by an array of descriptors in a block that a
//! pointer points to.
//!
//! The numbers of the files in the receiver are not known before delivery. Until then their places
//! in the data stay zero or unwritten, and a [`FileSlot`] holds each place together with its file.

use super::{pointers::PagesOf, Translation};
use crate::{
    allocation::files::{FileSlot, PassedFile},
    common::failure::{Failure, Reason},
    defs::{FileArrayObject, FileObject},
    ffi::trace, //
};
use kernel::{
    prelude::*,
    security,
    uaccess::{UserPtr, UserSlice}, //
};

/// The size of a descriptor's number in the data.
const FD_SIZE: u64 = size_of::<u32>() as u64;

impl Translation<'_> {
    /// Takes a reference to the file of an object that lies at offset `at` of the data. Fails with
    /// `EPERM` when the file may not be passed, and with `EBADF` when the sender has no such
    /// descriptor.
    pub(super) fn file(&mut self, at: usize, object: FileObject) -> Result<FileObject, Failure> {
        let file = self.passed_file(object.fd())?;
        let at = at + FileObject::FD_AT;
        self.buffer.hold_file(FileSlot {
            at,
            file,
            is_closed_with_buffer: false,
        })?;
        trace::transaction_fd_send(self.route.id, object.fd(), at);
        Ok(object.without_number())
    }

    /// Takes references to the files of an array, which lies in a block of an earlier pointer
    /// object. An empty array is allowed even if the receiver does not accept files.
    pub(super) fn file_array(&mut self, array: &FileArrayObject) -> Result<(), Failure> {
        let bad_array = || Failure::new(Reason::BadArray, EINVAL);
        let size = array.num_fds.checked_mul(FD_SIZE).ok_or_else(bad_array)?;
        let mut copy = PagesOf::new(self.route.receiver, self.buffer.offset()).copier();
        let gap = self
            .pointers
            .claim(array.parent, array.parent_offset, size, &mut copy)
            .map_err(|error| Failure::new(Reason::BadArray, error))?;
        if array.num_fds == 0 {
            return Ok(());
        }
        if gap.source % FD_SIZE != 0 {
            return Err(bad_array());
        }
        let source = UserPtr::from_addr(usize::try_from(gap.source).map_err(|_| bad_array())?);
        // CAST: a gap lies within the buffer.
        let mut numbers = UserSlice::new(source, size as usize).reader();
        for index in 0..array.num_fds as usize {
            let fd = numbers.read().map_err(|_| bad_array())?;
            let file = self.passed_file(fd)?;
            let at = gap.at + index * FD_SIZE as usize;
            self.buffer.hold_file(FileSlot {
                at,
                file,
                is_closed_with_buffer: true,
            })?;
            trace::transaction_fd_send(self.route.id, fd, at);
        }
        Ok(())
    }

    /// Returns the file of a descriptor of the sender. Fails with `EPERM` when the receiver does
    /// not accept files or the security modules deny it.
    #[inline]
    fn passed_file(&self, fd: u32) -> Result<PassedFile, Failure> {
        if !self.route.accepts_files {
            return Err(Failure::new(Reason::FilesNotTaken, EPERM));
        }
        let descriptors = self.route.sender.descriptors;
        let file = descriptors
            .file(fd)
            .map_err(|error| Failure::new(Reason::NoFile, error))?;
        let (from, to) = (self.route.sender.credential, self.receiver_credential);
        security::binder_transfer_file(from, to, &file)
            .map_err(|_| Failure::new(Reason::FileDenied, EPERM))?;
        Ok(match descriptors.opened_as(&file) {
            Some(process) => PassedFile::Device(process),
            None => PassedFile::Other(file),
        })
    }
}
