// SPDX-License-Identifier: GPL-2.0
//! Load with random deaths.

use clap::Args;

#[derive(Args)]
pub struct SoakArgs {
    /// How long
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// What the random choices start from
    #[arg(long)]
    seed: Option<u64>,
}

pub fn run(_args: &SoakArgs) -> anyhow::Result<()> {
    anyhow::bail!("not written yet")
}
