// SPDX-License-Identifier: GPL-2.0

//! Objects that name nodes. Only the owner of a node names it by pointer and cookie; every other
//! process names it by a handle of its own.

use super::{Route, Translation};
use crate::{
    allocation::HeldObject,
    common::failure::{Failure, Reason},
    defs::{FlatObject, Named, NodeName},
    ffi::trace::{self, NodeNamed, RefNamed}, //
    process::Process,
    pure::priority_rules::NodeFlags,
};
use kernel::{
    prelude::*,
    security,
    sync::Arc, //
};

impl Translation<'_> {
    /// Translates an object for the receiver. The buffer holds what it names.
    pub(super) fn node(&mut self, object: FlatObject) -> Result<FlatObject, Failure> {
        self.buffer.expect_held()?;
        let (translated, held) = self.translated_node(object)?;
        self.buffer.hold(held);
        Ok(translated)
    }

    /// Returns the translated object, and the count that was taken for it, which the buffer is to
    /// hold.
    fn translated_node(&self, object: FlatObject) -> Result<(FlatObject, HeldObject), Failure> {
        match object.named() {
            Named::Node(name) => self.node_of_sender(object, name),
            Named::Handle(handle) => self.handle_of_sender(object, handle),
        }
    }

    /// Translates a node of the sender into a handle of the receiver.
    fn node_of_sender(
        &self,
        object: FlatObject,
        name: NodeName,
    ) -> Result<(FlatObject, HeldObject), Failure> {
        let Route {
            id,
            sender,
            receiver,
            ..
        } = self.route;
        let node = sender
            .thread
            .process
            .pin_node(name, NodeFlags::new(object.flags()))
            .map_err(|error| Failure::new(Reason::BadNode, error))?;
        let handle = self
            .may_transfer_node()
            .and_then(|()| receiver.hold_node(&node, object.strength(), Some(sender.thread)));
        node.unpin();
        let to = handle.map_err(error)?;
        let ptr = name.ptr;
        trace::transaction_node_to_ref(id, || {
            let id = node.debug_id;
            (NodeNamed { id, ptr }, named(receiver, to))
        });
        Ok(as_handle(to, object))
    }

    /// Translates a handle of the sender into one of the receiver, or into the node if that is the
    /// receiver's.
    fn handle_of_sender(
        &self,
        object: FlatObject,
        handle: u32,
    ) -> Result<(FlatObject, HeldObject), Failure> {
        let Route {
            id,
            sender,
            receiver,
            ..
        } = self.route;
        let strength = object.strength();
        let from = &sender.thread.process;
        let node = from
            .node_of_handle(handle, strength)
            .ok_or_else(|| Failure::new(Reason::BadHandle, EINVAL))?;
        self.may_transfer_node().map_err(error)?;
        if Arc::ptr_eq(node.owner(), receiver) {
            node.add_local(strength)
                .map_err(|_| Failure::new(Reason::BadHandle, EINVAL))?;
            let name = node.name;
            trace::transaction_ref_to_node(id, || {
                let (id, ptr) = (node.debug_id, name.ptr);
                (named(from, handle), NodeNamed { id, ptr })
            });
            return Ok((
                object.naming(Named::Node(name)),
                HeldObject::Node(node, strength),
            ));
        }
        let to = receiver.hold_node(&node, strength, None).map_err(error)?;
        trace::transaction_ref_to_ref(id, node.debug_id, || {
            (named(from, handle), named(receiver, to))
        });
        Ok(as_handle(to, object))
    }

    /// Asks the security modules. Whatever error they return, the sender gets `EPERM` (contract
    /// 10).
    fn may_transfer_node(&self) -> Result {
        let (from, to) = (self.route.sender.credential, self.receiver_credential);
        security::binder_transfer_binder(from, to).map_err(|_| EPERM)
    }
}

/// Returns what trace events say of the ref behind a handle. Takes the handles lock.
fn named(process: &Process, handle: u32) -> RefNamed {
    let id = process.debug_id_of_handle(handle).unwrap_or(0);
    RefNamed { id, handle }
}

/// Returns a handle of the receiver, in place of what `object` names, and as held object.
fn as_handle(handle: u32, object: FlatObject) -> (FlatObject, HeldObject) {
    let held = HeldObject::Handle(handle, object.strength());
    (object.naming(Named::Handle(handle)), held)
}

/// Returns the transaction error for a handle that could not be added to the receiver.
fn error(error: Error) -> Failure {
    if error == ESRCH {
        Failure::without_errno(Reason::ReceiverEnded)
    } else if error == EPERM {
        Failure::new(Reason::NodeDenied, error)
    } else {
        Failure::new(Reason::BadNode, error)
    }
}
