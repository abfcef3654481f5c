// SPDX-License-Identifier: GPL-2.0
//! The driver's module: loading it, taking it away, and who uses it.

use crate::actor::patience;
use crate::agent::errno_of;
use crate::suite::Driver;
use nix::errno::Errno;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Instant;

/// The module that this run loads, and its parameters.
static CHOSEN: OnceLock<(PathBuf, String)> = OnceLock::new();

/// Chooses the module for [`load`], once.
pub fn choose(path: PathBuf, parameters: String) {
    CHOSEN.set((path, parameters)).expect("one module");
}

/// Loads the module that was chosen, with more parameters.
pub fn load(parameters: &str) -> nix::Result<()> {
    let (path, chosen) = CHOSEN.get().expect("a module");
    let file = File::open(path).map_err(errno_of)?;
    let words = CString::new(format!("{chosen} {parameters}")).expect("parameters without zeroes");
    // SAFETY: the descriptor is open, and the parameters are a string that ends.
    Errno::result(unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), words.as_ptr(), 0) })
        .map(drop)
}

/// Takes the driver away. `EWOULDBLOCK` if something uses it.
pub fn unload(driver: Driver) -> nix::Result<()> {
    let name = CString::new(driver.module()).expect("a name without zeroes");
    // SAFETY: the name is a string that ends.
    Errno::result(unsafe { libc::syscall(libc::SYS_delete_module, name.as_ptr(), libc::O_NONBLOCK) })
        .map(drop)
}

/// Unloads the driver once nothing uses it: the kernel ends some files after their last descriptor.
pub fn unload_at_last(driver: Driver) -> nix::Result<()> {
    let deadline = Instant::now() + patience();
    loop {
        match unload(driver) {
            Err(Errno::EWOULDBLOCK) if Instant::now() < deadline => std::thread::yield_now(),
            result => return result,
        }
    }
}

/// Returns whether the driver is a module that is loaded.
pub fn is_loaded(driver: Driver) -> bool {
    Path::new("/sys/module").join(driver.module()).join("refcnt").exists()
}

/// The number of files and mounts that use the driver. `None` if it cannot be unloaded.
pub fn users(driver: Driver) -> Option<usize> {
    let count = Path::new("/sys/module").join(driver.module()).join("refcnt");
    std::fs::read_to_string(count).ok()?.trim().parse().ok()
}
