// SPDX-License-Identifier: GPL-2.0
//! Measures Binder drivers, and compares what was measured.
//!
//! A reader starts with [`run`]: for each [`workload`] it has processes started on a [`stage`], times ([`measure`]) or
//! counts ([`count`]) what they do, and makes a [`result`] file of it. A workload's client is a [`caller`]; it
//! reaches the driver through an [`exchange`] or a [`talk`]er, or does the same over a [`yardstick`]. [`report`] merges
//! those files; [`stats`] says what may be concluded from them.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

mod caller;
mod cli;
mod clock;
mod count;
mod crew;
mod device;
mod error;
mod exchange;
mod measure;
mod registry;
mod report;
mod result;
mod run;
mod stage;
mod stats;
mod talk;
mod workload;
mod yardstick;

use cli::Cli;
use cli::Command;
use cli::Common;
use cli::ReportArgs;
use error::Context;
use error::Error;
use error::Result;
use report::Style;
use result::RunFile;
use workload::Workload;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command.measurement() {
        Ok((common, workloads)) => run_command(&common, &workloads),
        Err(Command::Report(args)) => report_command(&args),
        Err(_) => schema_command(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("binder-bench: {error}");
            error.exit_code()
        }
    }
}

fn run_command(common: &Common, workloads: &[Box<dyn Workload>]) -> Result<()> {
    let result = run::run(common, workloads)?;
    let summary = || {
        Ok(report::render(&report::merge(std::slice::from_ref(&result), &common.driver)?, Style::Terminal))
    };
    match common.output.as_deref() {
        Some(path) if path == Path::new("-") => print(&json(&result)?),
        Some(path) => {
            result.save(path)?;
            if common.quiet {
                return Ok(());
            }
            print(&summary()?)
        }
        None => print(&summary()?),
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
