// SPDX-License-Identifier: GPL-2.0
//! What Binder drivers have told the kernel's log about a process.

use std::fs::OpenOptions;
use std::io;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::OFlag;

use crate::error::{Error, Result};
use crate::escape;

/// What messages of drivers begin with: the names of their modules, and of the C driver's allocator.
const PREFIXES: [&str; 5] =
    ["binder: ", "binder_alloc: ", "binder_linux: ", "binder_rust: ", "rust_binder: "];

/// The messages about a process, the oldest first.
pub fn about(pid: i32) -> Result<Vec<String>> {
    let path = Path::new("/dev/kmsg");
    let failed = |error: io::Error| {
        Error::at("read", path, error)
            .hint_if_denied("root may, or everybody: sysctl kernel.dmesg_restrict=0")
    };
    let mut file =
        OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path).map_err(failed)?;
    let mut found = Vec::new();
    // One read gives one record, of which none is longer.
    let mut record = [0; 8192];
    loop {
        match file.read(&mut record) {
            // A file that is no log, as a container has it in that place.
            Ok(0) => return Ok(found),
            Ok(length) => found.extend(message(&String::from_utf8_lossy(&record[..length]), pid)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(found),
            // Records were overwritten before they could be read.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Err(error) => return Err(failed(error)),
        }
    }
}

/// The text of a record if it is a driver's and names the process; what follows in further lines is about its origin.
fn message(record: &str, pid: i32) -> Option<String> {
    let text = record.split_once(';')?.1.lines().next()?;
    let rest = PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix))?;
    names(rest, pid).then(|| unescaped(text))
}

/// Whether a message names a process: before its thread, as the first word, or after a word that says so. Other numbers
/// are codes, sizes and handles.
fn names(message: &str, pid: i32) -> bool {
    let number = pid.to_string();
    let mut before = "process";
    for word in message.split([' ', ',', ';', '[']) {
        let (first, rest) = word.split_once(':').map_or((word, None), |(first, rest)| (first, Some(rest)));
        if first == number && (rest.is_some() || ["pid", "proc", "process"].contains(&before)) {
            return true;
        }
        before = word;
    }
    false
}

/// What was printed: records have what is not ASCII, and backslashes, as `\x` and two digits.
fn unescaped(text: &str) -> String {
    String::from_utf8_lossy(&escape::undone(text.as_bytes(), b"\\x", 2, 16)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_drivers_about_the_process_are_found() {
        let about = |record| message(record, 12);
        assert_eq!(
            about("6,1,2,-;binder: 12:13 transaction failed\n X=1\n").as_deref(),
            Some("binder: 12:13 transaction failed")
        );
        assert!(about("6,1,2,-;binder_rust: 7:7 call to 12:0 was refused").is_some());
        assert!(about("6,1,2,-;binder: 112:12 transaction failed").is_none(), "12 is a thread");
        assert!(about("6,1,2,-;usb: 12:13 is no binder").is_none());
        assert!(about("6,1,2,-;binder: 7: pid 12 spamming oneway?").is_some());
        assert!(about("6,1,2,-;binder_rust: 7:7 call to handle 12 with code 12, 12 bytes").is_none());
    }

    #[test]
    fn escapes_of_the_log_are_undone() {
        assert_eq!(unescaped("a\\x1bb\\x5cx \\xzz \\x"), "a\x1bb\\x \\xzz \\x");
    }
}
