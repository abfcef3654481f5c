// SPDX-License-Identifier: GPL-2.0
//! Every way in which a call or a reply fails: the return, the errno behind it, the consumed part
//! of the write buffer, and that nothing else has changed.
//!
//! One row of a table is one request; the conditions follow the contract's table of failures in its
//! order. Three kinds of failures have tests elsewhere: a driver without memory, a security module
//! that refuses, and races.

use super::*;

/// The receiver's space.
const SPACE: usize = 64 << 10;

/// The targets of requests.
pub(super) struct World {
    pub(super) manager: Port,
    pub(super) client: Port,
    pub(super) good: u32,
    weak: u32,
    dead: u32,
    unmapped: u32,
    /// A second device of the manager's process.
    managers_other: Port,
    pub(super) servers: Vec<Port>,
}

pub(super) fn world(t: &Stage) -> World {
    let (manager, client) = (t.manager_with(SPACE), t.client());
    let node = FlatBinderObject::binder(0x100, 0x200);
    let servers = [t.server(), t.server(), t.server(), t.server()];
    let [good, dead, unmapped] = [0, 1, 2].map(|i| introduce(&manager, &servers[i], node, &client));
    let weak = introduce_weakly(&manager, &servers[3], &client);
    servers[0].settle_counts();
    servers[1].kill();
    servers[2].unmap();
    let managers_other = t.open_by(manager.actor.clone());
    World { manager, client, good, weak, dead, unmapped, managers_other, servers: servers.into() }
}

/// Gives the holder a weak handle on a node of the owner's.
fn introduce_weakly(manager: &Port, owner: &Port, holder: &Port) -> u32 {
    let handle = give_in_a_call(manager, owner, FlatBinderObject::binder(0x300, 0));
    manager.free(&holder.call(manager, 0, 0, &empty()));
    let reply = manager.answer(holder, &object(FlatBinderObject::weak_handle(handle)));
    let handle = holder.object(&reply).handle();
    holder.send(|c| c.increfs(handle));
    holder.free(&reply);
    handle
}

/// A request.
pub(super) struct Request {
    pub(super) data: BinderTransactionData,
    /// Room for what pointers point to, where it is not left out.
    buffers_size: Option<u64>,
}

impl Request {
    pub(super) fn commands(&self, is_reply: bool) -> Commands {
        let mut commands = Commands::new();
        let data = self.data;
        match (self.buffers_size, is_reply) {
            (None, false) => commands.transaction(&data),
            (None, true) => commands.reply(&data),
            (Some(buffers_size), false) => {
                commands.transaction_sg(&BinderTransactionDataSg { data, buffers_size })
            }
            (Some(buffers_size), true) => commands.reply_sg(&BinderTransactionDataSg { data, buffers_size }),
        };
        commands
    }
}

pub(super) fn plain(data: BinderTransactionData) -> Request {
    Request { data, buffers_size: None }
}

/// Data with an array of offsets of any length in bytes, well filled or not.
pub(super) fn with_offsets(port: &Port, data: &[u8], offsets: &[u64], offsets_size: usize) -> Request {
    let placed = port.place(0, 0, &bytes(data));
    let offsets = port.arena.place(offsets.as_bytes());
    plain(BinderTransactionData { offsets, offsets_size: offsets_size as u64, ..placed })
}

/// Two objects' worth of data.
fn objects(first: FlatBinderObject, second: FlatBinderObject) -> Vec<u8> {
    [first.as_bytes(), second.as_bytes()].concat()
}

/// One refusal: its name, the request, the return, and the errno behind it (0: none).
pub(super) type Row<'a> = (&'a str, Request, Return, i32);

const EINVAL: i32 = Errno::EINVAL as i32;
const EFAULT: i32 = Errno::EFAULT as i32;
const ENOSPC: i32 = Errno::ENOSPC as i32;
const ESRCH: i32 = Errno::ESRCH as i32;
const EPROTO: i32 = Errno::EPROTO as i32;

/// An address that no process can have.
const KERNEL: u64 = u64::MAX - 4095;

/// Requests whose content is wrong, for any target.
pub(super) fn wrong_content(port: &Port) -> Vec<Row<'static>> {
    let node = FlatBinderObject::binder(0x1000, 0x2000);
    let other_cookie = FlatBinderObject::binder(0x1000, 0x2001);
    let two = objects(node, node);
    let unknown = FlatBinderObject { kind: 0x1234_5678, ..node };
    let at = |data: &[u8], offsets: &[u64]| with_offsets(port, data, offsets, 8 * offsets.len());
    let place = |data: &[u8]| port.place(0, 0, &bytes(data));
    let (void, none) = (port.arena.end(), plain(place(b"")));
    let sized =
        |data_size, offsets_size| plain(BinderTransactionData { data_size, offsets_size, ..none.data });
    let unreadable = || BinderTransactionData { offsets: void, offsets_size: 8, ..place(&two) };
    let data_at = |buffer| plain(BinderTransactionData { buffer, data_size: 8, ..none.data });
    let handle = |object: FlatBinderObject| at(object.as_bytes(), &[0]);
    let sg = |buffers_size| Request { data: none.data, buffers_size: Some(buffers_size) };
    let rows = [
        ("sizes whose sum overflows", sized(u64::MAX - 7, 16), EINVAL),
        ("a size that overflows when it is aligned", sized(u64::MAX, 0), EINVAL),
        ("more than the space", sized(SPACE as u64 * 32, 0), ENOSPC),
        ("unreadable offsets", plain(unreadable()), EFAULT),
        ("half an offset", with_offsets(port, &two, &[0], 4), EINVAL),
        ("buffers that are not a multiple of 8", sg(12), EINVAL),
        (
            "unreadable offsets, and buffers that are not a multiple of 8",
            Request { data: unreadable(), ..sg(12) },
            EFAULT,
        ),
        ("unreadable data", data_at(void), EFAULT),
        ("data at an address of the kernel's", data_at(KERNEL), EFAULT),
        (
            "offsets at an address of the kernel's",
            plain(BinderTransactionData { offsets: KERNEL, offsets_size: 8, ..place(&two) }),
            EFAULT,
        ),
        ("an offset that is not a multiple of 4", at(&two, &[2]), EINVAL),
        ("an object of an unknown type", at(unknown.as_bytes(), &[0]), EINVAL),
        ("a handle that is none", handle(FlatBinderObject::strong_handle(NO_HANDLE)), EINVAL),
        ("a weak handle that is none", handle(FlatBinderObject::weak_handle(NO_HANDLE)), EINVAL),
        ("a node with two cookies", at(&objects(node, other_cookie), &[0, 24]), EINVAL),
    ];
    rows.map(|(name, request, errno)| (name, request, Return::FailedReply, errno)).into()
}

/// Failures of calls that depend on their targets.
pub(super) fn wrong_target(world: &World) -> Vec<Row<'static>> {
    use Return::{DeadReply, FailedReply};
    let to = |handle| plain(world.client.place(handle, 0, &bytes(b"data")));
    let oneway = |handle, size: usize| plain(world.client.place_oneway(handle, 0, &bytes(&vec![1; size])));
    vec![
        ("an unknown handle", to(NO_HANDLE), FailedReply, EINVAL),
        ("a weak handle", to(world.weak), FailedReply, EINVAL),
        ("a dead node", to(world.dead), DeadReply, EINVAL),
        ("a dead node, oneway", oneway(world.dead, 4), DeadReply, EINVAL),
        ("a process that has unmapped", to(world.unmapped), DeadReply, ESRCH),
        ("a process that has unmapped, oneway", oneway(world.unmapped, 4), DeadReply, ESRCH),
        ("more than the oneway half", oneway(0, SPACE / 2 + 8), FailedReply, ENOSPC),
    ]
}

/// Sends a request that fails, with another command behind it, and checks all that can be seen.
#[track_caller]
fn check(t: &Stage, port: &Port, is_reply: bool, (name, request, answer, errno): &Row) {
    let mut commands = request.commands(is_reply);
    let first = commands.len();
    commands.enter_looper();
    let outcome = port.try_write(&commands);
    assert_eq!((outcome.errno as i32, outcome.write_consumed), (0, first as u64), "{name}");
    let record = record(port);
    port.start_read();
    assert_eq!(port.wait_refusal(), *answer, "{name}");
    assert_eq!(port.drain(), [], "{name}: more than a refusal");
    let code = if *answer == Return::DeadReply { codes::BR_DEAD_REPLY } else { codes::BR_FAILED_REPLY };
    let (seen, wanted) = ((record.command, record.param), (code, -errno));
    let why = format!("{name}: {seen:x?} instead of {wanted:x?}");
    t.known_difference(Driver::Upstream, &why, seen == wanted);
    assert!(record.id != 0 || t.upstream(), "{name}: the record has no number");
    assert_eq!(port.extended_error(), super::NO_ERROR, "{name}: read twice");
}

/// Sends a request that fails, alone, and then a good one.
#[track_caller]
fn check_call(t: &Stage, world: &World, row: &Row) {
    check(t, &world.client, false, row);
    world.client.round_trip(0, &world.manager, &bytes(b"question"), &bytes(b"answer"));
    assert_eq!(world.client.extended_error(), super::NO_ERROR, "{}: after a success", row.0);
}

case!(
    of_calls,
    [
        "TXN-1",
        "TXN-2",
        "TXN-3",
        "TXN-7",
        "TXN-9",
        "TXN-19",
        "TXN-20",
        "CTX-3",
        "WR-2",
        "OBJ-1",
        "OBJ-8",
        "MMAP-7",
        "ALLOC-2",
        "ALLOC-3",
        "IOCTL-GET_EXTENDED_ERROR",
        "lesson R08"
    ],
    |t| {
        let world = world(t);
        for row in wrong_target(&world).iter().chain(&wrong_content(&world.client)) {
            check_call(t, &world, row);
        }
        let itself = plain(world.manager.place(0, 0, &empty()));
        check(t, &world.manager, false, &("the manager itself", itself, Return::FailedReply, EINVAL));
        // Not the same file, but the same process; upstream looks at the file alone.
        if !t.upstream() {
            let other = plain(world.managers_other.place(0, 0, &empty()));
            let row = ("the manager through another file", other, Return::FailedReply, EINVAL);
            check(t, &world.managers_other, false, &row);
        }
        // The failed requests hold nothing: the whole space is free, and the target is unharmed.
        world.client.round_trip(0, &world.manager, &bytes(&vec![7; SPACE]), &empty());
        world.client.round_trip(world.good, &world.servers[0], &bytes(b"question"), &empty());
    }
);

case!(without_a_manager, ["CTX-3", "TXN-1", "IOCTL-GET_EXTENDED_ERROR"], Stage::client, |t, client| {
    let row = ("no manager", plain(client.place(0, 0, &empty())), Return::DeadReply, EINVAL);
    check(t, &client, false, &row);
});

case!(of_replies, ["TXN-12", "TXN-25", "IOCTL-GET_EXTENDED_ERROR", "lesson R08"], world, |t, world| {
    let nothing = plain(world.manager.place(0, 0, &empty()));
    check(t, &world.manager, true, &("a reply to nothing", nothing, Return::FailedReply, EPROTO));
    for (name, request, answer, errno) in wrong_content(&world.manager) {
        world.manager.free(&world.client.call(&world.manager, 0, 0, &empty()));
        // A failed reply ends the service, too. Commands behind it wait for its completion.
        let mut commands = request.commands(true);
        let first = commands.len();
        commands.increfs(NO_HANDLE);
        let outcome = world.manager.try_write(&commands);
        assert_eq!((outcome.errno as i32, outcome.write_consumed as usize), (0, first), "{name}");
        assert_eq!(world.manager.drain(), [Return::TransactionComplete], "{name}");
        assert_eq!(world.manager.extended_error(), super::NO_ERROR, "{name}");
        assert_eq!(world.client.wait_refusal(), answer, "{name}");
        let seen = world.client.extended_error();
        let why = format!("a reply with {name}: {seen:x?} instead of {errno}");
        t.known_difference(Driver::Upstream, &why, seen == (codes::BR_FAILED_REPLY, -errno));
    }
    world.client.round_trip(0, &world.manager, &bytes(b"question"), &bytes(&vec![7; 10000]));
});

case!(of_a_call_within_a_call, ["TXN-10", "IOCTL-GET_EXTENDED_ERROR"], world, |t, world| {
    let data = world.client.place(0, 0, &empty());
    world.client.send(|c| c.transaction(&data));
    // It waits for a reply: it may neither call nor reply.
    let row = ("a call while one is out", plain(data), Return::FailedReply, EPROTO);
    let mut commands = row.1.commands(false);
    let first = commands.len() as u64;
    commands.enter_looper();
    assert_eq!(world.client.try_write(&commands).write_consumed, first);
    let wanted = (codes::BR_FAILED_REPLY, -EPROTO);
    let seen = world.client.extended_error();
    t.known_difference(Driver::Upstream, "a call while one is out is EINVAL", seen == wanted);
    world.client.start_read();
    assert_eq!(world.client.wait_refusal(), Return::FailedReply);
    world.client.send(|c| c.reply(&data));
    let seen = world.client.extended_error();
    t.known_difference(Driver::Upstream, "a reply while a call is out is EINVAL", seen == wanted);
    world.client.start_read();
    assert_eq!(world.client.wait_refusal(), Return::FailedReply);
    world.manager.serve(&world.client);
});

fn record(port: &Port) -> BinderExtendedError {
    port.ioctl(BINDER_GET_EXTENDED_ERROR, BinderExtendedError::default()).expect("the record")
}

/// A call whose reply fails; the caller has read of it.
fn failed_reply(world: &World) {
    world.client.call(&world.manager, 0, 0, &empty());
    let data = world.manager.place(0, 0, &empty());
    let unreadable = BinderTransactionData { data_size: 8, buffer: world.manager.arena.end(), ..data };
    world.manager.reply_with(&unreadable);
    assert_eq!(world.client.wait_refusal(), Return::FailedReply);
}

case!(
    lesson_r08_failed_reply_reaches_the_callers_record,
    ["TXN-25", "IOCTL-GET_EXTENDED_ERROR", "lesson R08"],
    |t| {
        let world = world(t);
        failed_reply(&world);
        let (replied, called) = (record(&world.manager), record(&world.client));
        let is_there = called.command == codes::BR_FAILED_REPLY && called.param == -EFAULT;
        t.known_difference(Driver::Upstream, "the caller learns nothing of a failed reply", is_there);
        // It is the reply that failed, not the call.
        t.known_difference(Driver::Upstream, "another number", called.id == replied.id || !is_there);
        assert_eq!(record(&world.client), BinderExtendedError { command: BR_OK, ..Default::default() });
    }
);

case!(unread_record_is_not_overwritten_by_a_reply, ["TXN-25", "IOCTL-GET_EXTENDED_ERROR"], |t| {
    let world = world(t);
    let data = world.client.place(0, 0, &empty());
    world.client.send(|c| c.transaction(&data));
    world.client.send(|c| c.transaction(&data));
    world.client.start_read();
    assert_eq!(world.client.wait_refusal(), Return::FailedReply);
    // The record has the reason why a call may not be made now. A failed reply is returned only.
    world.manager.wait_call();
    let unreadable = BinderTransactionData { data_size: 8, buffer: world.manager.arena.end(), ..data };
    world.manager.reply_with(&unreadable);
    world.client.start_read();
    assert_eq!(world.client.wait_refusal(), Return::FailedReply);
    let seen = world.client.extended_error();
    let wanted = (codes::BR_FAILED_REPLY, -EPROTO);
    t.known_difference(Driver::Upstream, "a call while one is out is EINVAL", seen == wanted);
});

case!(own_failure_overwrites_the_record, ["TXN-2", "IOCTL-GET_EXTENDED_ERROR"], world, |t, world| {
    let mut last = 0;
    for (handle, answer) in [(NO_HANDLE, Return::FailedReply), (world.weak, Return::FailedReply)] {
        assert_eq!(world.client.refused(&world.client.place(handle, 0, &empty())), answer);
    }
    for _ in 0..3 {
        assert_eq!(world.client.refused(&world.client.place(NO_HANDLE, 0, &empty())), Return::FailedReply);
        let id = record(&world.client).id;
        assert!(id > last, "{id} after {last}");
        last = id;
    }
    // A success leaves its number and nothing else.
    world.client.round_trip(0, &world.manager, &empty(), &empty());
    let success = record(&world.client);
    assert_eq!((success.command, success.param), super::NO_ERROR);
    t.known_difference(Driver::Upstream, "a success leaves no number", success.id > last);
});

case!(no_two_have_the_same_number, ["NODE-15", "TXN-2", "IOCTL-GET_EXTENDED_ERROR"], |t| {
    let (one, other) = (t.client(), t.client());
    let callers = [one.thread(), other.thread(), one, other];
    let mut numbers = BTreeSet::new();
    for _ in 0..t.tries(100) {
        // All at once, where there are several CPUs.
        for caller in &callers {
            caller.start_transaction(&caller.place(NO_HANDLE, 0, &empty()));
        }
        for caller in &callers {
            assert_eq!(caller.wait_refusal(), Return::FailedReply);
            let number = record(caller).id;
            assert!(number != 0 && numbers.insert(number), "{number} is that of two calls, or of none");
        }
    }
});

case!(death_of_the_server_is_not_recorded, ["TREL-1", "IOCTL-GET_EXTENDED_ERROR"], world, |t, world| {
    world.client.call(&world.manager, 0, 0, &empty());
    world.manager.kill_serving(&world.client);
    let seen = record(&world.client);
    assert_eq!((seen.command, seen.param), super::NO_ERROR);
});

case!(rejected_commands_are_not_recorded, ["WR-3", "TXN-1"], world, |t, world| {
    for commands in [&[0xde, 0xad, 0xbe, 0xef][..], &BC_TRANSACTION_ALONE.to_ne_bytes()] {
        let outcome = world.client.try_write(&stream(|c| c.raw(commands)));
        assert_ne!(outcome.errno as i32, 0);
        assert_eq!(outcome.write_consumed, 0);
        assert_eq!(world.client.extended_error(), super::NO_ERROR);
    }
    assert_eq!(world.client.drain(), []);
});

/// A command without its payload. A driver that does not check the size (WR-4) takes the actor's
/// memory behind it for a payload: there must be none.
const BC_TRANSACTION_ALONE: u32 = codes::BC_ACQUIRE_RESULT;
