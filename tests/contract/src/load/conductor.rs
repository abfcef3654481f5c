// SPDX-License-Identifier: GPL-2.0
//! Starts, kills, freezes and thaws the processes of a load, and checks the results.

use super::peer;
use super::shared::{Link, Record, Shared, GO, REST};
use super::worker::insist;
use super::LoadArgs;
use crate::cgroup::Cgroup;
use crate::child;
use crate::runner;
use crate::shrinker::Shrinker;
use crate::suite::Driver;
use anyhow::{bail, ensure, Context};
use binder_logs::{Log, Mode, NodeCounts, State, Stats, TransactionLog, Transactions};
use binder_sys::fs::mount_at;
use binder_sys::{BinderFrozenStatusInfo, Device};
use nix::errno::Errno;
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::fs::{File, Permissions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const ROOT: &str = "/tmp/binderfs";
const LOGS: &str = "/tmp/binderfs/binder_logs";

/// The time within which everything must end, and some call must be answered.
const PATIENCE: Duration = Duration::from_secs(30);

/// The time beyond its limit that a load may wait for events that have not happened yet.
const MORE: Duration = Duration::from_secs(120);

/// Milliseconds that BINDER_FREEZE waits for calls to end.
const TIMEOUTS: [u32; 3] = [0, 20, 100];

/// Bits of `sync_recv` and `async_recv`: a call came while frozen, or was in progress before.
const RECEIVED: u32 = 1;
const PENDING: u32 = 2;

/// One process in three is frozen at most.
const FROZEN: usize = 3;

/// The ways to freeze a process.
#[derive(Clone, Copy, PartialEq)]
enum How {
    Binder,
    Cgroup,
    /// First no calls any more, then no CPU, as on Android.
    Both,
}

#[derive(Clone, Copy, PartialEq)]
enum Condition {
    Running,
    /// It will be frozen at that time.
    Hushed(Instant, How),
    /// It will be thawed at that time.
    Frozen(Instant, How),
}

struct Member {
    id: u32,
    pid: Pid,
    state: Condition,
}

/// All processes of a load.
struct Crowd<'a> {
    args: &'a LoadArgs,
    device: PathBuf,
    shared: &'static Shared,
    /// The `/proc` of the initial pid namespace, whose pids C's BINDER_FREEZE takes.
    proc: File,
    manager: Pid,
    members: Vec<Member>,
    /// Those of the processes in the slots, if they are frozen or lose memory.
    groups: Vec<Cgroup>,
    started: u32,
    random: SmallRng,
}

pub fn run(args: &LoadArgs) -> anyhow::Result<String> {
    let proc = File::open("/proc").context("/proc")?;
    runner::private_mounts();
    std::fs::create_dir_all(ROOT)?;
    mount_at(ROOT, Some("stats=global")).context("mount binderfs")?;
    let device = Path::new(ROOT).join("binder");
    std::fs::set_permissions(&device, Permissions::from_mode(0o666))?;
    let shared: &'static Shared = Box::leak(Box::new(Shared::new(args.processes)));
    shared.record(0).slot.set(args.processes.into());
    let manager = child::ready(|ready| peer::manage(&device, shared, ready));
    let mut crowd = Crowd {
        args,
        device,
        shared,
        proc,
        manager,
        members: Vec::new(),
        groups: Vec::new(),
        started: 0,
        random: SmallRng::seed_from_u64(args.seed),
    };
    if args.freeze || args.pressure {
        Cgroup::count_memory()?;
        let of_slot = |slot| Cgroup::new(&format!("load-{slot}"));
        crowd.groups = (0..args.processes).map(of_slot).collect::<Result<_, _>>()?;
    }
    for slot in 0..args.processes as usize {
        let member = crowd.start(slot)?;
        crowd.members.push(member);
    }
    let outcome = crowd.live();
    if outcome.is_err() {
        eprintln!("{}\n{}", driver_state(), crowd.outcome());
    }
    outcome
}

impl Crowd<'_> {
    fn start(&mut self, slot: usize) -> anyhow::Result<Member> {
        self.started += 1;
        let (id, args, shared, device) = (self.started, self.args, self.shared, &self.device);
        ensure!((id as usize) < shared.records.len(), "too many processes were started: give it less time");
        shared.record(id).slot.set(slot as u64);
        for link in shared.links(slot as u64) {
            link.id.set(0);
        }
        let proc = format!("/proc/self/fd/{}/self", self.proc.as_raw_fd());
        let pid = child::spawn(|| {
            let own = std::fs::read_link(proc).expect("the process's own entry");
            let own = own.to_str().and_then(|pid| pid.parse().ok()).expect("a pid");
            shared.record(id).global_pid.set(own);
            insist(peer::play(args, device, shared, id));
        });
        if let Some(group) = self.groups.get(slot) {
            group.add(pid.as_raw())?;
        }
        Ok(Member { id, pid, state: Condition::Running })
    }

    /// The results until now.
    fn outcome(&self) -> String {
        serde_json::to_string(self.shared.totals).expect("plain data")
    }

    fn record(&self, slot: usize) -> &'static Record {
        self.shared.record(self.members[slot].id)
    }

    fn live(&mut self) -> anyhow::Result<String> {
        self.wait("all processes have each other's handles", Self::are_published)?;
        self.shared.totals.phase.set(GO);
        let mut helpers = Vec::new();
        if self.args.read_logs {
            helpers.push(start_reader(self.shared));
        }
        if self.args.pressure {
            helpers.push(start_squeezer()?);
        }
        self.rampage()?;
        for helper in helpers {
            child::end(helper).context("the reader of log files, or what takes memory back")?;
        }
        self.settle()?;
        let words = self.outcome();
        if self.args.kill || self.args.freeze {
            self.leave_one()?;
            self.shared.totals.phase.set(GO);
            std::thread::sleep(Duration::from_millis(500));
            self.settle().context("the calls after all is over")?;
        }
        self.end()?;
        Ok(words)
    }

    /// Runs all of them for a time, and longer on a busy machine, until every event has happened.
    fn rampage(&mut self) -> anyhow::Result<()> {
        let (start, time) = (Instant::now(), Duration::from_secs(self.args.seconds));
        let (mut answered, mut moved) = (0, start);
        while start.elapsed() < time || (start.elapsed() < time + MORE && !self.untried().is_empty()) {
            std::thread::sleep(Duration::from_millis(self.random.random_range(0..20)));
            self.check_alive()?;
            let slot = self.random.random_range(0..self.members.len());
            if self.args.kill {
                self.replace(slot)?;
            }
            if self.args.freeze {
                self.freeze_and_thaw()?;
            }
            if self.args.pressure && self.random.random_ratio(1, 4) {
                // It fails where less can be had.
                let _ = self.groups[slot].write("memory.reclaim", "1M");
            }
            if self.shared.totals.answered.get() != answered {
                (answered, moved) = (self.shared.totals.answered.get(), Instant::now());
            }
            ensure!(moved.elapsed() < PATIENCE, "no call is answered any more");
        }
        let untried = self.untried();
        ensure!(untried.is_empty(), "never happened: {}", untried.join(", "));
        Ok(())
    }

    /// The events that a load of this kind needs, and that have not happened.
    fn untried(&self) -> Vec<&'static str> {
        let args = self.args;
        let wanted = [
            (true, &["answered"][..]),
            (args.oneway > 0, &["accepted", "delivered"]),
            (args.objects > 0, &["called_back", "files", "left"]),
            (args.kill, &["ended_by_death", "deaths_told"]),
            (args.freeze, &["freezes", "cgroup_freezes", "thaws", "ended_by_freezing", "missed_calls"]),
            (args.freeze, &["freezes_told", "thaws_told"]),
            (args.freeze && args.oneway > 0, &["oneway_queued", "missed_oneway"]),
            (args.read_logs, &["passes"]),
        ];
        let totals = serde_json::to_value(self.shared.totals).expect("plain data");
        let wanted = wanted.into_iter().filter(|(is_wanted, _)| *is_wanted).flat_map(|(_, names)| names);
        wanted.copied().filter(|name| totals[name] == 0).collect()
    }

    /// Kills a process, and starts another one in its place.
    fn replace(&mut self, slot: usize) -> anyhow::Result<()> {
        self.kill(slot)?;
        self.members[slot] = self.start(slot)?;
        Ok(())
    }

    fn kill(&mut self, slot: usize) -> anyhow::Result<()> {
        self.record(slot).is_dead.set(1);
        if self.args.freeze && self.random.random_ratio(1, 4) {
            self.freeze_dying(slot)?;
        }
        child::end(self.members[slot].pid)?;
        self.shared.totals.kills.add();
        match self.members[slot].state {
            Condition::Frozen(_, How::Cgroup | How::Both) => self.groups[slot].freeze(false),
            _ => Ok(()),
        }
    }

    /// Freezes a process while it is being killed.
    fn freeze_dying(&self, slot: usize) -> anyhow::Result<()> {
        let record = self.record(slot);
        record.may_refuse.set(1);
        kill(self.members[slot].pid, Signal::SIGKILL)?;
        match self.by_binder(slot, true, 0) {
            Ok(()) => record.freezes_done.add(),
            Err(Errno::EINVAL | Errno::EAGAIN) => (),
            Err(why) => bail!("BINDER_FREEZE of a process that dies: {why}"),
        }
        Ok(())
    }

    /// The number of times that a process is frozen and thawed in a row. Other drivers thaw a
    /// process without notice if a second freeze fails.
    fn times(&self, slot: usize) -> u32 {
        1 + u32::from(self.members[slot].id % 3 == 0 && self.args.driver == Driver::Rust)
    }

    fn later(&mut self, milliseconds: std::ops::Range<u64>) -> Instant {
        Instant::now() + Duration::from_millis(self.random.random_range(milliseconds))
    }

    /// Does all that is due, and chooses the next process to freeze.
    fn freeze_and_thaw(&mut self) -> anyhow::Result<()> {
        let now = Instant::now();
        for slot in 0..self.members.len() {
            match self.members[slot].state {
                Condition::Hushed(until, how) if until <= now => self.freeze(slot, how)?,
                Condition::Frozen(until, _) if until <= now => self.thaw(slot)?,
                _ => (),
            }
        }
        let slot = self.random.random_range(0..self.members.len());
        let others = self.members.iter().filter(|member| member.state != Condition::Running).count();
        let is_ready =
            self.record(slot).is_published.get() != 0 && self.members[slot].state == Condition::Running;
        if !is_ready || others * FROZEN >= self.members.len() {
            return Ok(());
        }
        match self.random.random_range(0..3) {
            // In the middle of its calls.
            0 => self.freeze(slot, How::Cgroup)?,
            how => {
                self.record(slot).is_hushed.set(1);
                let how = if how == 1 { How::Binder } else { How::Both };
                self.members[slot].state = Condition::Hushed(self.later(20..60), how);
            }
        }
        Ok(())
    }

    fn pid_to_freeze(&self, slot: usize) -> u32 {
        match self.args.driver {
            Driver::Rust => self.members[slot].pid.as_raw() as u32,
            _ => self.record(slot).global_pid.get() as u32,
        }
    }

    fn by_binder(&self, slot: usize, on: bool, timeout: u32) -> nix::Result<()> {
        Device::open(&self.device)?.freeze(self.pid_to_freeze(slot), on, timeout)
    }

    fn freeze(&mut self, slot: usize, how: How) -> anyhow::Result<()> {
        let (record, totals) = (self.record(slot), self.shared.totals);
        if how != How::Cgroup {
            let timeout = TIMEOUTS[self.random.random_range(0..TIMEOUTS.len())];
            record.may_refuse.set(1);
            record.freezes_tried.add();
            for _ in 0..self.times(slot) {
                match self.by_binder(slot, true, timeout) {
                    Ok(()) => {
                        record.freezes_done.add();
                        record.is_frozen.set(1);
                    }
                    Err(Errno::EAGAIN) => {
                        totals.freezes_busy.add();
                        // A second freeze that fails is a thaw.
                        if record.is_frozen.get() != 0 {
                            record.is_frozen.set(0);
                            record.thaws_done.add();
                        }
                        self.run_again(slot);
                        return Ok(());
                    }
                    Err(why) => bail!("BINDER_FREEZE: {why}"),
                }
            }
            totals.freezes.add();
        }
        if how != How::Binder {
            self.groups[slot].freeze(true)?;
            totals.cgroup_freezes.add();
        }
        self.members[slot].state = Condition::Frozen(self.later(20..200), how);
        if how != How::Cgroup && self.frozen_info(slot)?.sync_recv & PENDING != 0 {
            totals.freezes_undone.add();
            self.thaw(slot)?;
        }
        Ok(())
    }

    fn frozen_info(&self, slot: usize) -> nix::Result<BinderFrozenStatusInfo> {
        Device::open(&self.device)?.frozen_info(self.pid_to_freeze(slot))
    }

    fn thaw(&mut self, slot: usize) -> anyhow::Result<()> {
        let Condition::Frozen(_, how) = self.members[slot].state else { return Ok(()) };
        if how != How::Cgroup {
            let (info, totals) = (self.frozen_info(slot)?, self.shared.totals);
            if info.sync_recv & RECEIVED != 0 {
                totals.missed_calls.add();
            }
            if info.async_recv & RECEIVED != 0 {
                totals.missed_oneway.add();
            }
            for _ in 0..self.times(slot) {
                self.by_binder(slot, false, 0).context("thaw")?;
                self.record(slot).thaws_done.add();
            }
            self.record(slot).is_frozen.set(0);
            totals.thaws.add();
        }
        if how != How::Binder {
            self.groups[slot].freeze(false)?;
        }
        self.run_again(slot);
        Ok(())
    }

    fn run_again(&mut self, slot: usize) {
        self.record(slot).may_refuse.set(0);
        self.record(slot).is_hushed.set(0);
        self.members[slot].state = Condition::Running;
    }

    /// Those that were not killed.
    fn alive(&self) -> impl Iterator<Item = (&Member, &'static Record)> {
        let all = self.members.iter().map(|member| (member, self.shared.record(member.id)));
        all.filter(|(_, record)| record.is_dead.get() == 0)
    }

    fn are_published(&self) -> bool {
        self.alive().all(|(_, record)| record.is_published.get() != 0)
    }

    fn check_alive(&self) -> anyhow::Result<()> {
        let pids = self.alive().map(|(member, _)| member.pid);
        pids.chain([self.manager]).try_for_each(child::check_alive)
    }

    /// Waits until something is so; fails if a process ends, or if it takes too long.
    fn wait(&self, what: &str, is_so: impl Fn(&Self) -> bool) -> anyhow::Result<()> {
        let start = Instant::now();
        while !is_so(self) {
            self.check_alive().with_context(|| format!("until {what}"))?;
            ensure!(start.elapsed() < PATIENCE, "{what}: not after {} s", PATIENCE.as_secs());
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Has all callers rest, freezes every second process then, and fails if anything is lost.
    fn settle(&mut self) -> anyhow::Result<()> {
        for slot in 0..self.members.len() {
            self.thaw(slot)?;
            self.run_again(slot);
        }
        self.shared.totals.phase.set(REST);
        self.wait("all callers rest", |crowd| {
            let resting = crowd.alive().map(|(_, record)| record.resting.get());
            resting.sum::<u64>() == u64::from(crowd.args.processes) * u64::from(crowd.args.callers)
        })?;
        for slot in 0..self.members.len() {
            self.wait_oneway(slot)?;
        }
        self.wait_notified()?;
        if self.args.freeze {
            for slot in (0..self.members.len()).step_by(2) {
                let start = Instant::now();
                while self.members[slot].state == Condition::Running {
                    ensure!(start.elapsed() < PATIENCE, "a process without calls cannot be frozen");
                    self.freeze(slot, How::Binder)?;
                }
            }
            self.wait_notified().context("every second process is frozen")?;
            for slot in 0..self.members.len() {
                self.thaw(slot)?;
            }
            self.wait_notified().context("all processes are thawed")?;
        }
        let all = self.shared.totals;
        ensure!(all.sync_refused.get() == 0, "calls were refused");
        let is_allowed = self.args.tolerate || self.args.freeze || all.oneway_refused.get() == 0;
        ensure!(is_allowed, "oneway calls were refused");
        Ok(())
    }

    /// Waits until all oneway calls to a process have arrived; killed senders' may be missing.
    fn wait_oneway(&self, slot: usize) -> anyhow::Result<()> {
        let of = self.record(slot);
        self.wait("all oneway calls have arrived", |_| of.delivered.get() >= of.accepted.get())
            .with_context(|| format!("to process {}: {}", self.members[slot].id, self.outcome()))?;
        let made = of.tried.get() - of.refused.get();
        ensure!(of.delivered.get() <= made, "{} oneway calls arrived of {made}", of.delivered.get());
        Ok(())
    }

    /// Waits until all processes were notified of all deaths, and of the last change of the living.
    fn wait_notified(&self) -> anyhow::Result<()> {
        self.wait("all notifications have come", |crowd| crowd.misinformed().is_none())
            .with_context(|| self.misinformed().unwrap_or_default())
    }

    /// All links of those that live, the manager's included.
    fn links(&self) -> impl Iterator<Item = (u64, &'static Link)> + '_ {
        let slots = self.alive().map(|(_, record)| record.slot.get());
        let slots = slots.chain([u64::from(self.args.processes)]);
        slots
            .flat_map(|slot| self.shared.links(slot).iter().map(move |link| (slot, link)))
            .filter(|(_, link)| link.id.get() != 0)
    }

    /// A link of which a notification is missing, or came too often.
    fn misinformed(&self) -> Option<String> {
        self.links().find_map(|(watcher, link)| {
            let record = self.shared.record(link.id.get() as u32);
            let [deaths, freezes, thaws, is_frozen] =
                [&link.deaths, &link.freezes, &link.thaws, &link.is_frozen].map(|count| count.get());
            let (frozen, thawed) = (record.freezes_done.get(), record.thaws_done.get());
            let is_right = match record.is_dead.get() {
                0 => deaths == 0 && freezes + thaws > 0 && is_frozen == record.is_frozen.get(),
                _ => deaths == 1,
            };
            // The first notification carries the current state of the process.
            (!is_right || freezes + thaws > frozen + thawed + 1).then(|| {
                format!(
                    "the process in slot {watcher} was notified of {deaths} deaths, {freezes} freezes and {thaws} thaws of \
                     process {}, which was frozen {frozen} and thawed {thawed} times, and is dead: {}",
                    link.id.get(),
                    record.is_dead.get()
                )
            })
        })
    }

    /// Kills all but one, which must share nothing with the dead then, and restarts the others.
    fn leave_one(&mut self) -> anyhow::Result<()> {
        let last = self.random.random_range(0..self.members.len());
        for slot in (0..self.members.len()).filter(|slot| *slot != last) {
            self.kill(slot)?;
        }
        self.wait_notified().context("all but one are dead")?;
        let record = self.record(last);
        let counts = || [record.kept.get(), record.is_held.get()];
        self.wait("the last process is alone", |_| counts() == [0, 0]).with_context(|| {
            format!("objects of the dead, and whether the dead hold one of its: {:?}", counts())
        })?;
        for slot in (0..self.members.len()).filter(|slot| *slot != last) {
            self.members[slot] = self.start(slot)?;
        }
        self.wait("all processes have each other's handles", Self::are_published)
    }

    /// Ends all processes, which must still be alive, and waits until the driver has nothing left.
    fn end(&mut self) -> anyhow::Result<()> {
        (0..self.members.len()).try_for_each(|slot| self.kill(slot))?;
        child::end(self.manager)?;
        let start = Instant::now();
        // The log files of upstream's driver name other things.
        while self.args.driver != Driver::Upstream && !self.is_empty()? {
            ensure!(start.elapsed() < PATIENCE, "the driver has something left");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Returns whether nothing is left, but for C's nodes whose owner ended while a call was
    /// copied.
    fn is_empty(&self) -> anyhow::Result<bool> {
        let state = State::read(&Path::new(LOGS).join("state"), Mode::Strict)?;
        let stats = Stats::read(&Path::new(LOGS).join("stats"), Mode::Strict)?;
        let is_left = |counts: &NodeCounts| {
            matches!(counts, NodeCounts::Full { local_strong: ..0, internal_strong: 0, .. })
        };
        let known = state
            .dead_nodes
            .iter()
            .filter(|node| self.args.driver == Driver::C && is_left(&node.counts))
            .count();
        ensure!(!stats.total.objects.is_empty(), "the driver counts no objects");
        let objects: i64 = stats.total.objects.iter().map(|object| object.active).sum();
        Ok(state.processes.is_empty() && state.dead_nodes.len() == known && objects == known as i64)
    }
}

/// The driver's log files about a state that fails.
fn driver_state() -> String {
    let files = ["state", "stats"]
        .map(|name| std::fs::read_to_string(Path::new(LOGS).join(name)).unwrap_or_default());
    files.concat()
}

/// Starts a process that makes reclaim run all the time: by the driver's shrinker, or, where
/// debugfs does not show it, by all shrinkers.
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

/// Starts a process that reads every log file, again and again, strictly where its form is known.
fn start_reader(shared: &'static Shared) -> Pid {
    child::spawn(move || loop {
        insist(read_all(Path::new(LOGS)).context("the reader of log files"));
        shared.totals.passes.add();
    })
}

/// Reads every file in a folder and in those below. The file of a process may disappear.
fn read_all(folder: &Path) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read_all(&path)?;
            continue;
        }
        let contents = match std::fs::read(&path) {
            Err(why) if why.kind() == std::io::ErrorKind::NotFound && folder.ends_with("proc") => continue,
            read => read.with_context(|| path.display().to_string())?,
        };
        let name = path.display().to_string();
        ensure!(contents.is_ascii(), "{name} has strange bytes");
        match path.file_name().and_then(|name| name.to_str()) {
            Some("state") => drop(State::parse(&name, &contents, Mode::Strict)?),
            Some("stats") => drop(Stats::parse(&name, &contents, Mode::Strict)?),
            Some("transactions") => drop(Transactions::parse(&name, &contents, Mode::Strict)?),
            Some("transaction_log" | "failed_transaction_log") => {
                drop(TransactionLog::parse(&name, &contents, Mode::Strict)?)
            }
            _ => (),
        }
    }
    Ok(())
}
