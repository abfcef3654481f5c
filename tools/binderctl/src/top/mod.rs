// SPDX-License-Identifier: GPL-2.0
//! What `binderctl top` shows, and how.
//!
//! A [`sample`] is what the log files say at one time. [`latency`] collects what the trace events say meanwhile. [`view`]
//! puts the two together to [`row`]s, and knows what the user has chosen; it knows no terminal. [`column`] says what the
//! columns are, [`draw`] draws a view, and [`plain`] prints it, as lines or as JSON.

pub mod column;
pub mod draw;
pub mod latency;
pub mod plain;
pub mod row;
pub mod sample;
pub mod view;
