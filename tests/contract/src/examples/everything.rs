// SPDX-License-Identifier: GPL-2.0
//! A scene with something of every kind that the log files show.

use super::Players;
use crate::port::{bytes, empty, introduce, object, Port};
use crate::stage::Stage;
use binder_sys::ioctl::{BINDER_FREEZE, BINDER_SET_MAX_THREADS};
use binder_sys::*;

/// Makes it. Each actor reads all that there is before the next one moves, so that the order of
/// events is the same in each run.
pub fn make(t: &Stage) -> Players {
    let manager = t.manager();
    manager.ioctl(BINDER_SET_MAX_THREADS, 3u32).expect("set a limit");
    let [server, client, holder, helper] = [t.server(), t.client(), t.client(), t.client()];
    let handles = [&client, &holder, &helper].map(|port| {
        let handle = introduce(&manager, &server, FlatBinderObject::binder(0x1000, 0x2000), port);
        let _ = server.answer_counts();
        handle
    });
    manager.ignore_passed();
    [&server, &client].into_iter().for_each(|port| talk(&manager, port));
    deaths_and_freezes(t, &manager, &holder, handles[1]);
    refusals(&helper, handles[2]);
    calls(&manager, &server, &client, handles[0]);
    let pool = manager.registered();
    vec![
        ("manager", manager),
        ("server", server),
        ("client", client),
        ("holder", holder),
        ("helper", helper),
        ("pool", pool),
    ]
}

/// Calls with data and objects, of which some buffers stay.
fn talk(manager: &Port, port: &Port) {
    port.round_trip(0, manager, &bytes(b"question"), &bytes(b"answer"));
    port.call(manager, 0, 5, &object(FlatBinderObject::binder(0x3000, 0x4000)));
    manager.answer(port, &bytes(&[7; 100]));
    let _ = port.answer_counts();
}

/// A holder with an unconfirmed death and a freeze notification, and a node whose owner has ended.
fn deaths_and_freezes(t: &Stage, manager: &Port, holder: &Port, of_server: u32) {
    let gone = t.server();
    let handle = introduce(manager, &gone, FlatBinderObject::binder(0x5000, 0), holder);
    holder.send(|c| c.acquire(0).request_freeze(0, 1).increfs(of_server).request_death(of_server, 2));
    let _ = holder.drain();
    holder.send(|c| c.request_death(handle, 3));
    gone.kill();
    holder.wait_for(Return::DeadBinder(3));
}

/// Calls that fail, each in its own way.
fn refusals(port: &Port, handle: u32) {
    port.refused(&port.place(77, 1, &empty()));
    port.refused(&port.place(handle, 2, &bytes(&vec![0; 4 << 20])));
    port.refused(&port.place(handle, 3, &object(FlatBinderObject::strong_handle(99))));
    let none = BinderFreezeInfo { pid: 1, enable: 1, timeout_ms: 0 };
    port.ioctl(BINDER_FREEZE, none).expect_err("that one has no device");
}

/// A call within a call, one that nobody has read, and oneway calls.
fn calls(manager: &Port, server: &Port, client: &Port, handle: u32) {
    let waiting = client.thread();
    client.call(server, handle, 6, &bytes(b"outer"));
    client.actor.expect_blocked();
    server.call(manager, 0, 7, &bytes(b"inner"));
    server.actor.expect_blocked();
    waiting.send_call(handle, 8, &bytes(b"unread"));
    for code in 9..12 {
        let data = waiting.place_oneway(0, code, &bytes(&[1; 50]));
        waiting.send(|c| c.transaction(&data));
    }
}
