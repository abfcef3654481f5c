// SPDX-License-Identifier: GPL-2.0
//! The scenes in which the questions of the worked examples are asked.

use super::Players;
use crate::port::{bytes, empty, introduce, introduce_counted};
use crate::stage::Stage;
use binder_sys::FlatBinderObject;

/// What the examples answer.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Question {
    /// Who is my UI thread waiting for?
    Waiting,
    /// Why did this call fail?
    Failed,
    /// What holds this node?
    Node,
}

impl Question {
    /// Makes its scene.
    pub fn make(self, t: &Stage) -> Players {
        match self {
            Question::Waiting => waiting(t),
            Question::Failed => failed(t),
            Question::Node => node(t),
        }
    }
}

/// A thread calls a service, which calls another, which does something else.
fn waiting(t: &Stage) -> Players {
    let (manager, ui, middle, last) = (t.manager(), t.client(), t.server(), t.server());
    let on_middle = introduce_counted(&manager, &middle, FlatBinderObject::binder(8, 0), &ui);
    let on_last = introduce_counted(&manager, &last, FlatBinderObject::binder(8, 0), &middle);
    ui.call(&middle, on_middle, 3, &empty());
    ui.actor.expect_blocked();
    middle.call(&last, on_last, 4, &empty());
    middle.actor.expect_blocked();
    vec![("MANAGER", manager), ("UI", ui), ("MIDDLE", middle), ("LAST", last)]
}

/// A client whose calls are refused, each for another reason.
fn failed(t: &Stage) -> Players {
    let (server, client) = (t.manager_with(16 << 10), t.client());
    client.refused(&client.place(77, 1, &empty()));
    client.refused(&client.place(0, 2, &bytes(&vec![0; 20_000])));
    vec![("SERVER", server), ("CLIENT", client)]
}

/// A node that two processes hold; the owner of another one is gone.
fn node(t: &Stage) -> Players {
    let (manager, owner, one, other) = (t.manager(), t.server(), t.client(), t.client());
    let object = || FlatBinderObject::binder(0x5000, 0x6000);
    introduce(&manager, &owner, object(), &one);
    let handle = introduce_counted(&manager, &owner, object(), &other);
    other.send(|c| c.increfs(handle).request_death(handle, 1));
    vec![("MANAGER", manager), ("OWNER", owner), ("ONE", one), ("OTHER", other)]
}
