// SPDX-License-Identifier: GPL-2.0
//! The report contains the files' figures, and no others.

use super::rows::{Row, Times};
use super::{merge, render, Report};
use crate::result::{Block, Cell, Count, Environment, Label, Latency, Measured, RunFile};
use crate::stats;

fn run(driver: &str, measured: Measured) -> RunFile {
    let cell = Cell { label: Label::new("throughput", ""), measured };
    RunFile::new(driver, Environment::new(), vec![cell])
}

/// A boot whose round trips take about `ns`, a little different in each boot.
fn boot(driver: &str, boot: usize, ns: u64) -> RunFile {
    let mut histogram = stats::new_histogram();
    let blocks: Vec<Block> = (0..10)
        .filter_map(|b| {
            let samples: Vec<u64> = (0..100).map(|i| ns + i % 7 + b + boot as u64 * 3).collect();
            stats::summarise(&samples, 1, (ns * 100) as f64, &mut histogram)
        })
        .collect();
    run(driver, Measured::Latency(Latency { blocks, histogram: stats::to_pairs(&histogram) }))
}

/// A run that counted instructions.
fn count(driver: &str, instructions: f64) -> RunFile {
    run(driver, Measured::Count(Count { n1: 1, n2: 2, t1: vec![3], t2: vec![5], instructions }))
}

/// Three boots of C, and three of ours that are a tenth faster.
fn faster() -> Vec<RunFile> {
    (0..3).flat_map(|b| [boot("c", b, 20_000), boot("rust", b, 18_000)]).collect()
}

fn row<'a>(report: &'a Report, name: &str) -> &'a Row<Times> {
    report.latency.iter().find(|r| r.driver == name).unwrap()
}

/// Returns the ratio of ours to the base in a report.
fn ratio(report: &Report) -> stats::Ratio {
    row(report, "rust").figures.ratios.clone().unwrap().p50.ratio
}

#[test]
fn drivers_are_kept_apart() {
    let report = merge(&faster(), "c");
    for who in ["c", "rust"] {
        assert_eq!((row(&report, who).figures.boots, row(&report, who).figures.calls), (3, 3000));
    }
    assert!(row(&report, "c").figures.ratios.is_none());
    let ratio = ratio(&report);
    assert!((ratio.point - 0.9).abs() < 0.001 && ratio.decides(), "{ratio:?}");
    let text = render(&report);
    assert!(text.contains("10.0 % faster"), "{text}");
    let columns: Vec<usize> =
        text.lines().filter(|l| l.contains('┆')).map(|l| l.matches('┆').count()).collect();
    assert!(columns.len() == 3 && columns.iter().all(|&c| c == 13), "as many cells as headings: {columns:?}");
    assert!(report.remarks.is_empty(), "{:?}", report.remarks);
}

#[test]
fn no_winner_is_named_without_evidence() {
    let two: Vec<RunFile> = (0..2).flat_map(|b| [boot("c", b, 20_000), boot("rust", b, 10_000)]).collect();
    let report = merge(&two, "c");
    let text = render(&report);
    assert!(text.contains("too few boots") && !text.contains("faster"), "{text}");
    let equal: Vec<RunFile> =
        (0..3).flat_map(|b| [boot("c", b, 20_000), boot("rust", 2 - b, 20_000)]).collect();
    let text = render(&merge(&equal, "c"));
    assert!(text.contains("no difference shown"), "{text}");
}

#[test]
fn counts_are_compared_exactly() {
    let report = merge(&[count("c", 20_000.0), count("rust", 15_000.0), count("rust", 15_000.5)], "c");
    let rust = report.counts.iter().find(|r| r.driver == "rust").unwrap();
    assert_eq!(
        (rust.figures.runs, rust.figures.amount, rust.figures.most, rust.figures.ratio),
        (2, 15_000.0, 15_000.5, Some(0.75))
    );
    assert!(report.latency.is_empty());
    assert!(render(&report).contains(" 20000.0 "));
}

#[test]
fn missing_base_and_mixed_kernels_are_said() {
    let mut other = boot("rust", 1, 7);
    other.environment.insert("kernel".into(), "k2".into());
    let mut one = boot("rust", 0, 7);
    one.environment.insert("kernel".into(), "k".into());
    let report = merge(&[one, other], "c");
    assert!(report.latency.iter().all(|r| r.figures.ratios.is_none()));
    assert!(report.remarks.iter().any(|r| r.contains("no result of c")));
    assert!(report.remarks.iter().any(|r| r.contains("kernel: k / k2")));
}
