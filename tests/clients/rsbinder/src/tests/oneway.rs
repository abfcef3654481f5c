// SPDX-License-Identifier: GPL-2.0
//! Calls that nobody waits for.

use crate::stage::{eventually, Service};
use crate::workshop_aidl::IWorkshop::IWorkshop;
use anyhow::{ensure, Result};
use nix::sys::signal::Signal;

fn arrived(service: &Service, count: usize) -> Result<Vec<i32>> {
    let mut all = Vec::new();
    eventually("the calls arrive", || {
        all.extend(service.workshop.posted()?);
        Ok(all.len() >= count)
    })?;
    Ok(all)
}

pub fn in_order() -> Result<String> {
    let service = Service::start("posts", 4)?;
    for round in 0..5 {
        (0..1000).try_for_each(|number| service.workshop.post(number))?;
        ensure!(arrived(&service, 1000)?.into_iter().eq(0..1000), "out of order in round {round}");
    }
    Ok("5 times 1000 in order".into())
}

pub fn full_space() -> Result<String> {
    let service = Service::start("floods", 1)?;
    service.process.stop()?;
    let data = vec![7; 100_000];
    let mut sent = 0;
    let error = loop {
        match service.workshop.pour(&data) {
            Ok(()) => sent += 1,
            Err(status) => break status.transaction_error(),
        }
        ensure!(sent < 100, "oneway calls are taken without end");
    };
    service.process.signal(Signal::SIGCONT)?;
    ensure!(arrived(&service, sent)? == vec![100_000; sent], "what was taken did not arrive");
    for _ in 0..50 {
        service.workshop.pour(&data)?;
        arrived(&service, 1)?;
    }
    Ok(format!("{sent} calls of 100000 bytes are taken by a stopped process, then {error:?}; later 50 more"))
}

pub fn does_not_wait() -> Result<String> {
    let service = Service::start("stopped", 1)?;
    service.process.stop()?;
    (0..20).try_for_each(|number| service.workshop.post(number))?;
    service.process.signal(Signal::SIGCONT)?;
    ensure!(arrived(&service, 20)?.into_iter().eq(0..20));
    Ok("20 calls to a stopped process return; it gets them later".into())
}
