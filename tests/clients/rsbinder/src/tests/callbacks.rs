// SPDX-License-Identifier: GPL-2.0
//! Calls in the other direction.

use crate::stage::{eventually, Service};
use crate::workshop::lock;
use crate::workshop_aidl::IObserver::{BnObserver, IObserver};
use crate::workshop_aidl::IWorkshop::IWorkshop;
use anyhow::{ensure, Result};
use nix::unistd::gettid;
use rsbinder::{BinderResult, Interface};
use std::sync::{Arc, Mutex};

/// Answers with twice the number, and records the numbers that need no answer.
#[derive(Default)]
pub struct Observer(Arc<Mutex<Vec<i32>>>);

impl Interface for Observer {}

impl IObserver for Observer {
    fn ask(&self, number: i32) -> BinderResult<i32> {
        Ok(2 * number)
    }

    fn tell(&self, number: i32) -> BinderResult<()> {
        lock(&self.0).push(number);
        Ok(())
    }

    fn thread(&self) -> BinderResult<i32> {
        Ok(gettid().as_raw())
    }
}

pub fn answer_while_the_caller_waits() -> Result<String> {
    let service = Service::start("answers", 1)?;
    let observer = BnObserver::new_binder(Observer::default());
    for number in 0..500 {
        ensure!(service.workshop.askBack(&observer, number)? == 2 * number, "{number}");
    }
    Ok("500 answers".into())
}

pub fn run_on_the_calling_thread() -> Result<String> {
    let service = Service::start("threads", 1)?;
    let observer = BnObserver::new_binder(Observer::default());
    for _ in 0..20 {
        ensure!(service.workshop.askThread(&observer)? == gettid().as_raw(), "another thread answered");
    }
    Ok("20 calls, each answered by the thread that waited".into())
}

pub fn nest_between_processes() -> Result<String> {
    // Neither has a thread to spare: a call back has to reach the one that waits.
    let left = Service::start("left", 0)?;
    let right = Service::start("right", 0)?;
    let deep = left.workshop.descend(&right.workshop, &left.workshop, 40)?;
    ensure!(deep == 40);
    Ok(format!("{deep} calls inside each other"))
}

pub fn without_waiting() -> Result<String> {
    let service = Service::start("listeners", 1)?;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let observer = BnObserver::new_binder(Observer(heard.clone()));
    service.workshop.tellBack(&observer, 300)?;
    eventually("300 calls arrive", || Ok(lock(&heard).len() == 300))?;
    ensure!(lock(&heard).iter().copied().eq(0..300), "out of order");
    Ok("300 in order".into())
}
