// SPDX-License-Identifier: GPL-2.0

//! The space that a process receives data in, and the files that arrive with the data.

pub(crate) mod file_slots;
pub(crate) mod layout;
pub(crate) mod space;
pub(crate) mod traced_pages;
