// SPDX-License-Identifier: GPL-2.0
//! Death notifications: asking for one and withdrawing it, and the death of watched nodes.
//!
//! The nodes that die belong to another open file of the watching process, which is closed. So the time is the
//! driver's, without the exit of a process. Opening it and watching its nodes is not measured.

use std::path::PathBuf;

use clap::Args;

use super::Workload;
use crate::prelude::*;
use crate::registry;

const NAME: &str = "death";

/// The case of nodes whose process goes away.
pub const NODES_DIE: &str = "nodes die";

const OBJECT: u64 = size_of::<FlatBinderObject>() as u64;

#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Watched nodes of a process that goes away.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64], value_parser = clap::value_parser!(u32).range(1..=400))]
    pub nodes: Vec<u32>,
}

impl Workload for Options {
    fn set_up(&self, stage: &mut Stage) -> Result<()> {
        let serve = |mut talker: Talker| Err(unexpected(&talker.next()?));
        let client = stage.pair(("watched {}", 0), NAME, serve, |mut talker, handle| {
            talker.enter_looper()?;
            Ok(Requester { talker, handle })
        })?;
        let label = Label::new(NAME, "request and clear");
        stage.add(label, 0, &[client]);

        let (device, cpu) = (stage.device.clone(), stage.seat(0).client);
        let watcher = stage.client("watcher of nodes", cpu, NAME, |mut talker, _| {
            registry::register(&mut talker, WATCHER, 1)?;
            talker.enter_looper()?;
            Ok(Watcher { talker, device, nodes: 0, dying: None })
        })?;
        for &nodes in &self.nodes {
            let label = Label::new(NAME, NODES_DIE).with("nodes", nodes);
            stage.add(Label { batch: nodes, ..label }, nodes, &[watcher]);
        }
        Ok(())
    }
}

/// Requests a death notification of the server, and clears it.
struct Requester {
    talker: Talker,
    handle: u32,
}

impl Caller for Requester {
    fn call(&mut self) -> Result<()> {
        self.talker.out.request_death(self.handle, 16).clear_death(self.handle, 16);
        awaited!(self.talker, Return::ClearDeathNotificationDone(_) => Ok(()))
    }
}

/// The name under which the dying nodes are handed over.
const WATCHER: &str = "watcher";

/// Watches nodes of an open file that it closes.
struct Watcher {
    talker: Talker,
    device: PathBuf,
    nodes: u32,
    /// The open file that is about to be closed, and our handles on its nodes.
    dying: Option<(Talker, Vec<u32>)>,
}

impl Caller for Watcher {
    const PREPARES: bool = true;

    /// The variant is the number of nodes.
    fn set(&mut self, setting: Setting) -> Result<()> {
        self.nodes = setting.variant;
        Ok(())
    }

    fn prepare(&mut self) -> Result<()> {
        let mut dying = Talker::open(&self.device, SPACE)?;
        let handle = registry::look_up(&mut dying, WATCHER)?;
        let mut parcel = Parcel::new();
        for node in 1..=u64::from(self.nodes) {
            parcel.object(&FlatBinderObject::binder(node, node));
        }
        dying.send(&parcel.to_handle(handle, 1, TransactionFlags::ONE_WAY))?;
        let call = self.talker.next_call()?;
        let mut handles = Vec::new();
        for node in 0..u64::from(self.nodes) {
            let handle = self.talker.hold(&call, node * OBJECT)?;
            self.talker.out.request_death(handle, handle.into());
            handles.push(handle);
        }
        self.talker.write(|out| out.free_buffer(call.buffer))?;
        self.dying = Some((dying, handles));
        Ok(())
    }

    fn call(&mut self) -> Result<()> {
        let Some((dying, handles)) = self.dying.take() else { return Ok(()) };
        drop(dying);
        for _ in &handles {
            let cookie = awaited!(self.talker, Return::DeadBinder(cookie) => cookie);
            self.talker.out.dead_binder_done(cookie).release(cookie as u32);
        }
        self.talker.flush()
    }
}
