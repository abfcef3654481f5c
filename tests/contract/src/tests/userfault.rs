// SPDX-License-Identifier: GPL-2.0
//! A copy that waits for user space, for as long as that likes, holds up nobody else.

use super::*;
use crate::userfault::{MISSING, WRITES_PASS, WRITE_PROTECTED};

/// The unit of the sizes of calls, for any size of a page.
const PIECE: usize = 4096;

/// Memory of a process that will be there when we provide it, and the driver's shrinker; `None` if the
/// kernel has not both.
fn absent(t: &Stage, port: &Port, pages: usize) -> (Absent, Shrinker) {
    (super::gaps::absent(t, port, pages), Shrinker::needed(t))
}

/// Sends a call whose data are missing pages, and waits until the driver waits for the first.
fn send_absent(client: &Port, absent: &Absent, pages: usize) {
    send_absent_with(client, absent, pages, TransactionFlags::empty());
}

fn send_absent_with(client: &Port, absent: &Absent, pages: usize, flags: TransactionFlags) {
    let (buffer, data_size) = (absent.start, (pages * page()) as u64);
    let call = client.place(0, 0, &empty());
    client.start_transaction(&BinderTransactionData { buffer, data_size, flags: flags.bits(), ..call });
    assert_eq!(absent.wait(), 0);
    assert!(!client.actor.answered(Duration::ZERO), "came back without the data");
}

case!(space_cannot_be_watched, ["MMAP-2", "MMAP-5"], pair, |t, (manager, client)| {
    let (_, shrinker) = absent(t, &manager, 1);
    let (address, length) = manager.space.expect("a space");
    for length in [length, page()] {
        for (mode, features) in [(MISSING, 0), (WRITE_PROTECTED, 0), (WRITE_PROTECTED, WRITES_PASS)] {
            let watched = manager.actor.number(Op::Watch { address, length, mode, features });
            assert_eq!(watched, Err(Errno::EINVAL), "mode {mode}, features {features}");
        }
    }
    let data = pattern(20 * PIECE, 1);
    client.round_trip(0, &manager, &bytes(&data), &empty());
    shrinker.squeeze();
    client.round_trip(0, &manager, &bytes(&data), &empty());
});

case!(sender_waits_while_pages_are_reclaimed, ["TXN-1", "ALLOC-5"], |t| {
    let (manager, client, other) = (t.manager(), t.client(), t.client());
    let (absent, shrinker) = absent(t, &client, 3);
    let data = pattern(3 * page(), 1);
    send_absent(&client, &absent, 3);
    for (index, page) in data.chunks(page()).enumerate() {
        if index > 0 {
            assert_eq!(absent.wait(), index);
        }
        // Others' calls go through, and their pages come and go.
        other.round_trip(0, &manager, &bytes(&pattern(30 * PIECE, index)), &bytes(b"answer"));
        let full = shrinker.pages();
        shrinker.squeeze();
        shrinker.expect_less(full, 20 * PIECE);
        absent.provide(index, page);
    }
    let call = manager.wait_call();
    shrinker.squeeze();
    manager.consume(&call, data);
    answer(&manager, &client);
});

case!(offsets_are_waited_for, ["TXN-1", "ALLOC-5"], two_clients, |t, (manager, client, other)| {
    let (absent, shrinker) = absent(t, &client, 1);
    let call = client.place(0, 0, &object(FlatBinderObject::binder(0x50, 0)));
    client.start_transaction(&BinderTransactionData { offsets: absent.start, ..call });
    assert_eq!(absent.wait(), 0);
    shrinker.squeeze();
    other.round_trip(0, &manager, &bytes(b"question"), &empty());
    absent.provide(0, &0u64.to_ne_bytes());
    let call = manager.wait_call();
    assert_ne!(manager.object(&call).handle(), 0);
    manager.free(&call);
    answer(&manager, &client);
});

case!(target_dies_meanwhile, ["REL-2", "ALLOC-5", "TXN-1"], two_clients, |t, (manager, client, other)| {
    let (absent, shrinker) = absent(t, &client, 2);
    send_absent(&client, &absent, 2);
    manager.kill();
    shrinker.squeeze();
    let next = t.manager();
    other.round_trip(0, &next, &bytes(&pattern(9 * PIECE, 1)), &empty());
    shrinker.squeeze();
    for index in 0..2 {
        absent.provide(index, b"too late");
    }
    assert_eq!(client.wait_refusal(), Return::DeadReply);
    client.round_trip(0, &next, &bytes(b"question"), &empty());
});

case!(secret_does_not_outlive_its_target, ["OBJ-10", "ALLOC-6", "REL-2"], pair, |t, (manager, client)| {
    let (absent, _) = absent(t, &client, 2);
    send_absent_with(&client, &absent, 2, TransactionFlags::CLEAR_BUF);
    let secret = pattern(page(), 1);
    absent.provide(0, &secret);
    assert_eq!(absent.wait(), 1);
    // The first buffer of a space is where the space begins.
    let (start, _) = manager.space.expect("a space");
    assert_eq!(manager.memory(start, page()), secret);
    let pipe = manager.actor.number(Op::IntoPipe { address: start, length: 2 * page() }).expect("a pipe");
    let mut kept = File::from(manager.actor.share(pipe as i32));
    manager.kill();
    absent.provide(1, &secret);
    assert_eq!(client.wait_refusal(), Return::DeadReply);
    let mut left = vec![1; 2 * page()];
    kept.read_exact(&mut left).expect("both pages");
    assert!(left.iter().all(|byte| *byte == 0), "the data are still in the pages");
});

case!(target_unmaps_meanwhile, ["MMAP-7", "ALLOC-5"], pair, |t, (manager, client)| {
    let (absent, shrinker) = absent(t, &client, 2);
    send_absent(&client, &absent, 2);
    manager.unmap();
    shrinker.squeeze();
    for index in 0..2 {
        absent.provide(index, b"for whom?");
    }
    // The call may come through or not, but it ends: refused, or waiting for a reply.
    client.actor.is_blocked();
    match manager.drain().iter().find_map(call_of) {
        Some(call) => finish(&manager, &client, &call),
        None => _ = client.wait_refusal(),
    }
    shrinker.squeeze();
    client.start_call(0, 0, &empty());
    assert_eq!(client.wait_refusal(), Return::DeadReply, "a call to where nothing is mapped");
});

case!(sender_dies_meanwhile, ["REL-2", "ALLOC-1"], two_clients, |t, (manager, client, other)| {
    let (absent, shrinker) = absent(t, &client, 4);
    send_absent(&client, &absent, 4);
    client.kill();
    shrinker.squeeze();
    // The space that it had reserved is free again.
    other.round_trip(0, &manager, &bytes(&pattern(SPACE - 2 * page(), 1)), &empty());
});

case!(receiver_waits_for_its_own_memory, ["REL-2", "ALLOC-5"], two_clients, |t, (manager, client, other)| {
    let (absent, shrinker) = absent(t, &manager, 1);
    super::gaps::start_read_into(&manager, &absent);
    client.start_call(0, 0, &bytes(&pattern(5 * PIECE, 1)));
    assert_eq!(absent.wait(), 0);
    shrinker.squeeze();
    client.kill();
    shrinker.squeeze();
    let mut found = super::gaps::finish_read_into(&manager, &absent);
    found.extend(manager.drain());
    for item in found {
        if let Return::Transaction(call) = item {
            manager.free(&call);
        }
    }
    let next = manager.looper();
    other.round_trip(0, &next, &bytes(&pattern(SPACE - 2 * page(), 2)), &empty());
});

// The file of a process cannot go while a reader lists the files, for as long as that takes.
case!(deaths_are_told_while_logs_are_listed, ["REL-2", "LOG-11"], Logs::of, |t, logs| {
    let (manager, holder) = (t.manager(), t.client());
    holder.send(|c| c.acquire(0).request_death(0, 7));
    let file = logs.path(&format!("proc/{}", t.global_pid(&manager)));
    assert!(file.exists());
    let made = Lingering::in_directory(&logs.path("proc"));
    t.needs("CONFIG_USERFAULTFD", made.as_ref().err() != Some(&Errno::ENOSYS));
    let listing = made.expect("somebody who lists them");
    manager.unmap();
    manager.actor.start(Op::Close { slot: manager.slot });
    let is_told = holder.poll(t.patience_for_ours().as_millis() as u16) != 0;
    if t.ours_alone("deaths are told while the logs are listed", is_told) {
        holder.wait_for(Return::DeadBinder(7));
        assert!(manager.actor.answered(t.patience_for_ours()), "closing does not wait for that");
        assert!(file.exists(), "the file is still to go");
        assert_eq!(std::fs::read(&file).expect("its log"), b"", "it shows no process that has ended");
    }
    drop(listing);
    manager.actor.finish();
    until("the file goes", || (!file.exists()).then_some(()));
    if !is_told {
        holder.wait_for(Return::DeadBinder(7));
    }
});
