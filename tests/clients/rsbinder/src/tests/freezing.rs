// SPDX-License-Identifier: GPL-2.0
//! Frozen processes.

use crate::stage::{eventually, Service, PATIENCE};
use crate::workshop::lock;
use crate::workshop_aidl::IWorkshop::IWorkshop;
use anyhow::{bail, ensure, Result};
use nix::sys::signal::Signal;
use rsbinder::{FrozenState, FrozenStateChangeCallback, ProcessState, WIBinder};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Default)]
struct Diary(Mutex<Vec<FrozenState>>);

impl FrozenStateChangeCallback for Diary {
    fn on_state_changed(&self, _who: &WIBinder, state: FrozenState) {
        lock(&self.0).push(state);
    }
}

fn freeze(service: &Service, enable: bool) -> Result<()> {
    let state = ProcessState::as_self();
    Ok(state.freeze_process(service.process.pid(), enable, PATIENCE)?)
}

pub fn a_frozen_service() -> Result<String> {
    let service = Service::start("cold", 1)?;
    // The driver stops no process: Android freezes it as well, after Binder has.
    freeze(&service, true)?;
    service.process.stop()?;
    let Err(call) = service.workshop.echo("hello") else { bail!("a frozen process answered") };
    (0..5).try_for_each(|number| service.workshop.post(number))?;
    let info = ProcessState::as_self().process_freeze_info(service.process.pid())?;
    service.process.signal(Signal::SIGCONT)?;
    freeze(&service, false)?;
    let mut posted = Vec::new();
    eventually("the oneway calls arrive", || {
        posted.extend(service.workshop.posted()?);
        Ok(posted.len() == 5)
    })?;
    ensure!(posted.into_iter().eq(0..5), "out of order");
    ensure!(service.workshop.echo("hello")? == "hello");
    Ok(format!("a call: {:?}; {info:?}; 5 oneway calls wait", call.transaction_error()))
}

pub fn is_reported() -> Result<String> {
    let service = Service::start("seasons", 1)?;
    let diary = Arc::new(Diary::default());
    let object = service.workshop.as_binder();
    object.add_frozen_state_change_callback_arc(&diary)?;
    let mut expected = vec![FrozenState::Unfrozen];
    eventually("the state of the start", || Ok(*lock(&diary.0) == expected))?;
    for _ in 0..3 {
        for (enable, state) in [(true, FrozenState::Frozen), (false, FrozenState::Unfrozen)] {
            freeze(&service, enable)?;
            expected.push(state);
            eventually("the change is notified", || Ok(*lock(&diary.0) == expected))?;
        }
    }
    object.remove_frozen_state_change_callback_arc(&diary)?;
    freeze(&service, true)?;
    freeze(&service, false)?;
    std::thread::sleep(Duration::from_millis(50));
    ensure!(*lock(&diary.0) == expected, "notified after the link was removed");
    Ok(format!("{expected:?}"))
}
