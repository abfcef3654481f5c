// SPDX-License-Identifier: GPL-2.0
//! Results made up for tests.

use crate::result::Block;
use crate::result::Carrier;
use crate::result::Cell;
use crate::result::Count;
use crate::result::Environment;
use crate::result::Label;
use crate::result::Latency;
use crate::result::Measured;
use crate::result::Ran;
use crate::result::RunFile;
use crate::result::SCHEMA;
use crate::stats;

fn environment(boot: usize) -> Environment {
    Environment {
        tool: "t".into(),
        kernel: "k".into(),
        machine: "m".into(),
        processor: "p".into(),
        cpus: vec![0],
        boot_id: boot.to_string(),
        clock: "tsc".into(),
        placement: "same".into(),
        protocol: 8,
    }
}

fn cell(carrier: Carrier, measured: Measured) -> Cell {
    let label = Label { carrier, ..Label::new("throughput", "") };
    Cell { label, measured, cpu: None, ran: Ran::default() }
}

/// A boot whose round trips take about `ns`, a little different in each boot.
pub fn boot(driver: &str, boot: usize, ns: u64) -> RunFile {
    let made = |carrier, ns: u64| {
        let mut histogram = stats::new_histogram();
        let blocks: Vec<Block> = (0..10)
            .filter_map(|b| {
                let samples: Vec<u64> = (0..100).map(|i| ns + i % 7 + b + boot as u64 * 3).collect();
                stats::summarise(&samples, 1, (ns * 100) as f64, &mut histogram)
            })
            .collect();
        let measured = Measured::Latency(Latency { blocks, histogram: stats::to_pairs(&histogram) });
        cell(carrier, measured)
    };
    RunFile {
        schema: SCHEMA,
        driver: driver.into(),
        environment: environment(boot),
        cells: vec![made(Carrier::Binder, ns), made(Carrier::Pipe, 30_000)],
    }
}

/// A run that counted instructions.
pub fn count(driver: &str, instructions: f64) -> RunFile {
    let measured = Measured::Count(Count { n1: 1, n2: 2, t1: vec![3], t2: vec![5], instructions });
    RunFile {
        schema: SCHEMA,
        driver: driver.into(),
        environment: environment(0),
        cells: vec![cell(Carrier::Binder, measured)],
    }
}
