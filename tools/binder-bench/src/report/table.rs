// SPDX-License-Identifier: GPL-2.0
//! Rows as text.

use comfy_table::{presets, CellAlignment, Table};

use super::figures::{Amounts, Times};
use super::growth::Grows;
use super::sorted::Row;
use crate::result::Label;
use crate::stats::Ratio;

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
    ("workload", Point, |row| row.label.title()),
    ("payload", PointNumber, |row| bytes(&row.label)),
    ("clients", PointNumber, |row| row.label.pairs.to_string()),
    ("", Words, |row| row.subject.name().to_string()),
    ("avg", Number, |row| us(row.figures.mean_ns)),
    ("p50", Number, |row| us(row.figures.p50_ns as f64)),
    ("p90", Number, |row| us(row.figures.p90_ns as f64)),
    ("p99", Number, |row| us(row.figures.p99_ns as f64)),
    ("p99.9", Number, |row| us(row.figures.p999_ns as f64)),
    ("max", Number, |row| us(row.figures.max_ns as f64)),
    ("units/s", Number, |row| format!("{:.0}", row.figures.calls_per_second)),
    ("boots", Number, |row| row.figures.boots.to_string()),
    ("p50 ÷ {} [95 %]", Number, |row| {
        let interval = |ratio: &Ratio| format!("{:.3} [{:.3}, {:.3}]", ratio.point, ratio.low, ratio.high);
        row.figures.ratios.as_ref().map_or(String::new(), |ratios| interval(&ratios.p50.ratio))
    }),
    ("by median", Words, |row| {
        row.figures.ratios.as_ref().map_or(String::new(), |ratios| ratios.p50.verdict.clone())
    }),
];

pub const AMOUNTS: &[Column<Amounts>] = &[
    ("what", Point, |row| row.label.title()),
    ("payload", PointNumber, |row| bytes(&row.label)),
    ("", Words, |row| row.subject.name().to_string()),
    ("each", Number, |row| format!("{:.1}", row.figures.amount)),
    ("runs", Number, |row| row.figures.runs.to_string()),
    ("least … most", Number, |row| format!("{:.1} … {:.1}", row.figures.least, row.figures.most)),
    ("÷ {}", Number, |row| row.figures.ratio.map_or(String::new(), |ratio| format!("{ratio:.3}"))),
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
pub fn table<T>(heading: &str, rows: &[Row<T>], columns: &[Column<T>], base: &str) -> Option<String> {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
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
    (!rows.is_empty()).then(|| format!("{heading}\n\n{table}"))
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
