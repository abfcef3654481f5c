// SPDX-License-Identifier: GPL-2.0
//! Rows as text: for a terminal, or as Markdown.

use comfy_table::{presets, CellAlignment, Table};

use super::figures::{Bytes, Instructions, Judged, Ratios, Times};
use super::growth::Grows;
use super::sorted::Row;
use crate::result::{Label, Unit};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Terminal,
    Markdown,
}

/// A column: its title, in which `{}` is the base, what kind it is, and what a row has there.
pub type Column<T> = (&'static str, Kind, fn(&Row<T>) -> String);

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Words about the point, left out where the row above is about the same.
    Point,
    /// The same in numbers.
    PointNumber,
    Words,
    Number,
}
use Kind::{Number, Point, PointNumber, Words};

pub const TIMES: &[Column<Times>] = &[
    ("workload", Point, |row| title(&row.label)),
    ("bytes", PointNumber, |row| bytes(&row.label)),
    ("clients", PointNumber, |row| row.label.pairs.to_string()),
    ("", Words, |row| row.subject.name().to_string()),
    ("avg", Number, |row| us(row.figures.mean_ns)),
    ("p50", Number, |row| us(row.figures.p50_ns as f64)),
    ("p90", Number, |row| us(row.figures.p90_ns as f64)),
    ("p99", Number, |row| us(row.figures.p99_ns as f64)),
    ("p99.9", Number, |row| us(row.figures.p999_ns as f64)),
    ("max", Number, |row| us(row.figures.max_ns as f64)),
    ("CPU", Number, |row| row.figures.cpu.map_or(String::new(), |cpu| us(cpu.client_ns + cpu.server_ns))),
    ("units/s", Number, |row| format!("{:.0}", row.figures.calls_per_second)),
    ("boots", Number, |row| row.figures.boots.to_string()),
    ("avg ÷ {} [95 %]", Number, |row| interval(row, |ratios| &ratios.mean)),
    ("p50 ÷ {} [95 %]", Number, |row| interval(row, |ratios| &ratios.p50)),
    ("by average", Words, |row| verdict(row, |ratios| &ratios.mean)),
    ("by median", Words, |row| verdict(row, |ratios| &ratios.p50)),
];

pub const INSTRUCTIONS: &[Column<Instructions>] = &[
    ("workload", Point, |row| title(&row.label)),
    ("bytes", PointNumber, |row| bytes(&row.label)),
    ("", Words, |row| row.subject.name().to_string()),
    ("instructions", Number, |row| format!("{:.1}", row.figures.instructions)),
    ("runs", Number, |row| row.figures.runs.to_string()),
    ("least … most", Number, |Row { figures, .. }| match figures.runs {
        1 => String::new(),
        _ => format!("{:.1} … {:.1}", figures.least, figures.most),
    }),
    ("÷ {}", Number, |row| row.figures.ratio.map_or(String::new(), |ratio| format!("{ratio:.3}"))),
];

pub const BYTES: &[Column<Bytes>] = &[
    ("object", Point, |row| row.label.case.clone()),
    ("", Words, |row| row.subject.name().to_string()),
    ("bytes", Number, |row| format!("{:.0}", row.figures.bytes)),
    ("±", Number, |row| format!("{:.0}", row.figures.plus_minus)),
    ("of it slab", Number, |row| format!("{:.0}", row.figures.slab)),
    ("runs", Number, |row| row.figures.runs.to_string()),
    ("÷ {}", Number, |row| row.figures.ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"))),
];

pub const GROWS: &[Column<Grows>] = &[
    ("quantity", Point, |row| row.label.case.clone()),
    ("", Words, |row| row.subject.name().to_string()),
    ("fewest", Number, |row| row.figures.each.get(1).map_or(String::new(), |(_, each)| format!("{each:.0}"))),
    ("most", Number, |row| row.figures.each.last().map_or(String::new(), |(_, each)| format!("{each:.0}"))),
    ("grows", Number, |row| row.figures.exponent.map_or(String::new(), |power| format!("{power:.2}"))),
    ("off", Number, |row| row.figures.preempt_off.as_ref().map_or(String::new(), |(off, _)| off.to_string())),
    ("÷ {}", Number, |row| row.figures.ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"))),
    ("", Words, |row| row.figures.faults.join(", ")),
];

/// A heading and a table, with numbers to the right; nothing without rows.
pub fn table<T>(
    heading: &str,
    rows: &[Row<T>],
    columns: &[Column<T>],
    base: &str,
    style: Style,
) -> Option<String> {
    let mut table = Table::new();
    table.load_style(match style {
        Style::Terminal => presets::UTF8_FULL_CONDENSED,
        Style::Markdown => presets::ASCII_MARKDOWN,
    });
    table.set_header(columns.iter().map(|(title, ..)| title.replace("{}", base)));
    for (column, (_, kind, _)) in table.column_iter_mut().zip(columns) {
        if matches!(kind, Number | PointNumber) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut last = None;
    for row in rows {
        let is_named = last.replace(&row.label) != Some(&row.label);
        let is_shown = |kind| is_named || matches!(kind, Words | Number);
        let cell = |(_, kind, cell): &Column<T>| if is_shown(*kind) { cell(row) } else { String::new() };
        table.add_row(columns.iter().map(cell));
    }
    let heading = if style == Style::Markdown { format!("**{heading}**") } else { heading.to_string() };
    (!rows.is_empty()).then(|| format!("{heading}\n\n{table}"))
}

fn title(label: &Label) -> String {
    label.title() + if label.unit == Unit::Operation { " (operation)" } else { "" }
}

fn bytes(label: &Label) -> String {
    match (label.size, label.reply) {
        (size, reply) if size == reply => size.to_string(),
        (size, reply) => format!("{size} → {reply}"),
    }
}

fn us(ns: f64) -> String {
    format!("{:.2}", ns / 1000.0)
}

fn interval(row: &Row<Times>, pick: fn(&Ratios) -> &Judged) -> String {
    row.figures
        .ratios
        .as_ref()
        .map(|ratios| pick(ratios).ratio)
        .map_or(String::new(), |ratio| format!("{:.3} [{:.3}, {:.3}]", ratio.point, ratio.low, ratio.high))
}

fn verdict(row: &Row<Times>, pick: fn(&Ratios) -> &Judged) -> String {
    row.figures.ratios.as_ref().map_or(String::new(), |ratios| pick(ratios).verdict.clone())
}
