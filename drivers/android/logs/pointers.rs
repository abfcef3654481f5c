// SPDX-License-Identifier: GPL-2.0

//! Pointers in the logs.

use crate::{
    defs::NodeName,
    kernel_ext::hashed, //
};
use kernel::{
    seq_file::SeqFile,
    seq_print, //
};

/// How a log shows the pointers by which processes name their nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pointer {
    /// As they are.
    Plain,
    /// So that they can be told apart, and not used.
    Hashed,
}

impl Pointer {
    /// Writes the two pointers that name a node.
    pub(super) fn write_name(self, name: &NodeName, out: &SeqFile) {
        match self {
            Self::Plain => seq_print!(out, "u{:016x} c{:016x}", name.ptr, name.cookie),
            Self::Hashed => {
                // CAST: Where addresses have 32 bits, what user space names by 64 is told apart by
                // the lower half of them.
                seq_print!(out, "u");
                hashed::write(out, name.ptr as usize);
                seq_print!(out, " c");
                hashed::write(out, name.cookie as usize);
            }
        }
    }
}
