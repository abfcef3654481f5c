// SPDX-License-Identifier: GPL-2.0
//! What must be so in the end: nothing lost, nothing left.

use crate::activity::Activity;
use crate::app::CALLERS;
use crate::identity;
use crate::shared::{Calls, Shared, Started};
use crate::system::RESTING;
use crate::watchdog::LOGS;
use anyhow::{bail, ensure, Context};
use binder_logs::{Log, Mode, State, Stats};
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
    }
    ended("the system", &shared.system, 0)
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

/// Ends all services, and waits until the driver has nothing left.
pub fn end_services(services: Vec<(&'static str, Pid)>) -> anyhow::Result<()> {
    for (_, pid) in services.into_iter().rev() {
        identity::end(pid);
    }
    let logs = Path::new(LOGS);
    let mut left = String::new();
    let gone = wait("the driver has nothing left", || {
        let state = State::read(&logs.join("state"), Mode::Strict)?;
        let stats = Stats::read(&logs.join("stats"), Mode::Strict)?;
        left = format!("{state}{stats}");
        let objects = &stats.total.objects;
        ensure!(!objects.is_empty(), "the driver counts no objects");
        let is_empty = state.processes.is_empty() && state.dead_nodes.is_empty();
        Ok(is_empty && objects.iter().all(|object| object.active == 0))
    });
    if let Err(why) = gone {
        bail!("{why:#}\n{left}");
    }
    Ok(())
}

/// The sum of one number of all applications.
fn sum(started: &[Started], activity: &Activity, what: impl Fn(&Started) -> u64) -> u64 {
    let running = activity.running.iter().map(|app| app.id);
    activity.ended.iter().copied().chain(running).map(|id| what(&started[id as usize])).sum()
}

/// Prints what was done, a figure a line, and fails if something never was.
pub fn print(
    shared: &Shared,
    started: &[Started],
    activity: &Activity,
    has_policy: bool,
) -> anyhow::Result<()> {
    let all = |what: fn(&Calls) -> u64| {
        sum(started, activity, |app| what(&app.calls)) + what(&shared.system) + what(&shared.watchdog)
    };
    let one = |what: fn(&Started) -> u64| sum(started, activity, what);
    let (deeds, served) = (&activity.deeds, &shared.system_served);
    let refused = all(|calls| calls.refused.get());
    let figures = [
        ("calls made", all(|calls| calls.made.get())),
        ("answered", all(|calls| calls.replied.get())),
        ("ended by a death", all(|calls| calls.dead.get())),
        ("refused, callee frozen", all(|calls| calls.frozen.get())),
        ("refused, no space", all(|calls| calls.no_space.get())),
        ("refused by the policy", refused),
        ("served by the system", served.calls.get()),
        ("served by applications", one(|app| app.served.calls.get())),
        ("served by sound and vendor", shared.services.calls.get()),
        ("oneway calls taken", one(|app| app.accepted.get()) + one(|app| app.taken.get())),
        ("delivered", one(|app| app.delivered.get()) + one(|app| app.noted.get())),
        ("queued for a frozen callee", shared.pending.get()),
        ("refused, no space (oneway)", shared.oneway_no_space.get()),
        ("refused, callee dead (oneway)", shared.oneway_dead.get()),
        ("applications started", deeds.started),
        ("freezes", deeds.freezes),
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
    ];
    for (name, value) in figures {
        println!("figure {name}: {value}");
    }
    ensure!((refused > 0) == has_policy, "the policy refused {refused} calls");
    for (name, value) in figures.iter().filter(|(name, _)| MUST_BE.contains(name)) {
        ensure!(*value > 0, "{name}: none, so nothing of it was tried");
    }
    Ok(())
}

/// What a run of a minute cannot be without.
const MUST_BE: [&str; 9] = [
    "answered",
    "ended by a death",
    "delivered",
    "queued for a frozen callee",
    "thawed to oneway calls",
    "killed: call while frozen",
    "killed: memory pressure",
    "killed: out of memory",
    "rounds of the watchdog",
];
