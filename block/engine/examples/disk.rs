// SPDX-License-Identifier: GPL-2.0
//! A disk of memory or of a file, with a cache or without one, until a signal ends it. Prints its path.

use anyhow::Context;
use block_engine::{delete, flaky, slow, Cached, Disk, FileStorage, Ram, Storage};
use clap::{Parser, Subcommand};
use nix::sys::signal::{SigSet, Signal};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    storage: Kind,
    /// The size of a block in bytes
    #[arg(long, default_value_t = 512, global = true)]
    block: u32,
}

#[derive(Subcommand)]
enum Kind {
    /// Memory that is gone with the disk
    Ram {
        mebibytes: usize,
        /// Fail each so-many-th read or write
        #[arg(long, value_name = "N")]
        fail: Option<u64>,
        /// Take so many milliseconds for each read or write
        #[arg(long, value_name = "MS")]
        delay: Option<u64>,
    },
    /// A file, or a block device
    File { path: PathBuf },
    /// The same, behind a write-back cache in another file
    Cached {
        path: PathBuf,
        cache: PathBuf,
        /// The size of a new cache
        #[arg(default_value_t = 64)]
        mebibytes: u64,
    },
}

fn main() -> anyhow::Result<()> {
    let Arguments { storage, block } = Arguments::parse();
    // Before threads exist, so that none of them takes a signal.
    let signals: SigSet = [Signal::SIGINT, Signal::SIGTERM].into_iter().collect();
    signals.thread_block()?;
    let disk = Disk::default().block(block);
    match storage {
        Kind::File { path } => serve(disk, open(&path)?, signals),
        Kind::Cached { path, cache, mebibytes } => {
            let cached = Cached::open(&cache, mebibytes << 20, open(&path)?);
            serve(disk, cached.with_context(|| cache.display().to_string())?, signals)
        }
        Kind::Ram { mebibytes, fail, delay } => {
            let ram = Ram::new(mebibytes << 20);
            match (fail, delay) {
                (None, None) => serve(disk, ram, signals),
                (Some(period), None) => serve(disk, flaky(ram, period), signals),
                (None, Some(delay)) => serve(disk, slow(ram, Duration::from_millis(delay)), signals),
                (Some(_), Some(_)) => anyhow::bail!("--fail and --delay: choose one"),
            }
        }
    }
}

fn open(path: &Path) -> anyhow::Result<FileStorage> {
    FileStorage::open(path).with_context(|| path.display().to_string())
}

fn serve(disk: Disk, storage: impl Storage, signals: SigSet) -> anyhow::Result<()> {
    Ok(disk.serve(storage, move |path| {
        println!("{}", path.display());
        let number = number_of(path);
        std::thread::spawn(move || {
            signals.wait().expect("a signal");
            delete(number).expect("the disk exists");
        });
    })?)
}

fn number_of(path: &Path) -> u32 {
    let name = path.to_string_lossy();
    name.trim_start_matches("/dev/ublkb").parse().expect("a device of ublk")
}
