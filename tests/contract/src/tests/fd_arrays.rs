// SPDX-License-Identifier: GPL-2.0
//! Arrays of file descriptors: where they may lie, and that they go with the buffer.

use super::fds::{with_line, Line};
use super::*;
use crate::sg::{array_bytes, refused, EINVAL};

/// A parcel of one block that has descriptors at some place; index 0 is the block, 1 the array.
pub fn with_array(port: &Port, before: usize, fds: &[i32], after: usize) -> SgParcel {
    let mut block = pattern(before, 1);
    block.extend(array_bytes(fds));
    block.extend(pattern(after, 2));
    let (mut parcel, parent) = SgParcel::of(&port.arena, &block);
    parcel.array(parent, before as u64, fds.len() as u64);
    parcel
}

fn lines<const COUNT: usize>(port: &Port) -> [Line; COUNT] {
    std::array::from_fn(|_| Line::to(port))
}

/// An answered call with an array of one file, whose buffer stays.
fn kept(server: &Port, client: &Port, line: &Line) -> BinderTransactionData {
    let call = client.call_sg(server, &with_array(client, 0, &[line.theirs], 0).call(client));
    answer(server, client);
    call
}

case!(arrive, ["OBJ-FDA", "TXN-32", "OBJ-7"], file_pair, |t, (server, client)| {
    for (before, after) in [(0, 0), (0, 12), (16, 0), (40, 20)] {
        let lines: [Line; 3] = lines(&client);
        let parcel = with_array(&client, before, &lines.each_ref().map(|line| line.theirs), after);
        let call = client.call_sg(&server, &parcel.call(&client));
        let numbers = server.received_array(&call, 1);
        for (line, number) in lines.iter().zip(&numbers) {
            line.expect_reached_by(&server, *number);
            assert_ne!(server.actor.file_flags(*number) & libc::O_CLOEXEC, 0);
        }
        // The rest of the block is as it was.
        let block = server.received_block(&call, 0);
        assert_eq!(
            (&block[..before], &block[before + 12..]),
            (&pattern(before, 1)[..], &pattern(after, 2)[..])
        );
        let array: BinderFdArrayObject = server.any_object(&call, 1);
        assert_eq!((array.num_fds, array.parent, array.parent_offset), (3, 0, before as u64));
        finish(&server, &client, &call);
    }
});

/// Answers a call with a parcel of an array, for which the caller has asked.
fn array_in_reply(server: &Port, client: &Port, fds: &[i32]) -> BinderTransactionData {
    super::fds::start_accepting(client);
    server.free(&server.wait_call());
    server.reply_sg(&with_array(server, 8, fds, 0).call(server));
    client.wait_reply()
}

case!(arrive_in_a_reply, ["OBJ-FDA", "TXN-32"], pair, |t, (server, client)| {
    let lines: [Line; 2] = lines(&server);
    let reply = array_in_reply(&server, &client, &lines.each_ref().map(|line| line.theirs));
    for (line, number) in lines.iter().zip(client.received_array(&reply, 1)) {
        line.expect_reached_by(&client, number);
    }
    client.free(&reply);
});

case!(several_in_one_block, ["OBJ-FDA", "OBJ-4"], file_pair, |t, (server, client)| {
    let lines: [Line; 4] = lines(&client);
    let fds = lines.each_ref().map(|line| line.theirs);
    let mut block = array_bytes(&fds[..2]);
    block.extend(array_bytes(&fds[2..3]));
    block.extend(b"between!");
    block.extend(array_bytes(&fds[3..]));
    let (mut parcel, parent) = SgParcel::of(&client.arena, &block);
    // The second begins where the first ends.
    for (offset, count) in [(0, 2), (8, 1), (20, 1)] {
        parcel.array(parent, offset, count);
    }
    let call = client.call_sg(&server, &parcel.call(&client));
    let numbers: Vec<i32> = (1..4).flat_map(|index| server.received_array(&call, index)).collect();
    for (line, number) in lines.iter().zip(numbers) {
        line.expect_reached_by(&server, number);
    }
    assert_eq!(server.received_block(&call, 0)[12..20], *b"between!");
    answer(&server, &client);
});

case!(in_a_nested_block, ["OBJ-FDA", "OBJ-4"], file_pair, |t, (server, client)| {
    let lines: [Line; 2] = lines(&client);
    let (mut parcel, outer) = SgParcel::of(&client.arena, &pattern(24, 3));
    let inner = parcel.child(&client.arena, &array_bytes(&lines.each_ref().map(|l| l.theirs)), outer, 8);
    let array = parcel.array(inner, 0, 2);
    let call = client.call_sg(&server, &parcel.call(&client));
    for (line, number) in lines.iter().zip(server.received_array(&call, array)) {
        line.expect_reached_by(&server, number);
    }
    finish(&server, &client, &call);
});

case!(after_the_blocks_children, ["OBJ-FDA", "OBJ-4"], with_line, |t, (server, client, line)| {
    let mut block = pattern(24, 3);
    block[16..20].copy_from_slice(&array_bytes(&[line.theirs]));
    let (mut parcel, outer) = SgParcel::of(&client.arena, &block);
    let inner = parcel.child(&client.arena, b"inner", outer, 8);
    let array = parcel.array(outer, 16, 1);
    let call = client.call_sg(&server, &parcel.call(&client));
    line.expect_reached_by(&server, server.received_array(&call, array)[0]);
    let inner: BinderBufferObject = server.any_object(&call, inner);
    assert_eq!(server.received_block(&call, 0)[8..16], inner.buffer.to_ne_bytes());
    finish(&server, &client, &call);
});

case!(lesson_r15_empty, ["OBJ-FDA", "lesson R15"], pair, |t, (server, client)| {
    // Even a node that takes no files takes none of them.
    for (offset, length) in [(0, 0), (0, 8), (4, 8), (8, 8)] {
        let (mut parcel, parent) = SgParcel::of(&client.arena, &pattern(length, 4));
        parcel.array(parent, offset, 0);
        parcel.parcel.bytes(b"behind");
        client.start_sg(&parcel.call(&client));
        let refused = t.upstream() && !client.actor.is_blocked();
        if !t.known_difference(Driver::Upstream, "no descriptors at all are too many", !refused) {
            client.wait_refusal();
            continue;
        }
        let call = server.wait_call();
        assert_eq!(server.received_block(&call, 0), pattern(length, 4));
        assert!(server.data(&call).ends_with(b"behind"));
        finish(&server, &client, &call);
        assert_eq!(server.drain(), []);
    }
});

case!(not_accepted, ["OBJ-FDA"], pair, |t, (server, client)| {
    let line = Line::to(&client);
    let parcel = with_array(&client, 0, &[line.theirs], 0);
    assert_eq!(client.refused_sg(&parcel.call(&client)), failed(Errno::EPERM));
    client.round_trip(0, &server, &empty(), &empty());
});

case!(closed_with_the_buffer, ["OBJ-11"], file_pair, |t, (server, client)| {
    let before = server.actor.open_files();
    let lines: [Line; 3] = lines(&client);
    let parcel = with_array(&client, 4, &lines.each_ref().map(|line| line.theirs), 0);
    let call = client.call_sg(&server, &parcel.call(&client));
    answer(&server, &client);
    assert_eq!(server.actor.open_files().len(), before.len() + 3);
    for line in &lines {
        client.actor.close_file(line.theirs);
        line.expect_alive();
    }
    server.free(&call);
    assert_eq!(server.actor.open_files(), before);
    lines.iter().for_each(|line| line.expect_cut("the freed buffer's"));
});

case!(closed_with_the_buffer_of_a_reply, ["OBJ-11"], pair, |t, (server, client)| {
    let before = client.actor.open_files();
    let line = Line::to(&server);
    let reply = array_in_reply(&server, &client, &[line.theirs]);
    server.actor.close_file(line.theirs);
    line.expect_alive();
    client.free(&reply);
    assert_eq!(client.actor.open_files(), before);
    line.expect_cut("the freed buffer's");
});

case!(closed_by_another_thread, ["OBJ-11", "OBJ-12"], file_pair, |t, (server, client)| {
    let other = server.thread();
    let before = server.actor.open_files();
    let line = Line::to(&client);
    let call = kept(&server, &client, &line);
    client.actor.close_file(line.theirs);
    other.free(&call);
    assert_eq!(server.actor.open_files(), before);
    line.expect_cut("the freed buffer's");
});

case!(lesson_c13_closed_although_wiped, ["OBJ-11", "ALLOC-6", "lesson C13"], |t| {
    let (server, client) = (t.file_manager(), t.client());
    let before = server.actor.open_files();
    let line = Line::to(&client);
    let parcel = with_array(&client, 8, &[line.theirs], 8);
    let call = client.call_sg(&server, &parcel.to(&client, 0, TransactionFlags::CLEAR_BUF));
    let block: BinderBufferObject = server.any_object(&call, 0);
    answer(&server, &client);
    client.actor.close_file(line.theirs);
    // A neighbour keeps the page where it is.
    client.call(&server, 0, 0, &bytes(b"after"));
    answer(&server, &client);
    server.free(&call);
    assert_eq!(server.memory(block.buffer, 20), [0; 20]);
    assert_eq!(server.actor.open_files(), before);
    line.expect_cut("the freed buffer's");
});

case!(closed_before_by_the_receiver, ["OBJ-11"], file_pair, |t, (server, client)| {
    let before = server.actor.open_files();
    let lines: [Line; 3] = lines(&client);
    let parcel = with_array(&client, 0, &lines.each_ref().map(|line| line.theirs), 0);
    let call = client.call_sg(&server, &parcel.call(&client));
    answer(&server, &client);
    server.actor.close_file(server.received_array(&call, 1)[1]);
    server.free(&call);
    assert_eq!(server.actor.open_files(), before);
});

case!(lesson_c02_freed_twice_closes_once, ["OBJ-11", "OBJ-12", "lesson C02"], |t| {
    let (server, client) = (t.file_manager(), t.client());
    let line = Line::to(&client);
    let call = kept(&server, &client, &line);
    let number = server.received_array(&call, 1)[0];
    server.free(&call);
    // Somebody else has the number now, and keeps it.
    assert_eq!(server.actor.give(&line.ours), number);
    server.free(&call);
    assert!(server.actor.file_name(number).is_some());
});

case!(freeing_thread_goes_back, ["IOCTL-4", "OBJ-11"], with_line, |t, (server, client, line)| {
    let call = kept(&server, &client, &line);
    server.start(&stream(|c| c.free_buffer(call.buffer)));
    let returned = !server.actor.is_blocked();
    if t.known_difference(Driver::Upstream, "the freeing thread waits and keeps the files", returned) {
        let outcome = server.finish_raw();
        assert_eq!((outcome.errno, outcome.returns()), (Errno::from_raw(0), vec![Return::Noop]));
        // The thread goes back only once.
        server.park();
    }
});

case!(freeing_other_objects_does_not_go_back, ["IOCTL-4", "OBJ-11"], pair, |_t, (server, client)| {
    let call = client.call(&server, 0, 0, &object(FlatBinderObject::binder(8, 0)));
    server.start(&stream(|c| c.free_buffer(call.buffer)));
    server.actor.expect_blocked();
});

case!(other_descriptors_stay, ["OBJ-11"], file_pair, |t, (server, client)| {
    let lines: [Line; 2] = lines(&client);
    let mut behind = with_array(&client, 0, &[lines[0].theirs], 0);
    let single_behind = behind.fd(lines[1].theirs);
    // Another parcel has the single file before the array.
    let mut before = SgParcel::new();
    let single_before = before.fd(lines[1].theirs);
    let parent = before.block(&client.arena, &array_bytes(&[lines[0].theirs]));
    let array = before.array(parent, 0, 1);
    for (parcel, array, single) in [(behind, 1, single_behind), (before, array, single_before)] {
        let call = client.call_sg(&server, &parcel.call(&client));
        let (closed, kept) = (server.received_array(&call, array)[0], server.received_fd(&call, single));
        finish(&server, &client, &call);
        assert_eq!(server.actor.file_name(closed), None);
        lines[1].expect_reached_by(&server, kept);
    }
});

case!(device_in_use_is_closed, ["OBJ-11"], with_line, |t, (server, client, line)| {
    let call = kept(&server, &client, &line);
    let number = server.received_array(&call, 1)[0];
    // The server puts its device under that number, and closes the one it had: then it has no other
    // descriptor, nor a mapping, to keep the device open, and frees the buffer through it.
    let slot = server.actor.number(Op::DeviceAs { slot: server.slot, fd: number }).expect("a new number");
    server.close();
    server.unmap();
    let device = Port::at(server.actor.clone(), &server.arena, slot as usize);
    device.try_write(&stream(|c| c.free_buffer(call.buffer)));
    assert_eq!(device.actor.file_name(number), None);
    // The process is gone with its last descriptor.
    client.start_call(0, 0, &empty());
    client.wait("the end", |item| matches!(item, Return::DeadReply).then_some(()));
});

case!(of_a_dead_process, ["OBJ-13"], with_line, |t, (server, client, line)| {
    client.call_sg(&server, &with_array(&client, 0, &[line.theirs], 0).call(&client));
    client.actor.expect_blocked();
    server.kill_serving(&client);
    line.expect_cut_after(&client, "the dead process's");
});

case!(one_is_bad, ["OBJ-FDA", "OBJ-10"], file_pair, |t, (server, client)| {
    let before = server.actor.open_files();
    for bad in 0..4 {
        let lines: [Line; 4] = lines(&client);
        let mut fds = lines.each_ref().map(|line| line.theirs);
        fds[bad] = 999;
        let parcel = with_array(&client, 8, &fds, 0);
        assert_eq!(client.refused_sg(&parcel.call(&client)), failed(Errno::EBADF));
        for line in &lines {
            line.expect_cut_after(&client, "the refused call's");
        }
    }
    assert_eq!(server.actor.open_files(), before);
    client.round_trip(0, &server, &empty(), &empty());
});

case!(no_number_left, ["TXN-27", "TXN-32"], file_pair, |t, (server, client)| {
    let lines: [Line; 3] = lines(&client);
    let parcel = with_array(&client, 8, &lines.each_ref().map(|line| line.theirs), 0);
    server.park();
    let before = server.actor.open_files();
    for room in 0..3 {
        server.actor.limit_files(room);
        client.start_sg(&parcel.call(&client));
        assert_eq!(client.wait_refusal(), Return::FailedReply);
        assert_eq!(server.actor.open_files(), before);
    }
    server.actor.unlimit_files();
    finish(&server, &client, &client.call_sg(&server, &parcel.call(&client)));
    assert_eq!(server.actor.open_files(), before);
});

/// A block with these arrays, of place and count, is refused as wrong.
#[track_caller]
fn expect_wrong(client: &Port, block: &[u8], arrays: &[(u64, u64)]) {
    let (mut parcel, parent) = SgParcel::of(&client.arena, block);
    for (offset, count) in arrays {
        parcel.array(parent, *offset, *count);
    }
    assert_eq!(refused(client, &parcel), EINVAL, "{arrays:?}");
}

case!(parent_must_be_an_earlier_block, ["OBJ-4", "lesson C03"], with_line, |t, (server, client, line)| {
    let block = array_bytes(&[line.theirs, line.theirs]);
    // 0 is a descriptor, 1 the block, 2 the array itself, 3 a later block.
    for parent in [0, 2, 3, 4, 5, 1 << 32, (1 << 61) + 1, u64::MAX] {
        let mut parcel = SgParcel::new();
        parcel.fd(line.theirs);
        parcel.block(&client.arena, &block);
        parcel.array(parent, 0, 1);
        parcel.block(&client.arena, &block);
        assert_eq!(refused(&client, &parcel), EINVAL, "{parent}");
    }
    client.round_trip(0, &server, &empty(), &empty());
});

case!(must_lie_in_the_block, ["OBJ-FDA", "lesson C03"], with_line, |t, (server, client, line)| {
    let block = array_bytes(&[line.theirs; 4]);
    let few = [(0, 5), (4, 4), (12, 2), (16, 1), (20, 1), (1 << 32, 1), (u64::MAX - 3, 1), (u64::MAX - 3, 2)];
    let many = [1 << 62, (1 << 62) + 1, (1 << 63) + 1, u64::MAX].map(|count| (0, count));
    for (offset, count) in few.into_iter().chain(many) {
        let (mut parcel, parent) = SgParcel::of(&client.arena, &block);
        // A block behind it, which must not be reached either.
        parcel.block(&client.arena, &block);
        let index = parcel.parcel.offsets.len();
        parcel.array(parent, offset, count);
        // The latest block is open for sure.
        parcel.parcel.data.truncate(parcel.parcel.offsets[index] as usize);
        parcel.parcel.offsets.truncate(index);
        parcel.array(parent + 1, offset, count);
        assert_eq!(refused(&client, &parcel), EINVAL, "{count} at {offset:#x}");
    }
    client.round_trip(0, &server, &empty(), &empty());
});

case!(must_be_aligned, ["OBJ-6", "lesson C08", "lesson R15"], with_line, |t, (server, client, line)| {
    let block = array_bytes(&[line.theirs; 4]);
    for offset in [1, 2, 3, 5, 7] {
        expect_wrong(&client, &block, &[(offset, 1)]);
    }
    // Odd addresses at the sender's end.
    for odd in [1, 2, 3] {
        let mut moved = vec![0; odd];
        moved.extend(&block);
        let mut parcel = SgParcel::new();
        let parent = parcel.block_at(client.arena.place(&moved) + odd as u64, 16);
        parcel.array(parent, 0, 1);
        let (code, errno) = sent_or_refused(&server, &client, &parcel);
        let strict = (code, errno) == (codes::BR_FAILED_REPLY, EINVAL);
        t.known_difference(Driver::Upstream, "an array that is not aligned is read", strict);
    }
    client.round_trip(0, &server, &empty(), &empty());
});

/// Sends a parcel that some drivers refuse; returns the extended error.
fn sent_or_refused(server: &Port, client: &Port, parcel: &SgParcel) -> (u32, i32) {
    client.start_sg(&parcel.call(client));
    if client.actor.is_blocked() {
        server.free(&server.wait_call());
        answer(server, client);
    } else {
        client.wait_refusal();
    }
    client.extended_error()
}

case!(must_come_in_order, ["OBJ-4", "lesson R16"], with_line, |t, (server, client, line)| {
    let block = array_bytes(&[line.theirs; 8]);
    // Each pair in one block: place and count of the first, place of the second.
    for (first, count, second) in [(0, 1, 0), (8, 1, 4), (8, 1, 8), (0, 4, 12), (16, 2, 0), (28, 1, 24)] {
        expect_wrong(&client, &block, &[(first, count), (second, 1)]);
    }
    // A pointer over descriptors, and descriptors over a pointer.
    for second in [0, 4, 8, 12] {
        let (mut parcel, parent) = SgParcel::of(&client.arena, &block);
        parcel.array(parent, 8, 2);
        parcel.child(&client.arena, b"over it", parent, second);
        assert_eq!(refused(&client, &parcel), EINVAL, "{second}");
        let (mut parcel, parent) = SgParcel::of(&client.arena, &block);
        parcel.child(&client.arena, b"under it", parent, 8);
        parcel.array(parent, second, 1);
        assert_eq!(refused(&client, &parcel), EINVAL, "{second}");
    }
    client.round_trip(0, &server, &empty(), &empty());
});

case!(unreadable, ["OBJ-FDA"], file_pair, |t, (server, client)| {
    let mut parcel = SgParcel::new();
    let parent = parcel.block_at(BAD_ADDRESS & !7, 64);
    parcel.array(parent, 0, 4);
    let errno = refused(&client, &parcel);
    let either = [EINVAL, -(Errno::EFAULT as i32)];
    assert!(either.contains(&errno), "{errno}");
    client.round_trip(0, &server, &empty(), &empty());
});

case!(nothing_is_left_behind, ["OBJ-10", "OBJ-11"], with_line, |t, (server, client, line)| {
    let idle = (server.actor.open_files(), client.actor.open_files());
    for round in 0..60 {
        let mut fds = vec![line.theirs; round % 7];
        if round % 4 == 3 {
            fds.push(999);
            let parcel = with_array(&client, 4 * (round % 5), &fds, round);
            assert_eq!(client.refused_sg(&parcel.call(&client)), failed(Errno::EBADF));
            continue;
        }
        let parcel = with_array(&client, 4 * (round % 5), &fds, round);
        let call = client.call_sg(&server, &parcel.call(&client));
        // Freed in one go with the reply, or before it.
        if round % 2 == 0 {
            server.free(&call);
            answer(&server, &client);
        } else {
            let commands = stream(|c| c.free_buffer(call.buffer).reply(&server.place(0, 0, &empty())));
            assert_eq!(server.raw(WriteReadOp::of(&commands)).errno, Errno::from_raw(0));
            server.wait_for(Return::TransactionComplete);
            client.free(&client.wait_reply());
        }
    }
    assert_eq!((server.actor.open_files(), client.actor.open_files()), idle);
    line.expect_cut_after(&client, "any of sixty calls'");
});
