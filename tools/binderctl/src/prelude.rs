// SPDX-License-Identifier: GPL-2.0
//! Common imports of commands and checks.

pub use crate::error::{Error, Kind, Result};
pub use crate::logs::Logs;
pub use crate::options::Options;
pub use crate::output::{count, Page, Report};
pub use crate::pause::Pause;
pub use crate::tasks::Names;
pub use clap::Args;
pub use serde::Serialize;
