// SPDX-License-Identifier: GPL-2.0
//! `BINDER_WRITE_READ`: how far it gets, and the work that it leaves for the next one.

use super::*;
use binder_sys::codes::*;
use binder_sys::ioctl;

const NONE: Errno = Errno::UnknownErrno;

case!(nothing_to_do, ["WR-13"], |t| {
    let outcome = t.client().raw(WriteReadOp::default());
    assert_eq!((outcome.errno, outcome.write_consumed, outcome.read_consumed), (NONE, 0, 0));
});

// The buffer's address is a number, to which the driver adds the filled length.
case!(returns_beyond_the_last_address, ["WR-12"], Stage::client, |t, port| {
    leave_refusal(&port);
    let (read_buffer, read_size) = (Some(u64::MAX - 2), Some(ROOM as u64));
    let outcome = port.raw(WriteReadOp { read_buffer, read_size, read_consumed: 4, ..Default::default() });
    assert_eq!((outcome.errno, outcome.read_consumed), (Errno::EFAULT, 4));
});

// A receiver can read its buffers, and not write them.
case!(counts_that_cannot_be_written, ["WR-1"], pair, |t, (server, client)| {
    let reply = stream(|c| c.reply(&server.place(0, 0, &empty())));
    let write_buffer = server.arena.place(reply.as_bytes());
    let write_size = reply.as_bytes().len() as u64;
    let numbers = BinderWriteRead { write_size, write_buffer, ..Default::default() };
    let call = client.call(&server, 0, 0, &bytes(numbers.as_bytes()));
    let (slot, number) = (server.slot, ioctl::BINDER_WRITE_READ);
    let result = server.actor.number(Op::IoctlAt { slot, number, address: call.buffer });
    assert_eq!(result, Err(Errno::EFAULT));
    client.wait_reply();
});

fn code_at(buffer: &[u8], offset: usize) -> u32 {
    u32::from_ne_bytes(buffer[offset..offset + 4].try_into().expect("four bytes"))
}

case!(noop_comes_first, ["WR-6"], Stage::client, |t, port| {
    leave_refusal(&port);
    let outcome = port.raw(WriteReadOp { room: ROOM, ..Default::default() });
    assert_eq!(outcome.returns(), [Return::Noop, Return::FailedReply]);
    assert_eq!(outcome.read_consumed, 8);
});

case!(continued_read_has_no_noop, ["WR-6"], Stage::client, |t, port| {
    leave_refusal(&port);
    let outcome = port.raw(WriteReadOp { room: ROOM, read_consumed: 12, ..Default::default() });
    assert_eq!(outcome.read_consumed, 16);
    assert_eq!(outcome.buffer[..12], [0; 12], "what was there is left alone");
    assert_eq!(code_at(&outcome.buffer, 12), BR_FAILED_REPLY);
});

case!(continued_read_of_an_completion, ["WR-6"], pair, |t, (manager, client)| {
    // A driver may complete later replies in another way than the first.
    for _ in 0..2 {
        client.call(&manager, 0, 0, &empty());
        let reply = stream(|c| c.reply(&manager.place(0, 0, &empty())));
        let outcome = manager.raw(WriteReadOp { room: ROOM, read_consumed: 12, ..WriteReadOp::of(&reply) });
        assert_eq!((outcome.errno, outcome.read_consumed), (NONE, 16));
        assert_eq!(outcome.buffer[..12], [0; 12], "what was there is left alone");
        assert_eq!(code_at(&outcome.buffer, 12), BR_TRANSACTION_COMPLETE);
        client.wait_reply();
    }
});

case!(continued_write_starts_where_it_stopped, ["WR-2"], Stage::client, |t, port| {
    let commands = stream(|c| c.raw(&[0xff; 8]).enter_looper());
    let outcome = port.raw(WriteReadOp { write_consumed: 8, ..WriteReadOp::of(&commands) });
    assert_eq!((outcome.errno, outcome.write_consumed), (NONE, 12));
});

case!(unknown_command_stops_the_write, ["WR-2", "WR-3"], Stage::client, |t, port| {
    let commands = stream(|c| c.free_buffer(0).enter_looper().command(0xdead_beef, &0u32).enter_looper());
    let outcome = port.try_write(&commands);
    assert_eq!((outcome.errno, outcome.write_consumed), (Errno::EINVAL, 16));
});

case!(every_unknown_code_is_invalid, ["WR-3"], Stage::client, |t, port| {
    let wrong = [(22, 8), (255, 0), (0, 0), (0, 63), (3, 4), (14, 16)];
    let wrong = wrong.map(|(nr, size)| number(WRITE, b'c', nr, size));
    for code in wrong.into_iter().chain([0, u32::MAX, BC_ENTER_LOOPER + (1 << 30), BR_NOOP]) {
        let outcome = port.try_write(&stream(|c| c.command(code, &[0u64; 16])));
        assert_eq!((outcome.errno, outcome.write_consumed), (Errno::EINVAL, 0), "{code:#x}");
    }
});

case!(rejected_commands, ["WR-3"], Stage::client, |t, port| {
    for code in [BC_ATTEMPT_ACQUIRE, BC_ACQUIRE_RESULT] {
        let outcome = port.try_write(&stream(|c| c.enter_looper().command(code, &0u64)));
        assert_eq!((outcome.errno, outcome.write_consumed), (Errno::EINVAL, 4), "{code:#x}");
    }
});

case!(fatal_error_skips_the_read, ["WR-3"], Stage::client, |t, port| {
    let commands = 0u32.to_ne_bytes().to_vec();
    let args = WriteReadOp { commands, room: ROOM, read_consumed: 40, ..Default::default() };
    leave_refusal(&port);
    let outcome = port.raw(args.clone());
    // A pending error on the thread stops the write before its first command, and is read.
    assert_eq!((outcome.errno, outcome.write_consumed, outcome.read_consumed), (NONE, 0, 44));
    assert_eq!(code_at(&outcome.buffer, 40), BR_FAILED_REPLY);
    let outcome = t.client().raw(args);
    assert_eq!((outcome.errno, outcome.write_consumed, outcome.read_consumed), (Errno::EINVAL, 0, 0));
});

case!(unreadable_commands, ["WR-3"], Stage::client, |t, port| {
    let outcome = port.raw(WriteReadOp {
        write_buffer: Some(BAD_ADDRESS),
        write_size: Some(64),
        room: ROOM,
        ..Default::default()
    });
    assert_eq!((outcome.errno, outcome.write_consumed), (Errno::EFAULT, 0));
});

case!(unreadable_transaction_payload, ["WR-3", "TXN-1"], pair, |t, (manager, client)| {
    // The arena's last bytes: the code is readable, its payload reaches beyond the mapping.
    let address = client.arena.end() - 4;
    client.arena.poke(address, &BC_TRANSACTION.to_ne_bytes());
    let outcome =
        client.raw(WriteReadOp { write_buffer: Some(address), write_size: Some(68), ..Default::default() });
    assert_eq!((outcome.errno, outcome.write_consumed), (Errno::EFAULT, 0));
    client.round_trip(0, &manager, &empty(), &empty());
});

case!(commands_before_an_unreadable_one_run, ["WR-2", "WR-3"], pair, |t, (manager, client)| {
    client.send(|c| c.increfs(0));
    // The arena's last bytes: a whole command, behind which nothing is readable.
    let commands = { stream(|c| c.acquire(0)).as_bytes().to_vec() };
    let address = client.arena.end() - commands.len() as u64;
    client.arena.poke(address, &commands);
    let size = commands.len() as u64 + 8;
    let outcome =
        client.raw(WriteReadOp { write_buffer: Some(address), write_size: Some(size), ..Default::default() });
    assert_eq!((outcome.errno, outcome.write_consumed), (Errno::EFAULT, commands.len() as u64));
    // It has run: the count is there to be dropped, once.
    client.send(|c| c.release(0));
    client.round_trip(0, &manager, &empty(), &empty());
});

case!(lesson_c15_unwritable_returns, ["WR-12"], pair, |t, (manager, client)| {
    client.start_blocking_call(0, 0, &empty());
    read_in_vain(&manager, &Commands::new());
    // It fails at the first four bytes, before it takes the call.
    if t.known_difference(Driver::Upstream, "the call fails", client.actor.is_blocked()) {
        manager.serve(&client);
    } else {
        assert_eq!(client.wait_refusal(), Return::FailedReply);
    }
    client.round_trip(0, &manager, &empty(), &empty());
});

case!(lesson_c15_unwritable_error, ["WR-12", "WR-3"], Stage::client, |t, port| {
    leave_refusal(&port);
    read_in_vain(&port, &Commands::new());
    t.known_difference(Driver::Upstream, "the error is lost", port.drain() == [Return::FailedReply]);
});

/// Reads into memory that cannot be written, and fails.
fn read_in_vain(port: &Port, commands: &Commands) {
    let (read_buffer, read_size) = (Some(BAD_ADDRESS), Some(ROOM as u64));
    let outcome = port.raw(WriteReadOp { read_buffer, read_size, ..WriteReadOp::of(commands) });
    assert_eq!((outcome.errno, outcome.read_consumed), (Errno::EFAULT, 0));
}

case!(unwritable_returns_are_noticed_before_a_wait, ["WR-12", "WR-6"], Stage::client, |t, port| {
    assert_eq!(port.drain(), []);
    read_in_vain(&port, &Commands::new());
    port.nonblocking(true);
    read_in_vain(&port, &Commands::new());
});

case!(reply_is_not_lost_to_unwritable_returns, ["WR-12"], pair, |t, (manager, client)| {
    client.send_call_to(&manager, 0, 0, &empty());
    manager.reply(&bytes(b"answer"));
    read_in_vain(&client, &Commands::new());
    assert_eq!(client.data(&client.wait_reply()), b"answer");
});

case!(completion_is_not_lost_to_unwritable_returns, ["WR-12", "TXN-17"], pair, |t, (manager, client)| {
    for _ in 0..2 {
        client.call(&manager, 0, 0, &empty());
        read_in_vain(&manager, &stream(|c| c.reply(&manager.place(0, 0, &empty()))));
        client.wait_reply();
        assert_eq!(manager.drain(), [Return::TransactionComplete]);
    }
});

// The sender of a failed reply has to read its completion, even if the ioctl of the reply could not
// return it: until then none of its commands is carried out.
case!(unread_failed_reply_stops_the_next_write, ["WR-2", "WR-12", "TXN-25"], pair, |t, (manager, client)| {
    for _ in 0..2 {
        // After a reply that succeeded there is memory for the next completion.
        client.call(&manager, 0, 0, &empty());
        manager.answer(&client, &empty());
        client.call(&manager, 0, 0, &empty());
        let mut commands = Commands::new();
        commands.reply(&BinderTransactionData {
            data_size: 8,
            buffer: BAD_ADDRESS,
            ..manager.place(0, 0, &empty())
        });
        read_in_vain(&manager, &commands);
        assert_eq!(client.wait_refusal(), Return::FailedReply);
        let wrong = stream(|c| c.command(0xdead_beef, &0u32));
        let outcome = manager.raw(WriteReadOp { room: ROOM, ..WriteReadOp::of(&wrong) });
        assert_eq!((outcome.errno, outcome.write_consumed), (NONE, 0), "the wrong command was not reached");
        assert_eq!(outcome.returns(), [Return::Noop, Return::TransactionComplete]);
        // From then on they run again.
        manager.send(|c| c.free_buffer(0));
    }
});

// A write buffer that would end behind the last address has no commands: a size of -1 is invalid.
case!(commands_beyond_the_last_address, ["WR-2"], Stage::client, |t, port| {
    let commands = stream(|c| c.enter_looper().command(0xdead_beef, &0u32));
    let outcome = port.raw(WriteReadOp { write_size: Some(u64::MAX), ..WriteReadOp::of(&commands) });
    assert_eq!((outcome.errno, outcome.write_consumed), (NONE, 0));
});

// The sender of a failed reply reads only a completion; its commands stop there, too.
case!(failed_reply_stops_the_write, ["WR-2", "TXN-25"], pair, |t, (manager, client)| {
    for with_objects in [false, true] {
        client.call(&manager, 0, 0, &empty());
        let mut reply = manager.place(0, 0, &empty());
        (reply.data_size, reply.buffer) = (8, BAD_ADDRESS);
        if with_objects {
            (reply.offsets_size, reply.offsets) = (8, BAD_ADDRESS);
        }
        manager.start(&stream(|c| c.reply(&reply).command(0xdead_beef, &0u32)));
        let outcome = manager.finish_raw();
        assert_eq!((outcome.errno, outcome.write_consumed), (NONE, 68), "the wrong command was not reached");
        assert_eq!(outcome.returns(), [Return::Noop, Return::TransactionComplete]);
        assert_eq!(client.wait_refusal(), Return::FailedReply);
        // From then on they run again.
        manager.send(|c| c.free_buffer(0));
    }
});

case!(failed_call_stops_the_write, ["WR-2", "TXN-20"], Stage::client, |t, port| {
    port.start(&stream(|c| c.transaction(&port.place(NO_HANDLE, 0, &empty())).command(0xdead_beef, &0u32)));
    let outcome = port.finish_raw();
    assert_eq!((outcome.errno, outcome.write_consumed), (NONE, 68), "the wrong command was not reached");
    assert_eq!(outcome.returns(), [Return::Noop, Return::FailedReply]);
});

case!(small_read_room_keeps_the_work, ["WR-8"], Stage::client, |t, port| {
    leave_refusal(&port);
    let outcome = port.raw(WriteReadOp { room: 79, ..Default::default() });
    assert_eq!((outcome.errno, outcome.returns()), (NONE, vec![Return::Noop]));
    let outcome = port.raw(WriteReadOp { room: 80, ..Default::default() });
    assert_eq!(outcome.returns(), [Return::Noop, Return::FailedReply]);
});

// Rows: the offset, the filled size, and the error with work. Each is read without and with work. C
// writes items without room for them (lesson C17), or its thread is stuck after that.
case!(odd_numbers_of_a_read, ["WR-4", "WR-6", "WR-7", "WR-8"], Stage::server, |t, port| {
    let top = u64::MAX;
    let odd = [
        (4, 4, 4, NONE),
        (100, 25, 25, NONE),
        (100, 24, 28, NONE),
        (top, 0, 8, NONE),
        (1 << 63, 0, 8, NONE),
        (top, top - 50, top - 50, NONE),
        (1, 0, 0, Errno::EFAULT),
        (2, 0, 0, Errno::EFAULT),
        (3, 0, 0, Errno::EFAULT),
        (2, 4, 4, Errno::EFAULT),
        (8, 9, 9, Errno::EFAULT),
        (100, 1 << 40, 1 << 40, Errno::EFAULT),
        (100, 1 << 63, 1 << 63, Errno::EFAULT),
    ];
    for (read_size, read_consumed, filled, errno) in odd {
        let read = || {
            port.nonblocking(true);
            let args =
                WriteReadOp { room: 256, read_size: Some(read_size), read_consumed, ..Default::default() };
            let outcome = port.raw(args);
            (outcome.errno, outcome.read_consumed)
        };
        let (without, with) = (read(), {
            // In C an error of the row before may stop this write.
            port.try_write(&stream(|c| c.transaction(&port.place(NO_HANDLE, 0, &empty()))));
            read()
        });
        let told = port.drain();
        let why =
            format!("a read of {read_size} bytes from {read_consumed} on: {without:?}, with work {with:?}");
        t.known_difference(Driver::Upstream, &why, without == (Errno::EAGAIN, read_consumed));
        let why = if errno == NONE { &why } else { "a code is written beyond read_size (lesson C17)" };
        let is_bounded =
            with == (errno, filled) && (told == [Return::FailedReply]) == (filled == read_consumed);
        match errno {
            NONE => t.known_difference(Driver::Upstream, why, is_bounded),
            _ => t.ours_alone(why, is_bounded),
        };
    }
});

case!(odd_numbers_of_a_write, ["WR-2", "WR-3"], Stage::client, |t, port| {
    let commands = stream(|c| c.enter_looper().exit_looper().command(0, &0u32)).as_bytes().to_vec();
    let top = u64::MAX;
    // The size of the write and its offset; the bytes that were consumed, and the error.
    let odd = [
        (8, 8, 8, NONE),
        (8, 9, 9, NONE),
        (8, 1 << 40, 1 << 40, NONE),
        (8, 1 << 63, 1 << 63, NONE),
        (top, 0, 0, NONE),
        (top, 4, 4, NONE),
        (1 << 63, 4, 8, Errno::EINVAL),
    ];
    for (write_size, write_consumed, wanted, errno) in odd {
        let (commands, write_size) = (commands.clone(), Some(write_size));
        let outcome = port.raw(WriteReadOp { commands, write_size, write_consumed, ..Default::default() });
        let found = (outcome.errno, outcome.write_consumed);
        let why = format!("a write of {write_size:?} from {write_consumed} on: {found:?}");
        t.known_difference(Driver::Upstream, &why, found == (errno, wanted));
    }
});

case!(would_block, ["WR-7"], Stage::server, |t, port| {
    port.nonblocking(true);
    let outcome = port.raw(WriteReadOp { room: ROOM, ..Default::default() });
    assert_eq!((outcome.errno, outcome.read_consumed), (Errno::EAGAIN, 0));
    port.start(&stream(|c| c.enter_looper().free_buffer(0)));
    let outcome = port.finish_raw();
    assert_eq!((outcome.errno, outcome.write_consumed), (Errno::EAGAIN, 16), "the write was carried out");
    leave_refusal(&port);
    let outcome = port.raw(WriteReadOp { room: ROOM, ..Default::default() });
    assert_eq!((outcome.errno, outcome.read_consumed), (NONE, 8));
});

case!(interrupted, ["WR-7"], Stage::server, |t, port| {
    for _ in 0..3 {
        port.park();
        assert_eq!(port.interrupt_wait().read_consumed, 0);
    }
});

case!(write_is_done_before_an_interrupted_read, ["WR-1", "WR-7"], pair, |t, (manager, client)| {
    client.start_blocking_call(0, 5, &bytes(b"once"));
    assert_eq!(client.interrupt_wait().write_consumed, 68);
    assert_eq!(manager.wait_call().code, 5);
    assert_eq!(client.data(&manager.answer(&client, &bytes(b"answer"))), b"answer");
});

case!(lesson_c17_payload_beyond_the_size, ["WR-4"], pair, |t, (manager, client)| {
    let call = client.call(&manager, 0, 0, &bytes(&pattern(64, 0)));
    let commands = stream(|c| c.free_buffer(call.buffer));
    let outcome = manager.raw(WriteReadOp { write_size: Some(6), ..WriteReadOp::of(&commands) });
    match outcome.errno {
        // The C driver bounds only the start of a command.
        NONE => {
            t.known_difference(Driver::C, "a payload beyond write_size is executed (lesson C17)", false);
            assert_eq!(outcome.write_consumed, 12);
        }
        errno => {
            assert!(matches!(errno, Errno::EFAULT | Errno::EINVAL), "{errno}");
            assert_eq!(outcome.write_consumed, 0);
        }
    }
    manager.answer(&client, &empty());
});

case!(trailing_bytes, ["WR-4"], Stage::client, |t, port| {
    for trailing in [&[0; 1][..], &[0; 3]] {
        let outcome = port.try_write(&stream(|c| c.enter_looper().raw(trailing)));
        // That is no command. C reads beyond the size, and upstream overlooks these bytes.
        let wanted = match t.driver {
            Driver::C => (Errno::EINVAL, 4),
            Driver::Rust => (Errno::EFAULT, 4),
            Driver::Upstream => (outcome.errno, outcome.write_consumed),
        };
        assert_eq!((outcome.errno, outcome.write_consumed), wanted);
    }
});

case!(misuse_is_no_error, ["WR-5", "OBJ-12", "NODE-8", "NODE-9"], Stage::client, |t, port| {
    port.send(|c| {
        c.free_buffer(0)
            .free_buffer(u64::MAX)
            .increfs(NO_HANDLE)
            .acquire(NO_HANDLE)
            .release(NO_HANDLE)
            .decrefs(NO_HANDLE)
            .increfs_done(1, 2)
            .acquire_done(3, 4)
            .register_looper()
            .enter_looper()
            .register_looper()
            .exit_looper()
            .exit_looper()
            .enter_looper()
            .release(0)
            .decrefs(0)
            .acquire(0)
            .increfs(0)
    });
    assert_eq!(port.drain(), []);
});

case!(one_call_per_read, ["WR-9"], two_clients, |t, (manager, first, second)| {
    first.start_blocking_call(0, 1, &empty());
    second.start_blocking_call(0, 2, &empty());
    let outcome = manager.raw(WriteReadOp { room: 4096, ..Default::default() });
    let calls: Vec<_> = outcome.returns().iter().filter_map(call_of).map(|call| call.code).collect();
    assert_eq!(calls, [1]);
    manager.answer(&first, &empty());
    assert_eq!(manager.wait_call().code, 2);
    manager.answer(&second, &empty());
});

case!(other_items_are_batched, ["WR-9"], pair, |t, (manager, client)| {
    let parcel = parcel_of((1..=3).map(|ptr| FlatBinderObject::binder(ptr * 16, 0)));
    client.send_call_to(&manager, 0, 0, &parcel);
    manager.reply(&empty());
    let items = client.read_once();
    let counts = items.iter().filter(|i| matches!(i, Return::Increfs(_) | Return::Acquire(_))).count();
    assert_eq!(counts, 6, "{items:?}");
    assert!(items.contains(&Return::TransactionComplete));
    assert!(matches!(items.last(), Some(Return::Reply(_))), "the reply ends the read: {items:?}");
});

case!(rest_goes_to_another_waiter, ["WR-11"], two_clients, |t, (manager, first, second)| {
    // Two calls are queued to the process while nobody waits; two threads then serve both.
    first.start_blocking_call(0, 1, &empty());
    second.start_blocking_call(0, 2, &empty());
    let helper = manager.looper();
    assert_eq!(manager.wait_call().code, 1);
    assert_eq!(helper.wait_call().code, 2);
    helper.reply(&bytes(b"2"));
    assert_eq!(first.data(&manager.answer(&first, &bytes(b"1"))), b"1");
    assert_eq!(second.data(&second.wait_reply()), b"2");
});

case!(large_streams, ["WR-1", "WR-2"], Stage::client, |t, port| {
    let mut commands = Commands::new();
    for address in 0..4000 {
        commands.free_buffer(address).increfs(NO_HANDLE);
    }
    port.write(&commands);
    commands.raw(&0u32.to_ne_bytes());
    let outcome = port.try_write(&commands);
    assert_eq!((outcome.errno, outcome.write_consumed), (Errno::EINVAL, commands.len() as u64 - 4));
});
