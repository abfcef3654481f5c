// SPDX-License-Identifier: GPL-2.0
//! Results as CSV, for spreadsheets and statistics programs: one line for each block of time, window of instructions,
//! level of memory, and time that calls under pressure took.

use serde::Serialize;

use crate::error::Error;
use crate::error::Result;
use crate::result::Block;
use crate::result::Cell;
use crate::result::Level;
use crate::result::Measured;
use crate::result::RunFile;
use crate::result::Times;
use crate::result::Unit;

/// A line. What a block or a window does not have stays empty.
#[derive(Default, Serialize)]
struct Line<'a> {
    driver: &'a str,
    boot: &'a str,
    workload: &'a str,
    case: &'a str,
    parameters: &'a str,
    carrier: &'static str,
    unit: Option<Unit>,
    size: u32,
    reply: u32,
    clients: u32,
    batch: u32,
    /// `block`, `short window`, `long window`, `level`, `control`, `quiet` or `squeezed`.
    kind: &'static str,
    /// Which block or window of its kind, in the order of time.
    number: usize,
    /// Units of a block, calls of a window, objects that are there, or calls that took as long.
    calls: u64,
    wall_ns: Option<f64>,
    mean_ns: Option<f64>,
    p50_ns: Option<f64>,
    p90_ns: Option<f64>,
    p99_ns: Option<f64>,
    p999_ns: Option<f64>,
    max_ns: Option<f64>,
    /// Of the whole window.
    instructions: Option<u64>,
    /// Of kernel memory, when there were so many objects.
    bytes: Option<u64>,
    /// Of them, in slabs.
    slab: Option<u64>,
}

/// All lines of all files, with a heading.
pub fn csv(files: &[RunFile]) -> Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let failed = |e: csv::Error| Error::Io { what: "cannot make CSV".into(), source: e.into() };
    for file in files {
        for cell in &file.cells {
            let parameters = parameters(cell);
            for line in lines(file, cell, &parameters) {
                writer.serialize(line).map_err(failed)?;
            }
        }
    }
    let bytes = writer.into_inner().map_err(|e| failed(e.into_error().into()))?;
    Ok(String::from_utf8(bytes).expect("names and numbers are text"))
}

fn parameters(cell: &Cell) -> String {
    let each = cell.label.parameters.iter().map(|(name, value)| format!("{name}={value}"));
    each.collect::<Vec<_>>().join(" ")
}

fn lines<'a>(file: &'a RunFile, cell: &'a Cell, parameters: &'a str) -> Vec<Line<'a>> {
    let label = &cell.label;
    let line = |kind, number, calls| Line {
        driver: &file.driver,
        boot: &file.environment.boot_id,
        workload: &label.workload,
        case: &label.case,
        parameters,
        carrier: label.carrier.name(),
        unit: Some(label.unit),
        size: label.size,
        reply: label.reply,
        clients: label.pairs,
        batch: label.batch,
        kind,
        number,
        calls,
        ..Default::default()
    };
    match &cell.measured {
        Measured::Latency(latency) => {
            let blocks = latency.blocks.iter().enumerate();
            blocks.map(|(number, block)| with_times(line("block", number, block.calls), block)).collect()
        }
        Measured::Count(count) => {
            let windows = |kind, calls, ticks: &[u64]| {
                let ticks = ticks.iter().enumerate();
                ticks
                    .map(|(n, &t)| Line { instructions: Some(t), ..line(kind, n, calls) })
                    .collect::<Vec<_>>()
            };
            let mut lines = windows("short window", count.n1, &count.t1);
            lines.extend(windows("long window", count.n2, &count.t2));
            lines
        }
        Measured::Pressure(pressure) => {
            let times = |kind, times: &Times| {
                let pairs = times.histogram.iter().enumerate();
                let value = |l: Line<'a>, v: u64| match pressure.instructions {
                    true => Line { instructions: Some(v), ..l },
                    false => Line { mean_ns: Some(v as f64), ..l },
                };
                pairs.map(|(n, &(v, calls))| value(line(kind, n, calls), v)).collect::<Vec<_>>()
            };
            let mut lines = times("quiet", &pressure.quiet);
            lines.extend(times("squeezed", &pressure.squeezed));
            lines
        }
        Measured::Growth(growth) => {
            let points = growth.points.iter().enumerate();
            points
                .map(|(n, p)| Line { instructions: Some(p.instructions), ..line("number", n, p.count) })
                .collect()
        }
        Measured::Memory(memory) => {
            let levels = |kind, levels: &[Level]| {
                let levels = levels.iter().enumerate();
                levels
                    .map(|(n, l)| Line {
                        bytes: Some(l.bytes),
                        slab: Some(l.slab),
                        ..line(kind, n, l.objects)
                    })
                    .collect::<Vec<_>>()
            };
            let mut lines = levels("level", &memory.levels);
            lines.extend(levels("control", &memory.control));
            lines
        }
    }
}

fn with_times<'a>(line: Line<'a>, block: &Block) -> Line<'a> {
    Line {
        wall_ns: Some(block.wall_ns),
        mean_ns: Some(block.mean_ns),
        p50_ns: Some(block.p50_ns),
        p90_ns: Some(block.p90_ns),
        p99_ns: Some(block.p99_ns),
        p999_ns: Some(block.p999_ns),
        max_ns: Some(block.max_ns),
        ..line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn every_block_and_window_is_a_line_of_as_many_fields() {
        let text = csv(&[samples::boot("c", 0, 20_000), samples::count("c,d", 7.0)]).unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let names = reader.headers().unwrap().clone();
        let records: Vec<csv::StringRecord> =
            reader.records().collect::<std::result::Result<_, _>>().unwrap();
        let field = |record: &csv::StringRecord, name: &str| {
            record[names.iter().position(|n| n == name).unwrap()].to_string()
        };
        // Two points of ten blocks, then one of one window of each length.
        assert_eq!(records.len(), 22);
        assert_eq!((field(&records[0], "kind"), field(&records[9], "number")), ("block".into(), "9".into()));
        assert_eq!(field(&records[10], "carrier"), "pipe");
        assert_eq!(field(&records[0], "instructions"), "");
        assert_eq!(field(&records[21], "driver"), "c,d");
        assert_eq!(
            (field(&records[21], "kind"), field(&records[21], "mean_ns")),
            ("long window".into(), "".into())
        );
        assert_eq!(field(&records[21], "unit"), "round trip");
    }
}
