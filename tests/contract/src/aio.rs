// SPDX-License-Identifier: GPL-2.0
//! The kernel's asynchronous I/O. Binder devices support one of its operations: poll.
//!
//! The kernel polls in the calling thread first. When the device wakes its waiters, the kernel
//! polls again from a thread of its own.

use binder_sys::Device;
use nix::errno::Errno;
use std::os::fd::{AsFd, AsRawFd};

/// `IOCB_CMD_POLL`
const POLL: u16 = 5;

/// `struct iocb`
#[repr(C)]
#[derive(Default)]
struct Request {
    data: u64,
    key_and_flags: [u32; 2],
    command: u16,
    priority: i16,
    file: u32,
    events: u64,
    length: u64,
    offset: i64,
    reserved: u64,
    more_flags: u32,
    event_file: u32,
}

/// `struct io_event`
#[repr(C)]
#[derive(Default)]
struct Event {
    data: u64,
    request: u64,
    result: i64,
    more: i64,
}

/// `aio_context_t`; its requests end with it.
struct Context(libc::c_ulong);

impl Context {
    fn new() -> nix::Result<Self> {
        let mut context = 0;
        // SAFETY: the kernel writes the number.
        Errno::result(unsafe { libc::syscall(libc::SYS_io_setup, 1, &raw mut context) })?;
        Ok(Self(context))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the kernel reads and writes no memory of ours.
        let ended = Errno::result(unsafe { libc::syscall(libc::SYS_io_destroy, self.0) });
        ended.expect("end all requests");
    }
}

/// Returns whether the kernel has it.
pub fn is_there() -> bool {
    Context::new().err() != Some(Errno::ENOSYS)
}

/// Polls for input; the events, or 0 after the timeout.
pub fn poll(device: &Device, timeout_ms: u16) -> nix::Result<u64> {
    let (context, file) = (Context::new()?, device.as_fd().as_raw_fd());
    let mut request =
        Request { command: POLL, file: file as u32, events: libc::POLLIN as u64, ..Request::default() };
    let requests = [&raw mut request];
    // SAFETY: the kernel reads the one request, and the list of it.
    Errno::result(unsafe { libc::syscall(libc::SYS_io_submit, context.0, 1, requests.as_ptr()) })?;
    let mut event = Event::default();
    let (seconds, rest) = (timeout_ms / 1000, i64::from(timeout_ms % 1000));
    let timeout = libc::timespec { tv_sec: seconds.into(), tv_nsec: (rest * 1_000_000) as _ };
    // SAFETY: the kernel writes at most one event, and reads the timeout.
    let count = Errno::result(unsafe {
        libc::syscall(libc::SYS_io_getevents, context.0, 1, 1, &raw mut event, &raw const timeout)
    })?;
    Ok(if count == 0 { 0 } else { event.result as u64 })
}
