// SPDX-License-Identifier: GPL-2.0
//! Rows as text: for a terminal, or as Markdown.

use comfy_table::presets;
use comfy_table::CellAlignment;
use comfy_table::Table;

use super::CountRow;
use super::LatencyRow;
use super::Ratios;
use super::Report;
use super::Subject;
use crate::stats::Ratio;
use crate::stats::MIN_BOOTS;

/// How to draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Lines between groups.
    Terminal,
    /// A Markdown table.
    Markdown,
}

/// The whole report as text.
pub fn render(report: &Report, style: Style) -> String {
    let mut parts = Vec::new();
    if !report.latency.is_empty() {
        parts.push(heading("Round trip in microseconds", style));
        parts.push(latency_table(report, style));
    }
    if !report.counts.is_empty() {
        parts.push(heading("Guest instructions per round trip", style));
        parts.push(count_table(report, style));
    }
    let mark = if style == Style::Markdown { "- " } else { "note: " };
    let remarks: Vec<String> = report.remarks.iter().map(|r| format!("{mark}{r}")).collect();
    if !remarks.is_empty() {
        parts.push(remarks.join("\n"));
    }
    parts.join("\n\n") + "\n"
}

fn heading(text: &str, style: Style) -> String {
    match style {
        Style::Terminal => text.to_string(),
        Style::Markdown => format!("**{text}**"),
    }
}

fn new_table(style: Style, header: Vec<String>, text_columns: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_style(match style {
        Style::Terminal => presets::UTF8_FULL_CONDENSED,
        Style::Markdown => presets::ASCII_MARKDOWN,
    });
    let columns = header.len();
    table.set_header(header);
    for index in (0..columns).filter(|index| !text_columns.contains(index)) {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn latency_table(report: &Report, style: Style) -> String {
    let base = &report.base;
    let header = ["payload", "pairs", "", "avg", "p50", "p99", "max", "calls/s", "boots"].map(str::to_string);
    let ratios = [format!("avg ÷ {base} [95 %]"), format!("p50 ÷ {base} [95 %]")];
    let verdicts = ["by average", "by median"].map(str::to_string);
    let header = header.into_iter().chain(ratios).chain(verdicts).collect();
    let mut table = new_table(style, header, &[2, 11, 12]);
    let mut last = None;
    for row in &report.latency {
        let cell = (row.size, row.pairs);
        let named = last.replace(cell) != Some(cell);
        table.add_row(latency_cells(row, named));
    }
    table.to_string()
}

fn latency_cells(row: &LatencyRow, named: bool) -> Vec<String> {
    let us = |ns: f64| format!("{:.2}", ns / 1000.0);
    let ratio =
        |pick: fn(&Ratios) -> Ratio| row.ratios.as_ref().map_or(String::new(), |r| interval(&pick(r)));
    vec![
        if named { row.size.to_string() } else { String::new() },
        if named { row.pairs.to_string() } else { String::new() },
        row.subject.name().to_string(),
        us(row.mean_ns),
        us(row.p50_ns as f64),
        us(row.p99_ns as f64),
        us(row.max_ns as f64),
        format!("{:.0}", row.calls_per_second),
        row.boots.to_string(),
        ratio(|r| r.mean),
        ratio(|r| r.p50),
        verdict(row, |r| r.mean),
        verdict(row, |r| r.p50),
    ]
}

fn interval(ratio: &Ratio) -> String {
    format!("{:.3} [{:.3}, {:.3}]", ratio.point, ratio.low, ratio.high)
}

/// A winner only where the interval allows one; yardsticks are no contestants.
fn verdict(row: &LatencyRow, pick: fn(&Ratios) -> Ratio) -> String {
    let (Subject::Driver(_), Some(ratios)) = (&row.subject, &row.ratios) else { return String::new() };
    let ratio = pick(ratios);
    if ratio.boots < MIN_BOOTS {
        "too few boots".into()
    } else if (ratio.high < 1.0 || ratio.low > 1.0) && ratio.disturbed() {
        "machine disturbed".into()
    } else if !ratio.decides() {
        "no difference shown".into()
    } else if ratio.point < 1.0 {
        format!("{:.1} % faster", (1.0 - ratio.point) * 100.0)
    } else {
        format!("{:.1} % slower", (ratio.point - 1.0) * 100.0)
    }
}

fn count_table(report: &Report, style: Style) -> String {
    let header = ["payload", "", "instructions", "runs", "least … most"].map(str::to_string);
    let header = header.into_iter().chain([format!("÷ {}", report.base)]).collect();
    let mut table = new_table(style, header, &[1]);
    let mut last = None;
    for row in &report.counts {
        let named = last.replace(row.size) != Some(row.size);
        table.add_row(count_cells(row, named));
    }
    table.to_string()
}

fn count_cells(row: &CountRow, named: bool) -> Vec<String> {
    vec![
        if named { row.size.to_string() } else { String::new() },
        row.subject.name().to_string(),
        format!("{:.1}", row.instructions),
        row.runs.to_string(),
        if row.runs > 1 { format!("{:.1} … {:.1}", row.least, row.most) } else { String::new() },
        row.ratio.map_or(String::new(), |r| format!("{r:.3}")),
    ]
}
