// SPDX-License-Identifier: GPL-2.0

//! A context: one device, whose processes can reach each other, starting from its context manager.

use crate::{
    common::{
        stats::{Counted, Kind},
        transaction_log::{Published, TransactionLog}, //
    },
    kernel_ext::{
        pid::UserNamespace,
        spin_lock::{new_spin_lock, SpinLock}, //
    },
    node::Node, //
};
use kernel::{
    cred::Credential,
    new_mutex,
    prelude::*,
    security,
    str::{CStr, CString},
    sync::{
        Arc,
        Mutex, //
    },
    task::Kuid, //
};

/// One device.
#[pin_data]
pub(crate) struct Context {
    /// The name that the device was made with.
    name: CString,
    /// The node that handle 0 means. This is the innermost of all locks; it is held only while the
    /// pointer is copied.
    #[pin]
    manager: SpinLock<Option<Arc<Node>>>,
    /// The user of the first manager; only this user may provide the next ones. The lock is held
    /// while a manager is installed, and is taken before all other locks.
    #[pin]
    manager_uid: Mutex<Option<Kuid>>,
    /// The log of what is sent, once the device has been opened. The lock is held while the log is
    /// made.
    #[pin]
    log: Mutex<Option<Published>>,
    /// The user namespace that owns the device: that of its mount.
    owner: UserNamespace,
    _counted: Counted,
}

impl Context {
    /// Allocates the context of a device that is not open.
    pub(crate) fn new(name: &CStr, owner: UserNamespace) -> Result<Arc<Self>> {
        let name = name.to_cstring()?;
        Arc::pin_init(
            pin_init!(Self {
                name,
                manager <- new_spin_lock!(None, "Context::manager"),
                manager_uid <- new_mutex!(None, "Context::manager_uid"),
                log <- new_mutex!(None, "Context::log"),
                owner,
                _counted: Counted::new(Kind::Context),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Returns the name that the device was made with; renaming the device does not change it.
    pub(crate) fn name(&self) -> &CStr {
        &self.name
    }

    /// Returns whether a request through this device may name the processes that have `other` open.
    /// The user namespace that owns this device must own the other device, too, or be an ancestor
    /// of its owner.
    pub(crate) fn reaches(&self, other: &Self) -> bool {
        self.owner.contains(&other.owner)
    }

    /// Returns the log of what is sent, for a process that opens the device. `ENOMEM`.
    pub(crate) fn log(&self) -> Result<Arc<TransactionLog>> {
        let mut log = self.log.lock();
        if log.is_none() {
            *log = Some(Published::new(&self.name)?);
        }
        log.as_ref().map(|log| log.0.clone()).ok_or(ENOMEM)
    }

    /// Returns the node that handle 0 means, if there is one.
    pub(crate) fn manager(&self) -> Option<Arc<Node>> {
        self.manager.lock().clone()
    }

    /// Makes the node that `make` returns the one that handle 0 means (contract CTX-1). `EBUSY` if
    /// there is one, `EPERM` if another user has provided one before, the error of a security
    /// module that denies it, or that of `make`.
    pub(crate) fn set_manager(
        &self,
        credential: &Credential,
        make: impl FnOnce() -> Result<Arc<Node>>,
    ) -> Result {
        let mut manager_uid = self.manager_uid.lock();
        if self.manager().is_some() {
            return Err(EBUSY);
        }
        security::binder_set_context_mgr(credential)?;
        let uid = Kuid::current_euid();
        if *manager_uid.get_or_insert(uid) != uid {
            return Err(EPERM);
        }
        let node = make()?;
        *self.manager.lock() = Some(node);
        Ok(())
    }

    /// Returns whether handle 0 means `node`.
    pub(crate) fn is_manager(&self, node: &Node) -> bool {
        let manager = self.manager.lock();
        manager
            .as_ref()
            .is_some_and(|manager| core::ptr::eq(&**manager, node))
    }

    /// Clears handle 0, if it means a node for which `is_ours` returns `true`.
    pub(crate) fn forget_manager(&self, is_ours: impl FnOnce(&Node) -> bool) {
        let former = self.manager.lock().take_if(|node| is_ours(node));
        drop(former);
    }
}
