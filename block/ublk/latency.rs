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

/// Numbers of requests by the time that they took.
pub(crate) struct Histogram([Atomic<u64>; RANGES]);

impl Histogram {
    pub(crate) fn new() -> Self {
        Self([const { Atomic::new(0) }; RANGES])
    }

    fn add(&self, nanoseconds: u64) {
        let microseconds = nanoseconds / NANOSECONDS;
        let range = (u64::BITS - microseconds.leading_zeros()) as usize;
        self.0[range.min(RANGES - 1)].add(1, Relaxed);
    }
}

/// Returns the time at which a server gets a request; 0 if nobody measures.
#[inline(always)]
pub(crate) fn begin() -> i64 {
    match is_measuring() {
        true => now(),
        false => 0,
    }
}

/// The request has ended.
#[inline(always)]
pub(crate) fn end(began: i64, histogram: &Histogram) {
    if is_measuring() && began != 0 {
        histogram.add((now() - began).unsigned_abs());
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
            for (range, count) in queue.latency.0.iter().enumerate() {
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
        let measuring = match first {
            [b'0'] => None,
            [b'1'] => {
                for queue in self.device.queues.all() {
                    for count in &queue.latency.0 {
                        count.store(0, Relaxed);
                    }
                }
                Some(Measuring::begin())
            }
            _ => return Err(EINVAL),
        };
        let before = core::mem::replace(&mut *self.measuring.lock(), measuring);
        drop(before);
        Ok(())
    }
}
