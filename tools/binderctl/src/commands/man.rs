// SPDX-License-Identifier: GPL-2.0
//! `binderctl man`: its manual pages.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use clap_mangen::Man;

use crate::error::Error;
use crate::error::Kind;
use crate::error::Outcome;
use crate::error::Result;
use crate::output::Output;
use crate::output::Text;

/// Which page, or where to put all of them.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// The command whose page to print, instead of that of all.
    command: Option<String>,
    /// Write all pages into this directory: man1 of a manual's directory.
    #[arg(long, conflicts_with = "command")]
    dir: Option<PathBuf>,
}

/// Prints one page, or writes all.
pub fn run(arguments: &Arguments, mut command: clap::Command, output: Output) -> Result<Outcome> {
    command.build();
    match (&arguments.dir, &arguments.command) {
        (Some(directory), _) => {
            fs::create_dir_all(directory).map_err(|error| Error::at("make", directory, error))?;
            clap_mangen::generate_to(command, directory)
                .map_err(|error| Error::at("write into", directory, error))?;
        }
        (None, Some(name)) => {
            let Some(found) = command.find_subcommand(name) else {
                return Err(Error::new(Kind::Usage, format!("there is no command {name}")));
            };
            output.print_text(&page(found.clone())?)?;
        }
        (None, None) => output.print_text(&page(command)?)?,
    }
    Ok(Outcome::Fine)
}

fn page(command: clap::Command) -> Result<Text> {
    let mut roff = Vec::new();
    Man::new(command)
        .render(&mut roff)
        .map_err(|error| Error::new(Kind::Io, format!("cannot make the manual page: {error}")))?;
    Ok(Text::of(&roff))
}
