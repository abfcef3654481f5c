// SPDX-License-Identifier: GPL-2.0
//! The report says what the files say, and no more.

use super::latency::LatencyRow;
use super::merge;
use super::render;
use super::rfc;
use super::samples::boot;
use super::samples::count;
use super::Report;
use super::Style;
use crate::error::Error;
use crate::result::CpuTime;
use crate::result::Label;
use crate::result::Measured;
use crate::result::RunFile;
use crate::yardstick;

fn row<'a>(report: &'a Report, name: &str) -> &'a LatencyRow {
    report.latency.iter().find(|r| r.subject.name() == name).unwrap()
}

#[test]
fn drivers_are_kept_apart_and_yardsticks_merged() {
    let files: Vec<RunFile> = (0..3).flat_map(|b| [boot("c", b, 20_000), boot("rust", b, 18_000)]).collect();
    let report = merge(&files, "c").unwrap();
    assert_eq!((row(&report, "c").boots, row(&report, "rust").boots, row(&report, "pipe").boots), (3, 3, 6));
    assert_eq!((row(&report, "c").calls, row(&report, "pipe").calls), (3000, 6000));
    assert!(row(&report, "c").ratios.is_none());
    let ratio = row(&report, "rust").ratios.clone().unwrap().mean.ratio;
    assert!((ratio.point - 0.9).abs() < 0.001 && ratio.decides(), "{ratio:?}");
    let text = render(&report, Style::Terminal);
    assert!(text.contains("10.0 % faster"), "{text}");
    let columns: Vec<usize> =
        text.lines().filter(|l| l.contains('┆')).map(|l| l.matches('┆').count()).collect();
    assert!(columns.len() == 4 && columns.iter().all(|&c| c == 16), "as many cells as headings: {columns:?}");
    assert!(report.remarks.is_empty(), "{:?}", report.remarks);
}

#[test]
fn no_winner_is_named_without_evidence() {
    let two: Vec<RunFile> = (0..2).flat_map(|b| [boot("c", b, 20_000), boot("rust", b, 10_000)]).collect();
    let report = merge(&two, "c").unwrap();
    let text = render(&report, Style::Markdown);
    assert!(text.contains("too few boots") && !text.contains("faster"), "{text}");
    assert_eq!(report.remarks.len(), 2);
    let equal: Vec<RunFile> =
        (0..3).flat_map(|b| [boot("c", b, 20_000), boot("rust", 2 - b, 20_000)]).collect();
    let text = render(&merge(&equal, "c").unwrap(), Style::Markdown);
    assert!(text.contains("no difference shown"), "{text}");
}

#[test]
fn a_machine_that_was_slower_for_one_driver_names_no_winner() {
    let mut files: Vec<RunFile> =
        (0..3).flat_map(|b| [boot("c", b, 20_000), boot("rust", b, 18_000)]).collect();
    for file in files.iter_mut().filter(|f| f.driver == "c") {
        // The pipe suffered as much as the driver.
        let Measured::Latency(pipe) = &mut file.cells[1].measured else { panic!("boot() makes latencies") };
        for block in &mut pipe.blocks {
            block.mean_ns *= 1.1;
        }
    }
    let report = merge(&files, "c").unwrap();
    let ratios = row(&report, "rust").ratios.clone().unwrap();
    assert!(!ratios.mean.ratio.decides() && ratios.p50.ratio.decides(), "{ratios:?}");
    assert!(render(&report, Style::Terminal).contains("machine disturbed"));
}

#[test]
fn the_same_file_twice_is_refused() {
    let error = merge(&[boot("c", 0, 5), boot("c", 0, 5)], "c").unwrap_err();
    assert!(matches!(error, Error::BadInput(_)));
    assert!(merge(&[count("c", 5.0), count("c", 5.0)], "c").is_ok());
}

#[test]
fn counts_are_compared_exactly() {
    let report =
        merge(&[count("c", 20_000.0), count("rust", 15_000.0), count("rust", 15_000.5)], "c").unwrap();
    let rust = report.counts.iter().find(|r| r.subject.name() == "rust").unwrap();
    assert_eq!((rust.runs, rust.instructions, rust.most, rust.ratio), (2, 15_000.0, 15_000.5, Some(0.75)));
    assert!(report.latency.is_empty());
    assert!(render(&report, Style::Markdown).contains(" 20000.0 "));
}

#[test]
fn missing_base_and_mixed_kernels_are_said() {
    let mut other = boot("rust", 1, 7);
    other.environment.kernel = "k2".into();
    let report = merge(&[boot("rust", 0, 7), other], "c").unwrap();
    assert!(report.latency.iter().all(|r| r.ratios.is_none()));
    assert!(report.remarks.iter().any(|r| r.contains("no result of c")));
    assert!(report.remarks.iter().any(|r| r.contains("kernel: k / k2")));
}

#[test]
fn a_workload_without_payloads_is_controlled_by_its_yardstick() {
    let mut files: Vec<RunFile> =
        (0..3).flat_map(|b| [boot("c", b, 20_000), boot("rust", b, 18_000)]).collect();
    for file in &mut files {
        file.cells[0].label.case = "transient".into();
        file.cells[1].label.case = yardstick::CASE.into();
    }
    let report = merge(&files, "c").unwrap();
    assert!(row(&report, "rust").ratios.clone().unwrap().mean.ratio.control.is_some());
    for file in &mut files {
        file.cells[1].label.workload = "other".into();
    }
    let report = merge(&files, "c").unwrap();
    assert!(row(&report, "rust").ratios.clone().unwrap().mean.ratio.control.is_none());
}

#[test]
fn the_tables_of_the_rfc_have_fractions_and_leave_out_what_has_no_counterpart() {
    let mut files: Vec<RunFile> =
        (0..3).flat_map(|b| [boot("c", b, 20_000), boot("rust", b, 18_000)]).collect();
    let text = rfc::render(&merge(&files, "c").unwrap(), Style::Markdown).unwrap();
    assert!(text.contains("rust avg") && text.contains(" 0.900 ") && !text.contains("pipe"), "{text}");
    for file in &mut files {
        file.cells[0].label = Label::new("rpc", "pingTransaction");
        file.cells[0].cpu = Some(CpuTime { client_ns: 9000.0, server_ns: 1.0 });
    }
    let text = rfc::render(&merge(&files, "c").unwrap(), Style::Terminal).unwrap();
    assert!(
        text.contains("pingTransaction") && text.contains(" 9.000 ") && text.contains(" 1.000 "),
        "{text}"
    );
    files.retain(|f| f.driver == "rust");
    assert!(matches!(rfc::render(&merge(&files, "c").unwrap(), Style::Terminal), Err(Error::BadInput(_))));
}
