// SPDX-License-Identifier: GPL-2.0
//! Identities across namespaces: a call's sender pid is that in the receiver's namespace.

use super::*;

/// A process in a pid namespace of its own.
pub(super) fn inner(t: &Stage) -> Port {
    let outer = Actor::new();
    let port = t.client_by(Rc::new(outer.fork_pid_namespace()));
    assert_eq!(port.actor.number(Op::GetPid), Ok(1));
    // The outer process stays, as the namespace's parent.
    std::mem::forget(outer);
    port
}

/// The sender's pid that the server reads.
fn seen(server: &Port, client: &Port) -> i32 {
    let call = client.call(server, 0, 0, &empty());
    finish(server, client, &call);
    call.sender_pid
}

case!(sender_in_an_inner_pid_namespace, ["TXN-5"], |t| {
    let (server, client) = (t.manager(), inner(t));
    assert_eq!(seen(&server, &client), client.actor.pid(), "its pid as seen from outside");
});

case!(receiver_in_an_inner_pid_namespace, ["TXN-5"], |t| {
    let (server, client) = (inner(t), t.client());
    server.set_context_manager().expect("manage");
    server.enter_looper();
    let pid = seen(&server, &client);
    t.known_difference(Driver::Upstream, "an outer sender has a pid inside", pid == 0);
});

case!(inner_processes_among_themselves, ["TXN-5"], inner, |t, server| {
    let child = server.actor.fork();
    server.set_context_manager().expect("manage");
    server.enter_looper();
    let client = t.client_by(Rc::new(child));
    let known_as = client.actor.number(Op::GetPid).expect("its own pid") as i32;
    assert_ne!(known_as, 1);
    assert_eq!(seen(&server, &client), known_as);
});

case!(thread_sends_as_its_process, ["TXN-5"], pair, |t, (server, client)| {
    let thread = client.thread();
    assert_eq!(seen(&server, &thread), client.actor.pid(), "the process, not the thread");
});
