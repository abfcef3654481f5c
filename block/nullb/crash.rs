// SPDX-License-Identifier: GPL-2.0
//! Writes files until an error comes, and checks those that were synchronised.
//!
//!     crash write FOLDER LIST    adds files; LIST, outside of FOLDER, names those that are durable
//!     crash check FOLDER LIST    each of these has its data

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [way, folder, list] = &words[..] else {
        panic!("crash write|check FOLDER LIST")
    };
    let folder = Path::new(folder);
    let known = fs::read_to_string(list).unwrap_or_default();
    let known: Vec<u32> = known
        .lines()
        .map(|line| line.parse().expect("a number"))
        .collect();
    if way == "check" {
        for number in &known {
            let found = fs::read(folder.join(number.to_string()));
            assert!(
                found.is_ok_and(|found| found == content(*number)),
                "file {number} is not what was synchronised"
            );
        }
        println!("{}", known.len());
        return;
    }
    let mut list = OpenOptions::new()
        .append(true)
        .create(true)
        .open(list)
        .expect("open the list");
    for number in known.last().map_or(0, |last| last + 1000).. {
        if write(folder, number).is_err() {
            return;
        }
        if number % 3 == 0 {
            writeln!(list, "{number}").expect("write the list");
        }
    }
}

/// Writes a file. Each third one is synchronised, and so is its name; the others have an ending.
fn write(folder: &Path, number: u32) -> std::io::Result<()> {
    let draft = folder.join("draft");
    let mut file = File::create(&draft)?;
    file.write_all(&content(number))?;
    if number % 3 != 0 {
        return fs::rename(&draft, folder.join(format!("{number}.loose")));
    }
    file.sync_all()?;
    fs::rename(&draft, folder.join(number.to_string()))?;
    File::open(folder)?.sync_all()
}

/// The data of a file: up to three pages.
fn content(number: u32) -> Vec<u8> {
    let size = number.wrapping_mul(2_654_435_761) >> 8;
    number
        .to_le_bytes()
        .into_iter()
        .cycle()
        .take(1 + size as usize % 12_000)
        .collect()
}
