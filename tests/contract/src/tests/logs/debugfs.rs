// SPDX-License-Identifier: GPL-2.0
//! The log files in debugfs, for devices without binderfs: equal to those of a mount.

use super::files::{expect_hidden_pointers, expect_names_and_modes};
use super::*;
use binder_logs::{LogEntry, Process};

case!(debugfs_has_the_same_files, ["LOG-1"], Debugfs::of, |t, debugfs| {
    expect_names_and_modes(&Logs::at(t, debugfs.logs()));
});

/// A process without what changes from one look to the next.
fn at_any_time(mut process: Process) -> Process {
    for thread in &mut process.threads {
        thread.stack.iter_mut().for_each(|entry| entry.transaction.elapsed_ms = 0);
    }
    process
}

case!(debugfs_says_the_same, ["LOG-1", "LOG-2", "LOG-11"], |t| {
    let (mount, debugfs) = (Logs::of(t), Debugfs::of(t));
    let there = Logs::at(t, debugfs.logs());
    let (manager, owner, client) = (t.manager(), t.server(), t.client());
    let handle = introduce_counted(&manager, &owner, FlatBinderObject::binder(0x10, 0x20), &client);
    client.refused(&client.place(77, 1, &empty()));
    client.call(&owner, handle, 2, &bytes(b"question"));
    // Both logs must find it asleep.
    client.actor.expect_blocked();
    for port in [&manager, &owner, &client] {
        let wanted = at_any_time(mount.process(port));
        assert_eq!(at_any_time(there.process(port)), wanted);
        assert_eq!(at_any_time(only(there.file_of(port))), wanted);
        assert_eq!(there.transactions(port).map(at_any_time), mount.transactions(port).map(at_any_time));
        assert_eq!(there.stats_of(port), mount.stats_of(port));
    }
    let pid = t.global_pid(&client) as i32;
    let its = |entries: Vec<LogEntry>| -> Vec<_> {
        entries.into_iter().filter(|entry| entry.from.process == pid).collect()
    };
    let calls = its(there.log().entries);
    assert_eq!(calls.len(), 3, "that for its handle, one that failed, one more: {calls:?}");
    assert_eq!(calls, its(mount.log().entries));
    let failed = its(there.failed().entries);
    assert_eq!(failed.len(), 1);
    assert_eq!(failed, its(mount.failed().entries));
    owner.answer(&client, &empty());
});

case!(debugfs_hides_the_same, ["LOG-1", "LOG-10"], Debugfs::of, |t, debugfs| {
    expect_hidden_pointers(t, &Logs::at(t, debugfs.logs()));
});

case!(debugfs_has_processes_of_all_mounts, ["LOG-1", "LOG-11"], Debugfs::of, |t, debugfs| {
    let logs = Logs::at(t, debugfs.logs());
    // This mount has no logs of its own.
    let (manager, client) = (t.manager(), t.client());
    assert!(!t.device("binder_logs").exists());
    tell(&client, 1, b"told");
    let path = logs.path(&format!("proc/{}", t.global_pid(&client)));
    assert_eq!(only(logs.file_of(&client)), logs.process(&client));
    t.unmount();
    // The device is open although its mount is gone.
    assert_eq!(only(logs.file_of(&client)).context, "binder");
    client.kill();
    until("its file goes", || (!path.exists()).then_some(()));
    assert_eq!(only(logs.file_of(&manager)).pid, t.global_pid(&manager) as i32);
});
