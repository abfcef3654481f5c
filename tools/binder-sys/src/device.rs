// SPDX-License-Identifier: GPL-2.0
//! An opened device and the space that its incoming transactions land in.

use crate::ioctl::*;
use crate::structs::*;
use nix::errno::Errno;
use nix::fcntl::{self, OFlag};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::mman::{mmap, munmap, MapFlags, ProtFlags};
use nix::sys::stat::Mode;
use nix::NixPath;
use std::ffi::c_void;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use zerocopy::{FromBytes, IntoBytes};

/// An address that is never mapped, neither in user space nor in the kernel, on any 64-bit machine.
pub const BAD_ADDRESS: u64 = 0x00ff_ffff_ffff_f000;

/// An opened Binder device.
#[derive(Debug)]
pub struct Device(OwnedFd);

impl Device {
    /// Opens a device for reading and writing, close-on-exec, blocking.
    pub fn open<P: NixPath + ?Sized>(path: &P) -> nix::Result<Self> {
        Self::open_with(path, OFlag::O_RDWR | OFlag::O_CLOEXEC)
    }

    /// Opens a device with other flags.
    pub fn open_with<P: NixPath + ?Sized>(path: &P, flags: OFlag) -> nix::Result<Self> {
        fcntl::open(path, flags, Mode::empty()).map(Self)
    }

    /// Takes over a descriptor, such as one inherited over fork or received over a socket.
    pub fn from_fd(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// A second descriptor of the same open file.
    pub fn duplicate(&self) -> nix::Result<Self> {
        let fd = fcntl::fcntl(&self.0, fcntl::FcntlArg::F_DUPFD_CLOEXEC(0))?;
        // SAFETY: `fcntl` has just made this descriptor, so this is its only owner.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Makes reads fail with `EAGAIN` where they would wait, or the contrary.
    pub fn set_nonblocking(&self, on: bool) -> nix::Result<()> {
        let mut flags = OFlag::from_bits_retain(fcntl::fcntl(&self.0, fcntl::FcntlArg::F_GETFL)?);
        flags.set(OFlag::O_NONBLOCK, on);
        fcntl::fcntl(&self.0, fcntl::FcntlArg::F_SETFL(flags)).map(drop)
    }

    /// Any ioctl with any argument, sensible or not.
    ///
    /// # Safety
    /// If the kernel writes through `argument`, directly or through addresses in what it points to,
    /// that memory must be the caller's to overwrite, or not be mapped at all.
    pub unsafe fn raw_ioctl(&self, number: u32, argument: usize) -> nix::Result<i32> {
        // SAFETY: the descriptor is open, and the caller vouches for the memory.
        Errno::result(unsafe { libc::ioctl(self.as_raw_fd(), number as _, argument) })
    }

    /// An ioctl whose argument is a structure without addresses in it.
    ///
    /// # Panics
    /// If the number announces more bytes than the structure has, or is `BINDER_WRITE_READ`, whose
    /// argument holds addresses.
    pub fn ioctl<T: FromBytes + IntoBytes>(&self, number: u32, argument: &mut T) -> nix::Result<()> {
        assert!(size_of_number(number) <= size_of::<T>() && number != BINDER_WRITE_READ);
        // SAFETY: a driver writes at most the size in the number, which the structure has; any bytes are a valid
        // value of it, and it points to no other memory.
        unsafe { self.raw_ioctl(number, argument as *mut T as usize) }.map(drop)
    }

    /// An ioctl whose argument cannot be read or written.
    pub fn ioctl_fault(&self, number: u32) -> nix::Result<()> {
        // SAFETY: nothing is ever mapped at this address.
        unsafe { self.raw_ioctl(number, BAD_ADDRESS as usize) }.map(drop)
    }

    /// An ioctl with any address as its argument.
    ///
    /// # Safety
    /// The memory that the number's direction and size describe must be the caller's to overwrite, or not be mapped.
    pub unsafe fn ioctl_at(&self, number: u32, address: u64) -> nix::Result<()> {
        // SAFETY: the caller vouches for the memory.
        unsafe { self.raw_ioctl(number, address as usize) }.map(drop)
    }

    /// `BINDER_WRITE_READ` with a structure of the caller's own.
    ///
    /// # Safety
    /// `read_size` bytes from `read_buffer` must be the caller's to overwrite, or not be mapped.
    pub unsafe fn write_read_raw(&self, argument: &mut BinderWriteRead) -> nix::Result<()> {
        // SAFETY: the structure is whole, and the caller vouches for the read buffer.
        unsafe { self.raw_ioctl(BINDER_WRITE_READ, argument as *mut _ as usize) }.map(drop)
    }

    /// Writes commands and then reads returns, waiting for some unless the device is non-blocking.
    pub fn write_read(&self, commands: &[u8], returns: &mut [u8]) -> nix::Result<BinderWriteRead> {
        let mut argument = both_halves(commands, returns);
        // SAFETY: the read buffer is borrowed mutably for the whole call.
        unsafe { self.write_read_raw(&mut argument) }.map(|()| argument)
    }

    /// Writes and reads. After a signal, such as freezing and thawing its process group, it continues where the driver
    /// has stopped, as libbinder does. Returns the number of bytes of returns.
    pub fn write_read_whole(&self, commands: &[u8], returns: &mut [u8]) -> nix::Result<usize> {
        let mut argument = both_halves(commands, returns);
        loop {
            // SAFETY: the read buffer is borrowed mutably for the whole loop.
            match unsafe { self.write_read_raw(&mut argument) } {
                Err(Errno::EINTR) => continue,
                done => return done.map(|()| argument.read_consumed as usize),
            }
        }
    }

    /// Writes commands and reads nothing; returns how many bytes the driver has dealt with.
    pub fn write_all(&self, commands: &[u8]) -> nix::Result<u64> {
        self.write_read(commands, &mut []).map(|io| io.write_consumed)
    }

    /// An ioctl that fills its argument in.
    fn asked<T: FromBytes + IntoBytes>(&self, number: u32, mut argument: T) -> nix::Result<T> {
        self.ioctl(number, &mut argument).map(|()| argument)
    }

    pub fn version(&self) -> nix::Result<i32> {
        self.asked(BINDER_VERSION, BinderVersion::default()).map(|version| version.protocol_version)
    }

    pub fn set_max_threads(&self, mut threads: u32) -> nix::Result<()> {
        self.ioctl(BINDER_SET_MAX_THREADS, &mut threads)
    }

    pub fn set_context_manager(&self) -> nix::Result<()> {
        self.ioctl(BINDER_SET_CONTEXT_MGR, &mut 0i32)
    }

    pub fn set_context_manager_ext(&self, node: &FlatBinderObject) -> nix::Result<()> {
        self.ioctl(BINDER_SET_CONTEXT_MGR_EXT, &mut { *node })
    }

    pub fn thread_exit(&self) -> nix::Result<()> {
        self.ioctl(BINDER_THREAD_EXIT, &mut 0i32)
    }

    /// `BINDER_GET_NODE_DEBUG_INFO`: the first own node above a pointer, all zeros without one.
    pub fn node_debug_info(&self, above: u64) -> nix::Result<BinderNodeDebugInfo> {
        self.asked(BINDER_GET_NODE_DEBUG_INFO, BinderNodeDebugInfo { ptr: above, ..Default::default() })
    }

    pub fn freeze(&self, pid: u32, enable: bool, timeout_ms: u32) -> nix::Result<()> {
        self.ioctl(BINDER_FREEZE, &mut BinderFreezeInfo { pid, enable: enable.into(), timeout_ms })
    }

    pub fn frozen_info(&self, pid: u32) -> nix::Result<BinderFrozenStatusInfo> {
        self.asked(BINDER_GET_FROZEN_INFO, BinderFrozenStatusInfo { pid, ..Default::default() })
    }

    pub fn enable_spam_detection(&self, mut enable: u32) -> nix::Result<()> {
        self.ioctl(BINDER_ENABLE_ONEWAY_SPAM_DETECTION, &mut enable)
    }

    /// `BINDER_GET_EXTENDED_ERROR`: the calling thread's last error, which is reset by this.
    pub fn extended_error(&self) -> nix::Result<BinderExtendedError> {
        self.asked(BINDER_GET_EXTENDED_ERROR, BinderExtendedError::default())
    }

    /// Waits until the device is readable. `None` is no timeout; `Ok(empty)` is a timeout.
    pub fn poll(&self, timeout_ms: Option<u16>) -> nix::Result<PollFlags> {
        let interest = PollFlags::POLLIN | PollFlags::POLLOUT | PollFlags::POLLPRI;
        let mut fds = [PollFd::new(self.0.as_fd(), interest)];
        poll(&mut fds, timeout_ms.map_or(PollTimeout::NONE, PollTimeout::from))?;
        Ok(fds[0].revents().unwrap_or(PollFlags::empty()))
    }

    /// Gives the device the space for incoming transactions, read-only and private.
    pub fn map(&self, length: usize) -> nix::Result<Mapping> {
        Mapping::new(self, length, ProtFlags::PROT_READ, MapFlags::MAP_PRIVATE)
    }
}

/// The argument of `BINDER_WRITE_READ` that writes all of these commands and reads as much as fits.
fn both_halves(commands: &[u8], returns: &mut [u8]) -> BinderWriteRead {
    BinderWriteRead {
        write_size: commands.len() as u64,
        write_buffer: commands.as_ptr() as u64,
        read_size: returns.len() as u64,
        read_buffer: returns.as_mut_ptr() as u64,
        ..Default::default()
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Device {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// The mapped space of a device; unmapped when dropped, which ends all delivery to the device.
#[derive(Debug)]
pub struct Mapping {
    address: NonNull<c_void>,
    length: usize,
}

// SAFETY: the mapping is plain memory of the process, tied to no thread.
unsafe impl Send for Mapping {}
// SAFETY: through a shared reference it is only read, by copies that tolerate the kernel's writes.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a device with any protection and flags.
    pub fn new(device: &Device, length: usize, protection: ProtFlags, flags: MapFlags) -> nix::Result<Self> {
        let size = NonZeroUsize::new(length).ok_or(Errno::EINVAL)?;
        // SAFETY: no address is demanded, so no existing memory is replaced, unless the caller adds
        // `MAP_FIXED`, which has no effect but an error at address 0.
        let address = unsafe { mmap(None, size, protection, flags, device, 0)? };
        Ok(Self { address, length })
    }

    /// The address of the space.
    pub fn address(&self) -> u64 {
        self.address.as_ptr() as u64
    }

    /// Returns true if a range lies inside the space.
    pub fn contains(&self, address: u64, length: usize) -> bool {
        address
            .checked_sub(self.address())
            .and_then(|start| start.checked_add(length as u64))
            .is_some_and(|end| end <= self.length as u64)
    }

    /// Copies a received range out.
    ///
    /// # Panics
    /// If the range lies outside the space. A range that the driver has not delivered has no pages,
    /// and reading it ends the process with `SIGBUS`.
    pub fn read(&self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.read_into(address, &mut bytes);
        bytes
    }

    /// Copies a received range into memory that the caller has already; see [`Mapping::read`].
    ///
    /// # Panics
    /// If the range lies outside the space.
    pub fn read_into(&self, address: u64, bytes: &mut [u8]) {
        assert!(self.contains(address, bytes.len()), "{address:#x} lies outside the mapped space");
        // SAFETY: the source lies inside the mapping, which lives as long as `self`; the target is a
        // slice of the same length elsewhere.
        unsafe { std::ptr::copy_nonoverlapping(address as *const u8, bytes.as_mut_ptr(), bytes.len()) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made by `new`, and no reference into it exists.
        let _ = unsafe { munmap(self.address, self.length) };
    }
}
