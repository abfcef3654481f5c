// SPDX-License-Identifier: GPL-2.0
//! The set of files, and the processes in them.

use super::*;
use binder_logs::{Log, Mode, Pointer, State};

case!(hashed_ones_hide_pointers, ["LOG-10"], |t| expect_hidden_pointers(t, &Logs::of(t)));

const FILES: [&str; 7] = [
    "failed_transaction_log",
    "state",
    "state_hashed",
    "stats",
    "transaction_log",
    "transactions",
    "transactions_hashed",
];

case!(names_and_modes, ["LOG-1", "BFS-12"], Logs::of, |t, logs| {
    expect_names_and_modes(&logs);
    assert!(std::fs::remove_file(logs.path("state")).is_err(), "it cannot be removed");
});

/// Checks that all files are there, and nothing else, and their modes.
#[track_caller]
pub(super) fn expect_names_and_modes(logs: &Logs<'_>) {
    let entries = logs.path("").read_dir().expect("list the logs");
    let names: BTreeSet<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
    let wanted: BTreeSet<_> = FILES.into_iter().chain(["proc"]).map(Into::into).collect();
    assert_eq!(names, wanted);
    for name in FILES {
        let file = logs.path(name).metadata().expect(name);
        assert!(file.is_file());
        assert_eq!((file.permissions().mode() & 0o7777, file.uid(), file.gid()), (0o444, 0, 0), "{name}");
    }
    let folder = logs.path("proc").metadata().expect("proc");
    assert!(folder.is_dir());
    assert_eq!(folder.permissions().mode() & 0o7777, 0o755);
}

case!(none_without_the_option, ["LOG-1", "BFS-12"], Stage::client, |t, _client| {
    assert!(!t.device("binder_logs").exists());
});

case!(file_of_a_process, ["LOG-1", "LOG-11", "OPEN-2"], logged_pair, |t, (logs, server, client)| {
    client.call(&server, 0, 0, &empty());
    // Both logs must find it asleep.
    client.actor.expect_blocked();
    for port in [&server, &client] {
        let name = format!("proc/{}", t.global_pid(port));
        assert_eq!(logs.path(&name).metadata().expect("its file").permissions().mode() & 0o7777, 0o444);
        let mut there = only(logs.file_of(port));
        // Time passes between two reads.
        let mut wanted = logs.process(port);
        for process in [&mut there, &mut wanted] {
            process.threads.iter_mut().flat_map(|thread| &mut thread.stack).for_each(|entry| {
                entry.transaction.elapsed_ms = 0;
            });
        }
        assert_eq!(there, wanted);
    }
    server.answer(&client, &empty());
});

case!(file_of_a_process_with_two_devices, ["LOG-11", "OPEN-2"], logged_client, |t, (logs, client)| {
    let other = t.client_at(&t.device("hwbinder"), Rc::new(client.actor.thread()));
    let contexts = || {
        let mut contexts: Vec<_> = logs.file_of(&client).into_iter().map(|block| block.context).collect();
        contexts.sort();
        contexts
    };
    assert_eq!(contexts(), ["binder", "hwbinder"]);
    other.give_up();
    until("the other device is closed", || (contexts() == ["binder"]).then_some(()));
});

case!(file_of_a_process_that_is_gone, ["LOG-11", "OPEN-2", "REL-2"], logged_client, |t, (logs, client)| {
    let pid = t.global_pid(&client) as i32;
    let path = logs.path(&format!("proc/{pid}"));
    let mut open = File::open(&path).expect("its file");
    client.kill();
    until("the file goes", || (!path.exists()).then_some(()));
    // C has not taken it from its list then.
    let is_gone = || logs.state().processes.iter().all(|block| block.pid != pid);
    until("the process goes", || is_gone().then_some(()));
    let mut text = Vec::new();
    // A file that was opened before shows no process.
    if open.read_to_end(&mut text).is_ok() {
        assert_eq!(
            binder_logs::ProcessState::parse("proc", &text, Mode::Strict).expect("a log").processes,
            []
        );
    }
});

case!(every_instance_is_about_all, ["LOG-1"], logged_pair, |t, (logs, manager, client)| {
    tell(&client, 1, b"told");
    let other = t.directory("other");
    mount_at(&other, Some("stats=global")).expect("mount another");
    let here = logs.state();
    let there = State::read(&other.join("binder_logs/state"), Mode::Strict).expect("a log");
    let pids = [t.global_pid(&manager), t.global_pid(&client)];
    for state in [here, there] {
        let found = |pid: &u32| state.processes.iter().any(|process| process.pid == *pid as i32);
        assert!(pids.iter().all(found), "{state:?}");
    }
    let name = format!("binder_logs/proc/{}", pids[0]);
    assert!(!other.join(name).exists(), "it has no device of that instance");
});

case!(device_that_was_unlinked, ["LOG-2", "BFS-10"], logged_pair, |t, (logs, manager, client)| {
    std::fs::remove_file(t.device("binder")).expect("unlink");
    client.call(&manager, 0, 0, &empty());
    assert_eq!(only(logs.process(&client).threads).stack.len(), 1);
    assert_eq!(only(logs.file_of(&manager)).context, "binder");
    manager.answer(&client, &empty());
});

/// A process with a new device of this name open.
fn with_device_named(t: &Stage, name: &str) -> (Port, Port) {
    binder_sys::fs::add_device(t.root(), name).expect("add a device");
    let client = t.client();
    let other = t.client_at(&t.device(name), Rc::new(client.actor.thread()));
    (client, other)
}

case!(names_are_as_they_are, ["LOG-2", "LOG-12", "LOG-13"], Logs::of, |t, logs| {
    for name in ["é", "名前 🐧", r"a\b", r"\", "~"] {
        let (client, other) = with_device_named(t, name);
        assert_eq!(other.refused(&other.place(0, 0, &empty())), Return::DeadReply, "there is no manager");
        let pid = t.global_pid(&client) as i32;
        let blocks = logs.file_of(&client);
        assert!(blocks.iter().any(|block| block.context == name), "{name} in {blocks:?}");
        let blocks = logs.stats().processes;
        assert!(blocks.iter().any(|block| block.pid == pid && block.context == name), "{name} in {blocks:?}");
        let entries = logs.log().entries;
        assert!(
            entries.iter().any(|entry| entry.from.process == pid && entry.context == name),
            "{entries:?}"
        );
    }
});

// And no two names look alike.
case!(names_are_parts_of_lines, ["LOG-2"], Logs::of, |t, logs| {
    for (name, shown) in [("a\nb", r"a\x0ab"), (r"a\x0ab", r"a\x5cx0ab"), ("\u{85}", r"\xc2\x85")] {
        let (client, other) = with_device_named(t, name);
        let path = logs.path(&format!("proc/{}", t.global_pid(&client)));
        let text = std::fs::read_to_string(&path).expect("its log");
        let is_shown = text.lines().any(|line| line.strip_prefix("context ") == Some(shown));
        t.ours_alone("a name is a part of a line, and shows which one it is", is_shown);
        // Or others read of it in the logs of all.
        client.kill();
        drop(other);
        let is_gone = || !std::fs::read_to_string(logs.path("state")).expect("a log").contains(name);
        until("it is gone", || is_gone().then_some(()));
    }
});

case!(pids_are_global, ["LOG-2"], |t| {
    kernel_namespaces::need(CloneFlags::CLONE_NEWPID);
    let logs = Logs::of(t);
    let client = t.client();
    let helper = client.thread();
    [&client, &helper].into_iter().for_each(known);
    let [first, second] = [&client, &helper].map(|port| t.task_of(port));
    assert_ne!(first.process, client.actor.pid(), "the test has a pid namespace of its own");
    let process = logs.process(&client);
    assert_eq!(process.pid, first.process);
    let threads: BTreeSet<_> = process.threads.iter().map(|thread| thread.id).collect();
    assert_eq!(threads, BTreeSet::from([first.thread, second.thread]));
});

/// Checks that the hashed files differ from the others in the pointers of nodes alone.
#[track_caller]
pub(super) fn expect_hidden_pointers(t: &Stage, logs: &Logs<'_>) {
    let (manager, owner, holder) = (t.manager(), t.server(), t.client());
    introduce(&manager, &owner, FlatBinderObject::binder(0x1000, 0x2000), &holder);
    let plain = logs.node(&owner, 0x1000);
    assert_eq!(plain.cookie, Pointer::Value(0x2000));
    let state: State = logs.read("state_hashed");
    let hashed = state.processes.iter().flat_map(|process| &process.nodes).find(|node| node.id == plain.id);
    let hashed = hashed.expect("the same node").clone();
    assert!(![hashed.ptr, hashed.cookie].contains(&plain.ptr));
    assert!(![hashed.ptr, hashed.cookie].contains(&plain.cookie));
    let unhashed = binder_logs::Node { ptr: plain.ptr, cookie: plain.cookie, ..hashed };
    assert_eq!(unhashed, plain, "nothing else is different");
    // The manager's own is at nothing, which hides nothing.
    assert!(logs.node(&manager, 0).ptr.is_null());
    let _ = owner.answer_counts();
    // `transactions` lists nodes as long as oneway calls are queued at them.
    tell(&holder, 0, b"one");
    tell(&holder, 0, b"two");
    let transactions: binder_logs::Transactions = logs.read("transactions_hashed");
    let pid = t.global_pid(&manager) as i32;
    let block = transactions.processes.into_iter().find(|process| process.pid == pid).expect("the manager");
    assert_eq!(only(block.nodes).work.len(), 1);
}

case!(longer_than_a_page, ["LOG-2"], logged_pair, |t, (logs, manager, client)| {
    const COUNT: u64 = 300;
    let parcel = parcel_of((1..=COUNT).map(|number| FlatBinderObject::binder(number * 8, number)));
    client.start_call(0, 0, &parcel);
    // Its buffer is kept, and the handles with it.
    manager.serve(&client);
    let helpers: Vec<_> = (0..40).map(|_| client.thread()).collect();
    helpers.iter().for_each(known);
    let process = logs.process(&client);
    let ptrs: Vec<_> = process.nodes.iter().map(|node| node.ptr).collect();
    let wanted: Vec<_> = (1..=COUNT).map(|number| Pointer::Value(number * 8)).collect();
    assert_eq!(ptrs, wanted, "each once, in their order");
    let threads: BTreeSet<_> = process.threads.iter().map(|thread| thread.id).collect();
    assert_eq!((process.threads.len(), threads.len()), (helpers.len() + 1, helpers.len() + 1));
    let handles: Vec<_> =
        logs.process(&manager).references.iter().map(|reference| reference.handle).collect();
    assert_eq!(handles, (1..=COUNT as i64).collect::<Vec<_>>());
    let _ = client.answer_counts();
});

case!(read_in_pieces_while_processes_come_and_go, ["LOG-2", "REL-2"], |t| {
    on_all_cpus();
    let logs = Logs::of(t);
    let (manager, witness) = (t.manager(), t.client());
    for _ in 0..5 {
        let clients: Vec<_> = (0..4).map(|_| t.client()).collect();
        for client in &clients {
            client.start_blocking_call(0, 0, &bytes(b"waits"));
        }
        let mut text = Vec::new();
        let mut file = File::open(logs.path("state")).expect("open");
        let mut piece = [0; 97];
        for client in clients {
            let length = file.read(&mut piece).expect("read");
            text.extend_from_slice(&piece[..length]);
            client.kill();
        }
        file.read_to_end(&mut text).expect("read the rest");
        let state = State::parse("state", &text, Mode::Strict).unwrap_or_else(|why| panic!("{why}"));
        for port in [&manager, &witness] {
            let pid = t.global_pid(port) as i32;
            assert_eq!(state.processes.iter().filter(|process| process.pid == pid).count(), 1);
        }
        for _ in 0..4 {
            manager.wait_call();
            manager.reply(&empty());
        }
    }
});
