// SPDX-License-Identifier: GPL-2.0
//! Signals that ask to stop. Commands that leave something in the kernel look for them, and take it away.

use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use signal_hook::consts::SIGHUP;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;

use crate::error::Error;
use crate::error::Kind;
use crate::error::Result;

/// A flag that is set by the first signal that asks to stop.
pub fn stop_flag() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, flag.clone())
            .map_err(|error| Error::new(Kind::Io, format!("cannot prepare for signal {signal}: {error}")))?;
    }
    Ok(flag)
}
