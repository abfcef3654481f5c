// SPDX-License-Identifier: GPL-2.0

//! Small items of Linux 7.3, which are to be found where they are there.

use crate::{
    sync::barrier::{smp_rmb, smp_wmb},
    task::{Pid, Task},
};

/// Methods of strings. Those of this crate have them by themselves.
pub trait CStrExt {}

/// Accesses whose order a barrier keeps.
#[allow(missing_docs)]
pub enum Kind {
    Read,
    Write,
}

/// Keeps the order of accesses of a kind.
#[inline(always)]
pub fn smp_mb(kind: Kind) {
    match kind {
        Kind::Read => smp_rmb(),
        Kind::Write => smp_wmb(),
    }
}

impl Task {
    /// Returns the number of the task's group.
    pub fn tgid(&self) -> Pid {
        // SAFETY: The task exists, and its group does not change.
        unsafe { (*self.as_ptr()).tgid }
    }
}
