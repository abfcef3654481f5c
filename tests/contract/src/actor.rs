// SPDX-License-Identifier: GPL-2.0
//! The conductor's side of an actor: give an order, wait for its answer, check that it blocks.

use crate::agent::{install_wake_up_handler, receive, send, serve};
use crate::kernel_namespaces;
use crate::ops::{Answer, Op};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sched::CloneFlags;
use nix::sys::signal::{kill, SaFlags, Signal};
use nix::sys::socket::{socketpair, AddressFamily, SockFlag, SockType};
use nix::sys::wait::{waitpid, WaitStatus};
use nix::unistd::{fork, ForkResult, Pid};
use std::cell::{Cell, RefCell};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Milliseconds that an actor may take over one operation.
static PATIENCE_MS: AtomicU64 = AtomicU64::new(15_000);

/// Sets how long an actor may take over one operation, for all tests that begin after this.
pub fn set_patience(time: Duration) {
    PATIENCE_MS.store(time.as_millis() as u64, Relaxed);
}

/// The time for one operation of an actor, after which the test gives up.
pub fn patience() -> Duration {
    Duration::from_millis(PATIENCE_MS.load(Relaxed))
}

/// A thread of another process that executes one operation at a time.
pub struct Actor {
    channel: OwnedFd,
    pid: Pid,
    tid: Pid,
    /// The order that the actor has not answered yet.
    busy: RefCell<Option<Op>>,
    /// The conductor must reap it.
    child: Cell<bool>,
}

fn channel() -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).expect("a socket pair")
}

/// The arguments of `clone3`, second version; the C library of 32-bit tasks has no such struct.
#[repr(C)]
#[derive(Default)]
pub struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
}

impl CloneArguments {
    /// For a process in new namespaces.
    pub fn in_namespaces(flags: CloneFlags) -> Self {
        Self { flags: flags.bits() as u64, exit_signal: Signal::SIGCHLD as u64, ..Self::default() }
    }

    /// Forks a process so.
    ///
    /// # Safety
    ///
    /// As for `fork(2)`: the calling process has one thread, and the numbers to be set are still there.
    pub unsafe fn fork(&self) -> nix::Result<ForkResult> {
        // SAFETY: the kernel reads the arguments; the child runs in a copy of this memory.
        let result = unsafe { libc::syscall(libc::SYS_clone3, &raw const *self, size_of_val(self)) };
        Ok(match nix::errno::Errno::result(result)? {
            0 => ForkResult::Child,
            child => ForkResult::Parent { child: Pid::from_raw(child as i32) },
        })
    }
}

impl Actor {
    /// Forks a process with one actor.
    pub fn new() -> Self {
        Self::in_namespaces(CloneFlags::empty())
    }

    /// Forks one in new namespaces (not a pid namespace, see [`Actor::fork_pid_namespace`]).
    pub fn in_namespaces(flags: CloneFlags) -> Self {
        kernel_namespaces::need(flags);
        let channel = channel();
        // SAFETY: the conductor has one thread.
        Self::forked(unsafe { fork() }.expect("fork"), channel, flags)
    }

    /// Forks a process that has these unused numbers: in its pid namespace, and in those around it.
    pub fn with_numbers(numbers: &[i32]) -> Self {
        kernel_namespaces::need(CloneFlags::CLONE_NEWPID);
        let channel = channel();
        let (set_tid, set_tid_size) = (numbers.as_ptr() as u64, numbers.len() as u64);
        let args =
            CloneArguments { set_tid, set_tid_size, ..CloneArguments::in_namespaces(CloneFlags::empty()) };
        // SAFETY: the conductor has one thread, and the numbers are the caller's.
        let forked = unsafe { args.fork() }.expect("a process with these numbers");
        Self::forked(forked, channel, CloneFlags::empty())
    }

    /// Either side of a fork: the conductor's, or the actor's, which never returns.
    fn forked(forked: ForkResult, (ours, theirs): (OwnedFd, OwnedFd), flags: CloneFlags) -> Self {
        match forked {
            ForkResult::Parent { child } => Self { child: Cell::new(true), ..Self::with(ours, child) },
            ForkResult::Child => {
                drop(ours);
                nix::sched::unshare(flags).expect("new namespaces");
                install_wake_up_handler(SaFlags::empty());
                serve(theirs);
                std::process::exit(0)
            }
        }
    }

    fn with(channel: OwnedFd, pid: Pid) -> Self {
        Self { channel, pid, tid: pid, busy: RefCell::new(None), child: Cell::new(false) }
    }

    /// Another actor, as if it were a process of its own.
    fn another(&self, op: Op) -> Self {
        let (ours, theirs) = channel();
        self.post(op, Some(&theirs));
        let id = self.number_of(self.finish()).expect("start an actor");
        Self::with(ours, Pid::from_raw(id as i32))
    }

    /// Another thread of the same process.
    pub fn thread(&self) -> Self {
        Self { pid: self.pid, ..self.another(Op::Thread) }
    }

    /// A process forked from this one.
    pub fn fork(&self) -> Self {
        self.another(Op::Fork)
    }

    /// A process forked from this one into a new pid namespace, whose first process it is.
    pub fn fork_pid_namespace(&self) -> Self {
        kernel_namespaces::need(CloneFlags::CLONE_NEWPID);
        self.another(Op::ForkPidNamespace)
    }

    /// The process.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// The thread.
    pub fn tid(&self) -> i32 {
        self.tid.as_raw()
    }

    fn post(&self, op: Op, fd: Option<&OwnedFd>) {
        if let Some(earlier) = self.busy.borrow().as_ref() {
            panic!("{op:?} ordered while {earlier:?} is not finished");
        }
        let bytes = postcard::to_stdvec(&op).expect("an operation");
        send(&self.channel, &bytes, fd).unwrap_or_else(|errno| panic!("{op:?}: the actor is gone ({errno})"));
        *self.busy.borrow_mut() = Some(op);
    }

    /// Gives an order and does not wait.
    pub fn start(&self, op: Op) {
        self.post(op, None);
    }

    /// Returns whether an order is out.
    pub fn is_busy(&self) -> bool {
        self.busy.borrow().is_some()
    }

    /// Returns whether the answer to the order that is out comes within a time.
    pub fn answered(&self, limit: Duration) -> bool {
        let mut fds = [PollFd::new(self.channel.as_fd(), PollFlags::POLLIN)];
        let limit = PollTimeout::try_from(limit).expect("a short time");
        poll(&mut fds, limit).expect("poll") > 0
    }

    /// Waits for the answer to the order that is out.
    pub fn finish(&self) -> Answer {
        self.finish_with_fd().0
    }

    fn finish_with_fd(&self) -> (Answer, Option<OwnedFd>) {
        let op = self.busy.borrow_mut().take().expect("an order is out");
        assert!(self.answered(patience()), "blocked in {op:?}");
        let (bytes, fd) = receive(&self.channel).unwrap_or_else(|| panic!("the actor died in {op:?}"));
        (postcard::from_bytes(&bytes).expect("an answer"), fd)
    }

    /// Gives an order and waits for the answer.
    pub fn order(&self, op: Op) -> Answer {
        self.start(op);
        self.finish()
    }

    /// Gives an order whose answer is a number or an errno.
    pub fn number(&self, op: Op) -> nix::Result<u64> {
        let answer = self.order(op);
        self.number_of(answer)
    }

    fn number_of(&self, answer: Answer) -> nix::Result<u64> {
        match answer {
            Answer::Number(number) => Ok(number),
            Answer::Failed(errno) => Err(nix::errno::Errno::from_raw(errno)),
            other => panic!("{other:?} is not a number"),
        }
    }

    /// Returns whether the order that is out sleeps; `false` if the actor has answered it.
    ///
    /// A waiting thread is in state S before it checks its condition a last time. Such a condition
    /// is an order in the socket. So the thread must have taken the order, and have left its CPU.
    pub fn is_blocked(&self) -> bool {
        assert!(self.is_busy(), "nothing was ordered");
        let deadline = Instant::now() + patience();
        while Instant::now() < deadline {
            if self.answered(Duration::ZERO) {
                return false;
            }
            if self.sleeps('S') {
                return !self.answered(Duration::ZERO);
            }
            std::thread::yield_now();
        }
        panic!("the actor neither sleeps nor answers: {:?}", self.state());
    }

    /// Returns whether the thread has taken all orders and is in a state, by its letter in `/proc`.
    fn sleeps(&self, kind: char) -> bool {
        self.has_taken_orders() && self.has_left_its_cpu() && self.state() == Some(kind)
    }

    /// Returns whether the thread has left its CPU, rather than be about to.
    fn has_left_its_cpu(&self) -> bool {
        let call = std::fs::read_to_string(format!("/proc/{}/task/{}/syscall", self.pid, self.tid));
        call.is_ok_and(|call| !call.starts_with("running"))
    }

    /// Returns whether the socket to the thread is empty.
    fn has_taken_orders(&self) -> bool {
        let mut unread: libc::c_int = 0;
        // SAFETY: the request writes one int.
        let result = unsafe { libc::ioctl(self.channel.as_raw_fd(), libc::TIOCOUTQ, &raw mut unread) };
        nix::errno::Errno::result(result).expect("query the socket");
        unread == 0
    }

    /// Fails unless the order that is out puts the thread to a sleep that no signal ends.
    #[track_caller]
    pub fn expect_stuck(&self) {
        let deadline = Instant::now() + patience();
        while !self.sleeps('D') {
            assert!(!self.answered(Duration::ZERO), "did not block: {:?}", self.busy.borrow());
            assert!(Instant::now() < deadline, "is {:?} instead", self.state());
            std::thread::yield_now();
        }
    }

    /// Fails unless the order that is out blocks.
    #[track_caller]
    pub fn expect_blocked(&self) {
        assert!(self.is_blocked(), "did not block: {:?}", self.busy.borrow());
    }

    fn state(&self) -> Option<char> {
        let path = format!("/proc/{}/task/{}/stat", self.pid, self.tid);
        let stat = std::fs::read_to_string(path).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    }

    /// Interrupts the thread with a signal that has a handler.
    pub fn interrupt(&self) {
        // SAFETY: no memory is involved.
        let result = unsafe {
            libc::syscall(libc::SYS_tgkill, self.pid.as_raw(), self.tid.as_raw(), Signal::SIGUSR1 as i32)
        };
        nix::errno::Errno::result(result).expect("send a signal");
    }

    /// Has system calls of the process restart after a signal, where that is allowed.
    pub fn restart_calls(&self) {
        self.number(Op::RestartCalls { on: true }).expect("install a handler");
    }

    /// The number of signals that have interrupted the process.
    pub fn signals(&self) -> u64 {
        self.number(Op::CountSignals).expect("a number")
    }

    /// Kills the whole process and waits until it is dead.
    pub fn kill(&self) {
        kill(self.pid, Signal::SIGKILL).expect("kill");
        self.wait_dead();
    }

    /// Waits for the process's end; returns the signal that ended it, if one did.
    pub fn wait_dead(&self) -> Option<Signal> {
        *self.busy.borrow_mut() = None;
        if self.child.replace(false) {
            return match waitpid(self.pid, None).expect("wait for the actor") {
                WaitStatus::Signaled(_, signal, _) => Some(signal),
                _ => None,
            };
        }
        let deadline = Instant::now() + patience();
        while !matches!(self.state(), None | Some('Z' | 'X')) {
            assert!(Instant::now() < deadline, "the process does not end");
            std::thread::yield_now();
        }
        None
    }

    /// Makes the process end by itself.
    pub fn exit(&self) {
        self.start(Op::Exit);
        self.wait_dead();
    }

    /// Takes a device descriptor out of this process and gives it to another, whose slot is returned.
    pub fn hand_over(&self, slot: crate::ops::Slot, to: &Actor) -> crate::ops::Slot {
        self.start(Op::PassOut { slot });
        let (_, fd) = self.finish_with_fd();
        to.post(Op::PassIn, Some(&fd.expect("a descriptor")));
        to.number_of(to.finish()).expect("take a descriptor") as usize
    }
}

/// The descriptors of an actor's process.
impl Actor {
    /// Gives the process a descriptor of a file; returns the number.
    pub fn give(&self, file: &impl AsRawFd) -> i32 {
        // SAFETY: the file stays open while the message is sent, and the actor has a descriptor then.
        let fd = unsafe { BorrowedFd::borrow_raw(file.as_raw_fd()) };
        let fd = fd.try_clone_to_owned().expect("another descriptor");
        self.post(Op::TakeFile, Some(&fd));
        self.number_of(self.finish()).expect("take a descriptor") as i32
    }

    /// A descriptor of our own for a file that the process has.
    pub fn share(&self, fd: i32) -> OwnedFd {
        self.start(Op::GiveFile { fd });
        let (answer, given) = self.finish_with_fd();
        self.number_of(answer).expect("a number that is open");
        given.expect("a descriptor")
    }

    /// Makes the process close a descriptor.
    #[track_caller]
    pub fn close_file(&self, fd: i32) {
        self.number(Op::CloseFile { fd }).expect("close a descriptor");
    }

    /// The file of a descriptor, by its link in `/proc`; `None` if the number is not open.
    pub fn file_name(&self, fd: i32) -> Option<String> {
        let link = std::fs::read_link(format!("/proc/{}/fd/{fd}", self.pid)).ok()?;
        Some(link.to_str().expect("a name of text").to_string())
    }

    /// The flags of an open descriptor, in terms of `open(2)`, from `/proc`.
    pub fn file_flags(&self, fd: i32) -> i32 {
        let info =
            std::fs::read_to_string(format!("/proc/{}/fdinfo/{fd}", self.pid)).expect("an open number");
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).expect("flags");
        i32::from_str_radix(flags.trim(), 8).expect("an octal number")
    }

    /// The numbers that are open.
    pub fn open_files(&self) -> Vec<i32> {
        let folder = std::fs::read_dir(format!("/proc/{}/fd", self.pid)).expect("the process's files");
        let number =
            |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
        let mut numbers: Vec<i32> = folder.filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Limits the process to so many more descriptors: the lowest free ones.
    pub fn limit_files(&self, more: usize) {
        let open = self.open_files();
        let mut free = (0..).filter(|number| !open.contains(number));
        let limit = free.nth(more).expect("endless") as u64;
        self.set_limit(libc::RLIMIT_NOFILE, limit);
    }

    /// Takes that limit away.
    pub fn unlimit_files(&self) {
        self.set_limit(libc::RLIMIT_NOFILE, 1024);
    }
}
