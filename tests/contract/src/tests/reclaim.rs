// SPDX-License-Identifier: GPL-2.0
//! Pages that nobody uses go when memory is short, and nobody notices.

use super::many::{start_client, start_server};
use super::*;
use crate::load::Work;

/// Of which the sizes of calls are multiples, whatever the size of a page.
const PIECE: usize = 4096;

/// A call of this many bytes, freed by the receiver but not answered yet. Gives where it was.
fn freed_call(client: &Port, manager: &Port, data: &[u8]) -> u64 {
    let call = client.call(manager, 0, 0, &bytes(data));
    manager.consume(&call, data);
    call.buffer
}

/// The driver's shrinker, a manager, and a client.
fn shrinkable_pair(t: &Stage) -> (Shrinker, Port, Port) {
    (Shrinker::needed(t), t.manager(), t.client())
}

case!(lesson_r07_idle_pages_go_and_come_back, ["lesson R07", "ALLOC-5"], Shrinker::needed, |t, shrinker| {
    let (manager, client) = (t.manager(), t.client());
    for seed in 0..3 {
        let (question, reply) = (pattern(64 * PIECE, seed), pattern(40 * PIECE, seed + 10));
        client.round_trip(0, &manager, &bytes(&question), &bytes(&reply));
        let full = shrinker.pages();
        assert!(full >= pages_of(104 * PIECE), "{full} pages");
        shrinker.squeeze();
        shrinker.expect_less(full, 100 * PIECE);
    }
});

// Not by the shrinker's own file, but by the one that shrinks all caches: it repeats while
// shrinkers free pages.
case!(as_the_kernel_does_it, ["ALLOC-5"], shrinkable_pair, |t, (shrinker, manager, client)| {
    let data = pattern(64 * PIECE, 1);
    for _ in 0..2 {
        client.round_trip(0, &manager, &bytes(&data), &bytes(&data));
        let full = shrinker.pages();
        for _ in 0..4 {
            std::fs::write("/proc/sys/vm/drop_caches", "2").expect("shrink all caches");
        }
        shrinker.expect_less(full, 100 * PIECE);
    }
});

/// The number of pages of its space that a process has on a memory node.
fn pages_on(port: &Port, node: u32) -> u64 {
    let maps = std::fs::read_to_string(format!("/proc/{}/numa_maps", port.actor.pid()))
        .expect("where its pages are");
    let here = format!("N{node}=");
    let of_spaces = maps.lines().filter(|line| line.contains("binder"));
    of_spaces
        .flat_map(str::split_whitespace)
        .filter_map(|word| word.strip_prefix(&here)?.parse::<u64>().ok())
        .sum()
}

// Reclaim finds a page on its own node: the sender's, not that of the driver's record of it.
case!(found_on_its_node, ["ALLOC-5"], |t| {
    let reclaim = std::path::Path::new("/sys/devices/system/node/node1/reclaim");
    t.needs("a second memory node, and a kernel that reclaims one alone", reclaim.exists());
    let (manager, client) = (t.manager(), t.client());
    client.actor.pin(0);
    // The driver's memory for records, on the first node, has room for more of them.
    client.round_trip(0, &manager, &bytes(&pattern(2 * PIECE, 0)), &empty());
    client.actor.number(Op::BindMemory { node: 1 }).expect("bind memory to a node");
    client.round_trip(0, &manager, &bytes(&pattern(20 * PIECE, 1)), &empty());
    let before = pages_on(&manager, 1);
    assert!(before >= 18, "{before} pages are on the second node");
    // The kernel looks at a node only if so much of it is cache.
    for share in ["slab", "unmapped"] {
        std::fs::write(format!("/proc/sys/vm/min_{share}_ratio"), "0")
            .expect("the share of a node that is kept");
    }
    for _ in 0..3 {
        // So many are not available, which is an error.
        let _ = std::fs::write(reclaim, "256M");
    }
    let after = pages_on(&manager, 1);
    assert!(after <= 2, "{after} of {before} pages are left");
});

case!(pages_in_use_stay, ["ALLOC-5"], shrinkable_pair, |t, (shrinker, manager, client)| {
    let data = pattern(20 * PIECE, 1);
    let call = client.call(&manager, 0, 0, &bytes(&data));
    shrinker.squeeze();
    assert_eq!(manager.data(&call), data, "what was delivered");
    manager.free(&call);
    answer(&manager, &client);
});

// The driver offers the kernel only pages that it can give back, and none again and again.
case!(pages_in_use_are_not_offered, ["ALLOC-5", "lesson T06"], |t| {
    let (shrinker, manager, client) = shrinkable_pair(t);
    let (data, few, all) = (pattern(64 * PIECE, 1), pages_of(4 * PIECE), pages_of(60 * PIECE));
    let before = shrinker.pages();
    for round in 0..3 {
        let call = client.call(&manager, 0, 0, &bytes(&data));
        if round > 0 {
            // Our driver detects the new use of a page when reclaim looks at it.
            shrinker.scan();
        }
        let offered = shrinker.pages();
        assert!(offered <= before + few, "round {round}: {offered} pages, {before} before");
        assert_eq!(manager.data(&call), data, "what was delivered");
        manager.free(&call);
        let offered = shrinker.pages();
        assert!(offered >= all, "round {round}: {offered} pages when they are free");
        answer(&manager, &client);
    }
});

case!(edges_in_use_stay, ["ALLOC-5", "ALLOC-4"], Shrinker::needed, |t, shrinker| {
    let manager = t.manager();
    let clients = [t.client(), t.client(), t.client()];
    let data = |seed| pattern(3 * page() + 1000, seed);
    let loopers = [manager.clone(), manager.looper(), manager.looper()];
    let mut calls = Vec::new();
    for (index, client) in clients.iter().enumerate() {
        calls.push(client.call(&loopers[index], 0, 0, &bytes(&data(index))));
    }
    // Its first and last page are its neighbours', too.
    manager.free(&calls[1]);
    shrinker.squeeze();
    for index in [0, 2] {
        assert_eq!(manager.data(&calls[index]), data(index), "call {index}");
        manager.free(&calls[index]);
    }
    for (client, looper) in clients.iter().zip(&loopers) {
        looper.answer(client, &empty());
    }
});

case!(what_went_is_not_there, ["ALLOC-5", "MMAP-5"], shrinkable_pair, |t, (shrinker, manager, client)| {
    let buffer = freed_call(&client, &manager, &pattern(8 * page(), 1));
    shrinker.squeeze();
    manager.actor.start(Op::Touch { address: buffer + 3 * page() as u64 });
    assert_eq!(manager.actor.wait_dead(), Some(Signal::SIGBUS));
});

case!(what_comes_back_is_zeroed, ["ALLOC-6", "MMAP-5"], shrinkable_pair, |t, (shrinker, manager, client)| {
    let buffer = freed_call(&client, &manager, &vec![0x5e; 2 * page()]);
    answer(&manager, &client);
    assert_eq!(manager.memory(buffer + 64, 64), [0x5e; 64], "kept until somebody needs the page");
    shrinker.squeeze();
    let call = client.call(&manager, 0, 0, &bytes(b"x"));
    assert_eq!(call.buffer, buffer, "the same place");
    let rest = manager.memory(buffer + 8, page() - 8);
    assert!(rest.iter().all(|byte| *byte == 0), "what was there before");
    manager.free(&call);
    answer(&manager, &client);
});

case!(what_is_used_again_and_again_stays, ["ALLOC-5"], shrinkable_pair, |t, (shrinker, manager, client)| {
    let buffer = freed_call(&client, &manager, &[0x5e; 1000]);
    answer(&manager, &client);
    for _ in 0..5 {
        shrinker.scan();
        client.round_trip(0, &manager, &bytes(b"short"), &empty());
    }
    let rest = manager.memory(buffer + 64, 64);
    t.ours_alone("the page that each call uses goes each time", rest == [0x5e; 64]);
});

// Source pages that the sender has not touched yet, or never will, are copied, too.
case!(source_that_is_not_there_yet, ["TXN-1", "ALLOC-5"], pair, |t, (manager, client)| {
    // Everything in the arena is new to the process: each page of it has to be found first.
    let data = pattern(30 * PIECE + 7, 3);
    client.round_trip(0, &manager, &bytes(&data), &empty());
    // Nobody has ever touched this.
    let nothing = client.arena.reserve(20 * PIECE);
    let call = BinderTransactionData { buffer: nothing, ..client.place(0, 0, &bytes(&data[..20 * PIECE])) };
    let call = client.call_with(&manager, &call);
    manager.consume(&call, vec![0; 20 * PIECE]);
    answer(&manager, &client);
    // Half of it cannot be read at all.
    let end = client.arena.end();
    let call = BinderTransactionData {
        buffer: end - 2 * PIECE as u64,
        ..client.place(0, 0, &bytes(&data[..4 * PIECE]))
    };
    assert_eq!(client.refused(&call), Return::FailedReply);
    client.round_trip(0, &manager, &bytes(&data), &empty());
});

case!(after_unmap, ["ALLOC-5", "MMAP-7"], shrinkable_pair, |t, (shrinker, manager, client)| {
    let call = client.call(&manager, 0, 0, &bytes(&pattern(30 * PIECE, 1)));
    manager.unmap();
    shrinker.squeeze();
    manager.free(&call);
    shrinker.squeeze();
    answer(&manager, &client);
});

// Pages that were moved stay with the process.
case!(after_a_move, ["ALLOC-5", "MMAP-7"], shrinkable_pair, |t, (shrinker, manager, client)| {
    let data = pattern(30 * PIECE, 1);
    let buffer = freed_call(&client, &manager, &data);
    let (address, length) = manager.space.expect("a space");
    let moved = manager.actor.number(Op::Move { address, length }).expect("move the space");
    shrinker.squeeze();
    let kept = manager.memory(moved + (buffer - address), data.len()) == data;
    assert!(kept, "taken from where it was moved to");
    answer(&manager, &client);
});

case!(pages_thrown_away_come_back, ["ALLOC-5", "MMAP-5"], |t| {
    let (shrinker, manager, client) = shrinkable_pair(t);
    let data = pattern(30 * PIECE, 1);
    client.round_trip(0, &manager, &bytes(&data), &empty());
    let (address, length) = manager.space.expect("a space");
    let advice = libc::MADV_DONTNEED;
    manager.actor.number(Op::Advise { address, length, advice }).expect("throw pages away");
    shrinker.squeeze();
    client.round_trip(0, &manager, &bytes(&data), &empty());
});

case!(pages_of_the_dead, ["ALLOC-5", "REL-2"], shrinkable_pair, |t, (shrinker, manager, client)| {
    let before = shrinker.pages();
    freed_call(&client, &manager, &pattern(100 * PIECE, 1));
    manager.kill();
    client.wait_refusal();
    until("its pages go", || {
        shrinker.scan();
        (shrinker.pages() <= before + pages_of(10 * PIECE)).then_some(())
    });
});

// Reclaim of our pages leaves another mapping at their address alone.
case!(lesson_r03_nothing_is_taken_from_others, ["lesson R03", "ALLOC-5", "MMAP-7"], |t| {
    let shrinker = Shrinker::needed(t);
    let (manager, client) = (t.manager(), t.client());
    let call = client.call(&manager, 0, 0, &bytes(&pattern(16 * PIECE, 1)));
    let (address, length) = manager.space.expect("a space");
    manager.actor.number(Op::Cover { address, length }).expect("map something else there");
    manager.actor.number(Op::Fill { address, length, byte: 0xa7 }).expect("write to it");
    manager.free(&call);
    shrinker.squeeze();
    assert!(manager.memory(address, length).iter().all(|byte| *byte == 0xa7), "not the driver's to take");
    answer(&manager, &client);
});

/// A process that squeezes all the time.
fn squeezer(shrinker: &Shrinker) -> Killed {
    let shrinker = shrinker.clone();
    Killed(child::spawn(move || loop {
        shrinker.scan();
    }))
}

fn start_clients(t: &Stage, tolerate_death: bool) -> Vec<Pid> {
    let largest = [200, 9000, 60_000, 200_000];
    let work = |(seed, largest)| Work { threads: 2, calls: 60, largest, seed, tolerate_death };
    (0..).zip(largest).map(|of_client| start_client(t, &work(of_client))).collect()
}

case!(under_load, ["ALLOC-5", "ALLOC-4", "TXN-21"], Shrinker::needed, |t, shrinker| {
    let server = start_server(t, 4);
    let squeezers = [squeezer(&shrinker), squeezer(&shrinker)];
    all_well(start_clients(t, false));
    drop(squeezers);
    end(server);
});

case!(while_servers_die, ["ALLOC-5", "REL-2"], Shrinker::needed, |t, shrinker| {
    let _squeezer = squeezer(&shrinker);
    let mut server = start_server(t, 3);
    let clients = start_clients(t, true);
    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(20));
        end(server);
        server = start_server(t, 3);
    }
    all_well(clients);
    end(server);
});

case!(while_mappings_come_and_go, ["ALLOC-5", "MMAP-7", "MMAP-8"], Shrinker::needed, |t, shrinker| {
    let _squeezer = squeezer(&shrinker);
    for round in 0..t.tries(20) as usize {
        let (manager, client) = (t.manager(), t.client());
        let data = pattern(50 * PIECE, round);
        freed_call(&client, &manager, &data);
        let reply = manager.answer(&client, &bytes(&data));
        let child = client.actor.fork();
        if round % 3 == 0 {
            client.unmap();
        } else {
            assert_eq!(client.data(&reply), data);
        }
        child.kill();
        if round % 2 == 0 {
            client.kill();
        }
        manager.kill();
    }
});
