// SPDX-License-Identifier: GPL-2.0
//! What plugins of QEMU are told: NOPs with an operand that nobody else uses (tools/report/marks.h knows them, too).

macro_rules! mark {
    ($(#[$doc:meta])* $name:ident, $number:literal) => {
        $(#[$doc])*
        #[inline(always)]
        pub fn $name() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a NOP with an operand that is not accessed.
            unsafe {
                std::arch::asm!(
                    concat!(".byte 0x0f, 0x1f, 0x84, 0x00, ", $number, ", 0x4e, 0x49, 0x42"),
                    options(nomem, nostack)
                )
            }
        }
    };
}

mark!(
    /// What is measured starts, or goes on.
    start, "0x01"
);
mark!(
    /// What is measured ends, or pauses.
    end, "0x02"
);
mark!(
    /// What is measured from here on belongs to a short window.
    short_window, "0x04"
);
mark!(
    /// What is measured from here on belongs to a long window.
    long_window, "0x05"
);
mark!(
    /// All windows of one thing that is measured are done.
    windows_end, "0x06"
);
