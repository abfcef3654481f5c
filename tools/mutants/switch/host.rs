// SPDX-License-Identifier: GPL-2.0
//! The switch, for tests on the host: an environment variable.

use std::sync::LazyLock;

static MUTANT: LazyLock<u32> =
    LazyLock::new(|| std::env::var("MUTANT").ok().and_then(|number| number.parse().ok()).unwrap_or(0));

/// Returns true if this fault is active.
pub(crate) fn is(number: u32) -> bool {
    *MUTANT == number
}
