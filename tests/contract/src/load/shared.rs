// SPDX-License-Identifier: GPL-2.0
//! Records of the processes of a load, in shared memory: they outlive a process that is killed.

use crate::arena::Arena;
use serde::{Serialize, Serializer};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Processes that a load can start.
const MOST_STARTED: usize = 1 << 17;

/// A number that all processes change.
#[repr(transparent)]
pub struct Count(AtomicU64);

impl Count {
    pub fn add(&self) {
        self.0.fetch_add(1, SeqCst);
    }

    pub fn sub(&self) {
        self.0.fetch_sub(1, SeqCst);
    }

    pub fn set(&self, value: u64) {
        self.0.store(value, SeqCst);
    }

    pub fn get(&self) -> u64 {
        self.0.load(SeqCst)
    }
}

impl Serialize for Count {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_u64(self.get())
    }
}

/// One process, from its start to its end.
#[repr(C)]
pub struct Record {
    /// Its place among the processes: its successor has the same.
    pub slot: Count,
    pub pid: Count,
    /// In the initial pid namespace.
    pub global_pid: Count,
    /// Not zero once others can find it.
    pub is_published: Count,
    /// Not zero before it is killed.
    pub is_dead: Count,
    /// Not zero while calls to it may be refused because it is frozen.
    pub may_refuse: Count,
    /// Not zero while it should take part in few calls: a call in progress prevents freezing.
    pub is_hushed: Count,
    pub freezes_tried: Count,
    pub freezes_done: Count,
    /// Not zero after BINDER_FREEZE has frozen it, until it is thawed.
    pub is_frozen: Count,
    pub thaws_done: Count,
    /// Callers that make no calls now.
    pub resting: Count,
    /// Oneway calls to it: those begun, those the driver took or refused, those that arrived.
    pub tried: Count,
    pub accepted: Count,
    pub refused: Count,
    pub delivered: Count,
    /// Objects of others that it holds until their owners die.
    pub kept: Count,
    /// Not zero while other processes hold an object of its own that came with a call.
    pub is_held: Count,
}

/// The notifications that a process read about another one, to which it is linked.
#[repr(C)]
pub struct Link {
    pub id: Count,
    pub deaths: Count,
    pub freezes: Count,
    pub thaws: Count,
    /// The state in the last freeze notification.
    pub is_frozen: Count,
}

/// Totals of all processes.
#[derive(Serialize)]
#[repr(C)]
pub struct Totals {
    /// The phase of the callers: see [`GO`] and [`REST`].
    #[serde(skip)]
    pub phase: Count,
    pub answered: Count,
    pub sync_refused: Count,
    pub ended_by_death: Count,
    pub ended_by_freezing: Count,
    /// Oneway calls: accepted ones, those that arrived, refused ones, those for a frozen process.
    pub accepted: Count,
    pub delivered: Count,
    pub oneway_refused: Count,
    pub oneway_queued: Count,
    pub called_back: Count,
    pub files: Count,
    pub relayed: Count,
    /// Threads that left with something unread.
    pub left: Count,
    pub deaths_told: Count,
    pub freezes_told: Count,
    pub thaws_told: Count,
    /// The number of times that all log files were read.
    pub passes: Count,
    pub kills: Count,
    /// Includes those that are undone at once, because a call came during the freeze.
    pub freezes: Count,
    pub freezes_undone: Count,
    /// Those that failed because of a call in progress.
    pub freezes_busy: Count,
    pub cgroup_freezes: Count,
    pub thaws: Count,
    /// Thaws of processes to which calls had come while they were frozen.
    pub missed_calls: Count,
    pub missed_oneway: Count,
}

/// Phases of a load.
pub const GO: u64 = 1;
pub const REST: u64 = 2;

/// All of it.
pub struct Shared {
    processes: u32,
    pub totals: &'static Totals,
    pub records: &'static [Record],
    links: &'static [Link],
}

impl Shared {
    pub fn new(processes: u32) -> Self {
        let arena = Arena::new();
        // SAFETY: all three consist of `Count`s alone.
        unsafe {
            Self {
                processes,
                totals: &zeros::<Totals>(&arena, 1)[0],
                records: zeros::<Record>(&arena, MOST_STARTED),
                links: zeros::<Link>(&arena, (processes as usize + 1).pow(2)),
            }
        }
    }

    /// The record of a process that belongs to no load: its peers may be dead.
    pub fn alone() -> &'static Self {
        let shared = Box::leak(Box::new(Self::new(1)));
        shared.record(0).is_dead.set(1);
        shared
    }

    pub fn record(&self, id: u32) -> &'static Record {
        &self.records[id as usize]
    }

    /// The links of the process in a slot, one for each slot. The manager's slot is the last.
    pub fn links(&self, slot: u64) -> &'static [Link] {
        let length = self.processes as usize + 1;
        &self.links[slot as usize * length..][..length]
    }
}

/// Cuts structures out of an arena.
///
/// # Safety
/// `T` must consist of [`Count`]s alone.
unsafe fn zeros<T>(arena: &Arena, count: usize) -> &'static [T] {
    let address = arena.reserve(count * size_of::<T>());
    // SAFETY: the arena has just cut these bytes off, aligned to 16 and zeroed. `T` is made of
    // `Count`s: zeros are valid, and all accesses are atomic. The arena is never unmapped.
    unsafe { std::slice::from_raw_parts(address as *const T, count) }
}
