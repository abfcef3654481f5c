// SPDX-License-Identifier: GPL-2.0
//! Log files while the objects in them come and go, and logs that are long: each line comes once.
//! The contents of their lines are the subject of the group `logs`.

use super::*;

/// The number of holders of the node with many holders.
const HOLDERS: usize = 36;

/// Mounts the stage's binderfs again, with its logs; returns their path.
pub(super) fn with_logs(t: &Stage) -> PathBuf {
    t.mount_with_logs();
    t.device("binder_logs")
}

/// The text of an open log.
fn text_of(mut log: File) -> String {
    let mut text = String::new();
    log.read_to_string(&mut text).expect("read a log");
    text
}

/// Reads an open log until it has no more than `head`: processes may still be ending.
#[track_caller]
pub(super) fn expect_nothing_but(head: &str, log: &mut File) {
    until(&format!("the log has {head:?} alone"), || {
        let mut text = String::new();
        let is_read = log.rewind().and_then(|()| log.read_to_string(&mut text)).is_ok();
        (!is_read || text == head).then_some(())
    });
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// The C driver ends a process some time after its last descriptor.
#[track_caller]
fn expect_gone(path: &Path) {
    until(&format!("{} goes", path.display()), || (!path.exists()).then_some(()));
}

/// The text of a log that names a process. C's "transactions" can end early, without an error: if
/// seq_file's first page is full at the head of a process without work, `print_binder_proc` takes
/// that head back, and with it the count that makes seq_file allocate a larger buffer.
fn text_with(t: &Stage, path: &Path, pid: u32) -> String {
    until(&format!("{} names {pid}", path.display()), || {
        let log = text(path);
        (t.driver != Driver::C || !lines_of(&log, pid).is_empty()).then_some(log)
    })
}

/// The lines of a process in a log, by its pid; all of its devices together.
fn lines_of(log: &str, pid: u32) -> Vec<&str> {
    let head = format!("proc {pid}");
    let mut is_its = false;
    log.lines()
        .filter(|line| {
            if !line.starts_with(' ') {
                is_its = *line == head || (is_its && line.starts_with("context "));
            }
            is_its
        })
        .collect()
}

/// The numbers behind a word, in all lines that contain a text.
fn numbers(lines: &[&str], text: &str, word: &str) -> Vec<u32> {
    let its = lines.iter().filter(|line| line.contains(text));
    let behind = its.filter_map(|line| line.split_once(word)?.1.split(' ').next());
    behind.map(|number| u32::from_str_radix(number, 16).expect("a number")).collect()
}

case!(debugfs_has_them_too, ["OPEN-2", "REL-2", "BFS-12"], Debugfs::of, |t, debugfs| {
    let port = t.client();
    let pid = t.global_pid(&port);
    let file = debugfs.logs().join(format!("proc/{pid}"));
    assert!(text(&file).starts_with(&format!("binder proc state:\nproc {pid}\ncontext binder\n")));
    assert!(!lines_of(&text(&debugfs.logs().join("state")), pid).is_empty());
    assert_eq!(file.metadata().expect("its file").mode() & 0o7777, 0o444);
    let mut open = File::open(&file).expect("its file");
    port.kill();
    expect_gone(&file);
    // The C driver's file cannot be read any more then.
    expect_nothing_but("", &mut open);
});

case!(opened_without_memory, ["BFS-12"], with_logs, |t, logs| {
    super::faults::sweep(t, |nth| {
        let (result, is_hit) = with_a_failure(nth, || File::open(logs.join("state"))).expect("fail-nth");
        let errno = result.err().map(|error| error.raw_os_error().map(Errno::from_raw));
        assert!(matches!(errno, None | Some(Some(Errno::ENOMEM | Errno::EFAULT))), "{errno:?}, place {nth}");
        is_hit
    });
    assert_ne!(std::fs::read_to_string(logs.join("state")).expect("state"), "");
});

case!(file_goes_with_the_last_device, ["OPEN-2", "REL-2"], with_logs, |t, logs| {
    let first = t.client();
    let second = t.client_at(&t.device("hwbinder"), Rc::new(first.actor.thread()));
    let file = logs.join(format!("proc/{}", t.global_pid(&first)));
    first.give_up();
    if !t.known_difference(Driver::C, "the file goes with the device that was opened first", file.exists()) {
        return;
    }
    assert!(text(&file).contains("context hwbinder\n"));
    second.give_up();
    expect_gone(&file);
});

case!(file_in_every_mount, ["OPEN-2", "BFS-14"], with_logs, |t, here| {
    let other = t.directory("other");
    mount_at(&other, Some("stats=global")).expect("mount another");
    let port = t.client();
    let name = format!("proc/{}", t.global_pid(&port));
    let there = other.join("binder_logs").join(&name);
    assert!(here.join(&name).exists() && !there.exists(), "it has no device of the other mount");
    let second = t.client_at(&other.join("binder"), Rc::new(port.actor.thread()));
    let why = "a pid has a file only where it has opened its first device";
    if !t.known_difference(Driver::C, why, there.exists()) {
        return;
    }
    assert_eq!(text(&there).matches("\ncontext binder\n").count(), 2, "all that the pid has");
    port.give_up();
    expect_gone(&here.join(&name));
    assert!(there.exists());
    second.give_up();
    expect_gone(&there);
});

/// All entries below a directory.
fn entries(path: &Path) -> Vec<PathBuf> {
    let below = path.read_dir().into_iter().flatten().map(|entry| entry.expect("an entry").path());
    below.flat_map(|path| [vec![path.clone()], entries(&path)].concat()).collect()
}

case!(inode_numbers_are_of_one_file, ["BFS-2"], with_logs, |t, logs| {
    let ports: Vec<_> = (0..5).map(|_| t.opened()).collect();
    let all = entries(t.root());
    let inos: BTreeSet<_> = all.iter().map(|path| path.metadata().expect("an entry").ino()).collect();
    assert_eq!(inos.len(), all.len(), "{all:?}");
    let last = inos.last().copied().expect("a number");
    for port in ports {
        port.close();
    }
    let again = t.opened();
    let file = logs.join(format!("proc/{}", t.global_pid(&again)));
    assert!(file.metadata().expect("its file").ino() > last, "no number comes again");
});

case!(unmounted_while_they_are_open, ["BFS-15", "BFS-12"], with_logs, |t, logs| {
    let port = t.client();
    let pid = t.global_pid(&port);
    let mut state = File::open(logs.join("state")).expect("open");
    let mut its = File::open(logs.join(format!("proc/{pid}"))).expect("open");
    let folder = File::open(logs.join("proc")).expect("open");
    t.unmount();
    let mut log = String::new();
    state.read_to_string(&mut log).expect("read");
    assert!(!lines_of(&log, pid).is_empty());
    log.clear();
    its.read_to_string(&mut log).expect("read");
    assert!(!lines_of(&log, pid).is_empty());
    let names = || entries(Path::new(&format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&folder))));
    assert_eq!(names().len(), 1);
    port.kill();
    until("its file goes", || names().is_empty().then_some(()));
});

/// A node that [`HOLDERS`] processes hold: its manager, its owner and the holders. The owner's pid
/// is its pointer, because the dead nodes of other tests may be in the log, too.
fn held_by_many(t: &Stage) -> (Port, Port, Vec<Port>) {
    let (manager, owner) = (t.manager(), t.server());
    let holders: Vec<_> = (0..HOLDERS).map(|_| t.client()).collect();
    let pointer = u64::from(t.global_pid(&owner));
    for holder in &holders {
        introduce(&manager, &owner, FlatBinderObject::binder(pointer, 0x71), holder);
    }
    let _ = owner.answer_counts();
    (manager, owner, holders)
}

/// The log once the node of that owner is among the dead ones, which come first.
fn state_with_the_dead(path: &Path, owner: u32) -> String {
    until("the node is dead", || {
        let state = text(path);
        let dead = state.split("\nproc ").next().is_some_and(|dead| dead.contains(&name_of(owner)));
        dead.then_some(state)
    })
}

/// The part of a line that names the node of that owner.
fn name_of(owner: u32) -> String {
    format!(" u{owner:016x} c0000000000000071 ")
}

/// The line of that owner's node, and the pids in it.
fn node_line(log: &str, owner: u32) -> (&str, BTreeSet<u32>) {
    let mut lines = log.lines().filter(|line| line.contains(&name_of(owner)));
    let line = lines.next().expect("a line for the node");
    assert_eq!(lines.next(), None, "one line for the node");
    let pids = line.split_once(" proc ").map_or("", |(_, pids)| pids);
    (line, pids.split_whitespace().map(|pid| pid.parse().expect("a pid")).collect())
}

/// Reads a log in small pieces, record by record, until it is among the holders of a node, and
/// kills these processes. They are gone when the rest is read.
fn read_while_killed(path: &Path, killed: &[&Port]) -> String {
    let mut log = Vec::new();
    let mut file = File::open(path).expect("open");
    // The title of the log has the word, too.
    let is_before_holders = |log: &[u8]| {
        let words: Vec<_> = log.rsplit(|byte| *byte == b' ').take(4).collect();
        matches!(words[..], [b"", b"proc", _, b"tr"])
    };
    while !is_before_holders(&log) {
        let mut byte = [0];
        assert_eq!(file.read(&mut byte).expect("read"), 1, "no holders: {}", String::from_utf8_lossy(&log));
        log.push(byte[0]);
    }
    for port in killed {
        port.kill();
    }
    file.read_to_end(&mut log).expect("read");
    String::from_utf8(log).expect("text")
}

case!(killed_in_the_middle_of_a_line, ["REL-2", "BFS-12"], with_logs, |t, logs| {
    let (_manager, owner, holders) = held_by_many(t);
    let pid = t.global_pid(&owner);
    let log = read_while_killed(&logs.join(format!("proc/{pid}")), &[&owner]);
    assert!(log.ends_with('\n'), "the line of the node ends");
    let state = logs.join("state");
    state_with_the_dead(&state, pid);
    let log = read_while_killed(&state, &holders.iter().collect::<Vec<_>>());
    // Only numbers follow in that line.
    let (_, pids) = node_line(&log, pid);
    assert!(pids.len() <= holders.len());
});

case!(holders_of_a_node_that_many_hold, ["NODE-12", "BFS-12"], with_logs, |t, logs| {
    let (_manager, owner, holders) = held_by_many(t);
    let wanted: BTreeSet<_> = holders.iter().map(|holder| t.global_pid(holder)).collect();
    let pid = t.global_pid(&owner);
    let state = text(&logs.join("state"));
    let (line, pids) = node_line(&state, pid);
    assert!(line.contains(&format!(" iw {HOLDERS} ")), "{line}");
    assert_eq!(pids, wanted);
    owner.kill();
    let state = state_with_the_dead(&logs.join("state"), pid);
    assert_eq!(node_line(&state, pid).1, wanted, "a dead node is listed once");
});

case!(long_queues, ["TXN-22", "BFS-12"], with_logs, |t, logs| {
    // More than our driver makes room for at first.
    const COUNT: u32 = 140;
    let (manager, client) = (t.manager(), t.client());
    for code in 0..COUNT {
        client.tell(0, code, &bytes(b"told"));
    }
    let callers: Vec<_> = (0..20).map(|_| t.client()).collect();
    for (code, caller) in (COUNT..).zip(&callers) {
        caller.start_blocking_call(0, code, &bytes(b"waits"));
    }
    for name in ["state", "transactions"] {
        let log = text_with(t, &logs.join(name), t.global_pid(&manager));
        let lines = lines_of(&log, t.global_pid(&manager));
        let waiting = numbers(&lines, "    pending async transaction", " code ");
        assert_eq!(waiting, (1..COUNT).collect::<Vec<_>>(), "each once, in its order");
        let queued = numbers(&lines, "  pending transaction", " code ");
        assert_eq!(queued, [0].into_iter().chain(COUNT..COUNT + 20).collect::<Vec<_>>());
        let buffers = numbers(&lines, "  buffer ", ": ");
        assert_eq!(buffers.len(), COUNT as usize + 20);
        assert!(buffers.is_sorted(), "{buffers:?}");
    }
    for caller in &callers {
        caller.actor.kill();
    }
});

case!(what_is_read_is_of_when_it_was_begun, ["OPEN-2", "TXN-22", "BFS-12"], with_logs, |t, logs| {
    let (manager, client) = (t.manager(), t.client());
    let pid = t.global_pid(&manager);
    let codes = |text: &str| {
        let lines = lines_of(text, pid);
        ["  pending transaction", "    pending async transaction"].map(|kind| numbers(&lines, kind, " code "))
    };
    client.tell(0, 1, &bytes(b"told"));
    client.tell(0, 2, &bytes(b"told"));
    let mut log = File::open(logs.join("transactions")).expect("open");
    let mut piece = [0; 8];
    log.read_exact(&mut piece).expect("read");
    client.tell(0, 3, &bytes(b"told"));
    manager.free(&manager.wait_call());
    let mut rest = String::new();
    log.read_to_string(&mut rest).expect("read");
    assert_eq!(codes(&rest), [vec![1], vec![2]], "{rest}");
    log.rewind().expect("go back");
    assert_eq!(codes(&text_of(log)), [vec![2], vec![3]]);
});

case!(queue_that_is_cut, ["TXN-22", "BFS-12"], with_logs, |t, logs| {
    const COUNT: usize = 1024;
    let (manager, client) = (t.manager(), t.client());
    // Of these one waits for a thread, and one too many for the others.
    for code in 0..COUNT as u32 + 2 {
        client.tell(0, code, &empty());
    }
    let log = text(&logs.join(format!("proc/{}", t.global_pid(&manager))));
    let lines = lines_of(&log, t.global_pid(&manager));
    let waiting = numbers(&lines, "    pending async transaction", " code ").len();
    if t.known_difference(Driver::C, "all of a queue is listed, under one lock", waiting == COUNT) {
        assert_eq!(lines.iter().filter(|line| **line == "    more than 1024").count(), 1);
    }
});

case!(deep_stacks, ["TXN-11", "BFS-12"], with_logs, |t, logs| {
    // A thread has more frames than our driver copies under one lock.
    const DEPTH: u32 = 70;
    let (_manager, a, b, on_b, on_a) = couple(t);
    for depth in 0..DEPTH {
        let (caller, handle, server) = if depth % 2 == 0 { (&a, on_b, &b) } else { (&b, on_a, &a) };
        caller.call(server, handle, depth, &empty());
    }
    let log = text(&logs.join("transactions"));
    for (port, is_outgoing) in [(&a, 0), (&b, 1)] {
        let lines = lines_of(&log, t.global_pid(port));
        let codes = |kind: &str| numbers(&lines, kind, " code ");
        let wanted = |parity| (0..DEPTH).rev().filter(|depth| depth % 2 == parity).collect::<Vec<_>>();
        assert_eq!(codes("outgoing transaction"), wanted(is_outgoing), "the innermost first");
        assert_eq!(codes("incoming transaction"), wanted(1 - is_outgoing));
    }
    for depth in (0..DEPTH).rev() {
        let (caller, server) = if depth % 2 == 0 { (&a, &b) } else { (&b, &a) };
        server.answer(caller, &empty());
    }
});
