// SPDX-License-Identifier: GPL-2.0
//! Security contexts: a node may request the caller's context from the security module.
//!
//! Guests have such a module when they are booted with `lsm=selinux`. It needs no policy: without one
//! everything is allowed, and every task has the context that the kernel began with.

use super::*;

const WANTED: ObjectFlags = ObjectFlags::TXN_SECURITY_CTX;

/// The security context of a process, without the NUL at its end; nothing where no module gives one.
fn context_of(port: &Port) -> Option<Vec<u8>> {
    let context = std::fs::read(format!("/proc/{}/attr/current", port.actor.pid())).ok()?;
    let end = context.iter().position(|byte| matches!(byte, 0 | b'\n')).unwrap_or(context.len());
    (end > 0).then(|| context[..end].to_vec())
}

/// Needs a security module that gives contexts, as SELinux does. Debian's kernels with their
/// AppArmor return `EINVAL` for a caller's, to C and to our driver (7.3.4).
fn needs_module(t: &Stage, port: &Port) {
    let is_selinux = context_of(port).is_some() && std::path::Path::new("/sys/fs/selinux/enforce").exists();
    t.needs("a security module that gives contexts (boot with lsm=selinux)", is_selinux);
}

/// A manager whose node requests contexts, and a client, with such a module.
fn wanting_pair(t: &Stage) -> (Port, Port) {
    let (server, client) = (t.manager_flagged(WANTED), t.client());
    needs_module(t, &client);
    (server, client)
}

/// Has a process take another context, one that a kernel without a policy accepts.
#[track_caller]
fn take_context(port: &Port, context: &str) {
    port.actor.number(Op::SetContext { context: context.to_string() }).expect("another context");
    assert_eq!(context_of(port).as_deref(), Some(context.as_bytes()));
}

/// Waits for a call that comes with the caller's context, as it is now.
#[track_caller]
fn wait_call(server: &Port, client: &Port) -> BinderTransactionData {
    wait_call_with(server, &context_of(client).expect("a context")).0
}

/// Waits for a call that comes with these words and an end, behind all else of the buffer; with their address.
#[track_caller]
fn wait_call_with(server: &Port, words: &[u8]) -> (BinderTransactionData, u64) {
    let (call, address) = server.wait_call_with_context();
    let wanted = [words, &[0]].concat();
    assert_eq!(server.memory(address, wanted.len()), wanted);
    assert_eq!(address % 8, 0);
    assert!(address >= call.buffer + call.data_size, "inside of the data");
    assert!(address >= call.offsets + call.offsets_size, "inside of the offsets");
    (call, address)
}

case!(refused_without_a_module, ["OBJ-9", "LSM-1"], |t| {
    let (server, client) = (t.manager_flagged(WANTED), t.client());
    t.needs("no security module that gives contexts", context_of(&client).is_none());
    for flags in [TransactionFlags::empty(), TransactionFlags::ONE_WAY] {
        let data = SgParcel::new().to(&client, 0, flags);
        assert_eq!(client.refused_sg(&data), failed(Errno::EOPNOTSUPP));
    }
    // The data's object was not even looked at, and nothing is left of it.
    let data = client.place(0, 0, &object(FlatBinderObject::binder(0x10, 0)));
    assert_eq!(client.failure(&data), failed(Errno::EOPNOTSUPP));
    assert_eq!(client.node_debug_info(0), BinderNodeDebugInfo::default());
    assert_eq!(server.drain(), []);
});

case!(comes_with_a_call, ["OBJ-9", "LSM-1", "TXN-29"], wanting_pair, |t, (server, client)| {
    client.start_call(0, 77, &bytes(b"the data"));
    let call = wait_call(&server, &client);
    assert_eq!((call.code, call.sender_pid), (77, client.actor.pid()));
    assert_eq!(server.data(&call), b"the data");
    finish(&server, &client, &call);
});

case!(comes_with_a_oneway_call, ["OBJ-9"], wanting_pair, |t, (server, client)| {
    for _ in 0..3 {
        client.start_sg(&SgParcel::new().to(&client, 0, TransactionFlags::ONE_WAY));
        client.wait_for(Return::TransactionComplete);
    }
    for _ in 0..3 {
        server.free(&wait_call(&server, &client));
    }
});

case!(comes_with_every_call, ["OBJ-9", "OBJ-3"], wanting_pair, |t, (server, client)| {
    for length in [0, 1, 7, 8, 4090, 4096, 9999] {
        let mut parcel = bytes(&pattern(length, length));
        for node in 0..length as u64 % 4 {
            parcel.object(&FlatBinderObject::binder(0x10 + node, 0));
        }
        client.start_call(0, 0, &parcel);
        let call = wait_call(&server, &client);
        assert_eq!(server.data(&call)[..length], pattern(length, length));
        finish(&server, &client, &call);
    }
});

case!(does_not_come_with_a_reply, ["OBJ-9"], wanting_pair, |t, (server, client)| {
    client.start_call(0, 0, &empty());
    let (call, _) = server.wait_call_with_context();
    server.free(&call);
    let reply = server.answer(&client, &bytes(b"just a reply"));
    assert_eq!(client.data(&reply), b"just a reply");
});

case!(does_not_come_where_nobody_asked, ["OBJ-9", "NODE-1"], pair, |t, (server, client)| {
    needs_module(t, &client);
    let (quiet, curious) = (FlatBinderObject::binder(0x10, 0), FlatBinderObject::binder(0x20, 0));
    let quiet_handle = give_in_a_reply(&server, &client, quiet);
    let curious_handle = give_in_a_reply(&server, &client, curious.with_flags(WANTED));
    // Sent again with other flags: too late.
    assert_eq!(give_in_a_reply(&server, &client, quiet.with_flags(WANTED)), quiet_handle);
    assert_eq!(give_in_a_reply(&server, &client, curious), curious_handle);
    finish(&server, &client, &client.call(&server, quiet_handle, 0, &empty()));
    client.start_call(curious_handle, 0, &empty());
    finish(&server, &client, &wait_call(&server, &client));
});

case!(lesson_c07_lies_behind_the_blocks, ["OBJ-3", "OBJ-9", "lesson C07"], |t| {
    let (server, client) = (t.manager_flagged(WANTED), t.client());
    needs_module(t, &client);
    // The room is used up to its last byte.
    let (mut parcel, outer) = SgParcel::of(&client.arena, &pattern(24, 1));
    let inner = parcel.child(&client.arena, &pattern(40, 2), outer, 16);
    client.start_sg(&parcel.call(&client));
    let (call, context) = wait_call_with(&server, &context_of(&client).expect("a context"));
    let last: BinderBufferObject = server.any_object(&call, inner);
    assert!(context >= last.buffer + last.length);
    assert_eq!(server.received_block(&call, inner), pattern(40, 2));
    assert_eq!(server.received_block(&call, outer)[..16], pattern(24, 1)[..16]);
    finish(&server, &client, &call);
    // The room for the context is not room for blocks.
    let (mut parcel, _) = SgParcel::of(&client.arena, &pattern(32, 1));
    parcel.room = 24;
    assert_eq!(client.refused_sg(&parcel.call(&client)), failed(Errno::EINVAL));
});

case!(takes_space, ["OBJ-3", "ALLOC-1"], wanting_pair, |t, (server, client)| {
    assert_eq!(client.failure(&client.place(0, 0, &bytes(&pattern(SPACE, 0)))), failed(Errno::ENOSPC));
    let size = context_of(&client).expect("a context").len() + 1;
    client.start_call(0, 0, &bytes(&pattern(SPACE - size.next_multiple_of(8), 1)));
    finish(&server, &client, &wait_call(&server, &client));
});

case!(wiped_when_asked_for, ["OBJ-9", "ALLOC-6"], wanting_pair, |t, (server, client)| {
    client.start_sg(&SgParcel::new().to(&client, 0, TransactionFlags::CLEAR_BUF));
    let (call, context) = server.wait_call_with_context();
    server.answer(&client, &empty());
    // A neighbour keeps the page where it is.
    client.start_call(0, 0, &bytes(b"after"));
    server.wait_call_with_context();
    server.free(&call);
    assert_eq!(server.memory(context, 8), [0; 8]);
});

case!(everything_passes_the_module, ["LSM-1", "TXN-6"], |t| {
    let (server, client) = (t.manager_flagged(WANTED | ObjectFlags::ACCEPTS_FDS), t.client());
    needs_module(t, &client);
    // A node, a file and a handle on their way: each is shown to the module, which allows it.
    let (ours, _) = nix::unistd::pipe().expect("a pipe");
    let fd = client.actor.give(&ours);
    let mut parcel = object(FlatBinderObject::binder(0x10, 0));
    parcel.object(&file_object(fd));
    client.start_call(0, 0, &parcel);
    let call = wait_call(&server, &client);
    let handle = server.object(&call).handle();
    assert_eq!(server.actor.file_name(server.received_fd(&call, 1)), client.actor.file_name(fd));
    let back = server.answer(&client, &object(FlatBinderObject::strong_handle(handle)));
    assert_eq!(client.object(&back).binder, 0x10);
});

case!(is_that_of_the_opener, ["OBJ-9", "OPEN-1", "TXN-6"], wanting_pair, |t, (server, client)| {
    let opener = context_of(&client).expect("a context");
    for now in ["unlabeled", "file", "kernel", "port"] {
        take_context(&client, now);
        client.start_call(0, 0, &empty());
        finish(&server, &client, &wait_call_with(&server, &opener).0);
    }
});

case!(of_another_descriptor, ["OBJ-9", "OPEN-1", "TXN-6"], wanting_pair, |t, (server, client)| {
    let first = context_of(&client).expect("a context");
    take_context(&client, "unlabeled");
    // A second open is another process to the driver, with a context of its own.
    let other = t.client_by(client.actor.clone());
    for (port, words) in [(&client, &first[..]), (&other, b"unlabeled")] {
        port.start_call(0, 0, &empty());
        finish(&server, port, &wait_call_with(&server, words).0);
    }
});
