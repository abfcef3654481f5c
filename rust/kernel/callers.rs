// SPDX-License-Identifier: GPL-2.0

//! What an open file records of the tasks that call into it. A task finds its record without a
//! lock, and borrows it for the time of its call without counting.
//!
//! ```text
//!              claim (the task)              give_up_record (the task), remove_gone, clear
//!   free slot ────────────────► the task's ──────────────────────────────────────────────► free
//!                                 │    ▲
//!                                 └────┘ Operation::record (the task, in a call)
//! ```
//!
//! A borrow is valid because a slot is emptied only where its task has no borrow. This is so when
//! the task itself gives up the [`Operation`] that its borrows are made of, when no such task
//! exists any more, and when the file is released, into which nobody calls then.
//!
//! There are few slots, so a task may have none. The file then has to find its record in another
//! way.

use super::{
    link::HasField,
    once::{read_once, read_once_u64, write_once, write_once_u64},
    pid::{current_number, TaskId},
    spin_lock::{new_spin_lock, SpinLock}, //
};
use core::{
    array,
    cell::UnsafeCell,
    marker::PhantomData,
    ptr, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{Atomic, Release},
        Arc,
        ArcBorrow, //
    }, //
};

/// How many tasks have a slot.
const SLOTS: usize = 16;

/// How many slots a task may have its record in.
const PLACES: usize = 4;

/// The place of one record.
///
/// # Invariants
///
/// While no lock is held: `record` is there if `task` is not [`FREE`].
struct CallerSlot<R> {
    /// The number of the task, or [`FREE`].
    task: Atomic<u64>,
    record: UnsafeCell<Option<Arc<R>>>,
}

/// The number of no task, in a free slot.
const FREE: u64 = 0;

/// The slots of a file.
type Slots<R> = [CallerSlot<R>; SLOTS];

/// The records of some of the tasks that call into a file, a field of its private data.
///
/// # Invariants
///
/// - `slots` is null, or from a box, to which it is the pointer that counts.
/// - The slots are made and written only under `changes`. The record of one that is not free is
///   written only when no task of that number has an [`Operation`] of which it has borrowed the
///   record.
/// - They are taken only when the file is released, or with exclusive access.
#[pin_data(PinnedDrop)]
pub(crate) struct Records<R> {
    /// Made for the first record.
    slots: Atomic<*mut Slots<R>>,
    #[pin]
    changes: SpinLock<()>,
}

// SAFETY: Records are used by the tasks that put them there, and dropped by any.
unsafe impl<R: Send + Sync> Send for Records<R> {}
// SAFETY: As above. Data that is not atomic is written under the lock, and by the type invariants
// only while nobody reads it.
unsafe impl<R: Send + Sync> Sync for Records<R> {}

impl<R> Records<R> {
    /// Makes an initialiser of no records.
    pub(crate) fn new() -> impl PinInit<Self> {
        // INVARIANT: There are no slots.
        pin_init!(Self {
            slots: Atomic::new(ptr::null_mut()),
            changes <- new_spin_lock!((), "Records::changes"),
        })
    }

    /// Returns the slots for good.
    ///
    /// # Safety
    ///
    /// Nobody may have borrowed any, and all others that use them are kept off by the lock.
    unsafe fn take_slots(&self) -> Option<KBox<Slots<R>>> {
        let slots = read_once(&self.slots);
        // INVARIANT: Null.
        write_once(&self.slots, ptr::null_mut());
        // SAFETY: By the type invariants the pointer is from a box, if it is not null, and it was
        // the one that counts.
        (!slots.is_null()).then(|| unsafe { KBox::from_raw(slots) })
    }

    /// Returns a slot where the record of `task` may be: one with this `number`, which is that of
    /// the task, or [`FREE`].
    #[inline(always)]
    fn find(&self, task: u64, number: u64) -> Option<&CallerSlot<R>> {
        // ORDERING: Pairs with `claim`: the slots are read through the pointer. SAFETY: By the type
        // invariants there are slots if this is not null; `take_slots`, which ends them, is called
        // when nobody has borrowed any.
        let slots = unsafe { read_once(&self.slots).as_ref() }?;
        // CAST: The lowest bits are enough.
        let first = task as usize % SLOTS;
        let mut places = (0..PLACES).map(|next| &slots[(first + next) % SLOTS]);
        places.find(|slot| read_once_u64(&slot.task) == number)
    }

    /// Puts the record of the calling task into a slot, if one is free where it may be. May sleep.
    pub(crate) fn claim(&self, record: Arc<R>) {
        let free = |_| CallerSlot {
            task: Atomic::new(FREE),
            record: UnsafeCell::new(None),
        };
        let mut spare = match read_once(&self.slots).is_null() {
            true => KBox::new(array::from_fn(free), GFP_KERNEL).ok(),
            false => None,
        };
        let changing = self.changes.lock();
        if read_once(&self.slots).is_null() {
            if let Some(slots) = spare.take() {
                // ORDERING: Pairs with `find`: who finds the slots finds them free, or as they
                // were written since. INVARIANT: The pointer is from a box, which it is now.
                self.slots.store(KBox::into_raw(slots), Release);
            }
        }
        let task = current_number();
        let free = match self.find(task, task) {
            None => self.find(task, FREE),
            Some(_) => None,
        };
        if let Some(slot) = free {
            // SAFETY: The lock is held, and nobody has borrowed what is in a free slot.
            unsafe { *slot.record.get() = Some(record) };
            // ORDERING: Without the lock the record is read by this task alone.
            // INVARIANT: The record is there.
            write_once_u64(&slot.task, task);
        }
        drop(changing);
        drop(spare);
    }

    /// Removes the record of a task that does not exist any more; does nothing if it does. No lock
    /// may be held.
    pub(crate) fn remove_gone(&self, task: &TaskId) {
        if task.is_gone() {
            // SAFETY: No other task gets the number, and this one has been in its last call.
            drop(unsafe { self.remove(task.number()) });
        }
    }

    /// Removes the record of the task of this number, and returns it.
    ///
    /// # Safety
    ///
    /// The task must not have borrowed its record.
    unsafe fn remove(&self, task: u64) -> Option<Arc<R>> {
        let changing = self.changes.lock();
        let slot = self.find(task, task)?;
        // ORDERING: No task compares the number later. INVARIANT: The slot is free before the lock
        // is released.
        write_once_u64(&slot.task, FREE);
        // SAFETY: The lock is held, and the caller promises that nobody has borrowed it.
        let record = unsafe { (*slot.record.get()).take() };
        drop(changing);
        record
    }

    /// Removes all records. No lock may be held.
    ///
    /// # Safety
    ///
    /// The file that has these records is released: no [`Operation`] of it exists, or will.
    pub(crate) unsafe fn clear(&self) {
        let changing = self.changes.lock();
        // SAFETY: There are no operations of which slots could be borrowed, and all others that use
        // them hold the lock.
        let slots = unsafe { self.take_slots() };
        drop(changing);
        drop(slots);
    }
}

#[pinned_drop]
impl<R> PinnedDrop for Records<R> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The exclusive borrow shows that nobody has borrowed any, or uses this otherwise.
        drop(unsafe { self.take_slots() });
    }
}

/// An operation of an open file, of which its private data is a `T`: the calling task is in it.
///
/// # Invariants
///
/// As long as this exists, the calling task is in an operation of the open file, by which it
/// entered the kernel, and there is no other value like this for that task.
pub(crate) struct Operation<'a, T> {
    opened: ArcBorrow<'a, T>,
    /// Keeps this type on its task.
    _of_task: PhantomData<*mut ()>,
}

impl<'a, T> Operation<'a, T> {
    /// Returns the operation that the calling task is in.
    ///
    /// # Safety
    ///
    /// As long as the result exists, the calling task has to be in an operation of the open file
    /// whose private data is `opened`, by which it entered the kernel. This may be called once in
    /// an operation.
    pub(crate) unsafe fn of_caller(opened: ArcBorrow<'a, T>) -> Self {
        // INVARIANT: Promised by the caller.
        Self {
            opened,
            _of_task: PhantomData,
        }
    }

    /// Returns the private data of the file.
    #[inline(always)]
    pub(crate) fn opened(&self) -> ArcBorrow<'a, T> {
        self.opened
    }

    /// Returns the record of the calling task, if it has a slot.
    #[inline(always)]
    pub(crate) fn record<R>(&self) -> Option<&Arc<R>>
    where
        T: HasField<Records<R>>,
    {
        let task = current_number();
        let slot = self.opened.field().find(task, task)?;
        // SAFETY: The slot is that of the calling task. The task has put the record there itself,
        // or a task that has ended has, whose number it took over by executing a program.
        // Nobody writes it as long as the result exists: the slot is not free; `give_up_record`
        // needs this operation for itself; the task exists; and so does this operation.
        unsafe { (*slot.record.get()).as_ref() }
    }

    /// Removes the record of the calling task. No lock may be held.
    pub(crate) fn give_up_record<R>(&mut self)
    where
        T: HasField<Records<R>>,
    {
        // SAFETY: By the type invariants the task has no other operation, and by the exclusive
        // borrow it has borrowed nothing of this one.
        drop(unsafe { self.opened.field().remove(current_number()) });
    }
}
