// SPDX-License-Identifier: GPL-2.0
//! Measures Binder drivers, and compares what was measured.
//!
//! A reader starts with [`run`]: for each [`workload`] it has processes started on a [`stage`], times ([`measure`]) or
//! counts ([`count`]) what they do, and makes a [`result`] file of it. A workload's client is a [`caller`]; it
//! reaches the driver through an [`exchange`] or a [`talk`]er, or does the same over a [`yardstick`]. [`report`] merges
//! those files, [`compare`] sets two sides of them next to each other, [`export`] makes CSV of them; [`stats`] says what
//! may be concluded. What things cost in kernel memory is another question, answered by [`memory`],
//! what calls are like while memory is taken back a third: [`pressure`], how costs grow with numbers a fourth:
//! [`growth`], and two drivers in one kernel are next to each other in [`paired`]. [`command`] is the command line; [`workload::catalogue`] is the only file that knows every workload. No
//! files use each other in a circle, says `make check`.

use std::io::Write;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

mod caller;
mod cli;
mod clock;
mod command;
mod compare;
mod count;
mod device;
mod error;
mod exchange;
mod export;
mod floor;
mod growth;
mod marks;
mod measure;
mod memory;
mod order;
mod paired;
mod pressure;
mod registry;
mod report;
mod result;
mod run;
mod shared;
mod stage;
mod stats;
mod talk;
mod workers;
mod workload;
mod yardstick;

use cli::DeviceArgs;
use cli::RunBasics;
use command::Cli;
use command::Command;
use command::CompareArgs;
use command::Form;
use command::ManageArgs;
use command::ReportArgs;
use device::Site;
use error::Context;
use error::Error;
use error::Result;
use paired::PairedArgs;
use report::Report;
use report::Style;
use result::RunFile;
use talk::Talker;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command.measurement() {
        Ok((common, workloads)) => run::run(&common, &workloads).and_then(|file| finish(&file, &common.run)),
        Err(Command::Paired(args)) => paired_command(&args),
        Err(Command::Pressure(args)) => pressure::run(&args).and_then(|file| finish(&file, &args.run)),
        Err(Command::Growth(args)) if args.list => print(&growth::list()),
        Err(Command::Growth(args)) => growth::run(&args).and_then(|file| finish(&file, &args.run)),
        Err(Command::Memory(args)) => memory::run(&args).and_then(|file| finish(&file, &args.run)),
        Err(Command::Retention(args)) => {
            memory::run_retention(&args).and_then(|file| finish(&file, &args.run))
        }
        Err(Command::Report(args)) => report_command(&args),
        Err(Command::Compare(args)) => compare_command(&args),
        Err(Command::Csv(args)) => load(&args.files).and_then(|files| print(&export::csv(&files)?)),
        Err(Command::Manage(args)) => manage_command(&args),
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

/// Writes a result where it was wanted, and prints what it says.
fn finish(result: &RunFile, basics: &RunBasics) -> Result<()> {
    let summary =
        || Ok(report::render(&report::merge(std::slice::from_ref(result), &basics.driver)?, Style::Terminal));
    match basics.output.as_deref() {
        Some(path) if path == Path::new("-") => print(&json(result)?),
        Some(path) => {
            result.save(path)?;
            if basics.quiet {
                return Ok(());
            }
            print(&summary()?)
        }
        None => print(&summary()?),
    }
}

fn report_command(args: &ReportArgs) -> Result<()> {
    let report = report::merge(&load(&args.files)?, &args.base)?;
    if args.rfc {
        let style = if args.form.markdown { Style::Markdown } else { Style::Terminal };
        return print(&report::rfc::render(&report, style)?);
    }
    print_report(&report, &args.form)
}

fn compare_command(args: &CompareArgs) -> Result<()> {
    print_report(&compare::compare(load(&args.before)?, load(&args.after)?, args.anyway)?, &args.form)
}

fn print_report(report: &Report, form: &Form) -> Result<()> {
    print(&match (form.json, form.markdown) {
        (true, _) => json(&report)?,
        (false, true) => report::render(report, Style::Markdown),
        (false, false) => report::render(report, Style::Terminal),
    })
}

fn paired_command(args: &PairedArgs) -> Result<()> {
    let result = paired::run(args)?;
    match args.output.as_deref() {
        Some(path) if path == Path::new("-") => return print(&json(&result)?),
        Some(path) => result::save(&result, path)?,
        None => {}
    }
    print(&result.table())
}

fn manage_command(args: &ManageArgs) -> Result<()> {
    let site =
        Site::prepare(&DeviceArgs { device: Some(args.device.clone()), binderfs: None, mount: false })?;
    registry::manage(Talker::open(&site.device)?, || print("ready\n"))
}

fn load(paths: &[PathBuf]) -> Result<Vec<RunFile>> {
    paths.iter().map(|path| RunFile::load(path)).collect()
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
