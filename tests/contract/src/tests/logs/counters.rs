// SPDX-License-Identifier: GPL-2.0
//! `stats`: the numbers of objects, of commands and of returns.

use super::*;
use binder_logs::{Counters, Pages, ReferenceCounts, RequestedThreads};

fn named(counters: &[binder_logs::Counter]) -> Vec<(&str, i64)> {
    counters.iter().map(|counter| (counter.name.as_str(), counter.count)).collect()
}

case!(commands_and_returns_of_a_process, ["LOG-12"], logged_pair, |t, (logs, server, client)| {
    client.send(|c| c.acquire(0).increfs(0));
    for _ in 0..3 {
        client.round_trip(0, &server, &bytes(b"question"), &bytes(b"answer"));
    }
    tell(&client, 0, b"told");
    server.wait_call();
    let Counters { commands, returns, objects } = logs.stats_of(&client).counters;
    let wanted = [("BC_TRANSACTION", 4), ("BC_FREE_BUFFER", 3), ("BC_INCREFS", 1), ("BC_ACQUIRE", 1)];
    assert_eq!(named(&commands), wanted);
    assert_eq!(named(&returns), [("BR_REPLY", 3), ("BR_TRANSACTION_COMPLETE", 4)], "BR_NOOP is not counted");
    assert_eq!(objects, []);
    let Counters { commands, returns, .. } = logs.stats_of(&server).counters;
    assert_eq!(named(&commands), [("BC_REPLY", 3), ("BC_FREE_BUFFER", 3), ("BC_ENTER_LOOPER", 1)]);
    assert_eq!(named(&returns), [("BR_TRANSACTION", 4), ("BR_TRANSACTION_COMPLETE", 3)]);
});

case!(rejected_commands_count, ["LOG-12", "WR-3"], logged_client, |t, (logs, client)| {
    let commands = stream(|c| c.free_buffer(1).dead_binder_done(2).request_freeze(3, 4).enter_looper());
    assert_eq!(client.try_write(&commands).errno, Errno::EINVAL, "there is no handle 3");
    let wanted = [("BC_FREE_BUFFER", 1), ("BC_DEAD_BINDER_DONE", 1), ("BC_REQUEST_FREEZE_NOTIFICATION", 1)];
    assert_eq!(named(&logs.stats_of(&client).counters.commands), wanted);
    client.try_write(&stream(|c| c.command(codes::BC_ACQUIRE_RESULT, &0u32)));
    assert_eq!(client.refused(&client.place(7, 0, &empty())), Return::FailedReply);
    let counters = logs.stats_of(&client).counters;
    assert_eq!((counters.count("BC_ACQUIRE_RESULT"), counters.count("BR_FAILED_REPLY")), (1, 1));
});

case!(lesson_r13_each_command_counts_under_its_name, ["LOG-12", "lesson R13"], Logs::of, |t, logs| {
    for (code, name) in codes::COMMANDS {
        let client = t.opened();
        let payload = vec![0u8; (code >> 16 & 0x3fff) as usize];
        client.try_write(&stream(|c| c.command(*code, &payload[..])));
        assert_eq!(named(&logs.stats_of(&client).counters.commands), [(*name, 1)]);
    }
});

case!(nothing_done_nothing_said, ["LOG-12"], Logs::of, |t, logs| {
    assert_eq!(logs.stats_of(&t.opened()).counters, Counters::default());
});

case!(sums_of_all, ["LOG-12"], logged_pair, |t, (logs, server, client)| {
    let before = logs.stats().total;
    for _ in 0..5 {
        client.round_trip(0, &server, &empty(), &empty());
    }
    tell(&client, 0, b"told");
    let after = logs.stats().total;
    let more = |name: &str| after.count(name) - before.count(name);
    assert_eq!([more("BC_TRANSACTION"), more("BC_REPLY"), more("BC_FREE_BUFFER")], [6, 5, 10]);
    assert_eq!([more("BR_TRANSACTION"), more("BR_REPLY"), more("BR_TRANSACTION_COMPLETE")], [5, 5, 11]);
});

case!(open_devices_and_threads_are_counted, ["LOG-12"], Logs::of, |t, logs| {
    let counts = || {
        let Counters { objects, .. } = logs.stats().total;
        let of = |name| objects.iter().filter(|kind| kind.name == name).map(|kind| kind.active).sum::<i64>();
        ["proc", "thread"].map(of)
    };
    // Processes of earlier tests may still be ending.
    until("one more", || {
        let before = counts();
        let port = t.opened();
        port.send(|c| c.enter_looper());
        let is_counted = counts() == before.map(|count| count + 1);
        port.kill();
        is_counted.then_some(())
    });
});

case!(sums_keep_what_the_dead_have_done, ["LOG-12"], logged_pair, |t, (logs, server, client)| {
    let before = logs.stats().total.count("BC_TRANSACTION");
    client.round_trip(0, &server, &empty(), &empty());
    let pid = t.global_pid(&client) as i32;
    client.kill();
    until("it is freed", || {
        let stats = logs.stats();
        stats.processes.iter().all(|process| process.pid != pid).then_some(())
    });
    assert_eq!(logs.stats().total.count("BC_TRANSACTION"), before + 1);
});

case!(sums_of_threads_that_have_exited, ["LOG-12", "TREL-1"], logged_pair, |t, (logs, server, client)| {
    let helper = client.thread();
    helper.round_trip(0, &server, &empty(), &empty());
    client.round_trip(0, &server, &empty(), &empty());
    helper.ioctl(BINDER_THREAD_EXIT, 0i32).expect("exit");
    let stats = logs.stats_of(&client);
    assert_eq!((stats.counters.count("BC_TRANSACTION"), stats.counters.count("BR_REPLY")), (2, 2));
    assert_eq!(stats.threads, Some(1));
});

case!(objects_of_all, ["LOG-12"], logged_pair, |t, (logs, server, client)| {
    known(&client);
    // Objects of earlier tests may end during this, but nobody else creates any.
    let total = |kind: &str| logs.stats().total.objects(kind).1;
    let kinds = ["proc", "thread", "node", "ref", "death", "transaction", "transaction_complete", "freeze"];
    let before = kinds.map(total);
    let more = || {
        let after = kinds.map(total);
        std::array::from_fn::<i64, 8, _>(|at| after[at] - before[at])
    };
    assert_eq!(more(), [0; 8]);
    client.round_trip(0, &server, &empty(), &empty());
    assert_eq!(more(), [0, 0, 0, 0, 0, 2, 2, 0], "calls of the manager need no reference");
    let third = t.client();
    known(&third);
    assert_eq!(more(), [1, 1, 0, 0, 0, 2, 2, 0]);
    third.send(|c| c.acquire(0).request_death(0, 1).request_freeze(0, 2));
    assert_eq!(more(), [1, 1, 0, 1, 1, 2, 2, 1]);
    introduce(&server, &client, FlatBinderObject::binder(8, 0), &third);
    assert_eq!(more()[2], 1);
    let active = logs.stats().total.objects("node").0;
    assert!(active >= 2, "{active}");
    let _ = (third.drain(), client.answer_counts());
});

case!(threads_of_a_process, ["LOG-12", "LOOP-5"], logged_pair, |t, (logs, manager, client)| {
    let stats = || {
        let stats = logs.stats_of(&manager);
        (stats.threads, stats.requested_threads, stats.ready_threads)
    };
    let requested = |outstanding, started, max| Some(RequestedThreads { outstanding, started, max });
    assert_eq!(stats(), (Some(1), requested(0, 0, 0), Some(0)));
    manager.ioctl(BINDER_SET_MAX_THREADS, 4u32).expect("a limit");
    client.round_trip(0, &manager, &empty(), &empty());
    assert_eq!(stats(), (Some(1), requested(1, 0, 4), Some(0)));
    manager.ignore_passed();
    let helper = manager.registered();
    assert_eq!(stats(), (Some(2), requested(0, 1, 4), Some(0)));
    helper.park();
    manager.park();
    assert_eq!(stats(), (Some(2), requested(0, 1, 4), Some(2)));
    for port in [&helper, &manager] {
        port.interrupt_wait();
    }
    assert_eq!(stats(), (Some(2), requested(0, 1, 4), Some(0)));
});

// Any limit is shown as a signed number.
case!(most_threads_of_a_process, ["LOG-12", "IOCTL-SET_MAX_THREADS"], logged_client, |t, (logs, client)| {
    for number in [0, 15, i32::MAX as u32, 1 << 31, u32::MAX] {
        client.ioctl(BINDER_SET_MAX_THREADS, number).expect("a number of threads");
        let wanted = RequestedThreads { outstanding: 0, started: 0, max: i64::from(number as i32) };
        assert_eq!(logs.stats_of(&client).requested_threads, Some(wanted));
    }
});

case!(nodes_and_references_of_a_process, ["LOG-12"], Logs::of, |t, logs| {
    let (manager, client, holder) = (t.manager(), t.client(), t.client());
    for number in 1..=5 {
        introduce(&manager, &client, FlatBinderObject::binder(number * 8, 0), &holder);
    }
    let stats = logs.stats_of(&client);
    assert_eq!((stats.nodes, stats.references.expect("a line").count), (Some(5), 0));
    let stats = logs.stats_of(&holder);
    assert_eq!(stats.nodes, Some(0));
    let references = logs.process(&holder).references;
    let (strong, weak) = references.iter().fold((0, 0), |(s, w), one| (s + one.strong, w + one.weak));
    let count = references.len() as i64;
    assert_eq!((count, stats.references), (5, Some(ReferenceCounts { count, strong, weak })));
    let _ = client.answer_counts();
});

case!(space_of_a_process, ["LOG-12", "ALLOC-3", "ALLOC-8"], logged_pair, |t, (logs, manager, client)| {
    let stats = || {
        let stats = logs.stats_of(&manager);
        (stats.free_async_space.expect("a line"), stats.buffers.expect("a line"), stats.pending_transactions)
    };
    let all = SPACE as i64 / 2;
    assert_eq!(stats(), (all, 0, Some(0)));
    client.start_blocking_call(0, 0, &bytes(&[1; 1000]));
    assert_eq!(stats(), (all, 1, Some(1)), "a call takes none of it");
    let call = manager.wait_call();
    manager.answer(&client, &empty());
    tell(&client, 0, &[2; 1000]);
    let (free, buffers, pending) = stats();
    assert!((1000..1100).contains(&(all - free)), "{free}");
    assert_eq!((buffers, pending), (2, Some(1)));
    manager.free(&manager.wait_call());
    manager.free(&call);
    assert_eq!(stats(), (all, 0, Some(0)));
});

case!(pages_of_a_process, ["LOG-12", "ALLOC-8"], Logs::of, |t, logs| {
    let (manager, client) = (t.manager_with(16 * page()), t.client());
    let stats = || {
        let stats = logs.stats_of(&manager);
        (stats.pages.expect("a line"), stats.pages_high_watermark.expect("a line"))
    };
    let pages = |active, lru| Pages { active, lru, free: 16 - active - lru };
    assert_eq!(stats(), (pages(0, 0), 0));
    let call = client.call(&manager, 0, 0, &bytes(&vec![1; 3 * page()]));
    assert_eq!(stats(), (pages(3, 0), 3));
    finish(&manager, &client, &call);
    assert_eq!(stats(), (pages(0, 3), 3), "they are kept for the next");
    tell(&client, 0, &vec![2; page()]);
    assert_eq!(stats(), (pages(1, 2), 3));
    manager.wait_call();
    manager.unmap();
    let none = Pages { active: 0, lru: 0, free: 0 };
    assert_eq!(stats(), (none, 3), "of what is not mapped none are counted");
});

case!(process_without_a_space, ["LOG-12"], Logs::of, |t, logs| {
    let port = t.opened();
    let stats = logs.stats_of(&port);
    assert_eq!(stats.pages, Some(Pages { active: 0, lru: 0, free: 0 }));
    assert_eq!(
        (stats.buffers, stats.free_async_space, stats.pages_high_watermark),
        (Some(0), Some(0), Some(0))
    );
    assert_eq!(logs.process(&port).buffers, []);
});
