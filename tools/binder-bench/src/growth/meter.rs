// SPDX-License-Identifier: GPL-2.0
//! Instructions that a guest under `qemu -icount` has executed, without those of being idle.
//!
//! While such a guest is idle its clock jumps to the next timer. A process of the scheduler's lowest class keeps it
//! busy: it runs a loop of known length and counts the turns. Those instructions are subtracted. All other code is
//! counted: all processes, worker threads, callbacks of RCU. So is the tick, every four million instructions.
//!
//! The clock counts a little too much now and then. A plugin's own count is exact (tools/report/stretches.c).

use std::sync::atomic::Ordering;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{kill, Signal};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;

use crate::clock::Clock;
use crate::error::{Context, Result};
use crate::shared::Memory;
use crate::workers::child;

/// The duration of a check for remaining work.
const LOOK: Duration = Duration::from_millis(4);

/// Busy instructions in a look at a guest where nothing is left to do but to handle the tick.
const QUIET: u64 = 100_000;

/// Quiet looks that must follow each other: work that waits for a grace period of RCU leaves gaps.
const LOOKS: u32 = 6;

/// After this many checks the meter stops waiting for unfinished work.
const MOST_LOOKS: u32 = 2_000;

/// Reads the guest's clock, without its idle time.
pub struct Meter {
    clock: Clock,
    /// Its first word counts the turns of the idle process.
    turns: Memory,
    idler: Pid,
}

impl Meter {
    /// Starts the process that replaces the idle task.
    pub fn start(clock: Clock) -> Result<Meter> {
        let turns = Memory::new(4096)?;
        let idler = child(|ready| {
            prctl::set_pdeathsig(Signal::SIGKILL).context("PR_SET_PDEATHSIG")?;
            lowest_class()?;
            ready()?;
            // SAFETY: the page is mapped for as long as this process lives, and its first word is a counter of ours.
            unsafe { idle(turns.start().cast()) }
        })?;
        Ok(Meter { clock, turns, idler })
    }

    pub fn now(&self) -> u64 {
        // The other process adds to the word by one instruction.
        self.clock.now() - self.turns.word(0, 0).load(Ordering::Relaxed) * PER_TURN
    }

    pub fn settle(&self) {
        let mut quiet = 0;
        for _ in 0..MOST_LOOKS {
            let before = self.now();
            std::thread::sleep(LOOK);
            quiet = if self.now() - before < QUIET { quiet + 1 } else { 0 };
            if quiet == LOOKS {
                return;
            }
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        let _ = kill(self.idler, Signal::SIGKILL);
        let _ = waitpid(self.idler, None);
    }
}

/// Makes the scheduler run this process only on an otherwise idle CPU.
fn lowest_class() -> Result<()> {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure is whole, and read only.
    Errno::result(unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &none) })
        .map(drop)
        .context("SCHED_IDLE")
}

/// Instructions of one turn: the addition, the NOPs, which an emulator is through with at once, and the jump.
#[cfg(target_arch = "x86_64")]
const PER_TURN: u64 = 1 + 1000 + 1;

/// Adds one to `*turns` in each turn of an endless loop.
///
/// # Safety
/// `turns` must stay mapped for as long as the process lives, and be the caller's to overwrite.
#[cfg(target_arch = "x86_64")]
unsafe fn idle(turns: *mut u64) -> ! {
    // SAFETY: the loop writes through one pointer, which the caller vouches for, and never ends.
    unsafe {
        std::arch::asm!(
            // The mark of the loop for the plugin, as in src/marks.rs.
            ".byte 0x0f, 0x1f, 0x84, 0x00, 0x03, 0x4e, 0x49, 0x42",
            "2:",
            "add qword ptr [rdi], 1",
            ".rept 1000",
            "nop",
            ".endr",
            "jmp 2b",
            in("rdi") turns,
        )
    }
    unreachable!("the loop has no end")
}

#[cfg(not(target_arch = "x86_64"))]
const PER_TURN: u64 = 1;

#[cfg(not(target_arch = "x86_64"))]
unsafe fn idle(_turns: *mut u64) -> ! {
    std::process::exit(1)
}
