// SPDX-License-Identifier: GPL-2.0
//! How long calls take while the kernel takes pages back, next to how long they take otherwise.
//!
//! Quiet and squeezed blocks take turns, each after one large call. In a squeezed one another process asks the driver's shrinker
//! for all its pages, every few milliseconds. Every answer is checked; a call that is refused ends the
//! measurement.

use crate::child;
use crate::load;
use crate::runner;
use crate::shrinker::Shrinker;
use anyhow::{ensure, Context};
use binder_sys::fs::mount_at;
use clap::Args;
use nix::sys::signal::{kill, Signal};
use nix::sys::wait::waitpid;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The question and the answer that each block begins with, in bytes.
const LARGE: usize = 512 << 10;

#[derive(Args)]
pub struct PressureArgs {
    /// Calls in each block
    #[arg(long, default_value_t = 1000)]
    calls: usize,
    /// Blocks of each kind
    #[arg(long, default_value_t = 6)]
    blocks: usize,
    /// Bytes of each question and each answer
    #[arg(long, default_value_t = 16384)]
    size: usize,
    /// Milliseconds between two requests to take pages back
    #[arg(long, default_value_t = 2)]
    pause: u64,
}

/// The time that so many of a thousand calls do not exceed, in microseconds.
fn permille(times: &[Duration], share: usize) -> f64 {
    times[(times.len() - 1) * share / 1000].as_secs_f64() * 1e6
}

/// Measures, and prints a line for each kind of block.
pub fn run(args: &PressureArgs) -> anyhow::Result<()> {
    runner::private_mounts();
    let (root, debugfs) = (Path::new("/tmp/binderfs"), Path::new("/tmp/debugfs"));
    std::fs::create_dir_all(root)?;
    std::fs::create_dir_all(debugfs)?;
    mount_at(root, None).context("mount binderfs")?;
    let shrinker = Shrinker::find(debugfs).context("no shrinker; that needs CONFIG_SHRINKER_DEBUG")?;
    let path = root.join("binder");
    let arena = crate::arena::Arena::new();
    let (scans, reclaimed) = (arena.counter(), arena.counter());
    let server = child::ready(|ready| load::serve(&path, 1, ready));
    load::time_calls(&path, 200, args.size).context("the first calls")?;
    let mut times = [Vec::new(), Vec::new()];
    for block in 0..2 * args.blocks {
        let is_squeezed = block % 2 == 1;
        // Something to take back: what comes after this uses less.
        load::time_calls(&path, 1, LARGE).context("a large call")?;
        let squeezer = is_squeezed.then(|| start_squeezer(&shrinker, args.pause, scans, reclaimed));
        let block = load::time_calls(&path, args.calls, args.size);
        if let Some(pid) = squeezer {
            kill(pid, Signal::SIGKILL)?;
            waitpid(pid, None)?;
        }
        times[usize::from(is_squeezed)].extend(block?);
    }
    kill(server, Signal::SIGKILL)?;
    waitpid(server, None)?;
    let (scans, pages) = (scans.load(Ordering::Relaxed), reclaimed.load(Ordering::Relaxed));
    ensure!(scans > 0, "nothing was asked for");
    for (kind, times) in ["quiet", "squeezed"].iter().zip(&mut times) {
        times.sort_unstable();
        let (p50, p99) = (permille(times, 500), permille(times, 990));
        println!(
            "{kind}: {} calls of {} bytes, 0 failed, p50 {p50:.1} us, p99 {p99:.1} us",
            times.len(),
            args.size
        );
    }
    println!("{scans} times asked, {} KiB taken back", pages * 4);
    Ok(())
}

fn start_squeezer(
    shrinker: &Shrinker,
    pause: u64,
    scans: &'static AtomicU64,
    reclaimed: &'static AtomicU64,
) -> nix::unistd::Pid {
    let shrinker = shrinker.clone();
    child::spawn(move || loop {
        let before = shrinker.pages();
        shrinker.scan();
        reclaimed.fetch_add(before.saturating_sub(shrinker.pages()), Ordering::Relaxed);
        scans.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(pause));
    })
}
