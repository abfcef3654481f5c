// SPDX-License-Identifier: GPL-2.0
//! Rows as text: for a terminal, or as Markdown.

use comfy_table::presets;
use comfy_table::CellAlignment;
use comfy_table::Table;

use super::counts::CountRow;
use super::growth::GrowthRow;
use super::latency::Judged;
use super::latency::LatencyRow;
use super::latency::Ratios;
use super::memory::MemoryRow;
use super::merge::Report;
use super::pressure::PressureRow;
use crate::result::Label;
use crate::result::Unit;
use crate::stats::Ratio;

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
        parts.push(heading("Microseconds", style));
        parts.push(latency_table(report, style));
    }
    if !report.counts.is_empty() {
        parts.push(heading("Guest instructions", style));
        parts.push(count_table(report, style));
    }
    if !report.memory.is_empty() {
        parts.push(heading("Bytes of kernel memory", style));
        parts.push(memory_table(report, style));
    }
    if let Some(row) = report.pressure.first() {
        let unit = if row.instructions { "guest instructions" } else { "microseconds" };
        parts.push(heading(&format!("Calls under pressure, {unit}"), style));
        parts.push(pressure_table(report, style));
    }
    if !report.growth.is_empty() {
        parts.push(heading(
            "Guest instructions of each, the fewest and the most of them, and how all grow",
            style,
        ));
        parts.push(growth_table(report, style));
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

/// A table with right-aligned columns, but for those of text.
pub fn new_table(style: Style, header: Vec<String>, text_columns: &[usize]) -> Table {
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
    let header = [
        "workload", "bytes", "clients", "", "avg", "p50", "p90", "p99", "p99.9", "max", "CPU", "units/s",
        "boots",
    ];
    let ratios = [format!("avg ÷ {base} [95 %]"), format!("p50 ÷ {base} [95 %]")];
    let verdicts = ["by average", "by median"].map(str::to_string);
    let header = header.map(str::to_string).into_iter().chain(ratios).chain(verdicts).collect();
    let mut table = new_table(style, header, &[0, 3, 15, 16]);
    let mut last = None;
    for row in &report.latency {
        let named = last.replace(&row.label) != Some(&row.label);
        table.add_row(latency_cells(row, named));
    }
    table.to_string()
}

fn latency_cells(row: &LatencyRow, named: bool) -> Vec<String> {
    let us = |ns: f64| format!("{:.2}", ns / 1000.0);
    let ratio = |pick: fn(&Ratios) -> &Judged| {
        row.ratios.as_ref().map_or(String::new(), |r| interval(&pick(r).ratio))
    };
    let verdict =
        |pick: fn(&Ratios) -> &Judged| row.ratios.as_ref().map_or(String::new(), |r| pick(r).verdict.clone());
    let mut cells = place_cells(&row.label, named).to_vec();
    if named {
        cells[2] = row.label.pairs.to_string();
    }
    cells.extend([
        row.subject.name().to_string(),
        us(row.mean_ns),
        us(row.p50_ns as f64),
        us(row.p90_ns as f64),
        us(row.p99_ns as f64),
        us(row.p999_ns as f64),
        us(row.max_ns as f64),
        row.cpu.map_or(String::new(), |cpu| us(cpu.client_ns + cpu.server_ns)),
        format!("{:.0}", row.calls_per_second),
        row.boots.to_string(),
        ratio(|r| &r.mean),
        ratio(|r| &r.p50),
        verdict(|r| &r.mean),
        verdict(|r| &r.p50),
    ]);
    cells
}

/// What a row is about, where the row above is not about the same: workload, bytes, and a place to fill in.
fn place_cells(label: &Label, named: bool) -> [String; 3] {
    if !named {
        return Default::default();
    }
    let bytes = match (label.size, label.reply) {
        (size, reply) if size == reply => size.to_string(),
        (size, reply) => format!("{size} → {reply}"),
    };
    let unit = if label.unit == Unit::Operation { " (operation)" } else { "" };
    [label.title() + unit, bytes, String::new()]
}

fn interval(ratio: &Ratio) -> String {
    format!("{:.3} [{:.3}, {:.3}]", ratio.point, ratio.low, ratio.high)
}

fn count_table(report: &Report, style: Style) -> String {
    let header = ["workload", "bytes", "", "instructions", "runs", "least … most"].map(str::to_string);
    let header = header.into_iter().chain([format!("÷ {}", report.base)]).collect();
    let mut table = new_table(style, header, &[0, 2]);
    let mut last = None;
    for row in &report.counts {
        let named = last.replace(&row.label) != Some(&row.label);
        table.add_row(count_cells(row, named));
    }
    table.to_string()
}

fn count_cells(row: &CountRow, named: bool) -> Vec<String> {
    let [workload, bytes, _] = place_cells(&row.label, named);
    vec![
        workload,
        bytes,
        row.subject.name().to_string(),
        format!("{:.1}", row.instructions),
        row.runs.to_string(),
        if row.runs > 1 { format!("{:.1} … {:.1}", row.least, row.most) } else { String::new() },
        row.ratio.map_or(String::new(), |r| format!("{r:.3}")),
    ]
}

fn memory_table(report: &Report, style: Style) -> String {
    let header = ["object", "", "bytes", "±", "of it slab", "runs"].map(str::to_string);
    let header = header.into_iter().chain([format!("÷ {}", report.base)]).collect();
    let mut table = new_table(style, header, &[0, 1]);
    let mut last = None;
    for row in &report.memory {
        let named = last.replace(&row.label) != Some(&row.label);
        table.add_row(memory_cells(row, named));
    }
    table.to_string()
}

fn memory_cells(row: &MemoryRow, named: bool) -> Vec<String> {
    vec![
        if named { row.label.case.clone() } else { String::new() },
        row.subject.name().to_string(),
        format!("{:.0}", row.bytes),
        format!("{:.0}", row.plus_minus),
        format!("{:.0}", row.slab),
        row.runs.to_string(),
        row.ratio.map_or(String::new(), |r| format!("{r:.2}")),
    ]
}

fn growth_table(report: &Report, style: Style) -> String {
    let header = ["quantity", "", "fewest", "most", "grows", "off", &format!("÷ {}", report.base), ""];
    let mut table = new_table(style, header.map(str::to_string).to_vec(), &[0, 1, 7]);
    let mut last = None;
    for row in &report.growth {
        let named = last.replace(&row.label) != Some(&row.label);
        table.add_row(growth_cells(row, named));
    }
    table.to_string()
}

fn growth_cells(row: &GrowthRow, named: bool) -> Vec<String> {
    let each = |pair: Option<&(u64, f64)>| pair.map_or(String::new(), |(_, each)| format!("{each:.0}"));
    let off = row.preempt_off.as_ref().map(|(instructions, _)| instructions);
    vec![
        if named { row.label.case.clone() } else { String::new() },
        row.subject.name().to_string(),
        each(row.each.get(1)),
        each(row.each.last()),
        row.exponent.map_or(String::new(), |power| format!("{power:.2}")),
        off.map_or(String::new(), u64::to_string),
        row.ratio.map_or(String::new(), |r| format!("{r:.2}")),
        row.faults.join(", "),
    ]
}

fn pressure_table(report: &Report, style: Style) -> String {
    let header = [
        "pressure",
        "bytes",
        "",
        "calls",
        "failed",
        "p50 quiet → squeezed",
        "÷",
        "p99 quiet → squeezed",
        "÷",
        "worst quiet → squeezed",
        "asked",
        "KiB taken back",
    ];
    let mut table = new_table(style, header.map(str::to_string).to_vec(), &[0, 2]);
    let mut last = None;
    for row in &report.pressure {
        let named = last.replace(&row.label) != Some(&row.label);
        table.add_row(pressure_cells(row, named));
    }
    table.to_string()
}

fn pressure_cells(row: &PressureRow, named: bool) -> Vec<String> {
    let figure = |value: u64| match row.instructions {
        true => value.to_string(),
        false => format!("{:.1}", value as f64 / 1000.0),
    };
    let pair = |[quiet, squeezed]: [u64; 2]| format!("{} → {}", figure(quiet), figure(squeezed));
    let ratio = |[quiet, squeezed]: [u64; 2]| format!("{:.2}", squeezed as f64 / quiet as f64);
    let place = |text: String| if named { text } else { String::new() };
    vec![
        place(row.label.case.clone()),
        place(row.label.size.to_string()),
        row.subject.name().to_string(),
        row.calls.to_string(),
        row.failed.to_string(),
        pair(row.p50),
        ratio(row.p50),
        pair(row.p99),
        ratio(row.p99),
        pair(row.max),
        row.squeezes.to_string(),
        (row.taken_back / 1024).to_string(),
    ]
}
