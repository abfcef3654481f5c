// SPDX-License-Identifier: GPL-2.0

//! Who serves a device, and who uses it.

use super::inline::*;
use core::ptr::NonNull;
use kernel::{
    bindings,
    mm::Mm,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{Acquire, Atomic, Full},
    },
    task::Task,
};

/// Returns whether the task may do what an administrator may.
pub(crate) fn is_admin() -> bool {
    // CAST: A small number.
    // SAFETY: May be called by any task.
    unsafe { bindings::capable(bindings::CAP_SYS_ADMIN as c_int) }
}

/// Returns the task's user and group in the initial namespace.
pub(crate) fn ids() -> (u32, u32) {
    let (mut uid, mut gid) = (0, 0);
    // SAFETY: The places are there.
    unsafe { ublk_rust_ids(&mut uid, &mut gid) };
    (uid, gid)
}

/// Returns the task's memory. `EINVAL` for a kernel thread.
pub(crate) fn memory() -> Result<ARef<Mm>> {
    let task = current!();
    let memory = task.mm().ok_or(EINVAL)?;
    Ok(ARef::from(&**memory))
}

/// A process that serves a device.
///
/// # Invariants
///
/// The value has a reference of the pid.
pub(crate) struct Process(NonNull<bindings::pid>);

// SAFETY: Any thread may use and put a pid.
unsafe impl Send for Process {}
// SAFETY: As above.
unsafe impl Sync for Process {}

impl Process {
    /// Returns the one that the task belongs to.
    pub(crate) fn current() -> Self {
        // SAFETY: A task has a process. INVARIANT: The function takes a reference.
        Self(unsafe { NonNull::new_unchecked(ublk_rust_pid()) })
    }

    /// Returns whether this is its number for the task.
    pub(crate) fn is(&self, number: i32) -> bool {
        // SAFETY: By the type's invariant.
        unsafe { ublk_rust_pid_is(self.0.as_ptr(), number) }
    }

    /// Returns its number for the task; -1 if it has none.
    pub(crate) fn number(&self) -> i32 {
        // SAFETY: By the type's invariant.
        match unsafe { pid_vnr(self.0.as_ptr()) } {
            0 => -1,
            number => number,
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SAFETY: By the type's invariant.
        unsafe { put_pid(self.0.as_ptr()) };
    }
}

/// A task, or none.
///
/// # Invariants
///
/// If it is not null, it is a task, with a reference that the cell has.
pub(crate) struct TaskCell(Atomic<*mut bindings::task_struct>);

impl TaskCell {
    pub(crate) fn new() -> Self {
        Self(Atomic::new(core::ptr::null_mut()))
    }

    /// Returns whether it is the current task.
    #[inline(always)]
    pub(crate) fn is_current(&self) -> bool {
        // SAFETY: The cell is there. This is what `load` does, without a call of a helper.
        unsafe { self.0.as_ptr().read_volatile() == Task::current_raw() }
    }

    /// Sets it to the current task.
    pub(crate) fn set_current(&self) {
        let task = ARef::<Task>::from(&**current!());
        // INVARIANT: The reference is the cell's now.
        drop(Self(Atomic::new(
            self.0.xchg(ARef::into_raw(task).as_ptr().cast(), Full),
        )));
    }

    /// Kills the task's process, if there is one. Nobody sets or clears the cell during this call.
    pub(crate) fn kill(&self) {
        let task = self.0.load(Acquire);
        if !task.is_null() {
            // CAST: A small number.
            // SAFETY: By the type's invariant, and the cell keeps it.
            unsafe { bindings::send_sig(bindings::SIGKILL as c_int, task, 1) };
        }
    }

    pub(crate) fn clear(&self) {
        drop(Self(Atomic::new(self.0.xchg(core::ptr::null_mut(), Full))));
    }
}

impl Drop for TaskCell {
    fn drop(&mut self) {
        if let Some(task) = NonNull::new(self.0.load(Acquire)) {
            // SAFETY: By the type's invariant. `Task` is the kernel's struct.
            drop(unsafe { ARef::<Task>::from_raw(task.cast()) });
        }
    }
}
