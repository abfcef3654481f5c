// SPDX-License-Identifier: GPL-2.0
//! Messages in the kernel's log that user space causes: a few, only if asked for, never a flood.

use super::context::manager_with_a_known_node;
use super::*;
use std::io::SeekFrom;
use std::os::unix::fs::OpenOptionsExt;

/// The mask's default: user errors, failed and dead transactions.
const DEFAULT: u32 = 7;

/// In this time a kernel prints no more than ten messages for one limit.
pub(super) const WINDOW: Duration = Duration::from_secs(5);

/// The mask of messages, set back at the end of the test.
fn mask_of(driver: Driver) -> Limit {
    Limit::of(driver.parameter("debug_mask"))
}

/// The kernel's log from now on.
pub(super) struct Log(File);

impl Log {
    pub(super) fn open() -> Self {
        let mut options = std::fs::OpenOptions::new();
        let mut file =
            options.read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg").expect("open /dev/kmsg");
        file.seek(SeekFrom::End(0)).expect("go to the end of the log");
        Self(file)
    }

    /// The next record that is there.
    pub(super) fn record(&mut self) -> Option<String> {
        let mut record = [0; 8192];
        loop {
            match self.0.read(&mut record) {
                Ok(length) => return Some(String::from_utf8_lossy(&record[..length]).into_owned()),
                // Records that were overwritten before we came.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => return None,
                Err(error) => panic!("/dev/kmsg: {error}"),
            }
        }
    }

    /// Returns the lines that a Binder driver has logged since the last call.
    pub(super) fn new_lines(&mut self) -> Vec<String> {
        let mut found = Vec::new();
        while let Some(record) = self.record() {
            let text = record.split_once(';').map_or("", |(_, text)| text);
            let line = text.lines().next().unwrap_or("");
            if line.contains("binder") && !line.contains("suppressed") {
                found.push(line.to_string());
            }
        }
        found
    }

    /// The name under which the kernel counts messages that were cut: it does once the limit ends.
    fn suppressed_by(&mut self, what: impl Fn()) -> String {
        until("the messages are counted", || {
            what();
            std::thread::sleep(Duration::from_millis(50));
            let mut records = std::iter::from_fn(|| self.record());
            let line = records.find(|record| record.contains(" callbacks suppressed"))?;
            let (_, text) = line.split_once(';')?;
            Some(text.split_once(':')?.0.to_string())
        })
    }

    /// Repeats something until a message comes: others may have used up the limit a moment ago.
    fn lines_of(&mut self, what: impl FnMut()) -> Vec<String> {
        self.lines_until(what, |_| true)
    }

    /// Repeats it until a certain line comes. The C driver prints several messages about one error,
    /// and limits each kind by itself: one kind may have room while another has none.
    pub fn lines_until(&mut self, mut what: impl FnMut(), is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let deadline = Instant::now() + 2 * WINDOW;
        let mut lines = Vec::new();
        loop {
            what();
            lines.append(&mut self.new_lines());
            if lines.iter().any(|line| is_wanted(line)) || Instant::now() > deadline {
                return lines;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// Checks that something is logged with a bit of the mask and not without any. Later messages show
/// that the rate limit was not the cause.
fn logged_with(t: &Stage, bit: u32, what: impl Fn()) {
    let (mask, mut log) = (mask_of(t.driver), Log::open());
    mask.change(1 << bit);
    assert_ne!(log.lines_of(&what), [""; 0], "nothing is logged");
    mask.change(0);
    what();
    assert_eq!(log.new_lines(), [""; 0], "logged without its bit of the mask");
    mask.change(1 << bit);
    assert_ne!(log.lines_of(&what), [""; 0], "nothing is logged any more");
}

/// Frees a buffer that is none.
fn misuse(port: &Port) {
    port.send(|c| c.free_buffer(0xdead_0000));
}

case!(mask_is_a_parameter, ["PARAM-3"], |t| {
    let mask = mask_of(t.driver);
    let mode = std::fs::metadata(&mask.file).expect("the parameter").permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    assert_eq!(mask.before.trim(), DEFAULT.to_string());
    mask.change(0);
    assert_eq!(mask.get(), "0");
});

case!(misuse_is_logged_if_asked_for, ["PARAM-3", "WR-5"], Stage::client, |t, client| {
    logged_with(t, 0, || misuse(&client));
    logged_with(t, 0, || client.send(|c| c.release(super::NO_HANDLE)));
});

case!(failed_calls_are_logged_if_asked_for, ["PARAM-3"], pair, |t, (_manager, client)| {
    logged_with(t, 1, || {
        client.refused(&client.place(super::NO_HANDLE, 0, &empty()));
    });
});

case!(lost_calls_are_logged_if_asked_for, ["PARAM-3"], pair, |t, (manager, client)| {
    logged_with(t, 2, || {
        client.start_blocking_call(0, 0, &empty());
        // The thread takes the call and leaves.
        manager.wait_call();
        assert_eq!(manager.ioctl(binder_sys::ioctl::BINDER_THREAD_EXIT, 0i32), Ok(0));
        client.wait_refusal();
        manager.enter_looper();
    });
});

// Devices that are opened, nodes that die, death notifications, and threads of the pool.
case!(lives_are_logged_if_asked_for, ["PARAM-3"], pair, |t, (manager, client)| {
    let logged = |bit: u32, what: &dyn Fn()| {
        let (mask, mut log) = (mask_of(t.driver), Log::open());
        mask.change(1 << bit);
        assert_ne!(log.lines_of(what), [""; 0], "nothing is logged with bit {bit}");
    };
    logged(3, &|| t.opened().close());
    logged(8, &|| assert_eq!(client.looper().ioctl(BINDER_THREAD_EXIT, 0i32), Ok(0)));
    let dies = || {
        let owner = t.client();
        let handle = introduce(&manager, &owner, FlatBinderObject::binder(1, 0), &client);
        client.send(|c| c.request_death(handle, 1));
        owner.kill();
        client.wait_for(Return::DeadBinder(1));
    };
    logged(5, &dies);
    logged(4, &dies);
});

// The sender of a oneway call reads nothing of its loss.
case!(lost_oneway_calls_are_told_once, ["PARAM-3"], |t| {
    let (mask, mut log) = (mask_of(t.driver), Log::open());
    mask.change(1 << 2);
    let client = t.client();
    let mut lost = 0;
    let lose = || {
        let manager = t.manager();
        client.tell(0, 0, &empty());
        manager.kill();
        lost += 1;
    };
    let mut lines = log.lines_until(lose, |_| true);
    std::thread::sleep(Duration::from_millis(200));
    lines.append(&mut log.new_lines());
    assert!((1..=lost).contains(&lines.len()), "{lost} calls: {lines:?}");
});

case!(failed_ioctls_are_logged, ["IOCTL-2"], |t| {
    let (port, mut log) = (t.server(), Log::open());
    let lines = log.lines_of(|| assert_eq!(port.ioctl_fault(BINDER_GET_NODE_DEBUG_INFO), Err(Errno::EFAULT)));
    assert_ne!(lines, [""; 0]);
    // An interrupted wait is none.
    let mut log = Log::open();
    port.park();
    port.interrupt_wait();
    assert_eq!(log.new_lines(), [""; 0]);
});

case!(success_is_silent, ["PARAM-3", "IOCTL-2", "DN-2", "NODE-9"], |t| {
    let (manager, owner, client) = (t.manager(), t.server(), t.server());
    let handle = introduce_counted(&manager, &owner, FlatBinderObject::binder(0x10, 0), &client);
    let mut log = Log::open();
    for _ in 0..20 {
        client.round_trip(0, &manager, &empty(), &empty());
    }
    client.send(|c| c.acquire(handle).increfs(handle).release(handle).decrefs(handle));
    client.send(|c| c.request_death(handle, 1).clear_death(handle, 1).request_death(handle, 2));
    client.wait_for(Return::ClearDeathNotificationDone(1));
    owner.close();
    owner.unmap();
    client.wait_for(Return::DeadBinder(2));
    client.send(|c| c.dead_binder_done(2).release(handle));
    assert_eq!(log.new_lines(), [""; 0]);
    // Silent though it may speak.
    assert_ne!(log.lines_of(|| misuse(&client)), [""; 0]);
});

case!(lesson_r24_a_flood_is_cut, ["PARAM-3"], |t| {
    let (client, mut log) = (t.client(), Log::open());
    let fail = || {
        client.send(|c| c.free_buffer(0xdead_0000).increfs(99).dead_binder_done(7).clear_death(99, 1));
        assert_eq!(client.ioctl_fault(BINDER_GET_NODE_DEBUG_INFO), Err(Errno::EFAULT));
    };
    assert_ne!(log.lines_of(fail), [""; 0]);
    // mount(2) has no log but the kernel's.
    let refused = || mount(Some("x"), t.root(), Some("binder"), MsFlags::empty(), Some("max=10000000"));
    let began = Instant::now();
    for _ in 0..200 {
        fail();
        assert_eq!(refused(), Err(Errno::EINVAL));
    }
    let windows = 2 + began.elapsed().as_secs() as usize / WINDOW.as_secs() as usize;
    let lines = log.new_lines().len();
    let why = "C does not limit messages about failed ioctls and mounts, and upstream none (lesson R24)";
    if t.ours_alone(why, lines <= 10 * windows) {
        assert!(log.suppressed_by(|| misuse(&client)).starts_with("binder"), "a name of the driver");
    }
});

case!(mask_of_spaces_is_a_parameter, ["PARAM-4"], |t| {
    let mask = Limit::of(t.driver.parameter("alloc_debug_mask"));
    let mode = std::fs::metadata(&mask.file).expect("the parameter").permissions().mode();
    assert_eq!((mode & 0o777, mask.get().as_str()), (0o644, "1"));
    mask.change(0);
    assert_eq!(mask.get(), "0");
});

/// A call that has no room in the manager's space.
fn too_large(client: &Port) {
    let data = client.place(0, 0, &empty());
    client.refused(&BinderTransactionData { data_size: 8 << 20, ..data });
}

case!(lack_of_space_is_logged_if_asked_for, ["PARAM-4", "ALLOC-3"], pair, |t, (_manager, client)| {
    let (general, spaces, mut log) =
        (mask_of(t.driver), Limit::of(t.driver.parameter("alloc_debug_mask")), Log::open());
    general.change(0);
    spaces.change(1);
    assert_ne!(log.lines_of(|| too_large(&client)), [""; 0], "nothing is logged");
    spaces.change(0);
    too_large(&client);
    assert_eq!(log.new_lines(), [""; 0], "logged without its bit of the mask");
    spaces.change(1);
    assert_ne!(log.lines_of(|| too_large(&client)), [""; 0], "nothing is logged any more");
});

/// Checks that the log of a process's request names its thread and has all of these words.
#[track_caller]
fn explained(t: &Stage, log: &mut Log, port: &Port, what: impl Fn(), words: &[&str]) {
    let pid = t.global_pid(port);
    let of_thread = format!("{pid}:{pid} ");
    let names_thread = |line: &str| line.contains(&of_thread);
    let lines = log.lines_until(what, names_thread);
    assert!(lines.iter().any(|line| names_thread(line)), "{lines:?}");
    let has_all = |line: &String| words.iter().all(|word| line.contains(word));
    t.ours_alone(
        "messages say in words what is wrong and what to do",
        lines.iter().any(has_all) || {
            eprintln!("{words:?}: {lines:#?}");
            false
        },
    );
}

/// Adds a command.
type Build = dyn Fn(&mut Commands) -> &mut Commands;

case!(refused_commands_are_explained, ["PARAM-3", "WR-5"], |t| {
    let (_manager, port, mut log) = (t.manager(), t.client(), Log::open());
    let wrong = |build: &Build| {
        // Behind 4 bytes of another command.
        let mut commands = Commands::new();
        commands.command(codes::BC_EXIT_LOOPER, &[0u8; 0]);
        build(&mut commands);
        port.try_write(&commands);
    };
    const NONE: u32 = super::NO_HANDLE;
    type Row<'a> = (&'a Build, &'a [&'a str]);
    let rows: [Row; 9] = [
        (&|c| c.free_buffer(0xdead_0000), &["BC_FREE_BUFFER at offset 4", "0xdead0000"]),
        (&|c| c.acquire(NONE), &["BC_ACQUIRE at offset 4", "4711"]),
        (&|c| c.decrefs(NONE), &["BC_DECREFS at offset 4", "4711"]),
        (&|c| c.request_death(NONE, 7), &["BC_REQUEST_DEATH_NOTIFICATION at offset 4", "4711"]),
        (&|c| c.clear_death(NONE, 7), &["BC_CLEAR_DEATH_NOTIFICATION at offset 4", "0x7"]),
        (&|c| c.dead_binder_done(9), &["BC_DEAD_BINDER_DONE at offset 4", "0x9"]),
        (
            &|c| c.command(codes::BC_REGISTER_LOOPER, &[0u8; 0]),
            &["BC_REGISTER_LOOPER at offset 4", "BC_ENTER_LOOPER"],
        ),
        (&|c| c.command(0x1234, &[0u8; 0]), &["write buffer at offset 4", "0x1234"]),
        (&|c| c.command(codes::BC_ACQUIRE, &[0u8; 2]), &["write buffer at offset 4", "ends within"]),
    ];
    // Others read on behind the end of the write buffer (lesson C17).
    let count = if t.driver == Driver::Rust { rows.len() } else { rows.len() - 1 };
    for (build, words) in &rows[..count] {
        explained(t, &mut log, &port, || wrong(build), words);
    }
});

case!(refused_calls_are_explained, ["PARAM-3", "TXN-2"], |t| {
    let (manager, client, mut log) = (t.manager(), t.client(), Log::open());
    let empty = client.place(super::NO_HANDLE, 5, &empty());
    // Behind 4 bytes of another command.
    let refuse = |data: &BinderTransactionData| {
        client.start(&stream(|c| c.exit_looper().transaction(data)));
        client.wait_refusal();
    };
    let unknown =
        ["BC_TRANSACTION at offset 4", "BR_FAILED_REPLY, EINVAL", "strong handle", "handle 4711 code 5"];
    explained(t, &mut log, &client, || refuse(&empty), &unknown);
    // The second object is none.
    let node = FlatBinderObject::binder(0x10, 0);
    let bytes = [node.as_bytes(), &[0; 24]].concat();
    let offsets = client.arena.place([0u64, 24].as_bytes());
    let placed = client.place(0, 5, &crate::port::bytes(&bytes));
    let wrong = BinderTransactionData { offsets, offsets_size: 16, ..placed };
    explained(t, &mut log, &client, || refuse(&wrong), &["object 1: no whole object"]);
    let pid = t.global_pid(&manager);
    let receiver = format!("to {pid}:0");
    let space = ["ENOSPC", "bytes are left for oneway calls", receiver.as_str(), "size 8388608-0-0"];
    explained(t, &mut log, &client, || too_large(&client), &space);
    let reply = || {
        manager.start(Commands::new().reply(&manager.place(0, 0, &crate::port::empty())));
        manager.wait_refusal();
    };
    explained(t, &mut log, &manager, reply, &["BC_REPLY at offset 0", "EPROTO", "serves no call"]);
});

case!(refused_ioctls_are_explained, ["IOCTL-2"], |t| {
    let (_manager, port, mut log) = (t.manager(), t.client(), Log::open());
    let set = || assert_eq!(port.ioctl(BINDER_SET_CONTEXT_MGR, 0i32), Err(Errno::EBUSY));
    explained(t, &mut log, &port, set, &["BINDER_SET_CONTEXT_MGR", "EBUSY (-16)"]);
    let unknown = || _ = port.ioctl(0x40046263, 0u32);
    explained(t, &mut log, &port, unknown, &["unknown ioctl", "0x40046263", "EINVAL"]);
});

fn ask(port: &Port) {
    port.start_ioctl(BINDER_VERSION, BinderVersion::default());
}

fn start_misuse(port: &Port) {
    port.start_raw(WriteReadOp::of(&stream(|c| c.free_buffer(0xdead_0000))));
}

fn stops_on_user_error(t: &Stage) -> Option<Limit> {
    t.known_difference(Driver::Upstream, "stop_on_user_error is not offered", !t.upstream())
        .then(|| Limit::of(t.driver.parameter("stop_on_user_error")))
}

case!(user_errors_stop_everybody, ["PARAM-5"], |t| {
    let (port, other) = (t.client(), t.client());
    let Some(stop) = stops_on_user_error(t) else { return };
    let mode = std::fs::metadata(&stop.file).expect("the parameter").permissions().mode();
    assert_eq!((mode & 0o777, stop.get().as_str()), (0o644, "0"));
    misuse(&port);
    assert_eq!(stop.get(), "0");
    stop.change(1);
    ask(&other);
    other.actor.finish();
    let mut log = Log::open();
    // The thread with the error stops at the end of its ioctl, and the next ones before theirs.
    start_misuse(&port);
    port.actor.expect_blocked();
    assert_eq!(stop.get(), "2");
    let is_said = log.new_lines().iter().any(|line| line.contains("stopped on an error of user space"));
    t.ours_alone("a message says what has stopped, and how to go on", is_said);
    ask(&other);
    other.actor.expect_blocked();
    stop.change(1);
    assert_eq!(port.finish_raw().errno, Errno::from_raw(0));
    assert!(other.finish_ioctl::<BinderVersion>().is_ok());
    // And again.
    start_misuse(&port);
    port.actor.expect_blocked();
    stop.change(0);
    assert_eq!(port.finish_raw().errno, Errno::from_raw(0));
    misuse(&port);
    assert_eq!(stop.get(), "0");
});

case!(stopped_callers_heed_signals, ["PARAM-5"], |t| {
    let (port, other) = (t.client(), t.client());
    let Some(stop) = stops_on_user_error(t) else { return };
    stop.change(1);
    start_misuse(&port);
    port.actor.expect_blocked();
    ask(&other);
    other.actor.expect_blocked();
    other.actor.interrupt();
    assert_eq!(other.finish_ioctl::<BinderVersion>(), Err(Errno::EINTR));
    // Commands that were carried out stay so.
    port.actor.interrupt();
    let outcome = port.finish_raw();
    assert_eq!((outcome.errno, outcome.write_consumed), (Errno::from_raw(0), 12));
    assert_eq!(stop.get(), "2");
});

case!(what_is_no_user_error_stops_nobody, ["PARAM-5"], pair, |t, (manager, client)| {
    let Some(stop) = stops_on_user_error(t) else { return };
    stop.change(1);
    too_large(&client);
    manager.kill();
    client.refused(&client.place(0, 0, &empty()));
    assert_eq!(stop.get(), "1");
    // Also an error in the middle of a call.
    client.start(Commands::new().transaction(&client.place(super::NO_HANDLE, 0, &empty())));
    client.actor.expect_blocked();
    assert_eq!(stop.get(), "2");
    stop.change(0);
    assert_eq!(client.wait_refusal(), Return::FailedReply);
});

/// The port has begun something that is an error of user space, and stops there.
#[track_caller]
fn expect_stop(stop: &Limit, port: &Port) {
    port.actor.expect_blocked();
    assert_eq!(stop.get(), "2");
    stop.change(0);
}

case!(reader_outside_of_the_pool_stops_everybody, ["PARAM-5", "LOOP-6"], Stage::client, |t, port| {
    assert_eq!(port.drain(), []);
    let Some(stop) = stops_on_user_error(t) else { return };
    port.nonblocking(true);
    stop.change(1);
    port.start_read();
    expect_stop(&stop, &port);
    assert_eq!(port.finish_raw().errno, Errno::EAGAIN);
    port.enter_looper();
    stop.change(1);
    assert_eq!(port.raw(WriteReadOp { room: ROOM, ..Default::default() }).errno, Errno::EAGAIN);
    assert_eq!(stop.get(), "1");
    stop.change(0);
});

case!(answer_that_nobody_waits_for_stops_everybody, ["PARAM-5", "NODE-8"], |t| {
    let (manager, owner, holder) = (t.manager(), t.server(), t.client());
    introduce_counted(&manager, &owner, FlatBinderObject::binder(0x10, 0x20), &holder);
    let Some(stop) = stops_on_user_error(t) else { return };
    for code in [codes::BC_ACQUIRE_DONE, codes::BC_INCREFS_DONE] {
        stop.change(1);
        owner.start_raw(WriteReadOp::of(&stream(|c| c.command(code, &[0x10u64, 0x20]))));
        expect_stop(&stop, &owner);
        assert_eq!(owner.finish_raw().errno, Errno::from_raw(0));
    }
});

case!(wrong_question_about_a_handle_stops_everybody, ["PARAM-5"], Stage::manager, |t, manager| {
    let Some(stop) = stops_on_user_error(t) else { return };
    let ask = |question: BinderNodeInfoForRef| {
        stop.change(1);
        manager.start_ioctl(BINDER_GET_NODE_INFO_FOR_REF, question);
    };
    ask(BinderNodeInfoForRef { handle: 1, strong_count: 1, ..Default::default() });
    expect_stop(&stop, &manager);
    assert_eq!(manager.finish_ioctl::<BinderNodeInfoForRef>(), Err(Errno::EINVAL));
    // There is no such handle, and asking is no error.
    ask(BinderNodeInfoForRef { handle: super::NO_HANDLE, ..Default::default() });
    assert_eq!(manager.finish_ioctl::<BinderNodeInfoForRef>(), Err(Errno::EINVAL));
    assert_eq!(stop.get(), "1");
    stop.change(0);
});

case!(malformed_commands_stop_nobody, ["PARAM-5", "WR-3"], Stage::client, |t, port| {
    let Some(stop) = stops_on_user_error(t) else { return };
    stop.change(1);
    assert_eq!(port.try_write(&stream(|c| c.command(0x1234, &[0u8; 0]))).errno, Errno::EINVAL);
    let (write_buffer, write_size) = (Some(BAD_ADDRESS), Some(4));
    let outcome = port.raw(WriteReadOp { write_buffer, write_size, ..Default::default() });
    assert_eq!((outcome.errno, stop.get().as_str()), (Errno::EFAULT, "1"));
    stop.change(0);
});

case!(answers_of_a_node_that_becomes_manager_stop_nobody, ["PARAM-5", "CTX-2", "NODE-8"], |t| {
    let next = manager_with_a_known_node(t);
    let Some(stop) = stops_on_user_error(t) else { return };
    stop.change(1);
    let commands =
        stream(|c| c.command(codes::BC_INCREFS_DONE, &[0u64, 5]).command(codes::BC_ACQUIRE_DONE, &[0u64, 5]));
    next.write(&commands);
    assert_eq!(stop.get(), "1");
    stop.change(0);
});
