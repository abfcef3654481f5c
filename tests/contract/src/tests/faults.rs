// SPDX-License-Identifier: GPL-2.0
//! Memory and user space that fail, at each place of each system call in turn.
//!
//! A test repeats one operation. Each time another place in it fails, until an attempt goes through
//! without a failure. Each attempt must end with an error that the contract has for the operation,
//! nobody may wait for ever, and a second attempt must work. Leaks show when the driver is
//! unloaded. Needs a kernel with fault injection (`um`).

use super::fds::Line;
use super::*;
use crate::sg::array_bytes;

case!(small_call, ["TXN-1", "TXN-19"], |t| sweep_call(t, |_| bytes(b"small"), TransactionFlags::empty()));
case!(large_call, ["TXN-1", "ALLOC-4"], |t| sweep_call(
    t,
    |_| bytes(&[7; 20_000]),
    TransactionFlags::empty()
));
case!(call_with_a_node, ["TXN-1", "OBJ-10"], |t| sweep_call(t, |_| node(0x2000), TransactionFlags::empty()));
case!(oneway_call, ["TXN-1", "TXN-16"], |t| sweep_call(t, |_| bytes(b"one way"), TransactionFlags::ONE_WAY));
case!(reply, ["TXN-25"], |t| sweep_reply(t, || bytes(b"answer")));
case!(reply_with_a_node, ["TXN-25", "OBJ-10"], |t| sweep_reply(t, || node(0x3000)));

/// More places than any operation has.
const MANY: u32 = 400;

/// Makes each place of an operation fail. The closure takes the number of the place, and returns
/// whether the operation came that far.
pub(super) fn sweep(t: &Stage, attempt: impl FnMut(u32) -> bool) {
    can_fail(t);
    each_place(attempt);
}

/// Prepares the kernel for it, if it can make things fail.
pub(super) fn can_fail(t: &Stage) {
    t.needs("CONFIG_FAULT_INJECTION", Path::new("/proc/self/fail-nth").exists());
    let debugfs = t.directory("debugfs");
    mount(Some("debugfs"), &debugfs, Some("debugfs"), MsFlags::empty(), None::<&str>).expect("mount debugfs");
    spare_nothing(&debugfs).expect("let all allocations fail");
}

/// The same in a kernel that is prepared.
pub(super) fn each_place(mut attempt: impl FnMut(u32) -> bool) {
    let hits = (1..MANY).take_while(|nth| attempt(*nth)).count();
    assert!(hits > 0, "nothing ever failed");
    assert!(hits < MANY as usize - 1, "the operation has no end");
}

/// Makes allocations fail that could wait for memory, which the kernel spares by default.
fn spare_nothing(debugfs: &Path) -> std::io::Result<()> {
    for kind in ["failslab", "fail_page_alloc"] {
        let settings = debugfs.join(kind);
        std::fs::write(settings.join("ignore-gfp-wait"), "N")?;
        std::fs::write(settings.join("verbose"), "0")?;
    }
    std::fs::write(debugfs.join("fail_page_alloc/ignore-gfp-highmem"), "N")?;
    std::fs::write(debugfs.join("fail_page_alloc/min-order"), "0")
}

/// A parcel that names a node of the sender.
fn node(ptr: u64) -> Parcel {
    object(FlatBinderObject::binder(ptr, 0))
}

/// Executes an operation one place of which fails.
pub(super) fn faulty(port: &Port, nth: u32, op: Op) -> (Answer, bool) {
    match port.actor.order(Op::FailNth { nth, op: Box::new(op) }) {
        Answer::Injected { answer, fired } => (*answer, fired),
        other => panic!("{other:?}"),
    }
}

/// An operation whose answer is a number: that number, and whether a place failed.
fn faulty_number(port: &Port, nth: u32, op: Op) -> (nix::Result<u64>, bool) {
    match faulty(port, nth, op) {
        (Answer::Number(number), is_hit) => (Ok(number), is_hit),
        (Answer::Argument(_), is_hit) => (Ok(0), is_hit),
        (Answer::Failed(errno), is_hit) => (Err(Errno::from_raw(errno)), is_hit),
        (other, _) => panic!("{other:?}"),
    }
}

/// Writes commands and reads at once, with one place failing. Returns the errno, and whether a
/// place failed. The test fails on an errno that no rule has.
fn faulty_io(port: &Port, nth: u32, commands: &Commands, room: usize) -> (Errno, bool) {
    let args = WriteReadOp { room, ..WriteReadOp::of(commands) };
    port.may_complete(commands);
    let (answer, is_hit) = faulty(port, nth, Op::WriteRead { slot: port.slot, args });
    let Answer::WriteRead { errno, .. } = answer else { panic!("{answer:?}") };
    let errno = Errno::from_raw(errno);
    let is_known =
        matches!(errno as i32, 0) || matches!(errno, Errno::EFAULT | Errno::ENOMEM | Errno::EAGAIN);
    assert!(is_known, "{errno:?} with place {nth} failing");
    (errno, is_hit)
}

/// Reads what there is, with one place failing, and does not wait, since a failed delivery may
/// leave nothing to read. Returns whether a place failed.
fn faulty_read(port: &Port, nth: u32) -> bool {
    port.nonblocking(true);
    let (_, is_hit) = faulty_io(port, nth, &Commands::new(), ROOM);
    port.nonblocking(false);
    is_hit
}

/// The cast of a test: a server that is context manager, and a client.
struct Cast {
    server: Port,
    client: Port,
}

impl Cast {
    /// Ends all calls between the two, and checks that calls work.
    fn recover(&self, nth: u32) {
        // A call that was sent is received, so that nobody mistakes it for one that follows.
        while !self.server.drain().is_empty() {}
        for port in [&self.server, &self.client] {
            port.ioctl(BINDER_THREAD_EXIT, 0i32).expect("leave");
            while !port.drain().is_empty() {}
        }
        self.server.enter_looper();
        let data = self.client.round_trip(0, &self.server, &bytes(&nth.to_ne_bytes()), &bytes(b"well"));
        assert_eq!(data, b"well", "after place {nth} failed");
        finish(&self.server, &self.client, &self.client.call(&self.server, 0, 0, &node(0x1000)));
    }

    fn dismiss(self) {
        for port in [self.client, self.server] {
            port.ioctl(BINDER_THREAD_EXIT, 0i32).expect("leave");
            port.actor.start(Op::EndThread);
        }
    }
}

/// New threads for each place: what happens the first time needs most memory.
fn sweep_cast(t: &Stage, attempt: impl FnMut(&Cast, u32) -> bool) {
    sweep_cast_of(t, t.manager(), attempt);
}

/// The same with another server.
fn sweep_cast_of(t: &Stage, server: Port, mut attempt: impl FnMut(&Cast, u32) -> bool) {
    let client = t.client();
    sweep(t, |nth| {
        let cast = Cast { server: server.looper(), client: client.thread() };
        let is_hit = attempt(&cast, nth);
        cast.recover(nth);
        cast.dismiss();
        is_hit
    });
}

/// Checks the returns of a client for whose call memory was short, or which could not be read.
fn check_refusal(client: &Port, nth: u32) {
    let told = client.drain();
    if told.contains(&Return::FailedReply) {
        let (command, errno) = client.extended_error();
        assert_eq!(command, codes::BR_FAILED_REPLY, "place {nth}");
        // An object that cannot be read is none (contract 9.4).
        let wanted = [Errno::ENOMEM, Errno::EFAULT, Errno::EINVAL];
        let is_known = wanted.iter().any(|wanted| errno == -(*wanted as i32));
        assert!(is_known, "errno {errno} with place {nth} failing");
    } else {
        let is_harmless = |item: &Return| {
            matches!(item, Return::TransactionComplete | Return::Increfs(_) | Return::Acquire(_))
        };
        assert!(told.iter().all(is_harmless), "{told:?} with place {nth} failing");
    }
}

/// Has a manager serve a call, and both end.
fn serve_one(t: &Stage, manager: Port) {
    let client = t.client();
    client.round_trip(0, &manager, &bytes(b"question"), &bytes(b"answer"));
    client.actor.exit();
    manager.actor.exit();
}

case!(lesson_r23_open, ["lesson R23", "OPEN-1"], |t| {
    sweep(t, |nth| {
        let port = t.opened();
        let path = t.device("binder").to_str().expect("text").to_string();
        let (opened, is_hit) = faulty_number(&port, nth, Op::Open { path, flags: libc::O_RDWR });
        assert!(
            matches!(opened, Ok(_) | Err(Errno::ENOMEM | Errno::EFAULT | Errno::ENFILE)),
            "{opened:?} with place {nth} failing"
        );
        // The driver has no process left of the failed open: this one can be the manager.
        serve_one(t, t.manager());
        is_hit
    });
});

case!(map, ["MMAP-4", "MMAP-3"], |t| {
    sweep(t, |nth| {
        let mut server = t.opened();
        let (protection, flags) = (libc::PROT_READ, libc::MAP_PRIVATE);
        let map = Op::Map { slot: server.slot, length: 64 << 10, protection, flags, offset: 0 };
        let (mapped, is_hit) = faulty_number(&server, nth, map);
        match mapped {
            Ok(address) => server.space = Some((address, 64 << 10)),
            Err(Errno::ENOMEM) => server.map(64 << 10).expect("map at the second attempt"),
            other => panic!("{other:?} with place {nth} failing"),
        }
        server.set_context_manager().expect("become context manager");
        server.enter_looper();
        serve_one(t, server);
        is_hit
    });
});

case!(lesson_c11_first_command, ["lesson C11", "IOCTL-1"], |t| {
    sweep_cast(t, |cast, nth| {
        let newcomer = Port::at(Rc::new(cast.client.actor.thread()), &cast.client.arena, cast.client.slot);
        let (_, is_hit) = faulty_io(&newcomer, nth, &stream(|c| c.enter_looper()), 0);
        newcomer.enter_looper();
        is_hit
    });
});

case!(become_context_manager, ["CTX-1"], |t| {
    sweep(t, |nth| {
        let port = t.client();
        let order = Op::Ioctl { slot: port.slot, number: BINDER_SET_CONTEXT_MGR, argument: vec![0; 4] };
        let (done, is_hit) = faulty_number(&port, nth, order);
        match done {
            Ok(_) => {}
            Err(Errno::ENOMEM) => port.set_context_manager().expect("at the second attempt"),
            Err(other) => panic!("{other:?} with place {nth} failing"),
        }
        port.enter_looper();
        serve_one(t, port);
        is_hit
    });
});

/// A call that is sent while one place fails.
fn sweep_call(t: &Stage, parcel: impl Fn(&Cast) -> Parcel, flags: TransactionFlags) {
    sweep_cast(t, |cast, nth| {
        let parcel = parcel(cast);
        let commands = stream(|c| c.transaction(&cast.client.place_flagged(0, 7, &parcel, flags)));
        let (_, is_hit) = faulty_io(&cast.client, nth, &commands, 0);
        check_refusal(&cast.client, nth);
        is_hit
    });
}

case!(call_with_a_handle, ["TXN-1", "OBJ-10"], |t| {
    let handle = |cast: &Cast| {
        cast.client.send(|c| c.acquire(0));
        object(FlatBinderObject::strong_handle(0))
    };
    sweep_call(t, handle, TransactionFlags::empty());
});

case!(receive_a_call, ["TXN-28", "WR-12"], |t| {
    sweep_cast(t, |cast, nth| {
        cast.client.send_call(0, 0, &node(0x2000));
        faulty_read(&cast.server, nth)
    });
});

/// A reply that is sent while one place fails. The caller gets an answer in each case.
fn sweep_reply(t: &Stage, parcel: impl Fn() -> Parcel) {
    sweep_cast(t, |cast, nth| {
        let call = cast.client.call(&cast.server, 0, 0, &empty());
        cast.server.free(&call);
        let data = cast.server.place(0, 0, &parcel());
        let (errno, is_hit) = faulty_io(&cast.server, nth, &stream(|c| c.reply(&data)), 0);
        // The command could not be read, or memory was short at its start. The replier gets an
        // error then, and the call is still to be answered.
        let is_told = errno == Errno::EFAULT || cast.server.drain().contains(&Return::FailedReply);
        if is_told && cast.client.actor.is_blocked() {
            cast.server.reply_with(&data);
        }
        assert!(!cast.client.actor.is_blocked(), "the caller reads nothing: {errno:?} at place {nth}");
        let answered = |item: &Return| matches!(item, Return::Reply(_) | Return::FailedReply).then_some(());
        cast.client.wait("an answer", answered);
        is_hit
    });
}

case!(receive_a_reply, ["TXN-28", "WR-12"], |t| {
    sweep_cast(t, |cast, nth| {
        cast.client.send_call(0, 0, &empty());
        cast.server.free(&cast.server.wait_call());
        cast.server.reply(&bytes(b"answer"));
        faulty_read(&cast.client, nth)
    });
});

case!(take_a_count, ["WR-5"], |t| {
    sweep_cast(t, |cast, nth| faulty_io(&cast.client, nth, &stream(|c| c.acquire(0)), 0).1);
});

case!(free_a_buffer, ["OBJ-12"], |t| {
    sweep_cast(t, |cast, nth| {
        let call = cast.client.call(&cast.server, 0, 0, &node(0x2000));
        let (_, is_hit) = faulty_io(&cast.server, nth, &stream(|c| c.free_buffer(call.buffer)), 0);
        cast.server.answer(&cast.client, &empty());
        is_hit
    });
});

/// A call whose block has a child and two descriptors, which go with the buffer.
fn files_and_blocks(client: &Port, line: &Line) -> BinderTransactionDataSg {
    let mut block = vec![0; 16];
    block.extend(array_bytes(&[line.theirs, line.theirs]));
    let (mut parcel, outer) = SgParcel::of(&client.arena, &block);
    parcel.child(&client.arena, b"a child", outer, 8);
    parcel.array(outer, 16, 2);
    parcel.call(client)
}

/// Gives the files of a received call back; then nobody has them.
fn expect_no_files(cast: &Cast, line: Line) {
    for item in cast.server.drain() {
        if let Return::Transaction(call) = item {
            cast.server.free(&call);
        }
    }
    line.expect_cut_after(&cast.client, "the call's");
}

case!(call_with_files_and_blocks, ["TXN-1", "OBJ-10", "OBJ-FDA"], |t| {
    sweep_cast_of(t, t.file_manager(), |cast, nth| {
        let line = Line::to(&cast.client);
        let commands = stream(|c| c.transaction_sg(&files_and_blocks(&cast.client, &line)));
        let (_, is_hit) = faulty_io(&cast.client, nth, &commands, 0);
        check_refusal(&cast.client, nth);
        expect_no_files(cast, line);
        is_hit
    });
});

case!(receive_files, ["TXN-27", "TXN-28", "TXN-32"], |t| {
    sweep_cast_of(t, t.file_manager(), |cast, nth| {
        let line = Line::to(&cast.client);
        let idle = cast.server.actor.open_files();
        cast.client.send(|c| c.transaction_sg(&files_and_blocks(&cast.client, &line)));
        cast.server.nonblocking(true);
        let args = WriteReadOp { room: ROOM, ..Default::default() };
        let (answer, is_hit) = faulty(&cast.server, nth, Op::WriteRead { slot: cast.server.slot, args });
        cast.server.nonblocking(false);
        let Answer::WriteRead { errno, returns, .. } = answer else { panic!("{answer:?}") };
        // Returns in the buffer count, even if the ioctl fails behind them.
        for item in Returns::new(&returns).map_while(Result::ok) {
            if let Return::Transaction(call) = item {
                cast.server.free(&call);
            }
        }
        // Files of an unwritten return were not installed, and those of a written one are closed.
        // The C driver leaves files behind (lesson C15).
        if t.driver == Driver::Rust || errno == 0 {
            // The channel of the thread before may have been closed in between.
            let more: Vec<i32> =
                cast.server.actor.open_files().into_iter().filter(|file| !idle.contains(file)).collect();
            assert!(more.is_empty(), "{more:?} with place {nth} failing");
            expect_no_files(cast, line);
        }
        is_hit
    });
});

case!(free_files, ["OBJ-11"], |t| {
    sweep_cast_of(t, t.file_manager(), |cast, nth| {
        let line = Line::to(&cast.client);
        cast.client.send(|c| c.transaction_sg(&files_and_blocks(&cast.client, &line)));
        let call = cast.server.wait_call();
        let (errno, is_hit) = faulty_io(&cast.server, nth, &stream(|c| c.free_buffer(call.buffer)), 0);
        if errno != Errno::from_raw(0) {
            cast.server.free(&call);
        }
        cast.client.actor.close_file(line.theirs);
        let is_cut = line.is_cut_within(t.patience_for_ours());
        t.known_difference(Driver::C, "without memory the files are never closed", is_cut);
        is_hit
    });
});

case!(poll_a_thread, ["POLL-2"], |t| {
    sweep_cast(t, |cast, nth| {
        let newcomer = Port::at(Rc::new(cast.client.actor.thread()), &cast.client.arena, cast.client.slot);
        let poll = Op::Poll { slot: newcomer.slot, timeout_ms: 0 };
        let (events, is_hit) = faulty_number(&newcomer, nth, poll);
        let is_known = match events {
            Ok(events) => events & !((libc::POLLIN | libc::POLLERR) as u64) == 0,
            Err(errno) => matches!(errno, Errno::ENOMEM | Errno::EFAULT),
        };
        assert!(is_known, "{events:?} with place {nth} failing");
        is_hit
    });
});
