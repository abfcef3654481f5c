// SPDX-License-Identifier: GPL-2.0
//! Many result files, one answer: rows that can be compared, with how sure we may be.

mod counts;
mod growth;
mod latency;
mod memory;
mod merge;
mod pressure;
pub mod rfc;
pub mod sorted;
mod table;

pub use merge::merge;
pub use merge::Report;
pub use table::render;
pub use table::Style;

#[cfg(test)]
pub mod samples;
#[cfg(test)]
mod tests;
