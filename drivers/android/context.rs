// SPDX-License-Identifier: GPL-2.0

//! A device: processes that open it can reach each other, starting from its context manager.

use crate::common::stats::{Counted, Kind};
use kernel::{
    cred::Credential,
    new_mutex,
    new_spinlock,
    prelude::*,
    security,
    sync::{
        lock::{mutex::MutexBackend, Guard},
        Arc,
        Mutex,
        SpinLock, //
    },
    task::Kuid, //
};

/// A device whose context manager is named by an `N`.
#[pin_data]
pub(crate) struct Context<N> {
    /// The node that handle 0 means. Innermost of all locks; held for a pointer's copy only.
    #[pin]
    manager: SpinLock<Option<Arc<N>>>,
    /// The first manager's user; only he may provide the next ones. Held while one is installed,
    /// outside of all other locks.
    #[pin]
    manager_uid: Mutex<Option<Kuid>>,
    _counted: Counted,
}

/// The right to name the context manager, while there is none and nobody else may.
#[must_use]
pub(crate) struct Vacancy<'a, N> {
    context: &'a Context<N>,
    _uid: Guard<'a, Option<Kuid>, MutexBackend>,
}

impl<N> Vacancy<'_, N> {
    /// From now on handle 0 means `node`.
    pub(crate) fn fill(self, node: Arc<N>) {
        *self.context.manager.lock() = Some(node);
    }
}

impl<N> Context<N> {
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
    pub(crate) fn manager(&self) -> Option<Arc<N>> {
        self.manager.lock().clone()
    }

    /// Lets the calling task name the context manager (contract CTX-1). `EBUSY` if there is one, `EPERM` if
    /// another user has been it, or a security module objects.
    pub(crate) fn vacancy(&self, credential: &Credential) -> Result<Vacancy<'_, N>> {
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
        Ok(Vacancy {
            context: self,
            _uid: manager_uid,
        })
    }

    /// Whether handle 0 means `node`.
    pub(crate) fn is_manager(&self, node: &N) -> bool {
        let manager = self.manager.lock();
        manager
            .as_ref()
            .is_some_and(|manager| core::ptr::eq(&**manager, node))
    }

    /// If handle 0 means a node of whom `is_ours` says so, it means none from now on.
    pub(crate) fn forget_manager(&self, is_ours: impl FnOnce(&N) -> bool) {
        let mut manager = self.manager.lock();
        let former = match manager.as_ref() {
            Some(node) if is_ours(node) => manager.take(),
            _ => None,
        };
        drop(manager);
        drop(former);
    }
}
