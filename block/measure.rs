// SPDX-License-Identifier: GPL-2.0
//! Reads or writes a block device in windows that a plugin of QEMU counts (`tools/report/plugin.h`).
//!
//!     measure DEVICE read|write BYTES
//!
//! Each access waits for its end and bypasses the page cache. A window of `n` accesses takes
//! `a + n·b` instructions, so two lengths of window give `b`.

use std::alloc::{alloc_zeroed, Layout};
use std::fs::{File, OpenOptions};
use std::io::Result;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

#[path = "../tools/binder-bench/src/marks.rs"]
mod marks;
use marks::mark;

const O_DIRECT: i32 = 0o40000;
/// The part of the device that is accessed, from its start.
const AREA: u64 = 16 << 20;
const REPEATS: usize = 31;
/// Accesses before the first window: by then caches and free lists are as they stay.
const WARMUP: u64 = 64;

struct Access {
    device: File,
    writes: bool,
    buffer: &'static mut [u8],
    next: u64,
}

impl Access {
    fn once(&mut self) -> Result<()> {
        match self.writes {
            true => self.device.write_all_at(self.buffer, self.next)?,
            false => self.device.read_exact_at(self.buffer, self.next)?,
        }
        self.next = (self.next + self.buffer.len() as u64) % AREA;
        Ok(())
    }

    fn window(&mut self, accesses: u64) -> Result<()> {
        mark::<{ marks::START }>();
        let done = (0..accesses).try_for_each(|_| self.once());
        mark::<{ marks::END }>();
        done
    }
}

/// Window lengths: the long one stays below a tick.
fn lengths(size: usize) -> (u64, u64) {
    match size {
        262_145.. => (1, 4),
        16_385.. => (4, 16),
        _ => (10, 40),
    }
}

fn memory(size: usize) -> &'static mut [u8] {
    let layout = Layout::from_size_align(size, 4096).expect("a size");
    // SAFETY: the memory has this size, is zeroed, and is never freed.
    unsafe { std::slice::from_raw_parts_mut(alloc_zeroed(layout), size) }
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [path, way, size] = &words[..] else { panic!("measure DEVICE read|write BYTES") };
    let size: usize = size.parse().expect("bytes");
    let device = OpenOptions::new().read(true).write(true).custom_flags(O_DIRECT).open(path)?;
    let mut access = Access { device, writes: true, buffer: memory(size), next: 0 };
    // Memory behind the device exists from now on.
    (0..AREA / size as u64).try_for_each(|_| access.once())?;
    access.writes = way == "write";
    (0..WARMUP).try_for_each(|_| access.once())?;
    let (short, long) = lengths(size);
    for _ in 0..REPEATS {
        mark::<{ marks::SHORT_WINDOW }>();
        access.window(short)?;
        mark::<{ marks::LONG_WINDOW }>();
        access.window(long)?;
    }
    mark::<{ marks::WINDOWS_END }>();
    println!("{short} {long} {REPEATS}");
    Ok(())
}
