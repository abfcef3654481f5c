// SPDX-License-Identifier: GPL-2.0

//! How long servers take for requests. A device's file `latency` in debugfs shows it: it measures
//! since 1 was written, until 0 is.

use crate::{
    device::Device,
    edge::trace::{is_measuring, now, Measuring},
};
use kernel::{
    debugfs::{Dir, Scope},
    fmt, new_mutex,
    prelude::*,
    str::CStr,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, Mutex,
    },
    uaccess::UserSliceReader,
};

/// Ranges of microseconds: below 1, below 2, below 4, and so on. The last one has the rest.
const RANGES: usize = 24;
const NANOSECONDS: u64 = 1000;

/// Numbers of a queue's requests by the time that they took.
pub(crate) struct Histogram {
    counts: [Atomic<u64>; RANGES],
    is_on: Atomic<bool>,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self {
            counts: [const { Atomic::new(0) }; RANGES],
            is_on: Atomic::new(false),
        }
    }

    /// Starts it from zero.
    fn start(&self) {
        for count in &self.counts {
            count.store(0, Relaxed);
        }
        self.is_on.store(true, Relaxed);
    }

    fn stop(&self) {
        self.is_on.store(false, Relaxed);
    }

    /// Returns the time at which a server gets a request; 0 if it is not measured.
    #[inline(always)]
    pub(crate) fn begin(&self) -> i64 {
        match is_measuring() && self.is_on.load(Relaxed) {
            true => now(),
            false => 0,
        }
    }

    /// Counts a request that has ended.
    #[inline(always)]
    pub(crate) fn end(&self, began: i64) {
        if is_measuring() && began != 0 && self.is_on.load(Relaxed) {
            let microseconds = (now() - began).unsigned_abs() / NANOSECONDS;
            let range = (u64::BITS - microseconds.leading_zeros()) as usize;
            self.counts[range.min(RANGES - 1)].add(1, Relaxed);
        }
    }
}

/// The file of a device.
#[pin_data]
pub(crate) struct Latency {
    device: Arc<Device>,
    #[pin]
    measuring: Mutex<Option<Measuring>>,
}

impl Latency {
    /// Adds the file, in a folder of this name. It has the device.
    pub(crate) fn add(
        dir: &Dir,
        name: &CStr,
        device: Arc<Device>,
    ) -> Result<Pin<KBox<Scope<Self>>>> {
        let latency = pin_init!(Self {
            device,
            measuring <- new_mutex!(None, "ublk latency"),
        });
        let scope = dir.scope(latency, name, |latency, dir| {
            dir.read_write_callback_file(c"latency", latency, &Self::show, &Self::store);
        });
        KBox::pin_init(scope, GFP_KERNEL)
    }

    fn show(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "queue below_us requests")?;
        for (number, queue) in self.device.queues.all().iter().enumerate() {
            for (range, count) in queue.latency.counts.iter().enumerate() {
                let (count, below) = (count.load(Relaxed), 1u64 << range);
                match count {
                    0 => {}
                    _ if range == RANGES - 1 => writeln!(to, "{number} - {count}")?,
                    _ => writeln!(to, "{number} {below} {count}")?,
                }
            }
        }
        Ok(())
    }

    /// `EINVAL` if the text is neither 0 nor 1.
    fn store(&self, text: &mut UserSliceReader) -> Result {
        let mut first = [0];
        text.read_slice(&mut first)?;
        let queues = self.device.queues.all();
        let mut measuring = self.measuring.lock();
        match first {
            [b'0'] => {
                queues.iter().for_each(|queue| queue.latency.stop());
                *measuring = None;
            }
            [b'1'] => {
                measuring.get_or_insert_with(Measuring::begin);
                queues.iter().for_each(|queue| queue.latency.start());
            }
            _ => return Err(EINVAL),
        }
        Ok(())
    }
}
