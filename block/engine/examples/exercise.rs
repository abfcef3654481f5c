// SPDX-License-Identifier: GPL-2.0
//! Reads and writes a disk at random, and compares what comes back with what was written.
//!
//!     exercise DEVICE SEED STEPS [UNIT]
//!
//! Positions and lengths are multiples of UNIT, which is 4096 if it is not named. A request that
//! fails is one that changed nothing. Prints how many have failed.

use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use std::fs::OpenOptions;
use std::io::{Result, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};

const O_DIRECT: i32 = 0o40000;
const MOST_UNITS: usize = 64;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [path, seed, steps, unit @ ..] = &words[..] else { panic!("exercise DEVICE SEED STEPS [UNIT]") };
    let unit: usize = unit.first().map_or(4096, |unit| unit.parse().expect("a number"));
    let mut device = OpenOptions::new().read(true).write(true).custom_flags(O_DIRECT).open(path)?;
    let size = device.seek(SeekFrom::End(0))? as usize;
    let mut random = SmallRng::seed_from_u64(seed.parse().expect("a seed"));
    let mut memory = vec![0; (MOST_UNITS + 1) * unit];
    let start = memory.as_ptr().align_offset(unit);
    let mut model: Vec<Option<u8>> = vec![None; size / unit];
    let mut failed = 0;
    for step in 0..steps.parse().expect("a number") {
        let units = random.random_range(1..=MOST_UNITS.min(model.len()));
        let first = random.random_range(0..=model.len() - units);
        let buffer = &mut memory[start..][..units * unit];
        let at = (first * unit) as u64;
        match random.random_range(0..10) {
            0 => device.sync_data()?,
            1..=4 => {
                let mark = random.next_u32() as u8;
                buffer.fill(mark);
                match device.write_all_at(buffer, at) {
                    Ok(()) => model[first..first + units].fill(Some(mark)),
                    Err(_) => failed += 1,
                }
            }
            _ => match device.read_exact_at(buffer, at) {
                Ok(()) => {
                    for (data, known) in buffer.chunks(unit).zip(&model[first..]) {
                        let same = known.is_none_or(|mark| data.iter().all(|byte| *byte == mark));
                        assert!(same, "step {step}: {units} units at {first} differ");
                    }
                }
                Err(_) => failed += 1,
            },
        }
    }
    println!("{failed}");
    Ok(())
}
