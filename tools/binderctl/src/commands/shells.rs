// SPDX-License-Identifier: GPL-2.0
//! `binderctl completions` and `man`: what shells and manuals need, made of the command line.

use std::fs;
use std::path::PathBuf;

use clap::Args;

use crate::error::{Error, Kind, Result};
use crate::output::Output;

/// For which shell.
#[derive(Args, Clone, Debug)]
pub struct Completions {
    /// The shell.
    shell: clap_complete::Shell,
}

/// Prints a shell's script.
pub fn complete(arguments: &Completions, mut command: clap::Command, output: Output) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "binderctl", &mut script);
    output.print_text(&script)
}

/// Which page, or where to put all of them.
#[derive(Args, Clone, Debug)]
pub struct Man {
    /// The command whose page to print, instead of that of all.
    command: Option<String>,
    /// Write all pages into this directory: man1 of a manual's directory.
    #[arg(long, conflicts_with = "command")]
    dir: Option<PathBuf>,
}

/// Prints one page, or writes all.
pub fn man(arguments: &Man, mut command: clap::Command, output: Output) -> Result<()> {
    command.build();
    if let Some(directory) = &arguments.dir {
        fs::create_dir_all(directory).map_err(|error| Error::at("make", directory, error))?;
        return clap_mangen::generate_to(command, directory)
            .map_err(|error| Error::at("write into", directory, error));
    }
    if let Some(name) = &arguments.command {
        let found = command.find_subcommand(name).cloned();
        command = found.ok_or_else(|| Error::new(Kind::Usage, format!("there is no command {name}")))?;
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command)
        .render(&mut page)
        .map_err(|error| Error::new(Kind::Io, format!("cannot make the manual page: {error}")))?;
    output.print_text(&page)
}
