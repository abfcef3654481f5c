// SPDX-License-Identifier: GPL-2.0
//! Measures Binder drivers, and compares what was measured.
//!
//! A reader starts with [`run`]: for each [`workload`] it starts processes on a [`stage`], times ([`measure`]) or
//! counts ([`count`]) their calls, and writes a [`result`] file. A workload's client is a [`caller`]; it reaches the
//! driver through an [`exchange`] or a [`talk`]er. [`report`] merges those files; [`stats`] has the rules of what may be
//! concluded. Other measurements are kernel memory ([`memory`]), growth of costs ([`growth`]), waits for a process that
//! loses its CPU ([`inversion`]), and two drivers in one kernel ([`paired`]). [`command`] is the command line.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

mod caller;
mod cli;
mod clock;
mod command;
mod count;
mod error;
mod exchange;
mod growth;
mod inversion;
mod marks;
mod measure;
mod memory;
mod paired;
mod prelude;
mod registry;
mod report;
mod result;
mod session;
mod shared;
mod stage;
mod stats;
mod talk;
mod workers;
mod workload;

use cli::Common;
use command::{Cli, Command, ReportArgs};
use error::{Context, Result};
use result::{json, RunFile};
use session::Session;
use stage::Stage;
use workload::Workload;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Run(args) => run(&args.common, &args.workloads()),
        Command::Workload(selected) => {
            let (common, workload) = selected.measurement();
            run(&common, &[workload])
        }
        Command::Paired(args) => paired::run(&args)
            .and_then(|result| write(&result, args.output.as_deref(), false, || result.table())),
        Command::Growth(args) if args.list => print(&growth::list()),
        Command::Growth(args) => growth::run(&args).and_then(|file| finish(&file, &args.run)),
        Command::Inversion(args) => inversion::run(&args).and_then(|file| finish(&file, &args.run)),
        Command::Memory(args) => memory::run(&args).and_then(|file| finish(&file, &args.run)),
        Command::Retention(args) => memory::run_retention(&args).and_then(|file| finish(&file, &args.run)),
        Command::Report(args) => report_command(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("binder-bench: {error}");
            ExitCode::from(error.kind as u8)
        }
    }
}

fn run(common: &Common, workloads: &[Box<dyn Workload>]) -> Result<()> {
    let session = Session::start(&common.run, common.count)?;
    let mut cells = Vec::new();
    for workload in workloads {
        let alone = common.count && !common.together;
        let mut stage = Stage::new(&session, Some((common.placement, alone)))?;
        workload.set_up(&mut stage)?;
        let points = stage.points();
        cells.extend(match common.count {
            true => count::measure(&mut stage, &points, common.windows)?,
            false => measure::measure(&mut stage, &points, common.seconds)?,
        });
    }
    finish(&session.finish(common.placement, cells)?, &common.run)
}

fn finish(result: &RunFile, basics: &cli::RunBasics) -> Result<()> {
    let summary = || report::render(&report::merge(std::slice::from_ref(result), &basics.driver));
    write(result, basics.output.as_deref(), basics.quiet, summary)
}

/// Writes a result to its file, and prints a summary.
fn write(
    result: &impl serde::Serialize,
    output: Option<&Path>,
    quiet: bool,
    summary: impl FnOnce() -> String,
) -> Result<()> {
    match output {
        Some(path) if path == Path::new("-") => return print(&json(result)?),
        Some(path) => result::save(result, path)?,
        None => {}
    }
    match output {
        Some(_) if quiet => Ok(()),
        _ => print(&summary()),
    }
}

fn report_command(args: &ReportArgs) -> Result<()> {
    let files = args.files.iter().map(|path| RunFile::load(path)).collect::<Result<Vec<_>>>()?;
    let report = report::merge(&files, &args.base);
    print(&if args.json { json(&report)? } else { report::render(&report) })
}

fn print(text: &str) -> Result<()> {
    std::io::stdout().write_all(text.as_bytes()).context("standard output")
}
