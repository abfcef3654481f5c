// SPDX-License-Identifier: GPL-2.0
//! Rows as text.

use comfy_table::{
    presets,
    CellAlignment::{self, Left, Right},
    Table,
};

use super::growth::Grows;
use super::rows::{Amounts, Row, Times};
use crate::result::Label;
use crate::stats::Ratio;

/// A column: its title, in which `{}` is the base, to which side it is aligned, and what a row has there.
pub type Column<T> = (&'static str, CellAlignment, fn(&Row<T>) -> String);

pub const TIMES: &[Column<Times>] = &[
    ("workload", Left, |row| row.label.title()),
    ("payload", Right, |row| bytes(&row.label)),
    ("clients", Right, |row| row.label.pairs.to_string()),
    ("", Left, |row| row.driver.clone()),
    ("avg", Right, |row| us(row.figures.mean_ns)),
    ("p50", Right, |row| us(row.figures.p50_ns as f64)),
    ("p90", Right, |row| us(row.figures.p90_ns as f64)),
    ("p99", Right, |row| us(row.figures.p99_ns as f64)),
    ("p99.9", Right, |row| us(row.figures.p999_ns as f64)),
    ("max", Right, |row| us(row.figures.max_ns as f64)),
    ("units/s", Right, |row| format!("{:.0}", row.figures.calls_per_second)),
    ("boots", Right, |row| row.figures.boots.to_string()),
    ("p50 ÷ {} [95 %]", Right, |row| {
        let interval = |ratio: &Ratio| format!("{:.3} [{:.3}, {:.3}]", ratio.point, ratio.low, ratio.high);
        row.figures.ratios.as_ref().map_or(String::new(), |ratios| interval(&ratios.p50.ratio))
    }),
    ("by median", Left, |row| {
        row.figures.ratios.as_ref().map_or(String::new(), |ratios| ratios.p50.verdict.clone())
    }),
];

pub const AMOUNTS: &[Column<Amounts>] = &[
    ("what", Left, |row| row.label.title()),
    ("payload", Right, |row| bytes(&row.label)),
    ("", Left, |row| row.driver.clone()),
    ("each", Right, |row| format!("{:.1}", row.figures.amount)),
    ("runs", Right, |row| row.figures.runs.to_string()),
    ("least … most", Right, |row| format!("{:.1} … {:.1}", row.figures.least, row.figures.most)),
    ("÷ {}", Right, |row| row.figures.ratio.map_or(String::new(), |ratio| format!("{ratio:.3}"))),
];

pub const GROWS: &[Column<Grows>] = &[
    ("quantity", Left, |row| row.label.case.clone()),
    ("", Left, |row| row.driver.clone()),
    ("fewest", Right, |row| row.figures.each.get(1).map_or(String::new(), |(_, each)| format!("{each:.0}"))),
    ("most", Right, |row| row.figures.each.last().map_or(String::new(), |(_, each)| format!("{each:.0}"))),
    ("grows", Right, |row| row.figures.exponent.map_or(String::new(), |power| format!("{power:.2}"))),
    ("off", Right, |row| row.figures.preempt_off.as_ref().map_or(String::new(), |(off, _)| off.to_string())),
    ("÷ {}", Right, |row| row.figures.ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"))),
    ("", Left, |row| row.figures.faults.join(", ")),
];

/// A heading and a table, with numbers to the right; nothing without rows.
pub fn table<T>(heading: &str, rows: &[Row<T>], columns: &[Column<T>], base: &str) -> Option<String> {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(columns.iter().map(|(title, ..)| title.replace("{}", base)));
    for (column, (_, alignment, _)) in table.column_iter_mut().zip(columns) {
        column.set_cell_alignment(*alignment);
    }
    table.add_rows(rows.iter().map(|row| columns.iter().map(|(.., cell)| cell(row))));
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
