// SPDX-License-Identifier: GPL-2.0
//! `binderctl completions`: what a shell needs to complete commands and options.

use clap::Args;
use clap_complete::Shell;

use crate::error::Outcome;
use crate::error::Result;
use crate::output::Output;
use crate::output::Text;

/// For which shell.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// The shell.
    shell: Shell,
}

/// Prints the script.
pub fn run(arguments: &Arguments, mut command: clap::Command, output: Output) -> Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "binderctl", &mut script);
    output.print_text(&Text::of(&script))?;
    Ok(Outcome::Fine)
}
