// SPDX-License-Identifier: GPL-2.0
//! The two tables that Rust Binder was first proposed with: throughput by pairs, and calls by payload.

use super::latency::Judged;
use super::latency::LatencyRow;
use super::merge::Report;
use super::sorted::Subject;
use super::table::new_table;
use super::table::Style;
use crate::error::Error;
use crate::error::Result;
use crate::workload::rpc;
use crate::workload::throughput;

/// Both tables for each driver next to the base, as far as they were measured.
pub fn render(report: &Report, style: Style) -> Result<String> {
    let mut parts = Vec::new();
    for driver in drivers(report) {
        parts.extend(by_pairs(report, &driver, style));
        parts.extend(by_payload(report, &driver, style));
    }
    if parts.is_empty() {
        let (base, one, two) = (&report.base, throughput::NAME, rpc::NAME);
        return Err(Error::BadInput(format!("no times of {one} or {two} of {base} and of another driver")));
    }
    Ok(parts.join("\n\n") + "\n")
}

fn drivers(report: &Report) -> Vec<String> {
    let mut drivers: Vec<String> = Vec::new();
    for row in &report.latency {
        if let Subject::Driver(driver) = &row.subject {
            if *driver != report.base && !drivers.contains(driver) {
                drivers.push(driver.clone());
            }
        }
    }
    drivers
}

/// Rows of a driver with their counterparts of the base.
fn matched<'a>(report: &'a Report, workload: &str, driver: &str) -> Vec<(&'a LatencyRow, &'a LatencyRow)> {
    let of = |name: &str| Subject::Driver(name.to_string());
    let rows = report.latency.iter().filter(|r| r.label.workload == workload && r.subject == of(driver));
    let base = |row: &LatencyRow| {
        report.latency.iter().find(|b| b.label == row.label && b.subject == of(&report.base))
    };
    rows.filter_map(|row| Some((row, base(row)?))).collect()
}

fn us(ns: f64) -> String {
    format!("{:.3}", ns / 1000.0)
}

fn fraction(subject: f64, base: f64) -> String {
    format!("{:.3}", subject / base)
}

fn verdict(row: &LatencyRow, pick: fn(&super::latency::Ratios) -> &Judged) -> String {
    row.ratios.as_ref().map_or(String::new(), |ratios| pick(ratios).verdict.clone())
}

fn by_pairs(report: &Report, driver: &str, style: Style) -> Option<String> {
    let rows = matched(report, throughput::NAME, driver);
    if rows.is_empty() {
        return None;
    }
    let base = &report.base;
    let header = vec![
        "bytes".into(),
        "pairs".into(),
        format!("{driver} avg"),
        format!("{base} avg"),
        "fraction".into(),
        "by average".into(),
        format!("{driver} 99p"),
        format!("{base} 99p"),
        "fraction".into(),
        "by 99p".into(),
    ];
    let mut table = new_table(style, header, &[5, 9]);
    for (row, base) in rows {
        table.add_row(vec![
            row.label.size.to_string(),
            row.label.pairs.to_string(),
            us(row.mean_ns),
            us(base.mean_ns),
            fraction(row.mean_ns, base.mean_ns),
            verdict(row, |r| &r.mean),
            us(row.p99_ns as f64),
            us(base.p99_ns as f64),
            fraction(row.p99_ns as f64, base.p99_ns as f64),
            verdict(row, |r| &r.p99),
        ]);
    }
    Some(format!("binderThroughputTest, microseconds: {driver} and {base}\n\n{table}"))
}

fn by_payload(report: &Report, driver: &str, style: Style) -> Option<String> {
    let rows = matched(report, rpc::NAME, driver);
    if rows.is_empty() {
        return None;
    }
    let base = &report.base;
    let header = vec![
        "case".into(),
        format!("{driver} wall"),
        format!("{base} wall"),
        "fraction".into(),
        "by average".into(),
        format!("{driver} CPU"),
        format!("{base} CPU"),
        "fraction".into(),
    ];
    let mut table = new_table(style, header, &[0, 4]);
    for (row, base) in rows {
        let mut cells = vec![
            row.label.case.clone(),
            us(row.mean_ns),
            us(base.mean_ns),
            fraction(row.mean_ns, base.mean_ns),
            verdict(row, |r| &r.mean),
        ];
        cells.extend(match (row.cpu, base.cpu) {
            (Some(cpu), Some(base)) => {
                [us(cpu.client_ns), us(base.client_ns), fraction(cpu.client_ns, base.client_ns)]
            }
            _ => Default::default(),
        });
        table.add_row(cells);
    }
    Some(format!("binderRpcBenchmark, microseconds, CPU of the client: {driver} and {base}\n\n{table}"))
}
