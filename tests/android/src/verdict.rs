// SPDX-License-Identifier: GPL-2.0
//! What must be so in the end: nothing lost, nothing left.

use crate::activity::Activity;
use crate::app::CALLERS;
use crate::identity;
use crate::shared::{Calls, Shared, Started};
use crate::system::RESTING;
use crate::watchdog::LOGS;
use anyhow::{bail, ensure, Context};
use binder_logs::{Log, Mode, Node, NodeCounts, State, Stats};
use nix::unistd::Pid;
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// What has not happened by then never will.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until something is so.
fn wait(what: &str, mut is_so: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let start = Instant::now();
    while !is_so()? {
        ensure!(start.elapsed() < PATIENCE, "{what}: not after {} s", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Has everybody rest; fails if a call or a oneway call of who lives is lost.
pub fn settle(
    shared: &'static Shared,
    started: &'static [Started],
    activity: &mut Activity,
) -> anyhow::Result<()> {
    shared.stop.store(true, SeqCst);
    activity.calm_down()?;
    wait("all calls have ended", || {
        activity.reap()?;
        let all = activity.running.iter().all(|app| started[app.id as usize].resting.get() == CALLERS as u64);
        Ok(all && shared.resting.get() == RESTING)
    })?;
    for app in &activity.running {
        let own = &started[app.id as usize];
        wait("all oneway calls have come", || {
            Ok(own.accepted.get() == own.delivered.get() && own.taken.get() == own.noted.get())
        })
        .with_context(|| {
            let [accepted, delivered, taken, noted] =
                [&own.accepted, &own.delivered, &own.taken, &own.noted].map(|c| c.get());
            format!(
                "application {}: of {accepted} to it {delivered} came, of {taken} from it {noted}",
                app.id
            )
        })?;
        ended("an application", &own.calls, 0)?;
        told_of_freezing(app.id, own)?;
        let dead = own.seen_dead.get();
        ensure!(dead == 0, "application {} lives, and {dead} calls to it ended because it was dead", app.id);
    }
    ended("the system", &shared.system, 0)
}

/// Checks what the system was told of an application that runs, and was told when that asked for it that it does. A word that
/// nobody has read is replaced by a later one, so there may be fewer than reasons for them.
fn told_of_freezing(id: u64, own: &Started) -> anyhow::Result<()> {
    wait("it is told that an application runs", || {
        Ok(own.thaws_told.get() > 0 && !own.told_frozen.load(SeqCst))
    })
    .with_context(|| format!("application {id}"))?;
    let [frozen, told] = [&own.freezes_done, &own.freezes_told].map(|count| count.get());
    ensure!(told <= frozen, "application {id} was frozen {frozen} times, of which {told} were told");
    let [thawed, told] = [&own.thaws_done, &own.thaws_told].map(|count| count.get());
    ensure!(told <= thawed + 1, "application {id} was thawed {thawed} times, of which {told} were told");
    let (tried, refused) = (own.freezes_tried.get(), own.seen_frozen.get());
    ensure!(
        tried > 0 || refused == 0,
        "application {id} was never to be frozen: {refused} calls were refused"
    );
    Ok(())
}

/// Fails unless all calls have ended, but for so many that were cut off by the caller's own end.
fn ended(who: &str, calls: &Calls, cut_off: u64) -> anyhow::Result<()> {
    let (made, ended) = (calls.made.get(), calls.ended());
    ensure!(ended <= made && made <= ended + cut_off, "{who}: {made} calls were made, {ended} have ended");
    Ok(())
}

/// Checks what is known of all that have ended: each death was told once, and no oneway call came that nobody made.
pub fn check_ended(started: &'static [Started], activity: &Activity) -> anyhow::Result<()> {
    for id in &activity.ended {
        let own = &started[*id as usize];
        wait("a death is told", || Ok(own.death_told.get() == u64::from(own.attached.load(SeqCst))))
            .with_context(|| format!("application {id}, {} times told", own.death_told.get()))?;
        let [accepted, delivered] = [&own.accepted, &own.delivered].map(|count| count.get());
        ensure!(delivered <= accepted, "application {id}: of {accepted} oneway calls to it {delivered} came");
        let [tried, taken, noted] = [&own.tried, &own.taken, &own.noted].map(|count| count.get());
        ensure!(
            taken <= noted && noted <= tried,
            "application {id}: of {taken} oneway calls from it {noted} came"
        );
        // Each of its threads may have been within one call, and within another one that it served.
        ended("an application that was killed", &own.calls, 2 * CALLERS as u64 + 2)?;
    }
    Ok(())
}

/// Ends all services, and waits until the driver has nothing left. Returns how many nodes are left for ever all the same, if the
/// driver is known to do so: their owners ended while a call of them was copied, so they count -1 strong references.
pub fn end_services(services: Vec<(&'static str, Pid)>, leaves_nodes: bool) -> anyhow::Result<usize> {
    for (_, pid) in services.into_iter().rev() {
        identity::end(pid);
    }
    let logs = Path::new(LOGS);
    let (mut left, mut nodes) = (String::new(), 0);
    let gone = wait("the driver has nothing left", || {
        let state = State::read(&logs.join("state"), Mode::Strict)?;
        let stats = Stats::read(&logs.join("stats"), Mode::Strict)?;
        left = format!("{state}{stats}");
        let objects = &stats.total.objects;
        ensure!(!objects.is_empty(), "the driver counts no objects");
        nodes = state.dead_nodes.iter().filter(|node| leaves_nodes && is_left(node)).count();
        let is_empty = state.processes.is_empty() && state.dead_nodes.len() == nodes;
        Ok(is_empty && objects.iter().map(|object| object.active).sum::<i64>() == nodes as i64)
    });
    if let Err(why) = gone {
        bail!("{why:#}\n{left}");
    }
    Ok(nodes)
}

fn is_left(node: &Node) -> bool {
    matches!(node.counts, NodeCounts::Full { local_strong: -1, internal_strong: 0, .. })
}

/// The sum of one number of all applications.
fn sum(started: &[Started], activity: &Activity, what: impl Fn(&Started) -> u64) -> u64 {
    let running = activity.running.iter().map(|app| app.id);
    activity.ended.iter().copied().chain(running).map(|id| what(&started[id as usize])).sum()
}

/// What was done, and how often.
pub struct Figures(Vec<(&'static str, u64)>);

/// Returns what has been done until now.
pub fn figures(shared: &Shared, started: &[Started], activity: &Activity) -> Figures {
    let all = |what: fn(&Calls) -> u64| {
        sum(started, activity, |app| what(&app.calls)) + what(&shared.system) + what(&shared.watchdog)
    };
    let one = |what: fn(&Started) -> u64| sum(started, activity, what);
    let (deeds, served) = (&activity.deeds, &shared.system_served);
    Figures(vec![
        (MADE, all(|calls| calls.made.get())),
        ("answered", all(|calls| calls.replied.get())),
        ("ended by a death", all(|calls| calls.dead.get())),
        ("refused, callee frozen", all(|calls| calls.frozen.get())),
        ("refused, no space", all(|calls| calls.no_space.get())),
        (POLICY, all(|calls| calls.refused.get())),
        ("served by the system", served.calls.get()),
        ("served by applications", one(|app| app.served.calls.get())),
        ("served by sound and vendor", shared.services.calls.get()),
        ("oneway calls taken", one(|app| app.accepted.get()) + one(|app| app.taken.get())),
        ("delivered", one(|app| app.delivered.get()) + one(|app| app.noted.get())),
        ("queued for a frozen callee", shared.pending.get()),
        ("refused, no space (oneway)", shared.oneway_no_space.get()),
        ("refused, callee dead (oneway)", shared.oneway_dead.get()),
        (STARTED, deeds.started),
        (FREEZES, deeds.freezes),
        ("freezes given up, busy", deeds.busy),
        ("freezes undone, call pending", deeds.pending),
        ("thaws", deeds.thaws),
        ("thawed to oneway calls", deeds.thawed_with_oneway),
        ("freezes told", one(|app| app.freezes_told.get())),
        ("thaws told", one(|app| app.thaws_told.get())),
        ("killed: call while frozen", deeds.killed_for_call),
        ("killed: cached", deeds.killed_cached),
        ("killed: in use", deeds.killed_in_use),
        ("killed: memory pressure", deeds.killed_for_pressure),
        ("killed: out of memory", deeds.killed_for_memory),
        ("deaths told", one(|app| app.death_told.get())),
        ("rounds of the watchdog", shared.rounds.get()),
    ])
}

impl Figures {
    /// Prints them, one a line.
    pub fn print(&self) {
        for (name, value) in &self.0 {
            println!("figure {name}: {value}");
        }
    }

    /// Prints a line for who waits.
    pub fn print_progress(&self, time: Duration) {
        let shown = [MADE, STARTED, FREEZES].map(|name| format!("{} {name}", self.value(name))).join(", ");
        println!("{} s: {shown}", time.as_secs());
    }

    /// What has not been done, and what a run cannot be without.
    pub fn untried(&self) -> Vec<&'static str> {
        MUST_BE.into_iter().filter(|name| self.value(name) == 0).collect()
    }

    /// Fails if something was never done, or the policy refused nothing, or something without being there.
    pub fn check(&self, has_policy: bool) -> anyhow::Result<()> {
        let refused = self.value(POLICY);
        ensure!((refused > 0) == has_policy, "the policy refused {refused} calls");
        let untried = self.untried();
        ensure!(untried.is_empty(), "nothing of it was tried: {}", untried.join("; "));
        Ok(())
    }

    fn value(&self, name: &str) -> u64 {
        self.0.iter().find(|figure| figure.0 == name).expect("a figure of that name").1
    }
}

const MADE: &str = "calls made";
const POLICY: &str = "refused by the policy";
const STARTED: &str = "applications started";
const FREEZES: &str = "freezes";

/// What a run of a minute cannot be without.
const MUST_BE: [&str; 18] = [
    "answered",
    "ended by a death",
    "refused, callee frozen",
    "served by the system",
    "served by applications",
    "served by sound and vendor",
    "delivered",
    "queued for a frozen callee",
    FREEZES,
    "thaws",
    "thawed to oneway calls",
    "freezes told",
    "thaws told",
    "killed: call while frozen",
    "killed: memory pressure",
    "killed: out of memory",
    "deaths told",
    "rounds of the watchdog",
];
