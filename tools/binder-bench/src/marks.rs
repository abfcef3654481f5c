// SPDX-License-Identifier: GPL-2.0
//! Marks for plugins of QEMU: NOPs with an operand that no other code uses (tools/report/plugin.h defines them, too).

/// A measurement starts or continues.
pub const START: u8 = 1;
/// A measurement ends or pauses.
pub const END: u8 = 2;
/// A short window starts.
pub const SHORT_WINDOW: u8 = 4;
/// A long window starts.
pub const LONG_WINDOW: u8 = 5;
/// All windows of one thing that is measured are done.
pub const WINDOWS_END: u8 = 6;

#[inline(always)]
pub fn mark<const NUMBER: u8>() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a NOP with an operand that is not accessed.
    unsafe {
        std::arch::asm!(
            ".byte 0x0f, 0x1f, 0x84, 0x00, {}, 0x4e, 0x49, 0x42",
            const NUMBER,
            options(nomem, nostack)
        )
    }
}
