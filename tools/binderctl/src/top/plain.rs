// SPDX-License-Identifier: GPL-2.0
//! A view as text, line by line, and as JSON.

use serde::Serialize;

use super::draw;
use super::row::Row;
use super::view::View;
use crate::trace::event::Pid;

/// The lines of a table that is this wide.
pub fn lines(view: &View, width: usize) -> String {
    let all = [draw::heading(width)].into_iter().chain(view.rows().iter().map(|row| draw::line(row, width)));
    all.map(|line| line.trim_end().to_owned() + "\n").collect()
}

/// Why some columns are empty, a line for each reason.
pub fn reasons(view: &View) -> String {
    let counts = view.no_counts.iter().map(|why| format!("no calls/s, no oneway space: {why}\n"));
    counts.chain(view.no_latency.iter().map(|why| format!("no latencies: {why}\n"))).collect()
}

/// What is printed for programs.
#[derive(Serialize)]
pub struct Record<'a> {
    schema: &'static str,
    processes: Vec<Line<'a>>,
    no_counts: Option<&'a str>,
    no_latency: Option<&'a str>,
    lost_events: u64,
}

#[derive(Serialize)]
struct Line<'a> {
    pid: Pid,
    name: &'a str,
    device: &'a str,
    threads: usize,
    busy: usize,
    idle: usize,
    nodes: i64,
    references: i64,
    buffers: i64,
    pending: Option<i64>,
    calls_in_per_second: Option<f64>,
    calls_out_per_second: Option<f64>,
    oneway_free_bytes: Option<i64>,
    median_ns: Option<u64>,
    p99_ns: Option<u64>,
}

impl<'a> Record<'a> {
    /// The rows that are shown.
    pub fn new(view: &'a View) -> Self {
        Self {
            schema: "binderctl.top/1",
            processes: view.rows().iter().map(of_row).collect(),
            no_counts: view.no_counts.as_deref(),
            no_latency: view.no_latency.as_deref(),
            lost_events: view.lost_events,
        }
    }
}

fn of_row(row: &Row) -> Line<'_> {
    let process = &row.process;
    Line {
        pid: row.key.pid,
        name: &row.name,
        device: &process.context,
        threads: process.threads.len(),
        busy: process.busy(),
        idle: process.idle(),
        nodes: process.nodes,
        references: process.references,
        buffers: process.buffers,
        pending: process.pending,
        calls_in_per_second: row.calls_in,
        calls_out_per_second: row.calls_out,
        oneway_free_bytes: process.oneway_free,
        median_ns: row.latency.map(|latency| latency.median),
        p99_ns: row.latency.map(|latency| latency.p99),
    }
}
