// SPDX-License-Identifier: GPL-2.0
//! Pointers whose top byte is a tag, as Android's programs for arm64 have them: a thread that has
//! enabled them passes them to any system call. Other values than pointers keep the tag.

use super::*;
use crate::tagging::{tagged, PROT_MTE};

const TAG: u8 = 0xa5;
/// Of memory, which has four bits, and another one.
const RIGHT: u8 = 0x5;
const WRONG: u8 = 0x6;
const DONE: Errno = Errno::UnknownErrno;

/// Has a client give tagged pointers.
fn take_tags(t: &Stage, client: &Port) {
    let asked = client.actor.number(Op::TakeTags { on: true, check: false });
    t.needs("pointers with tags (arm64, CONFIG_ARM64_TAGGED_ADDR_ABI)", asked.is_ok());
}

/// Memory of a client's whose tag is [`RIGHT`]; the processor compares it with pointers'.
fn checked(t: &Stage, client: &Port) -> u64 {
    take_tags(t, client);
    let asked = client.actor.number(Op::TakeTags { on: true, check: true });
    t.needs("memory with tags (MTE)", asked.is_ok());
    client.actor.number(Op::TaggedMemory { length: page(), tag: RIGHT }).expect("memory with tags")
}

/// Calls `BINDER_VERSION` with memory that may be tagged.
fn version_at(client: &Port, address: u64) -> nix::Result<u64> {
    client.actor.number(Op::IoctlAt { slot: client.slot, number: BINDER_VERSION, address })
}

case!(argument_of_an_ioctl, ["IOCTL-VERSION"], Stage::client, |t, client| {
    take_tags(t, &client);
    let place = client.arena.place(&[0; 4]);
    assert_eq!(version_at(&client, tagged(place, TAG)), Ok(0));
    assert_eq!(client.arena.fetch(place, 4), 8u32.to_ne_bytes());
});

/// Writes a command without effect and reads, by pointers with tags; returns errno and both sizes.
fn write_and_read(client: &Port, commands: u64, size: u64, returns: u64) -> (Errno, u64, u64) {
    let outcome = client.raw(WriteReadOp {
        write_buffer: Some(commands),
        write_size: Some(size),
        read_buffer: Some(returns),
        read_size: Some(ROOM as u64),
        ..Default::default()
    });
    (outcome.errno, outcome.write_consumed, outcome.read_consumed)
}

case!(commands_and_returns, ["IOCTL-WRITE_READ", "WR-1"], pair, |t, (server, client)| {
    take_tags(t, &client);
    let commands = stream(|c| c.transaction(&client.place(0, 7, &bytes(b"by a tagged pointer"))));
    let size = commands.len() as u64;
    let write = client.arena.place(commands.as_bytes());
    let read = client.arena.reserve(ROOM);
    client.start_raw(WriteReadOp {
        write_buffer: Some(tagged(write, TAG)),
        write_size: Some(size),
        read_buffer: Some(tagged(read, TAG)),
        read_size: Some(ROOM as u64),
        ..Default::default()
    });
    server.consume(&server.wait_call(), b"by a tagged pointer");
    server.reply(&empty());
    let outcome = client.finish_raw();
    assert_eq!((outcome.errno, outcome.write_consumed), (DONE, size));
    let read = client.arena.fetch(read, outcome.read_consumed as usize);
    let told: Vec<Return> = Returns::new(&read).map(|item| item.expect("whole items")).collect();
    assert_eq!(told[..2], [Return::Noop, Return::TransactionComplete]);
});

case!(data_and_offsets, ["TXN-1"], pair, |t, (server, client)| {
    take_tags(t, &client);
    for length in [8, 100, 3 * page()] {
        let mut parcel = bytes(&pattern(length, 1));
        parcel.object(&FlatBinderObject::binder(0x10, 0x20));
        let plain = client.place(0, 0, &parcel);
        let call = BinderTransactionData {
            buffer: tagged(plain.buffer, TAG),
            offsets: tagged(plain.offsets, TAG ^ 0xff),
            ..plain
        };
        let call = client.call_with(&server, &call);
        assert_eq!(server.data(&call)[..length], pattern(length, 1));
        assert_ne!(server.object(&call).handle(), 0);
        finish(&server, &client, &call);
        client.ignore_passed();
    }
});

case!(blocks, ["OBJ-PTR", "OBJ-2"], pair, |t, (server, client)| {
    take_tags(t, &client);
    let mut parcel = SgParcel::new();
    for seed in 0..2 {
        parcel.block_at(tagged(client.arena.place(&pattern(100, seed)), TAG), 100);
    }
    let call = client.call_sg(&server, &parcel.call(&client));
    for seed in 0..2 {
        assert_eq!(server.received_block(&call, seed as u64), pattern(100, seed));
    }
    finish(&server, &client, &call);
});

case!(refused_from_who_has_not_asked, ["WR-3", "TXN-1", "IOCTL-VERSION"], pair, |t, (server, client)| {
    take_tags(t, &client);
    client.actor.number(Op::TakeTags { on: false, check: false }).expect("give none any more");
    let place = tagged(client.arena.place(&[0; 4]), TAG);
    // As where nothing is mapped.
    assert_eq!(version_at(&client, place), Err(Errno::EINVAL));
    let (commands, room) =
        (client.arena.place(Commands::new().enter_looper().as_bytes()), client.arena.reserve(ROOM));
    assert_eq!(write_and_read(&client, tagged(commands, TAG), 4, room), (Errno::EFAULT, 0, 0));
    let plain = client.place(0, 0, &bytes(&pattern(100, 1)));
    let call = BinderTransactionData { buffer: tagged(plain.buffer, TAG), ..plain };
    assert_eq!(client.failure(&call), failed(Errno::EFAULT));
    client.round_trip(0, &server, &bytes(b"without"), &empty());
});

// The owner gets a node's pointer and cookie back with their tags.
case!(names_of_nodes_keep_theirs, ["NODE-1"], pair, |t, (server, client)| {
    take_tags(t, &client);
    let (ptr, cookie) = (tagged(0x1000, TAG), tagged(0x2000, TAG));
    let call = client.call(&server, 0, 0, &object(FlatBinderObject::binder(ptr, cookie)));
    let handle = server.object(&call).handle();
    let reply = server.answer(&client, &object(FlatBinderObject::strong_handle(handle)));
    let back = client.object(&reply);
    assert_eq!((back.kind, back.binder, back.cookie), (ObjectType::BINDER, ptr, cookie));
    assert_eq!(client.node_debug_info(0).ptr, ptr);
    // By the same address without its tag it is another one.
    client.free(&reply);
    let call = client.call(&server, 0, 0, &object(FlatBinderObject::binder(0x1000, 0x2000)));
    assert_ne!(server.object(&call).handle(), handle);
    client.free(&server.answer(&client, &empty()));
    client.ignore_passed();
});

case!(buffers_are_freed_by_the_address_that_was_told, ["OBJ-12"], |t| {
    let (server, client) = (t.manager_with(page()), t.client());
    take_tags(t, &server);
    let call = client.call(&server, 0, 0, &bytes(&pattern(page(), 1)));
    assert_eq!(call.buffer >> 56, 0, "the driver's addresses have no tags");
    client.free(&server.answer(&client, &empty()));
    server.send(|c| c.free_buffer(tagged(call.buffer, TAG)));
    assert_eq!(client.refused(&client.place(0, 0, &bytes(b"full"))), Return::FailedReply, "nothing is freed");
    server.free(&call);
    client.round_trip(0, &server, &bytes(b"free"), &empty());
});

case!(checked_in_data, ["TXN-1"], pair, |t, (server, client)| {
    let memory = checked(t, &client);
    let call = |tag| {
        let plain = client.place(0, 0, &empty());
        BinderTransactionData { buffer: tagged(memory, tag), data_size: 100, ..plain }
    };
    let arrived = client.call_with(&server, &call(RIGHT));
    assert_eq!(server.data(&arrived), [0; 100]);
    finish(&server, &client, &arrived);
    assert_eq!(client.failure(&call(WRONG)), failed(Errno::EFAULT));
    client.round_trip(0, &server, &bytes(b"after it"), &empty());
});

case!(checked_in_blocks, ["OBJ-PTR"], pair, |t, (server, client)| {
    let memory = checked(t, &client);
    let parcel = |tag| {
        let mut parcel = SgParcel::new();
        parcel.block_at(tagged(memory, tag), 64);
        parcel.call(&client)
    };
    let call = client.call_sg(&server, &parcel(RIGHT));
    assert_eq!(server.received_block(&call, 0), [0; 64]);
    finish(&server, &client, &call);
    assert_eq!(client.refused_sg(&parcel(WRONG)), failed(Errno::EINVAL));
    client.round_trip(0, &server, &bytes(b"after it"), &empty());
});

case!(checked_in_commands_and_returns, ["WR-3", "WR-12"], Stage::client, |t, client| {
    let memory = checked(t, &client);
    let commands = client.arena.place(Commands::new().enter_looper().as_bytes());
    // Its content is no command; it is not looked at.
    assert_eq!(write_and_read(&client, tagged(memory, WRONG), 4, commands), (Errno::EFAULT, 0, 0));
    assert_eq!(write_and_read(&client, tagged(memory, RIGHT), 4, commands), (Errno::EINVAL, 0, 0));
    client.nonblocking(true);
    for (tag, errno) in [(WRONG, Errno::EFAULT), (RIGHT, DONE)] {
        // An error on the thread is work that needs no second process.
        leave_refusal(&client);
        assert_eq!(write_and_read(&client, commands, 0, tagged(memory, tag)).0, errno, "tag {tag}");
    }
});

case!(checked_in_the_argument_of_an_ioctl, ["IOCTL-VERSION"], Stage::client, |t, client| {
    let memory = checked(t, &client);
    assert_eq!(version_at(&client, tagged(memory, WRONG)), Err(Errno::EINVAL));
    assert_eq!(version_at(&client, tagged(memory, RIGHT)), Ok(0));
});

// The kernel gives tags to a program's own memory alone.
case!(space_has_none, ["MMAP-2"], Stage::opened, |t, client| {
    checked(t, &client);
    let protection = ProtFlags::PROT_READ | ProtFlags::from_bits_retain(PROT_MTE);
    assert_eq!(client.map_with(4 * page(), protection, MapFlags::MAP_PRIVATE), Err(Errno::EINVAL));
    let mut port = t.client();
    let (address, length) = port.space.take().expect("a space");
    let protection = protection.bits();
    assert_eq!(port.actor.number(Op::Protect { address, length, protection }), Err(Errno::EINVAL));
});
