// SPDX-License-Identifier: GPL-2.0
//! Reads or writes a block device in windows that a plugin of QEMU counts (`tools/report/plugin.h`).
//!
//!     measure DEVICE [rand]read|write|readwrite BYTES [THREADS]
//!
//! Accesses are one behind the other, or at random places; each of `readwrite` reads or writes by
//! chance. Each access waits for its end and bypasses the page cache. A window of `n` accesses takes
//! `a + n·b` instructions, so two lengths of window give `b`. Threads are spread over the CPUs,
//! and each has a part of the device for itself.

use std::alloc::{alloc_zeroed, Layout};
use std::fs::{File, OpenOptions};
use std::io::Result;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::{Arc, Barrier};
use std::thread;

#[path = "../tools/binder-bench/src/marks.rs"]
mod marks;
use marks::mark;

const O_DIRECT: i32 = 0o40000;
/// The part of the device that is accessed, from its start. Threads share it.
const AREA: u64 = 16 << 20;
const REPEATS: usize = 31;
/// Accesses before the first window.
const WARMUP: u64 = 64;

unsafe extern "C" {
    fn sched_setaffinity(pid: i32, size: usize, mask: *const u64) -> i32;
}

#[derive(Clone, Copy)]
enum Direction {
    Read,
    Write,
    ByChance,
}

/// A way of accesses.
#[derive(Clone, Copy)]
struct Way {
    direction: Direction,
    is_random: bool,
}

impl Way {
    fn of(word: &str) -> Option<Self> {
        let behind = word.strip_prefix("rand");
        let direction = match behind.unwrap_or(word) {
            "read" => Direction::Read,
            "write" => Direction::Write,
            "readwrite" => Direction::ByChance,
            _ => return None,
        };
        Some(Self {
            direction,
            is_random: behind.is_some(),
        })
    }
}

struct Access {
    device: File,
    way: Way,
    buffer: &'static mut [u8],
    area: Range<u64>,
    next: u64,
    chance: u64,
}

impl Access {
    fn once(&mut self) -> Result<()> {
        // Xorshift, always: so all ways have it.
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        let size = self.buffer.len() as u64;
        let place = match self.way.is_random {
            true => self.area.start + self.chance % self.places() * size,
            false => self.next,
        };
        let writes = match self.way.direction {
            Direction::Read => false,
            Direction::Write => true,
            Direction::ByChance => self.chance >> 63 == 0,
        };
        match writes {
            true => self.device.write_all_at(self.buffer, place)?,
            false => self.device.read_exact_at(self.buffer, place)?,
        }
        self.next += size;
        if self.next == self.area.end {
            self.next = self.area.start;
        }
        Ok(())
    }

    fn places(&self) -> u64 {
        (self.area.end - self.area.start) / self.buffer.len() as u64
    }

    /// Memory behind the area exists from now on, and so do caches and free lists.
    fn warm_up(&mut self) -> Result<()> {
        let way = Way {
            direction: Direction::Write,
            is_random: false,
        };
        let way = std::mem::replace(&mut self.way, way);
        (0..self.places()).try_for_each(|_| self.once())?;
        self.way = way;
        (0..WARMUP).try_for_each(|_| self.once())
    }

    /// All threads begin and end a window together. The cost of that is the same for all lengths.
    fn window(&mut self, accesses: u64, together: &Barrier) -> Result<()> {
        together.wait();
        let done = (0..accesses).try_for_each(|_| self.once());
        together.wait();
        done
    }
}

/// The calling thread stays on one CPU.
fn pin(thread: usize) {
    let cpu = thread % thread::available_parallelism().map_or(1, usize::from);
    let mask = 1u64 << cpu;
    // SAFETY: the mask is there, and has this size.
    assert_eq!(
        unsafe { sched_setaffinity(0, size_of_val(&mask), &mask) },
        0,
        "there is no CPU {cpu}"
    );
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
    let [path, way, size, threads @ ..] = &words[..] else {
        panic!("measure DEVICE [rand]read|write|readwrite BYTES [THREADS]")
    };
    let way = Way::of(way).expect("a way");
    let size: usize = size.parse().expect("bytes");
    let threads = threads
        .first()
        .map_or(1, |threads| threads.parse().expect("a number of threads"));
    let (short, long) = lengths(size);
    let together = Arc::new(Barrier::new(threads));
    let area = AREA / threads as u64;
    let begun = |thread: usize| -> Result<Access> {
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(O_DIRECT)
            .open(path)?;
        let start = thread as u64 * area;
        let mut access = Access {
            device,
            way,
            buffer: memory(size),
            area: start..start + area,
            next: start,
            chance: 88_172_645_463_325_252,
        };
        access.warm_up()?;
        Ok(access)
    };
    for number in 1..threads {
        let (mut access, together) = (begun(number)?, together.clone());
        thread::spawn(move || {
            pin(number);
            for accesses in [short, long].repeat(REPEATS) {
                access
                    .window(accesses, &together)
                    .expect("access the device");
            }
        });
    }
    let mut access = begun(0)?;
    if threads > 1 {
        pin(0);
    }
    for _ in 0..REPEATS {
        for accesses in [short, long] {
            match accesses == short {
                true => mark::<{ marks::SHORT_WINDOW }>(),
                false => mark::<{ marks::LONG_WINDOW }>(),
            }
            mark::<{ marks::START }>();
            let done = access.window(accesses, &together);
            mark::<{ marks::END }>();
            done?;
        }
    }
    mark::<{ marks::WINDOWS_END }>();
    println!("{short} {long} {REPEATS}");
    Ok(())
}
