// SPDX-License-Identifier: GPL-2.0
//! Hours in minutes: servers and clients at work, and processes that are both to each other, one of them killed
//! every few milliseconds, the pages that they do not use taken away all the time, and all log files read.
//!
//! What is checked: every answer that arrives has the right bytes; nobody waits for ever; and when all
//! clients are gone, the servers that live have nothing that anybody holds, and have been told of every
//! death that they had asked for. What is leaked inside the
//! driver shows when the module is unloaded.

use crate::child;
use crate::load::{self, Work};
use crate::mesh::Mesh;
use crate::reading;
use crate::runner;
use crate::shrinker::Shrinker;
use anyhow::{bail, Context};
use binder_sys::fs::{add_device, mount_at};
use clap::Args;
use nix::unistd::Pid;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The devices, each with a server of its own.
const DEVICES: [&str; 3] = ["binder", "hwbinder", "vndbinder"];

/// Clients at a time.
const CLIENTS: usize = 6;

/// Processes that call each other, on a device of their own.
const MESH: u32 = 6;

#[derive(Args)]
pub struct SoakArgs {
    /// How long to go on
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// What the random choices start from
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Soaks in namespaces of its own.
pub fn run(args: &SoakArgs) -> anyhow::Result<()> {
    let words = runner::in_namespaces(|| soak(args));
    println!("{}", words.with_context(|| format!("soak with seed {}", args.seed))?);
    Ok(())
}

/// All processes at work.
struct Crowd {
    root: PathBuf,
    servers: Vec<Pid>,
    clients: Vec<Pid>,
    mesh: Mesh,
    answered: &'static AtomicU64,
    random: SmallRng,
}

impl Crowd {
    fn device(&self, index: usize) -> PathBuf {
        self.root.join(DEVICES[index])
    }

    fn start_server(&self, index: usize) -> Pid {
        let path = self.device(index);
        child::ready(|ready| load::serve(&path, 4, ready))
    }

    fn start_client(&mut self, index: usize) -> Pid {
        let path = self.device(index % DEVICES.len());
        let answered = self.answered;
        let largest = *[64, 2000, 20_000].get(self.random.random_range(0..3)).expect("three");
        let threads = self.random.random_range(1..=3);
        let work =
            Work { threads, calls: usize::MAX, largest, seed: self.random.random(), tolerate_death: true };
        child::spawn(move || {
            if let Err(why) = load::call_counted(&path, &work, answered) {
                eprintln!("a client fails: {why:#}");
                std::process::exit(1);
            }
        })
    }

    fn kill_one(&mut self) -> anyhow::Result<()> {
        if self.random.random_ratio(1, 4) {
            return self.mesh.replace(self.random.random_range(0..MESH));
        }
        if self.random.random_ratio(1, 4) {
            let index = self.random.random_range(0..self.servers.len());
            child::end(self.servers[index])?;
            self.servers[index] = self.start_server(index);
        } else {
            let index = self.random.random_range(0..self.clients.len());
            child::end(self.clients[index])?;
            self.clients[index] = self.start_client(index);
        }
        Ok(())
    }

    /// Fails if anybody has ended by itself.
    fn check_alive(&self) -> anyhow::Result<()> {
        self.servers.iter().chain(&self.clients).try_for_each(|pid| child::check_alive(*pid))?;
        self.mesh.check_alive().context("mesh")
    }
}

fn soak(args: &SoakArgs) -> anyhow::Result<String> {
    runner::private_mounts();
    let root = Path::new("/tmp/binderfs");
    std::fs::create_dir_all(root)?;
    mount_at(root, Some("stats=global")).context("mount binderfs")?;
    add_device(root, "mesh")?;
    let arena = crate::arena::Arena::new();
    let mut crowd = Crowd {
        root: root.to_path_buf(),
        servers: Vec::new(),
        clients: Vec::new(),
        mesh: Mesh::start_endless(&root.join("mesh"), MESH, args.seed),
        answered: arena.counter(),
        random: SmallRng::seed_from_u64(args.seed),
    };
    crowd.servers = (0..DEVICES.len()).map(|index| crowd.start_server(index)).collect();
    for index in 0..CLIENTS {
        let client = crowd.start_client(index);
        crowd.clients.push(client);
    }
    let squeezer = start_squeezer()?;
    let passes = arena.counter();
    let reader = reading::start(root, passes);
    let kills = rampage(&mut crowd, Duration::from_secs(args.seconds))?;
    child::end(squeezer)?;
    child::end(reader).context("the reader of log files")?;
    quiet_down(&mut crowd)?;
    let answered = crowd.answered.load(Ordering::Relaxed);
    let meshed = crowd.mesh.answered();
    Ok(format!(
        "soak ok: {} s, seed {}, {kills} kills, {answered} calls checked, {meshed} of processes that call each \
         other, all log files read {} times",
        args.seconds,
        args.seed,
        passes.load(Ordering::Relaxed)
    ))
}

/// Starts a process that has idle pages taken back, again and again: by the driver's shrinker, or, where debugfs
/// does not show it, by all of the kernel's.
fn start_squeezer() -> anyhow::Result<Pid> {
    let debugfs = Path::new("/tmp/debugfs");
    std::fs::create_dir_all(debugfs)?;
    let shrinker = Shrinker::find(debugfs);
    let drop_caches = |number| std::fs::write("/proc/sys/vm/drop_caches", number);
    // Not a line in the kernel's log for each time.
    drop_caches("4").context("drop_caches")?;
    Ok(child::spawn(move || loop {
        match &shrinker {
            Some(shrinker) => shrinker.scan(),
            None => drop_caches("2").expect("drop_caches"),
        }
        std::thread::sleep(Duration::from_millis(2));
    }))
}

/// Kills one process after the other; returns how many.
fn rampage(crowd: &mut Crowd, time: Duration) -> anyhow::Result<u64> {
    let (start, mut kills) = (Instant::now(), 0);
    let (mut last, mut moved) = ([0; 2], [Instant::now(); 2]);
    while start.elapsed() < time {
        let pause = crowd.random.random_range(0..30);
        std::thread::sleep(Duration::from_millis(pause));
        crowd.check_alive()?;
        crowd.kill_one()?;
        kills += 1;
        let answered = [crowd.answered.load(Ordering::Relaxed), crowd.mesh.answered()];
        for index in 0..answered.len() {
            if answered[index] != last[index] {
                (last[index], moved[index]) = (answered[index], Instant::now());
            }
            if moved[index].elapsed() > Duration::from_secs(10) {
                bail!("no call has been answered for ten seconds, after {answered:?}");
            }
        }
    }
    Ok(kills)
}

/// Ends all clients, and sees that the servers are free of them and well.
fn quiet_down(crowd: &mut Crowd) -> anyhow::Result<()> {
    crowd.check_alive()?;
    crowd.mesh.end().context("mesh")?;
    for client in std::mem::take(&mut crowd.clients) {
        child::end(client)?;
    }
    for name in DEVICES {
        let path = crowd.root.join(name);
        load::wait_quiet(&path, Duration::from_secs(10)).context(name)?;
        let work = Work { threads: 2, calls: 200, largest: 5000, seed: 7, tolerate_death: false };
        load::call(&path, &work).context("the calls after all is over")?;
    }
    for server in std::mem::take(&mut crowd.servers) {
        child::end(server)?;
    }
    Ok(())
}
