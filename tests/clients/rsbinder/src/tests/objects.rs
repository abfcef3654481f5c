// SPDX-License-Identifier: GPL-2.0
//! Objects that travel: an object is one and the same however it came.

use crate::stage::Service;
use crate::workshop;
use crate::workshop_aidl::IWorkshop::IWorkshop;
use anyhow::{ensure, Result};

pub fn come_back_as_themselves() -> Result<String> {
    let first = Service::start("first", 1)?;
    let second = Service::start("second", 1)?;
    let theirs = first.workshop.token()?;
    ensure!(theirs == first.workshop.token()?, "two calls returned two objects");
    ensure!(first.workshop.isToken(&theirs)?, "the owner does not find its object");
    ensure!(!second.workshop.isToken(&theirs)?, "another one takes it for its own");
    ensure!(first.workshop.isToken(&second.workshop.pass(&theirs)?)?, "lost on the way around");
    let ours = workshop::token();
    ensure!(first.workshop.pass(&ours)? == ours, "our object came back as another");
    ensure!(ours.as_proxy().is_none() && theirs.as_proxy().is_some());
    Ok("the service's object, around and back, and the client's".into())
}

pub fn many_at_once() -> Result<String> {
    let service = Service::start("many", 1)?;
    for round in 0..50 {
        let objects: Vec<_> = (0..10).map(|_| workshop::token()).collect();
        for object in &objects {
            ensure!(service.workshop.pass(object)? == *object, "round {round}");
        }
    }
    Ok("500 objects there and back".into())
}
