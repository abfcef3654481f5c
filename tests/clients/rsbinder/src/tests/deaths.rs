// SPDX-License-Identifier: GPL-2.0
//! Deaths, and the processes that are notified.

use crate::stage::{eventually, Process, Service};
use crate::workshop_aidl::IWorkshop::IWorkshop;
use anyhow::{bail, ensure, Result};
use nix::sys::signal::Signal;
use rsbinder::{DeathRecipient, StatusCode, WIBinder};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// Counts its notifications.
#[derive(Default)]
struct Counter(AtomicUsize);

impl DeathRecipient for Counter {
    fn binder_died(&self, _who: &WIBinder) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Counter {
    fn times(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

pub fn of_a_service() -> Result<String> {
    let service = Service::start("mortal", 1)?;
    let token = service.workshop.token()?;
    let counters: Vec<_> = (0..10).map(|_| Arc::new(Counter::default())).collect();
    for counter in &counters {
        service.workshop.as_binder().link_to_death_arc(counter)?;
        token.link_to_death_arc(counter)?;
    }
    service.process.signal(Signal::SIGKILL)?;
    eventually("all are notified of both objects", || Ok(counters.iter().all(|c| c.times() == 2)))?;
    let call = service.workshop.pid().err().map(|status| status.transaction_error());
    ensure!(call == Some(StatusCode::DeadObject), "a call afterwards: {call:?}");
    let late = token.link_to_death_arc(&counters[0]);
    ensure!(counters.iter().all(|c| c.times() == 2), "notified again");
    Ok(format!("10 are notified of 2 objects; a call: {call:?}; a late link: {late:?}"))
}

pub fn no_longer_wanted() -> Result<String> {
    let service = Service::start("unlinked", 1)?;
    let (kept, dropped) = (Arc::new(Counter::default()), Arc::new(Counter::default()));
    let (object, token) = (service.workshop.as_binder(), service.workshop.token()?);
    for _ in 0..100 {
        token.link_to_death_arc(&dropped)?;
        token.unlink_to_death_arc(&dropped)?;
    }
    object.link_to_death_arc(&kept)?;
    object.link_to_death_arc(&dropped)?;
    object.unlink_to_death_arc(&dropped)?;
    service.process.signal(Signal::SIGKILL)?;
    eventually("the recipient that is still linked is notified", || Ok(kept.times() == 1))?;
    std::thread::sleep(Duration::from_millis(50));
    ensure!((kept.times(), dropped.times()) == (1, 0), "{}, {}", kept.times(), dropped.times());
    Ok("linked 101 times, unlinked as often: not notified".into())
}

pub fn in_the_middle_of_a_call() -> Result<String> {
    let service = Service::start("unfinished", 1)?;
    let workshop = service.workshop.clone();
    let call = std::thread::spawn(move || workshop.busy(60_000));
    // Busy is who is not alone.
    eventually("the call is served", || Ok(service.workshop.busy(0)? == 2))?;
    service.process.signal(Signal::SIGKILL)?;
    let Ok(Err(status)) = call.join() else { bail!("the call came back") };
    let by_itself = Service::start("aborted", 1)?;
    by_itself.workshop.die()?;
    let gone = Arc::new(Counter::default());
    // It may be dead before it is watched.
    let linked = by_itself.workshop.as_binder().link_to_death_arc(&gone).is_ok();
    eventually("the service is dead", || Ok(by_itself.workshop.pid().is_err()))?;
    eventually("its death is notified", || Ok(gone.times() == usize::from(linked)))?;
    ensure!(status.transaction_error() == StatusCode::DeadObject);
    Ok(format!("the caller gets {:?}", status.transaction_error()))
}

pub fn of_a_client() -> Result<String> {
    let service = Service::start("watchers", 1)?;
    let names = ["one", "two", "three"];
    let mut lenders: Vec<_> =
        names.iter().map(|name| Process::play(&["lend", "watchers", name])).collect::<Result<_>>()?;
    for lender in &mut lenders {
        ensure!(lender.line()? == "lent");
    }
    ensure!(service.workshop.mourned()?.is_empty(), "mourned alive");
    lenders[1].signal(Signal::SIGKILL)?;
    eventually("one is mourned", || Ok(service.workshop.mourned()? == ["two"]))?;
    drop(lenders);
    eventually("all are mourned", || Ok(service.workshop.mourned()?.len() == 3))?;
    Ok(format!("{:?}", service.workshop.mourned()?))
}

pub fn of_many_clients() -> Result<String> {
    let service = Service::start("wakes", 4)?;
    for round in 1..=3 {
        let mut lenders: Vec<_> =
            (0..10).map(|_| Process::play(&["lend", "wakes", "many"])).collect::<Result<_>>()?;
        for lender in &mut lenders {
            ensure!(lender.line()? == "lent");
        }
        drop(lenders);
        eventually("all are mourned", || Ok(service.workshop.mourned()?.len() == 10 * round))?;
    }
    Ok("30 mourned".into())
}
