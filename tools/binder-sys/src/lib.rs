// SPDX-License-Identifier: GPL-2.0
//! The Binder driver as user space sees it, without libbinder.
//!
//! This crate calls the kernel directly: numbers are computed the way the kernel's ioctl
//! macros compute them, structures have the kernel's layout, and nothing is hidden behind a policy.
//! A test can therefore send a wrong command as easily as a right one.
//!
//! A reader starts here:
//!
//! | module | what it holds |
//! |---|---|
//! | [`structs`] | the structures that cross the boundary, flags and object types |
//! | [`ioctl`] | the ioctl numbers and how they are made |
//! | [`codes`] | the numbers of the `BC_*` commands and the `BR_*` returns, and their names |
//! | [`commands`] | [`Commands`]: write a stream of `BC_*` |
//! | [`returns`] | [`Returns`]: read a stream of `BR_*` |
//! | [`parcel`] | [`Parcel`]: bytes with objects in them, as a transaction carries |
//! | [`device`] | [`Device`] and [`Mapping`]: an opened device and its buffer space |
//! | [`fs`] | mounting binderfs and adding devices to it |
//! | [`mounting`] | the same option by option, with the kernel's words for what it refuses; mapped mounts |
//! | [`kernel_memory`] | how much memory the kernel uses for itself |
//! | [`netlink`] | a listener to what a driver reports over generic netlink |
//!
//! One round trip of a client with a server at handle 5 looks like this:
//!
//! ```no_run
//! use binder_sys::{Commands, Device, Parcel, Return, Returns};
//!
//! # fn main() -> nix::Result<()> {
//! let device = Device::open("/dev/binderfs/binder")?;
//! let space = device.map(1 << 20)?;
//! let mut parcel = Parcel::new();
//! parcel.bytes(b"hello");
//! let mut out = Commands::new();
//! out.transaction(&parcel.to_handle(5, 1, Default::default()));
//!
//! let mut buffer = [0u8; 256];
//! loop {
//!     let io = device.write_read(out.as_bytes(), &mut buffer)?;
//!     out.clear();
//!     for item in Returns::new(&buffer[..io.read_consumed as usize]) {
//!         if let Ok(Return::Reply(reply)) = item {
//!             println!("{:?}", space.read(reply.buffer, reply.data_size as usize));
//!             out.free_buffer(reply.buffer);
//!             device.write_all(out.as_bytes())?;
//!             return Ok(());
//!         }
//!     }
//! }
//! # }
//! ```

pub mod codes;
pub mod commands;
pub mod device;
pub mod fs;
pub mod ioctl;
pub mod kernel_memory;
pub mod mounting;
pub mod netlink;
pub mod parcel;
pub mod returns;
pub mod structs;

pub use commands::Commands;
pub use device::{Device, Mapping, BAD_ADDRESS};
pub use nix::errno::Errno;
pub use parcel::Parcel;
pub use returns::{DecodeError, Return, Returns};
pub use structs::*;
