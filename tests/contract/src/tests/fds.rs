// SPDX-License-Identifier: GPL-2.0
//! File descriptors: which may be passed, what arrives, and that none is lost or left behind when
//! something goes wrong.

use super::wakeups::unwritable_read;
use super::*;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::unistd::{pipe, write};
use std::os::fd::{AsFd, OwnedFd};

/// A parcel of one descriptor.
pub fn file_parcel(fd: i32) -> Parcel {
    object(file_object(fd))
}

/// A parcel of several descriptors.
fn file_parcels(lines: &[Line]) -> Parcel {
    let mut parcel = bytes(b"lead");
    for line in lines {
        parcel.object(&file_object(line.theirs));
    }
    parcel
}

/// A pipe of which an actor has the writing end, and we the reading end. Nobody else has any.
pub struct Line {
    pub ours: OwnedFd,
    pub theirs: i32,
}

impl Line {
    pub fn to(port: &Port) -> Self {
        let (ours, end) = pipe().expect("a pipe");
        let theirs = port.actor.give(&end);
        Self { ours, theirs }
    }

    /// Fails if somebody still has the writing end. A task drops files when it returns to user
    /// space. The test cannot see that, so it waits for the end.
    #[track_caller]
    pub fn expect_cut(&self, what: &str) {
        assert!(self.is_cut_within(patience()), "{what}: somebody still has the file");
    }

    /// Closes the actor's copy, and checks that all other copies are closed.
    #[track_caller]
    pub fn expect_cut_after(&self, port: &Port, what: &str) {
        port.actor.close_file(self.theirs);
        self.expect_cut(what);
    }

    /// Returns whether all copies of the writing end are closed within some time.
    pub fn is_cut_within(&self, time: Duration) -> bool {
        let mut fds = [PollFd::new(self.ours.as_fd(), PollFlags::empty())];
        poll(&mut fds, PollTimeout::try_from(time).expect("a short time")) == Ok(1)
    }

    #[track_caller]
    pub fn expect_alive(&self) {
        let mut fds = [PollFd::new(self.ours.as_fd(), PollFlags::empty())];
        assert_eq!(poll(&mut fds, 0u16), Ok(0), "nobody has the file any more");
    }

    /// Writes through a number of an actor's, and sees that it arrives here.
    #[track_caller]
    pub fn expect_reached_by(&self, port: &Port, fd: i32) {
        assert_eq!(write(port.actor.share(fd), b"through"), Ok(7));
        let mut read = [0; 16];
        assert_eq!(nix::unistd::read(&self.ours, &mut read), Ok(7));
        assert_eq!(&read[..7], b"through");
    }
}

/// A manager whose calls may carry files, and a client that has the end of a line.
pub fn with_line(t: &Stage) -> (Port, Port, Line) {
    let (server, client) = file_pair(t);
    let line = Line::to(&client);
    (server, client, line)
}

case!(arrive_in_a_call, ["OBJ-2", "OBJ-FD", "TXN-32"], with_line, |t, (server, client, line)| {
    let call = client.call(&server, 0, 0, &file_parcel(line.theirs));
    let fd = server.received_fd(&call, 0);
    line.expect_reached_by(&server, fd);
    assert_eq!(server.actor.file_name(fd), client.actor.file_name(line.theirs));
    finish(&server, &client, &call);
});

/// A call to which a reply may bring files.
pub(super) fn start_accepting(client: &Port) {
    client.start_transaction(&client.place_flagged(0, 0, &empty(), TransactionFlags::ACCEPT_FDS));
}

case!(arrive_in_a_reply, ["OBJ-FD", "TXN-32"], pair, |t, (server, client)| {
    // The manager's node takes no files itself.
    let line = Line::to(&server);
    start_accepting(&client);
    let call = server.wait_call();
    assert_eq!(call.flags, TransactionFlags::ACCEPT_FDS.bits());
    server.free(&call);
    let reply = server.answer(&client, &file_parcel(line.theirs));
    line.expect_reached_by(&client, client.received_fd(&reply, 0));
    client.free(&reply);
});

case!(arrive_oneway, ["OBJ-FD", "TXN-32"], with_line, |t, (server, client, line)| {
    client.tell(0, 0, &file_parcel(line.theirs));
    let call = server.wait_call();
    line.expect_reached_by(&server, server.received_fd(&call, 0));
    server.free(&call);
});

/// Files of all available kinds.
fn files_of_every_kind() -> Vec<(&'static str, OwnedFd)> {
    use nix::fcntl::{open, OFlag};
    use nix::sys::epoll::{Epoll, EpollCreateFlags};
    use nix::sys::eventfd::EventFd;
    use nix::sys::socket::{socketpair, AddressFamily, SockFlag, SockType};
    use nix::sys::stat::Mode;
    let opened =
        |path: &str, flags| open(path, flags, Mode::empty()).unwrap_or_else(|e| panic!("{path}: {e}"));
    std::fs::write("/tmp/regular", b"content").expect("a file");
    let socket = |kind| socketpair(AddressFamily::Unix, kind, None, SockFlag::empty()).expect("sockets").0;
    let (reading, writing) = pipe().expect("a pipe");
    let epoll = Epoll::new(EpollCreateFlags::empty()).expect("an epoll set");
    // SAFETY: the name is a string with an end, and the number, if there is one, is nobody's yet.
    let memory = unsafe {
        use std::os::fd::FromRawFd;
        OwnedFd::from_raw_fd(Errno::result(libc::memfd_create(c"memory".as_ptr(), 0)).expect("a memfd"))
    };
    vec![
        ("a regular file", opened("/tmp/regular", OFlag::O_RDWR)),
        ("a directory", opened("/tmp", OFlag::O_RDONLY | OFlag::O_DIRECTORY)),
        ("a device", opened("/dev/null", OFlag::O_RDWR)),
        ("a file of proc", opened("/proc/self/status", OFlag::O_RDONLY)),
        ("the end of a pipe to read", reading),
        ("the end of a pipe to write", writing),
        ("a stream", socket(SockType::Stream)),
        ("a socket of datagrams", socket(SockType::Datagram)),
        ("an eventfd", EventFd::new().expect("an eventfd").into()),
        ("an epoll set", epoll.0),
        ("memory", memory),
    ]
}

case!(of_every_kind, ["OBJ-FD"], file_pair, |t, (server, client)| {
    for (kind, file) in files_of_every_kind() {
        let sent = client.actor.give(&file);
        let call = client.call(&server, 0, 0, &file_parcel(sent));
        let fd = server.received_fd(&call, 0);
        assert_eq!(server.actor.file_name(fd), client.actor.file_name(sent), "{kind}");
        let (mine, theirs) = (nix::sys::stat::fstat(&file), nix::sys::stat::fstat(server.actor.share(fd)));
        let (mine, theirs) = (mine.expect("a file"), theirs.expect("a file"));
        assert_eq!((mine.st_dev, mine.st_ino), (theirs.st_dev, theirs.st_ino), "{kind}");
        finish(&server, &client, &call);
        server.actor.close_file(fd);
        client.actor.close_file(sent);
    }
});

case!(of_the_device_itself, ["OBJ-FD"], file_pair, |t, (server, client)| {
    // The client's own device: it is the file through which the call is made.
    let name = t.device("binder").to_str().expect("text").to_string();
    let is_device = |fd: &i32| client.actor.file_name(*fd).as_ref() == Some(&name);
    let device = client.actor.open_files().into_iter().find(is_device).expect("the device");
    let call = client.call(&server, 0, 0, &file_parcel(device));
    let fd = server.received_fd(&call, 0);
    assert_eq!(server.actor.file_name(fd), Some(name));
    finish(&server, &client, &call);
    // The server can now delay the client's end: its file is open until both have closed it.
    client.kill();
    server.actor.close_file(fd);
    t.client().round_trip(0, &server, &bytes(b"alive"), &empty());
});

case!(close_on_exec, ["TXN-32"], with_line, |t, (server, client, line)| {
    let call = client.call(&server, 0, 0, &file_parcel(line.theirs));
    let flags = server.actor.file_flags(server.received_fd(&call, 0));
    assert_ne!(flags & libc::O_CLOEXEC, 0, "{flags:#o}");
    finish(&server, &client, &call);
});

case!(rest_of_the_object_is_kept, ["OBJ-FD"], with_line, |t, (server, client, line)| {
    let cookie = 0x1122_3344_5566_7788;
    let fd = line.theirs as u64 | 0xdead_beef << 32;
    let sent = BinderFdObject { pad_flags: 0x1234_5678, fd, cookie, ..file_object(0) };
    let call = client.call(&server, 0, 0, &object(sent));
    let object: BinderFdObject = server.any_object(&call, 0);
    assert_eq!((object.kind, object.cookie), (ObjectType::FD, cookie));
    let same_flags = object.pad_flags == sent.pad_flags;
    t.known_difference(Driver::Upstream, "the flags of a descriptor are not passed on", same_flags);
    assert_eq!(object.fd >> 32, 0, "nothing of the sender's");
    line.expect_reached_by(&server, object.fd as i32);
    finish(&server, &client, &call);
});

case!(same_file_twice, ["OBJ-FD"], with_line, |t, (server, client, line)| {
    let call = client.call(&server, 0, 0, &parcel_of([file_object(line.theirs); 2]));
    let (first, second) = (server.received_fd(&call, 0), server.received_fd(&call, 1));
    assert_ne!(first, second);
    server.actor.close_file(first);
    line.expect_reached_by(&server, second);
    finish(&server, &client, &call);
});

/// The lowest numbers that are free.
fn free_numbers(port: &Port, count: usize) -> Vec<i32> {
    let open = port.actor.open_files();
    (0..).filter(|number| !open.contains(number)).take(count).collect()
}

case!(lowest_numbers_in_order, ["TXN-32"], file_pair, |t, (server, client)| {
    let lines: Vec<Line> = (0..4).map(|_| Line::to(&client)).collect();
    // A hole among the receiver's numbers.
    let hole = server.actor.give(&lines[0].ours);
    server.actor.give(&lines[0].ours);
    server.actor.close_file(hole);
    let expected = free_numbers(&server, 4);
    assert_eq!(expected[0], hole);
    let call = client.call(&server, 0, 0, &file_parcels(&lines));
    let numbers: Vec<i32> = (0..4).map(|index| server.received_fd(&call, index)).collect();
    assert_eq!(numbers, expected);
    for (line, fd) in lines.iter().zip(numbers) {
        line.expect_reached_by(&server, fd);
    }
    finish(&server, &client, &call);
});

case!(many, ["OBJ-FD", "TXN-32"], with_line, |t, (server, client, line)| {
    let parcel = parcel_of((0..300).map(|_| file_object(line.theirs)));
    let before = server.actor.open_files().len();
    let call = client.call(&server, 0, 0, &parcel);
    assert_eq!(server.actor.open_files().len(), before + 300);
    for index in [0, 1, 150, 299] {
        line.expect_reached_by(&server, server.received_fd(&call, index));
    }
    finish(&server, &client, &call);
});

case!(among_other_objects, ["OBJ-1", "OBJ-FD"], with_line, |t, (server, client, line)| {
    let mut parcel = bytes(b"abcd");
    parcel.object(&FlatBinderObject::binder(0x10, 0)).bytes(b"efgh");
    parcel.object(&file_object(line.theirs)).bytes(b"ijkl");
    parcel.object(&FlatBinderObject::binder(0x20, 0));
    let call = client.call(&server, 0, 0, &parcel);
    let data = server.data(&call);
    assert_eq!((&data[..4], &data[28..32], &data[56..60]), (&b"abcd"[..], &b"efgh"[..], &b"ijkl"[..]));
    assert_eq!((server.object_at(&call, 0).handle(), server.object_at(&call, 2).handle()), (1, 2));
    line.expect_reached_by(&server, server.received_fd(&call, 1));
    finish(&server, &client, &call);
});

/// Sends a parcel to the manager, which is refused; returns the extended error.
#[track_caller]
fn refused(client: &Port, parcel: &Parcel) -> (u32, i32) {
    client.failure(&client.place(0, 0, parcel))
}

case!(not_open, ["OBJ-FD"], with_line, |t, (server, client, line)| {
    client.actor.close_file(line.theirs);
    for fd in [line.theirs, 999, 1 << 20, i32::MAX, -1, i32::MIN] {
        assert_eq!(refused(&client, &file_parcel(fd)), failed(Errno::EBADF), "{fd}");
    }
    client.round_trip(0, &server, &empty(), &empty());
});

case!(only_a_path, ["OBJ-FD"], file_pair, |t, (server, client)| {
    use nix::fcntl::{open, OFlag};
    let path = open("/tmp", OFlag::O_PATH, nix::sys::stat::Mode::empty()).expect("a path");
    assert_eq!(refused(&client, &file_parcel(client.actor.give(&path))), failed(Errno::EBADF));
    client.round_trip(0, &server, &empty(), &empty());
});

case!(not_accepted_by_the_node, ["OBJ-FD", "NODE-1"], pair, |t, (server, client)| {
    let line = Line::to(&client);
    assert_eq!(refused(&client, &file_parcel(line.theirs)), failed(Errno::EPERM));
    // The flag is checked before the descriptor, and the call's own flag is for the reply.
    assert_eq!(refused(&client, &file_parcel(999)), failed(Errno::EPERM));
    let data = client.place_flagged(0, 0, &file_parcel(line.theirs), TransactionFlags::ACCEPT_FDS);
    assert_eq!(client.failure(&data), failed(Errno::EPERM));
    client.round_trip(0, &server, &empty(), &empty());
});

case!(flags_of_the_first_object_count, ["OBJ-FD", "NODE-1"], pair, |t, (server, client)| {
    let line = Line::to(&client);
    let accepts = ObjectFlags::ACCEPTS_FDS;
    let (open, shut) = (FlatBinderObject::binder(0x10, 0), FlatBinderObject::binder(0x20, 0));
    let open_handle = give_in_a_reply(&server, &client, open.with_flags(accepts));
    let shut_handle = give_in_a_reply(&server, &client, shut);
    // Sent again with other flags: too late.
    assert_eq!(give_in_a_reply(&server, &client, open), open_handle);
    assert_eq!(give_in_a_reply(&server, &client, shut.with_flags(accepts)), shut_handle);
    let parcel = file_parcel(line.theirs);
    assert_eq!(client.failure(&client.place(shut_handle, 0, &parcel)), failed(Errno::EPERM));
    let call = client.call(&server, open_handle, 0, &parcel);
    line.expect_reached_by(&server, server.received_fd(&call, 0));
    finish(&server, &client, &call);
    // Released and sent once more: the new flags count.
    for (ptr, handle) in [(0x20, shut_handle), (0x10, open_handle)] {
        server.send(|c| c.increfs_done(ptr, 0).acquire_done(ptr, 0));
        // It was given twice, and is held as often.
        client.send(|c| c.release(handle).release(handle));
        let id = BinderPtrCookie { ptr, cookie: 0 };
        assert_eq!(server.drain(), [Return::Release(id), Return::Decrefs(id)]);
    }
    let now_shut = give_in_a_reply(&server, &client, open);
    let now_open = give_in_a_reply(&server, &client, shut.with_flags(accepts));
    assert_eq!(client.refused(&client.place(now_shut, 0, &parcel)), Return::FailedReply);
    let call = client.call(&server, now_open, 0, &parcel);
    assert_eq!(call.target, 0x20);
    line.expect_reached_by(&server, server.received_fd(&call, 0));
    finish(&server, &client, &call);
});

case!(not_accepted_by_the_caller, ["OBJ-FD", "TXN-25"], file_pair, |t, (server, client)| {
    // The node's flag does not apply to replies.
    let line = Line::to(&server);
    server.free(&client.call(&server, 0, 0, &empty()));
    // Nor do the flags of the reply.
    let parcel = file_parcel(line.theirs);
    server.reply_with(&server.place_flagged(0, 0, &parcel, TransactionFlags::ACCEPT_FDS));
    assert_eq!(client.wait_refusal(), Return::FailedReply);
    assert_eq!(client.extended_error(), failed(Errno::EPERM));
    line.expect_alive();
    client.round_trip(0, &server, &empty(), &empty());
});

case!(survive_the_senders_close, ["OBJ-FD"], with_line, |t, (server, client, line)| {
    client.tell(0, 0, &file_parcel(line.theirs));
    client.actor.close_file(line.theirs);
    line.expect_alive();
    let call = server.wait_call();
    line.expect_reached_by(&server, server.received_fd(&call, 0));
    server.free(&call);
});

case!(survive_the_sender, ["OBJ-FD"], with_line, |t, (server, client, line)| {
    client.tell(0, 0, &file_parcel(line.theirs));
    client.kill();
    let call = server.wait_call();
    line.expect_reached_by(&server, server.received_fd(&call, 0));
    server.free(&call);
});

case!(receiver_closes_them, ["OBJ-11"], with_line, |t, (server, client, line)| {
    client.start_blocking_call(0, 0, &file_parcel(line.theirs));
    let call = server.wait_call();
    let fd = server.received_fd(&call, 0);
    finish(&server, &client, &call);
    client.actor.close_file(line.theirs);
    // The buffer is gone, the descriptor is not.
    line.expect_reached_by(&server, fd);
    server.actor.close_file(fd);
    line.expect_cut("closed by all");
});

case!(lesson_c06_refused_call_lets_go, ["OBJ-10", "lesson C06"], file_pair, |t, (server, client)| {
    for good in 1..4 {
        let lines: Vec<Line> = (0..good).map(|_| Line::to(&client)).collect();
        let mut parcel = file_parcels(&lines);
        parcel.object(&file_object(999));
        parcel.object(&file_object(lines[0].theirs));
        let before = server.actor.open_files();
        assert_eq!(refused(&client, &parcel), failed(Errno::EBADF));
        for line in &lines {
            line.expect_cut_after(&client, "the refused call's");
        }
        assert_eq!(server.actor.open_files(), before);
    }
    client.round_trip(0, &server, &empty(), &empty());
});

case!(receivers_end_lets_go, ["OBJ-10"], file_pair, |t, (server, client)| {
    let lines: Vec<Line> = (0..3).map(|_| Line::to(&client)).collect();
    for line in &lines {
        // The first waits for the process, the others for the first.
        client.tell(0, 0, &file_parcel(line.theirs));
        client.actor.close_file(line.theirs);
        line.expect_alive();
    }
    server.kill();
    lines.iter().for_each(|line| line.expect_cut("the dead receiver's"));
});

case!(threads_end_lets_go, ["OBJ-10", "TREL-1"], with_line, |t, (server, client, line)| {
    server.park();
    client.start_blocking_call(0, 0, &file_parcel(line.theirs));
    // The call is with that thread now. It has it in its hands when it ends.
    let fd = server.received_fd(&server.wait_call(), 0);
    let _ = server.ioctl(BINDER_THREAD_EXIT, 0i32);
    assert_eq!(client.wait_refusal(), Return::DeadReply);
    line.expect_reached_by(&server, fd);
});

case!(callers_end_lets_go_of_the_reply, ["OBJ-10", "TXN-26"], pair, |t, (server, client)| {
    let line = Line::to(&server);
    start_accepting(&client);
    server.free(&server.wait_call());
    client.actor.expect_blocked();
    client.kill();
    server.start(&stream(|c| c.reply(&server.place(0, 0, &file_parcel(line.theirs)))));
    server.wait("the end of the reply", |item| {
        matches!(item, Return::TransactionComplete | Return::DeadReply | Return::FailedReply).then_some(())
    });
    let _ = server.drain();
    line.expect_cut_after(&server, "the reply that nobody waits for");
});

case!(no_number_left_for_a_call, ["TXN-27", "TXN-32"], with_line, |t, (server, client, line)| {
    server.park();
    let before = server.actor.open_files();
    server.actor.limit_files(0);
    assert_eq!(client.refused(&client.place(0, 0, &file_parcel(line.theirs))), Return::FailedReply);
    // The receiver reads nothing, and still waits.
    server.actor.expect_blocked();
    assert_eq!(server.actor.open_files(), before);
    line.expect_cut_after(&client, "the undeliverable call's");
    // A call without files still gets through; later, one with a file does, too.
    client.round_trip(0, &server, &bytes(b"none"), &empty());
    server.actor.unlimit_files();
    let line = Line::to(&client);
    let call = client.call(&server, 0, 0, &file_parcel(line.theirs));
    line.expect_reached_by(&server, server.received_fd(&call, 0));
    finish(&server, &client, &call);
});

case!(no_number_left_for_a_oneway_call, ["TXN-27", "TXN-22"], with_line, |t, (server, client, line)| {
    server.actor.limit_files(0);
    client.tell(0, 0, &file_parcel(line.theirs));
    client.tell(0, 0, &file_parcel(line.theirs));
    client.tell(0, 0, &bytes(b"behind"));
    // Both are dropped, and the node's queue continues.
    let call = server.wait_call();
    assert_eq!(server.data(&call), b"behind");
    server.actor.unlimit_files();
    server.free(&call);
    assert_eq!(server.drain(), []);
    assert_eq!(client.drain(), []);
    line.expect_cut_after(&client, "the dropped calls'");
});

case!(lesson_r19_no_number_left_for_a_reply, ["TXN-27", "lesson R19"], pair, |t, (server, client)| {
    let line = Line::to(&server);
    start_accepting(&client);
    client.actor.expect_blocked();
    client.actor.limit_files(0);
    server.free(&server.wait_call());
    server.reply(&file_parcel(line.theirs));
    let returns = !client.actor.is_blocked();
    let told = t.known_difference(Driver::Upstream, "the caller waits for ever", returns);
    client.actor.unlimit_files();
    if told {
        assert_eq!(client.wait_refusal(), Return::FailedReply);
        client.round_trip(0, &server, &bytes(b"again"), &empty());
    }
    line.expect_cut_after(&server, "the undeliverable reply's");
});

case!(all_or_nothing, ["TXN-32", "TXN-27"], file_pair, |t, (server, client)| {
    let lines: Vec<Line> = (0..3).map(|_| Line::to(&client)).collect();
    let parcel = file_parcels(&lines);
    server.park();
    let before = server.actor.open_files();
    for room in 0..3 {
        server.actor.limit_files(room);
        client.start_call(0, 0, &parcel);
        assert_eq!(client.wait_refusal(), Return::FailedReply);
        assert_eq!(server.actor.open_files(), before, "room for {room}");
    }
    // The numbers that had been reserved are free again.
    server.actor.limit_files(3);
    let call = client.call(&server, 0, 0, &parcel);
    server.actor.unlimit_files();
    for (index, line) in (0..).zip(&lines) {
        line.expect_reached_by(&server, server.received_fd(&call, index));
    }
    finish(&server, &client, &call);
});

case!(lesson_c15_undeliverable_call, ["TXN-28", "TXN-30", "WR-12", "lesson C15"], |t| {
    let (server, client) = (t.file_manager(), t.client());
    let line = Line::to(&client);
    let before = server.actor.open_files();
    client.start_blocking_call(0, 0, &file_parcel(line.theirs));
    unwritable_read(&server);
    assert_eq!(client.wait_refusal(), Return::FailedReply);
    let none = server.actor.open_files() == before;
    t.known_difference(Driver::C, "a file is installed for a call that was never delivered", none);
    client.round_trip(0, &server, &empty(), &empty());
});

case!(lesson_c15_undeliverable_oneway_call, ["TXN-28", "WR-12", "lesson C15"], |t| {
    let (server, client) = (t.file_manager(), t.client());
    let line = Line::to(&client);
    let before = server.actor.open_files();
    client.tell(0, 0, &file_parcel(line.theirs));
    client.tell(0, 0, &bytes(b"behind"));
    unwritable_read(&server);
    let none = server.actor.open_files() == before;
    t.known_difference(Driver::C, "a file is installed for a call that was never delivered", none);
    server.start_read();
    let goes_on = !server.actor.is_blocked();
    if t.known_difference(Driver::C, "the node's oneway calls stand still for ever", goes_on) {
        server.consume(&server.wait_call(), b"behind");
        line.expect_cut_after(&client, "the undeliverable call's");
    }
});

case!(lesson_c15_undeliverable_reply, ["TXN-28", "TXN-30", "lesson C15"], pair, |t, (server, client)| {
    let line = Line::to(&server);
    let before = client.actor.open_files();
    let data = client.place_flagged(0, 0, &empty(), TransactionFlags::ACCEPT_FDS);
    client.send(|c| c.transaction(&data));
    server.free(&server.wait_call());
    server.reply(&file_parcel(line.theirs));
    // There is room for BR_NOOP and BR_TRANSACTION_COMPLETE, and behind that nothing can be written.
    let read_buffer = Some(client.arena.end() - 8);
    let args = WriteReadOp { room: 512, read_buffer, ..Default::default() };
    assert_eq!(client.raw(args).errno, Errno::EFAULT);
    let none = client.actor.open_files() == before;
    t.known_difference(Driver::C, "a file is installed for a reply that was never delivered", none);
    // The call has ended in any case; C has left its completion unread.
    let _ = client.drain();
    client.forgets_completions();
    client.round_trip(0, &server, &bytes(b"again"), &empty());
});

case!(lesson_c14_superseded_call_lets_go, ["TXN-23", "OBJ-10", "lesson C14"], |t| {
    let (server, client) = (t.file_manager(), t.client());
    let freezer = Freezer::of(t, &server);
    // The node is busy with the first call until its buffer is freed; what comes now has to wait.
    client.tell(0, 0, &bytes(b"first"));
    let first = server.wait_call();
    assert_eq!(freezer.freeze(0), Ok(()));
    let lines: Vec<Line> = (0..3).map(|_| Line::to(&client)).collect();
    for line in &lines {
        let data = client.place_flagged(0, 7, &file_parcel(line.theirs), UPDATE);
        client.tell_with(&data, Return::TransactionPendingFrozen);
        client.actor.close_file(line.theirs);
    }
    // Each has taken the place of the one before it.
    lines[..2].iter().for_each(|line| line.expect_cut("the superseded call's"));
    lines[2].expect_alive();
    assert_eq!(freezer.thaw(), Ok(()));
    server.free(&first);
    let call = server.wait_call();
    lines[2].expect_reached_by(&server, server.received_fd(&call, 0));
    server.free(&call);
    assert_eq!(server.drain(), []);
});

case!(nothing_is_left_behind, ["OBJ-10", "TXN-32"], with_line, |t, (server, client, line)| {
    let idle = (server.actor.open_files(), client.actor.open_files());
    for round in 0..60u8 {
        let mut parcel = SgParcel::new();
        for _ in 0..round % 5 {
            parcel.fd(line.theirs);
        }
        if round % 4 == 3 {
            parcel.fd(999);
            assert_eq!(client.refused_sg(&parcel.call(&client)), failed(Errno::EBADF));
            continue;
        }
        let call = client.call_sg(&server, &parcel.call(&client));
        let fds: Vec<i32> = (0..u64::from(round % 5)).map(|index| server.received_fd(&call, index)).collect();
        finish(&server, &client, &call);
        fds.into_iter().for_each(|fd| server.actor.close_file(fd));
    }
    assert_eq!((server.actor.open_files(), client.actor.open_files()), idle);
    assert_eq!(client.extended_error(), NO_ERROR);
    line.expect_cut_after(&client, "any of sixty calls'");
});
