// SPDX-License-Identifier: GPL-2.0
//! What all processes write down of themselves, in memory that they share: it outlives whoever is killed.

use nix::sys::mman::{mmap_anonymous, MapFlags, ProtFlags};
use std::mem::size_of;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// Processes of applications that can be started in a run.
pub const MOST_STARTED: usize = 1 << 18;

/// A number that only grows.
#[derive(Default)]
#[repr(transparent)]
pub struct Count(AtomicU64);

impl Count {
    /// One more.
    pub fn add(&self) {
        self.0.fetch_add(1, SeqCst);
    }

    /// How many.
    pub fn get(&self) -> u64 {
        self.0.load(SeqCst)
    }
}

/// What a process called, and how its calls ended.
#[derive(Default)]
#[repr(C)]
pub struct Calls {
    /// Calls begun.
    pub made: Count,
    /// Answered, with the right bytes.
    pub replied: Count,
    /// The callee was dead or died.
    pub dead: Count,
    /// The callee was frozen.
    pub frozen: Count,
    /// There was no space left in the callee.
    pub no_space: Count,
    /// The security module said no.
    pub refused: Count,
}

impl Calls {
    /// Calls that have ended, in whichever way.
    pub fn ended(&self) -> u64 {
        [&self.replied, &self.dead, &self.frozen, &self.no_space, &self.refused].map(Count::get).iter().sum()
    }
}

/// What a process served.
#[derive(Default)]
#[repr(C)]
pub struct Served {
    /// How many of those that serve have begun.
    pub ready: Count,
    /// Calls that wait for an answer.
    pub calls: Count,
    /// Oneway calls.
    pub oneway: Count,
}

/// One process of an application.
#[derive(Default)]
#[repr(C)]
pub struct Started {
    /// Its cgroup is made: it may begin.
    pub go: AtomicBool,
    /// The system has its object.
    pub attached: AtomicBool,
    /// It is frozen, or about to be.
    pub frozen: AtomicBool,
    /// It is to use more memory than it may.
    pub hog: AtomicBool,
    /// How many of its threads rest, as they were told.
    pub resting: Count,
    /// The system was told of its death.
    pub death_told: Count,
    /// It was to be frozen.
    pub freezes_tried: Count,
    /// It was frozen, also if that was undone at once, or thawed.
    pub freezes_done: Count,
    /// See [`Started::freezes_done`].
    pub thaws_done: Count,
    /// The system was told that it is frozen, or no longer.
    pub freezes_told: Count,
    /// See [`Started::freezes_told`].
    pub thaws_told: Count,
    /// What the system was told last.
    pub told_frozen: AtomicBool,
    /// Calls to it, oneway ones too, that ended because it was dead.
    pub seen_dead: Count,
    /// Calls to it that were refused because it was frozen.
    pub seen_frozen: Count,
    /// Oneway calls that the driver took from the system for it, and those that it found.
    pub accepted: Count,
    /// See [`Started::accepted`].
    pub delivered: Count,
    /// Oneway calls that it was about to make, and those of which it knows that the driver took them.
    pub tried: Count,
    /// See [`Started::tried`].
    pub taken: Count,
    /// Of these, those that the system found.
    pub noted: Count,
    /// What it called.
    pub calls: Calls,
    /// What it served.
    pub served: Served,
}

/// All of it.
#[derive(Default)]
#[repr(C)]
pub struct Shared {
    /// Nobody is to begin a call any more.
    pub stop: AtomicBool,
    /// Devices that have been seen to have a context manager.
    pub managers: Count,
    /// Of the system's threads that call, those that rest.
    pub resting: Count,
    /// What the system called.
    pub system: Calls,
    /// Oneway calls of the system that waited for a frozen application.
    pub pending: Count,
    /// Oneway calls for which there was no space, or whose callee was dead: nobody has them, and the caller knows it.
    pub oneway_no_space: Count,
    /// See [`Shared::oneway_no_space`].
    pub oneway_dead: Count,
    /// What the system served, with the oneway calls of all applications.
    pub system_served: Served,
    /// What the watchdog called.
    pub watchdog: Calls,
    /// What all other services served.
    pub services: Served,
    /// Rounds of the watchdog.
    pub rounds: Count,
    /// What failed in some process.
    pub failures: Count,
}

/// Maps memory for the whole run, filled with zeros.
pub fn map() -> (&'static Shared, &'static [Started]) {
    let length = size_of::<Shared>().next_multiple_of(64) + MOST_STARTED * size_of::<Started>();
    let flags = MapFlags::MAP_SHARED | MapFlags::MAP_NORESERVE;
    let length = NonZeroUsize::new(length).expect("not zero");
    // SAFETY: a new anonymous mapping replaces nothing.
    let base = unsafe { mmap_anonymous(None, length, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, flags) };
    let base = base.expect("map shared memory");
    let records = size_of::<Shared>().next_multiple_of(64);
    // SAFETY: the mapping is aligned to a page, holds one `Shared` and as many `Started` behind it, is never
    // unmapped, and zeros are a valid value of both, which are atomics alone: all processes may write them.
    unsafe {
        let started = base.byte_add(records).cast::<Started>();
        (base.cast::<Shared>().as_ref(), std::slice::from_raw_parts(started.as_ptr(), MOST_STARTED))
    }
}
