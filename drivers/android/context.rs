// SPDX-License-Identifier: GPL-2.0

//! A device: processes that open it can reach each other, starting from its context manager.

use crate::{
    common::stats::{Counted, Kind},
    defs::{NodeFlags, NodeName},
    node::Node,
    process::Process,
    pure::node_counts::Uncounted, //
};
use kernel::{
    cred::Credential,
    new_mutex,
    new_spinlock,
    prelude::*,
    security,
    sync::{Arc, Mutex, SpinLock},
    task::Kuid, //
};

/// A device.
#[pin_data]
pub(crate) struct Context {
    /// The node that handle 0 means. Innermost of all locks; held for a pointer's copy only.
    #[pin]
    manager: SpinLock<Option<Arc<Node>>>,
    /// The first manager's user; only he may provide the next ones. Held while one is installed,
    /// outside of all other locks.
    #[pin]
    manager_uid: Mutex<Option<Kuid>>,
    _counted: Counted,
}

impl Context {
    /// Makes a device that nobody has opened.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                manager <- new_spinlock!(None, "Context::manager"),
                manager_uid <- new_mutex!(None, "Context::manager_uid"),
                _counted: Counted::new(Kind::Context),
            }),
            GFP_KERNEL,
        )
    }

    /// The node that handle 0 means, if there is one.
    pub(crate) fn manager(&self) -> Option<Arc<Node>> {
        self.manager.lock().clone()
    }

    /// Lets `process` be the context manager through the node of this name (contract CTX-1).
    pub(crate) fn set_manager(
        &self,
        process: &Arc<Process>,
        credential: &Credential,
        name: NodeName,
        flags: NodeFlags,
    ) -> Result {
        let mut manager_uid = self.manager_uid.lock();
        if self.manager().is_some() {
            return Err(EBUSY);
        }
        security::binder_set_context_mgr(credential)?;
        let uid = Kuid::current_euid();
        if manager_uid.as_ref().is_some_and(|first| *first != uid) {
            return Err(EPERM);
        }
        *manager_uid = Some(uid);
        let node = process.pin_node(name, flags)?;
        let counted = node.become_manager(&mut process.lock_state());
        if counted.is_ok() {
            *self.manager.lock() = Some(node.clone());
        }
        node.unpin();
        counted.map_err(|Uncounted| EINVAL)
    }

    /// Whether handle 0 means `node`.
    pub(crate) fn is_manager(&self, node: &Node) -> bool {
        let manager = self.manager.lock();
        manager
            .as_ref()
            .is_some_and(|manager| core::ptr::eq(&**manager, node))
    }

    /// Whether `process` is the context manager.
    pub(crate) fn is_managed_by(&self, process: &Process) -> bool {
        self.manager()
            .is_some_and(|node| core::ptr::eq(&*node.owner, process))
    }

    /// `process` ends: if it was the context manager, there is none now.
    pub(crate) fn forget_manager(&self, process: &Process) {
        let mut manager = self.manager.lock();
        let is_ours = |node: &Arc<Node>| core::ptr::eq(&*node.owner, process);
        let former = match manager.as_ref() {
            Some(node) if is_ours(node) => manager.take(),
            _ => None,
        };
        drop(manager);
        drop(former);
    }
}
