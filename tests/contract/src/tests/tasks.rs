// SPDX-License-Identifier: GPL-2.0
//! Other events of tasks that use the driver: they are stopped, traced, frozen, forked, and become
//! other programs. Nothing that was on its way is lost.

use super::*;
use crate::cgroup::Cgroup;
use nix::sys::ptrace;

case!(stopped_while_waiting_for_work, ["WR-7", "LOOP-8"], |t| held_while_waiting_for_work(t, |_| Box::new(
    Stop
)));
case!(stopped_while_waiting_for_a_reply, ["WR-7", "LOOP-8"], |t| held_while_waiting_for_a_reply(t, |_| {
    Box::new(Stop)
}));
case!(stopped_while_serving, ["LOOP-8"], |t| held_while_serving(t, |_| Box::new(Stop)));
case!(traced_while_waiting_for_work, ["WR-7"], |t| held_while_waiting_for_work(t, |_| Box::new(Trace)));
case!(traced_while_waiting_for_a_reply, ["WR-7"], |t| held_while_waiting_for_a_reply(t, |_| Box::new(Trace)));
case!(frozen_while_waiting_for_work, ["LOOP-8"], |t| held_while_waiting_for_work(t, |port| Box::new(
    Freezer::new(port)
)));
case!(frozen_while_waiting_for_a_reply, ["LOOP-8"], |t| held_while_waiting_for_a_reply(t, |port| Box::new(
    Freezer::new(port)
)));
case!(frozen_while_serving, ["LOOP-8"], |t| held_while_serving(t, |port| Box::new(Freezer::new(port))));

fn pid(port: &Port) -> Pid {
    Pid::from_raw(port.actor.pid())
}

/// Returns the items that a port has read in a wait with a disturbance; none if it failed with `EINTR`.
fn told_after_a_disturbance(port: &Port) -> Vec<Return> {
    let outcome = port.finish_raw();
    assert!(matches!(outcome.errno as i32, 0 | libc::EINTR), "{:?}", outcome.errno);
    if outcome.errno as i32 == 0 {
        outcome.returns()
    } else {
        Vec::new()
    }
}

/// The server's next call, which it may have to wait for again.
fn call_after_a_disturbance(server: &Port) -> BinderTransactionData {
    let call = told_after_a_disturbance(server).iter().find_map(call_of);
    call.unwrap_or_else(|| server.wait_call())
}

/// The reply that a client reads after a disturbance.
fn reply_after_a_disturbance(client: &Port) -> BinderTransactionData {
    match told_after_a_disturbance(client).last() {
        Some(Return::Reply(reply)) => *reply,
        _ => client.wait_reply(),
    }
}

/// A process that can be held and released again.
trait Hold {
    fn hold(&self, port: &Port);
    fn let_go(&self, port: &Port);
}

/// By `SIGSTOP` and `SIGCONT`.
struct Stop;

impl Hold for Stop {
    fn hold(&self, port: &Port) {
        kill(pid(port), Signal::SIGSTOP).expect("stop");
        let stopped = waitpid(pid(port), Some(WaitPidFlag::WUNTRACED)).expect("wait for the stop");
        assert!(matches!(stopped, WaitStatus::Stopped(_, Signal::SIGSTOP)), "{stopped:?}");
    }

    fn let_go(&self, port: &Port) {
        kill(pid(port), Signal::SIGCONT).expect("continue");
    }
}

/// By a tracer.
struct Trace;

impl Hold for Trace {
    fn hold(&self, port: &Port) {
        ptrace::attach(pid(port)).expect("attach");
        let stopped = waitpid(pid(port), None).expect("wait for the stop");
        assert!(matches!(stopped, WaitStatus::Stopped(_, Signal::SIGSTOP)), "{stopped:?}");
    }

    fn let_go(&self, port: &Port) {
        ptrace::detach(pid(port), None).expect("detach");
    }
}

/// By the freezer of a cgroup.
struct Freezer(Cgroup);

impl Freezer {
    fn new(port: &Port) -> Self {
        let cgroup = Cgroup::new(&format!("binder-{}", port.actor.pid())).expect("make a cgroup");
        cgroup.add(port.actor.pid()).expect("move into the cgroup");
        Self(cgroup)
    }

    fn set(&self, frozen: bool) {
        self.0.freeze(frozen).expect("cgroup.freeze");
        let follows = || (self.0.is_frozen().expect("cgroup.events") == frozen).then_some(());
        until(&format!("the cgroup is frozen: {frozen}"), follows);
    }
}

impl Hold for Freezer {
    fn hold(&self, _: &Port) {
        self.set(true);
    }

    fn let_go(&self, _: &Port) {
        self.set(false);
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let _ = self.0.freeze(false);
    }
}

/// A server is held while it waits; a call comes during that.
fn held_while_waiting_for_work(t: &Stage, how: impl Fn(&Port) -> Box<dyn Hold>) {
    let (server, client) = (t.manager(), t.client());
    let holder = how(&server);
    for code in 0..3 {
        server.park();
        holder.hold(&server);
        client.start_blocking_call(0, code, &bytes(b"meanwhile"));
        holder.let_go(&server);
        let call = call_after_a_disturbance(&server);
        assert_eq!((call.code, server.data(&call)), (code, b"meanwhile".to_vec()));
        finish(&server, &client, &call);
    }
}

/// A client is held while it waits; the reply comes during that.
fn held_while_waiting_for_a_reply(t: &Stage, how: impl Fn(&Port) -> Box<dyn Hold>) {
    let (server, client) = (t.manager(), t.client());
    let holder = how(&client);
    for code in 0..3 {
        server.free(&client.call(&server, 0, code, &empty()));
        client.actor.expect_blocked();
        holder.hold(&client);
        server.reply(&bytes(b"meanwhile"));
        holder.let_go(&client);
        client.consume(&reply_after_a_disturbance(&client), b"meanwhile");
    }
}

/// A server is held while it serves; its client waits for as long.
fn held_while_serving(t: &Stage, how: impl Fn(&Port) -> Box<dyn Hold>) {
    let (server, client) = (t.manager(), t.client());
    let holder = how(&server);
    let call = client.call(&server, 0, 0, &empty());
    holder.hold(&server);
    client.actor.expect_blocked();
    let other = t.client();
    other.send_call(0, 1, &empty());
    holder.let_go(&server);
    server.free(&call);
    assert_eq!(client.data(&server.answer(&client, &bytes(b"at last"))), b"at last");
    assert_eq!(server.wait_call().code, 1);
    server.answer(&other, &empty());
}

// A debugger steps through system calls, each of which is cut into pieces by its stops.
case!(stepped_through_calls, ["WR-7"], pair, |t, (server, client)| {
    client.call(&server, 0, 0, &empty());
    client.actor.expect_blocked();
    ptrace::attach(pid(&client)).expect("attach");
    waitpid(pid(&client), None).expect("wait for the stop");
    for i in 0..40 {
        if i == 20 {
            server.reply(&bytes(b"between two steps"));
        }
        ptrace::step(pid(&client), None).expect("step");
        // The thread stops behind the next instruction, or sleeps in a call until the reply is there.
        let deadline = Instant::now() + Duration::from_millis(50);
        while waitpid(pid(&client), Some(WaitPidFlag::WNOHANG)) == Ok(WaitStatus::StillAlive) {
            if Instant::now() > deadline {
                kill(pid(&client), Signal::SIGSTOP).expect("stop");
            }
            std::thread::yield_now();
        }
    }
    ptrace::detach(pid(&client), None).expect("detach");
    // The last stop that was asked for may be still to come.
    kill(pid(&client), Signal::SIGCONT).expect("continue");
    assert_eq!(client.data(&reply_after_a_disturbance(&client)), b"between two steps");
    client.round_trip(0, &server, &empty(), &empty());
});

case!(killed_while_frozen, ["LOOP-8", "REL-2"], pair, |t, (server, client)| {
    let freezer = Freezer::new(&server);
    client.call(&server, 0, 0, &empty());
    server.park();
    freezer.hold(&server);
    server.kill_serving(&client);
});

case!(child_comes_and_goes, ["FORK-1", "REL-1", "MMAP-8"], pair, |t, (server, client)| {
    let parent = server.thread();
    server.park();
    for code in 0..5 {
        // The child has the descriptor, but not the space; its end flushes the file.
        let child = parent.actor.fork();
        assert!(child.number(Op::Close { slot: server.slot }).is_ok());
        child.exit();
        assert_eq!(client.call(&server, 0, code, &empty()).code, code);
        server.answer(&client, &empty());
    }
});

case!(another_program_has_the_descriptor, ["OPEN-1", "MMAP-1", "MMAP-7"], |t| {
    let (manager, client, owner) = (t.manager(), t.client(), t.server());
    let handle = introduce_counted(&manager, &owner, FlatBinderObject::binder(0x10, 0), &client);
    let slot = owner.actor.number(Op::Exec { slot: Some(owner.slot) }).expect("exec") as usize;
    let mut after = Port::at(owner.actor.clone(), &owner.arena, slot);
    assert_eq!(after.ioctl(BINDER_VERSION, BinderVersion::default()).map(|v| v.protocol_version), Ok(8));
    // Its memory is another; what received data is gone.
    assert_eq!(after.map(4096), Err(Errno::EINVAL));
    assert_eq!(client.refused(&client.place(handle, 0, &empty())), Return::DeadReply);
    // The process is still there, with its handles.
    let mut commands = Commands::new();
    commands.transaction(&empty().to_handle(0, 9, TransactionFlags::ONE_WAY));
    assert_eq!(after.try_write(&commands).errno, Errno::from_raw(0));
    assert_eq!(manager.wait_call().code, 9);
});

// A thread that executes a program gets its group leader's tid, and the leader's record with it.
case!(another_program_by_a_second_thread, ["TREL-1", "FORK-1"], pair, |t, (manager, first)| {
    let second = first.thread();
    for thread in [&first, &second] {
        thread.round_trip(0, &manager, &empty(), &empty());
    }
    assert_eq!(first.refused(&first.place(super::NO_HANDLE, 0, &empty())), Return::FailedReply);
    let slot = second.actor.number(Op::Exec { slot: Some(second.slot) }).expect("exec") as usize;
    let after = Port::at(second.actor.clone(), &second.arena, slot);
    assert_ne!(after.extended_error(), super::NO_ERROR);
    let commands = stream(|c| c.transaction(&empty().to_handle(0, 9, TransactionFlags::ONE_WAY)));
    assert_eq!(after.try_write(&commands).errno, Errno::from_raw(0));
    assert_eq!(manager.wait_call().code, 9);
    // The record ends, and is made again.
    assert_eq!(after.ioctl(BINDER_THREAD_EXIT, 0i32), Ok(0));
    assert_eq!(after.extended_error(), super::NO_ERROR);
    assert_eq!(after.try_write(&commands).errno, Errno::from_raw(0));
});

case!(another_program_without_the_descriptor, ["REL-2"], pair, |t, (manager, client)| {
    client.call(&manager, 0, 0, &empty());
    manager.actor.number(Op::Exec { slot: None }).expect("exec");
    assert_eq!(client.wait_refusal(), Return::DeadReply);
    client.round_trip(0, &t.manager(), &empty(), &empty());
});

// A device's descriptor lies in a socket, its sender is gone: it is still open.
case!(descriptor_outlives_its_sender, ["FORK-1", "REL-2"], pair, |t, (manager, client)| {
    let keeper = Rc::new(Actor::new());
    let slot = client.actor.hand_over(client.slot, &keeper);
    client.call(&manager, 0, 0, &empty());
    client.kill();
    // The file is not released: the caller's record is still there, though nobody can read the reply.
    manager.reply(&empty());
    keeper.number(Op::Close { slot }).expect("close");
    t.client().round_trip(0, &manager, &empty(), &empty());
});

/// Ends a process whose device is kept open, and starts another one with the same numbers.
pub(super) fn heir_of(t: &Stage, port: Port) -> (Rc<Actor>, Actor, usize) {
    let keeper = Actor::new();
    let numbers = [port.actor.pid(), t.global_pid(&port) as i32];
    let slot = port.actor.hand_over(port.slot, &keeper);
    port.kill();
    (Rc::new(Actor::with_numbers(&numbers)), keeper, slot)
}

case!(heir_of_a_number_is_not_the_opener, ["FORK-1"], Stage::opened, |t, opener| {
    let arena = opener.arena.clone();
    let (heir, keeper, kept) = heir_of(t, opener);
    let slot = keeper.hand_over(kept, &heir);
    let mut port = Port::at(heir, &arena, slot);
    assert_eq!(port.map(4096), Err(Errno::EINVAL));
    let allowed = port.ioctl(BINDER_SET_MAX_THREADS, 1u32);
    let why = "a descriptor in another process works as one of the opener's";
    if t.known_difference(Driver::C, why, allowed == Err(Errno::EINVAL)) {
        assert_eq!(port.try_write(Commands::new().enter_looper()).errno, Errno::EINVAL);
    }
});

// A process has the pid of a context manager that has ended, but whose device is open. The driver
// does not take it for the manager: its call fails with `BR_DEAD_REPLY`.
case!(heir_of_a_number_calls_the_context_manager, ["TXN-1", "lesson R14"], |t| {
    let (heir, _keeper, _) = heir_of(t, t.manager());
    let port = t.open_by(heir);
    port.start_transaction(&port.place_oneway(0, 0, &empty()));
    let told = port.finish_raw().returns();
    let why = "whoever has the number of the context manager is refused as if it were that";
    t.known_difference(Driver::C, why, told == [Return::Noop, Return::DeadReply]);
});

// A call supersedes none of an earlier process with the same pid.
case!(heir_of_a_number_supersedes_nothing, ["TXN-23"], pair, |t, (manager, sender)| {
    let freezer = crate::freezer::Freezer::of(t, &manager);
    let say = |port: &Port, words: &[u8]| {
        let call = port.place_flagged(0, 9, &bytes(words), UPDATE);
        port.tell_with(&call, Return::TransactionPendingFrozen);
    };
    assert_eq!(freezer.freeze(0), Ok(()));
    // The superseded call waits behind another one.
    say(&sender, b"ahead");
    say(&sender, b"first");
    let (heir, _keeper, _) = heir_of(t, sender);
    say(&t.open_by(heir), b"second");
    assert_eq!(freezer.thaw(), Ok(()));
    let next = || {
        let call = manager.wait_call();
        let words = manager.data(&call);
        manager.free(&call);
        words
    };
    assert_eq!(next(), b"ahead");
    let first = next();
    let why = "a call of whoever had the same number is superseded";
    if t.known_difference(Driver::C, why, first == b"first") {
        assert_eq!(next(), b"second");
    }
});
