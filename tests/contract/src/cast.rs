// SPDX-License-Identifier: GPL-2.0
//! The actors of tests in which priorities travel with a call: a server whose node demands
//! something, and a client that holds the node.

use crate::actor::Actor;
use crate::port::{empty, introduce_counted, Port};
use crate::scheduling::Schedule;
use crate::stage::{Stage, SPACE};
use binder_sys::*;
use std::rc::Rc;

/// A client that holds a server's node.
pub struct Cast {
    /// The context manager, through which the client got it.
    pub manager: Port,
    /// Its owner.
    pub server: Port,
    /// Its holder.
    pub client: Port,
    /// Its handle there.
    pub handle: u32,
}

/// Node flags: real-time callers are inherited from.
pub const INHERIT_RT: u32 = 0x800;
/// Node flags: the minimum is a nice value of 19, so there is none.
pub const NO_MINIMUM: u32 = 19;
/// Node flags that inherit any priority of the caller.
pub const INHERIT: u32 = INHERIT_RT | NO_MINIMUM;
/// Node flags: the minimum is one of this policy.
pub const FIFO: u32 = 1 << 9;
/// See [`FIFO`].
pub const ROUND_ROBIN: u32 = 2 << 9;

/// The node, with what its flags demand.
pub fn node(flags: u32) -> FlatBinderObject {
    FlatBinderObject::binder(0x100, 0x200).with_flags(ObjectFlags::from_bits_retain(flags))
}

/// A client that holds a new server's node.
pub fn cast(t: &Stage, flags: u32) -> Cast {
    cast_with(t, t.server(), flags)
}

/// A client that holds a node which inherits any priority of its caller.
pub fn inheriting(t: &Stage) -> Cast {
    cast(t, INHERIT)
}

/// A client that holds the node of this server.
pub fn cast_with(t: &Stage, server: Port, flags: u32) -> Cast {
    let (manager, client) = (t.manager(), t.client());
    let handle = introduce_counted(&manager, &server, node(flags), &client);
    Cast { manager, server, client, handle }
}

/// A new process, scheduled before it opens the device.
pub fn opened_at(t: &Stage, schedule: Schedule) -> Port {
    opened_after(t, |actor| actor.set_schedule(schedule))
}

/// A new process that something is done with before it opens the device.
pub fn opened_after(t: &Stage, change: impl FnOnce(&Actor)) -> Port {
    let actor = Rc::new(Actor::new());
    change(&actor);
    let mut port = t.open_by(actor);
    port.map(SPACE).expect("map the space");
    port.enter_looper();
    port
}

impl Cast {
    /// Calls and leaves the server with the call.
    pub fn call(&self, caller: Schedule) -> BinderTransactionData {
        self.client.actor.set_schedule(caller);
        self.client.start_call(self.handle, 0, &empty());
        self.server.wait_call()
    }

    /// Has the server reply, and the client receive it.
    pub fn answer(&self) {
        self.server.reply(&empty());
        self.client.wait_reply();
    }
}
