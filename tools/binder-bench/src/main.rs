// SPDX-License-Identifier: GPL-2.0
//! Measures Binder drivers, and compares what was measured.
//!
//! A reader starts with [`run`]: it sets up the processes ([`crew`]), has them measure one way of calling
//! ([`binder`], [`stream`]) in short loops ([`caller`]), and writes a [`result`] file. [`report`] merges
//! those files; [`stats`] says what may be concluded from them.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

mod binder;
mod caller;
mod cli;
mod clock;
mod count;
mod crew;
mod device;
mod error;
mod registry;
mod report;
mod result;
mod run;
mod stats;
mod stream;

use cli::Cli;
use cli::Command;
use cli::ReportArgs;
use cli::RunArgs;
use error::Context;
use error::Error;
use error::Result;
use report::Style;
use result::RunFile;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Run(args) => run_command(&args),
        Command::Report(args) => report_command(&args),
        Command::Schema => schema_command(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("binder-bench: {error}");
            error.exit_code()
        }
    }
}

fn run_command(args: &RunArgs) -> Result<()> {
    let result = run::run(args)?;
    let summary =
        report::render(&report::merge(std::slice::from_ref(&result), &args.driver)?, Style::Terminal);
    match args.output.as_deref() {
        Some(path) if path == Path::new("-") => print(&json(&result)?),
        Some(path) => {
            result.save(path)?;
            if args.quiet {
                return Ok(());
            }
            print(&summary)
        }
        None => print(&summary),
    }
}

fn report_command(args: &ReportArgs) -> Result<()> {
    let files = args.files.iter().map(|path| RunFile::load(path)).collect::<Result<Vec<_>>>()?;
    let report = report::merge(&files, &args.base)?;
    print(&match (args.json, args.markdown) {
        (true, _) => json(&report)?,
        (false, true) => report::render(&report, Style::Markdown),
        (false, false) => report::render(&report, Style::Terminal),
    })
}

fn schema_command() -> Result<()> {
    print(&json(&schemars::schema_for!(RunFile))?)
}

fn json<T: serde::Serialize>(value: &T) -> Result<String> {
    match serde_json::to_string(value) {
        Ok(text) => Ok(text + "\n"),
        Err(error) => Err(Error::Io { what: "cannot make JSON".into(), source: error.into() }),
    }
}

fn print(text: &str) -> Result<()> {
    std::io::stdout().write_all(text.as_bytes()).context("standard output")
}
