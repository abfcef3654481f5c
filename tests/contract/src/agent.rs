// SPDX-License-Identifier: GPL-2.0
//! The actor's own side: a loop that takes an operation, executes it, and answers.

use crate::arena::counter_at;
use crate::ops::{Answer, Op, Slot, WriteReadOp};
use binder_sys::{BinderWriteRead, Device, Errno};
use nix::fcntl::{fcntl, FcntlArg, FdFlag, OFlag};
use nix::sched::{clone, unshare, CloneFlags};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::mman::{mmap, mmap_anonymous, mprotect, mremap, munmap, MRemapFlags, MapFlags, ProtFlags};
use nix::sys::signal::{sigaction, SaFlags, SigAction, SigHandler, SigSet, Signal};
use nix::sys::socket::{recvmsg, sendmsg, ControlMessage, ControlMessageOwned, MsgFlags};
use nix::sys::wait::waitpid;
use nix::unistd::{fork, getpid, gettid, seteuid, ForkResult, Uid};
use std::cell::RefCell;
use std::ffi::{c_void, CString};
use std::io::{IoSlice, IoSliceMut};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Longer than any message: payloads lie in the arena, and do not travel.
const MESSAGE: usize = 192 << 10;

/// The devices and epoll sets of this process, which its threads share.
static DEVICES: Mutex<Vec<Option<Arc<Device>>>> = Mutex::new(Vec::new());
static EPOLLS: Mutex<Vec<Arc<Epoll>>> = Mutex::new(Vec::new());

/// The number of signals in the handler.
static SIGNALS: AtomicU32 = AtomicU32::new(0);

/// Makes `SIGUSR1` interrupt a system call and be counted, and do nothing else.
pub fn install_wake_up_handler(flags: SaFlags) {
    extern "C" fn count(_: i32) {
        SIGNALS.fetch_add(1, Relaxed);
    }
    let action = SigAction::new(SigHandler::Handler(count), flags, SigSet::empty());
    // SAFETY: the handler adds to a number, which is safe at any time.
    unsafe { sigaction(Signal::SIGUSR1, &action) }.expect("install a handler");
}

/// Sends one message, with a descriptor if there is one.
pub fn send(channel: &OwnedFd, bytes: &[u8], fd: Option<&impl AsRawFd>) -> nix::Result<()> {
    let fds: Vec<_> = fd.iter().map(|fd| fd.as_raw_fd()).collect();
    let rights = [ControlMessage::ScmRights(&fds)];
    let control = if fds.is_empty() { &rights[..0] } else { &rights[..] };
    sendmsg::<()>(channel.as_raw_fd(), &[IoSlice::new(bytes)], control, MsgFlags::MSG_NOSIGNAL, None)
        .map(drop)
}

/// Receives one message and the descriptor that came with it; `None` if the other side is gone.
pub fn receive(channel: &OwnedFd) -> Option<(Vec<u8>, Option<OwnedFd>)> {
    thread_local! { static ROOM: RefCell<Vec<u8>> = RefCell::new(vec![0; MESSAGE]) }
    ROOM.with_borrow_mut(|room| receive_into(channel, room))
}

fn receive_into(channel: &OwnedFd, room: &mut [u8]) -> Option<(Vec<u8>, Option<OwnedFd>)> {
    let mut space = nix::cmsg_space!(i32);
    let mut parts = [IoSliceMut::new(room)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message = loop {
        match recvmsg::<()>(channel.as_raw_fd(), &mut parts, Some(&mut space), flags) {
            Err(Errno::EINTR) => continue,
            other => break other.ok()?,
        }
    };
    let fd = message.cmsgs().ok()?.find_map(|control| match control {
        // SAFETY: the kernel has just installed this descriptor for us, and nobody else uses it.
        ControlMessageOwned::ScmRights(fds) => Some(unsafe { OwnedFd::from_raw_fd(*fds.first()?) }),
        _ => None,
    });
    let length = message.bytes;
    assert!(!message.flags.contains(MsgFlags::MSG_TRUNC), "a message is too long");
    (length > 0).then(|| (room[..length].to_vec(), fd))
}

/// Takes orders until the conductor goes away.
pub fn serve(channel: OwnedFd) {
    while let Some((bytes, fd)) = receive(&channel) {
        let op: Op = postcard::from_bytes(&bytes).expect("an operation");
        let mut pass = None;
        let answer = match op {
            Op::EndThread => return,
            Op::Exec { slot } => exec(&channel, slot),
            Op::Exit => std::process::exit(0),
            Op::Fork | Op::ForkPidNamespace => {
                match fork_agent(&op, fd.expect("a channel for the fork"), &channel) {
                    Some(answer) => answer,
                    None => return,
                }
            }
            op => execute(op, fd, &mut pass).unwrap_or_else(|errno| Answer::Failed(errno as i32)),
        };
        let bytes = postcard::to_stdvec(&answer).expect("an answer");
        if send(&channel, &bytes, pass.as_ref()).is_err() {
            return;
        }
    }
}

/// Forks; the child serves the new channel and comes back with `None` when it is done.
fn fork_agent(op: &Op, channel: OwnedFd, parent: &OwnedFd) -> Option<Answer> {
    if matches!(op, Op::ForkPidNamespace) {
        if let Err(errno) = unshare(CloneFlags::CLONE_NEWPID) {
            return Some(Answer::Failed(errno as i32));
        }
    }
    // SAFETY: the other threads of this process hold no locks of ours while a fork is ordered: the
    // conductor orders one thing at a time.
    match unsafe { fork() } {
        Ok(ForkResult::Parent { child }) => Some(Answer::Number(child.as_raw() as u64)),
        Ok(ForkResult::Child) => {
            // The parent's end must not stay open here, or its death would go unnoticed.
            let _ = nix::unistd::close(parent.as_raw_fd());
            serve(channel);
            std::process::exit(0)
        }
        Err(errno) => Some(Answer::Failed(errno as i32)),
    }
}

/// Replaces the program by itself; continues in [`serve_after_exec`], or answers the errno.
fn exec(channel: &OwnedFd, slot: Option<Slot>) -> Answer {
    let kept = slot.and_then(|slot| device(slot).ok()).and_then(|device| device.duplicate().ok());
    let mut words = vec![c"contract".to_owned(), c"agent".to_owned()];
    let device = kept.as_ref().map(AsFd::as_fd);
    for fd in [Some(channel.as_fd()), device].into_iter().flatten() {
        fcntl(fd, FcntlArg::F_SETFD(FdFlag::empty())).expect("keep a descriptor");
        words.push(CString::new(fd.as_raw_fd().to_string()).expect("a number"));
    }
    match nix::unistd::execv(c"/proc/self/exe", &words) {
        Err(errno) => Answer::Failed(errno as i32),
        Ok(never) => match never {},
    }
}

/// The other side of [`Op::Exec`]: reports to the conductor, and takes orders.
pub fn serve_after_exec(channel: i32, device: Option<i32>) {
    // SAFETY: the descriptors were left open for this program, which has just begun.
    let (channel, device) = unsafe {
        (OwnedFd::from_raw_fd(channel), device.map(|device| Device::from_fd(OwnedFd::from_raw_fd(device))))
    };
    let answer = device.map_or(Answer::Number(0), keep);
    let bytes = postcard::to_stdvec(&answer).expect("an answer");
    if send(&channel, &bytes, None::<&OwnedFd>).is_ok() {
        serve(channel);
    }
}

fn device(slot: Slot) -> nix::Result<Arc<Device>> {
    DEVICES.lock().unwrap().get(slot).cloned().flatten().ok_or(Errno::EBADF)
}

fn keep(device: Device) -> Answer {
    let mut devices = DEVICES.lock().unwrap();
    devices.push(Some(Arc::new(device)));
    Answer::Number(devices.len() as u64 - 1)
}

fn execute(op: Op, fd: Option<OwnedFd>, pass: &mut Option<Arc<Device>>) -> nix::Result<Answer> {
    let done = Answer::Number(0);
    Ok(match op {
        Op::Open { path, flags } => {
            keep(Device::open_with(path.as_str(), OFlag::from_bits_retain(flags) | OFlag::O_CLOEXEC)?)
        }
        Op::Close { slot } => {
            DEVICES.lock().unwrap()[slot] = None;
            done
        }
        Op::Duplicate { slot } => keep(device(slot)?.duplicate()?),
        Op::BindMemory { node } => {
            let nodes: libc::c_ulong = 1 << node;
            let bits = libc::c_ulong::BITS + 1;
            // SAFETY: the kernel reads all bits behind the pointer but the last of the count.
            Errno::result(unsafe {
                libc::syscall(libc::SYS_set_mempolicy, libc::MPOL_BIND, &raw const nodes, bits)
            })?;
            done
        }
        Op::Watch { address, length, mode, features } => {
            Answer::Number(crate::userfault::watch(address, length, mode, features)?.into_raw_fd() as u64)
        }
        Op::TakeTags { on, check } => crate::tagging::take_tags(on, check).map(|()| done)?,
        Op::TaggedMemory { length, tag } => Answer::Number(crate::tagging::memory(length, tag)?),
        Op::WriteRead { slot, args } => write_read(&*device(slot)?, args),
        Op::Ioctl { slot, number, mut argument } => {
            assert!(binder_sys::ioctl::size_of_number(number) <= argument.len());
            // SAFETY: the driver writes at most what the number announces, which lies in the argument.
            // The conductor puts no addresses into arguments.
            unsafe { device(slot)?.raw_ioctl(number, argument.as_mut_ptr() as usize)? };
            Answer::Argument(argument)
        }
        Op::IoctlFault { slot, number } => device(slot)?.ioctl_fault(number).map(|()| done)?,
        Op::IoctlAt { slot, number, address } => {
            let device = device(slot)?;
            // SAFETY: the conductor names memory that it has set aside for the answer.
            unsafe { device.ioctl_at(number, address) }.map(|()| done)?
        }
        Op::Poll { slot, timeout_ms } => {
            Answer::Number(device(slot)?.poll(Some(timeout_ms))?.bits() as u16 as u64)
        }
        Op::EpollCreate { slot, edge } => {
            let set = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
            let trigger = if edge { EpollFlags::EPOLLET } else { EpollFlags::empty() };
            set.add(&*device(slot)?, EpollEvent::new(EpollFlags::EPOLLIN | trigger, 0))?;
            let mut sets = EPOLLS.lock().unwrap();
            sets.push(Arc::new(set));
            Answer::Number(sets.len() as u64 - 1)
        }
        Op::EpollWait { set, timeout_ms } => {
            let set = EPOLLS.lock().unwrap()[set].clone();
            let mut events = [EpollEvent::empty()];
            let count = set.wait(&mut events, EpollTimeout::from(timeout_ms))?;
            Answer::Number(if count == 0 { 0 } else { events[0].events().bits() as u64 })
        }
        Op::AioPoll { slot, timeout_ms } => Answer::Number(crate::aio::poll(&*device(slot)?, timeout_ms)?),
        Op::NonBlocking { slot, on } => device(slot)?.set_nonblocking(on).map(|()| done)?,
        Op::Thread => start_thread(fd.expect("a channel for the thread")),
        Op::SetUser { uid } => seteuid(Uid::from_raw(uid)).map(|()| done)?,
        Op::RestartCalls { on } => {
            install_wake_up_handler(if on { SaFlags::SA_RESTART } else { SaFlags::empty() });
            done
        }
        Op::CountSignals => Answer::Number(u64::from(SIGNALS.load(Relaxed))),
        Op::SetContext { context } => {
            std::fs::write("/proc/thread-self/attr/current", context).map(|()| done).map_err(errno_of)?
        }
        Op::GetPid => Answer::Number(getpid().as_raw() as u64),
        Op::PassOut { slot } => {
            *pass = Some(device(slot)?);
            done
        }
        Op::Spin { counter, stop } => {
            spin(counter, stop);
            done
        }
        Op::SpinAfter { op, counter, stop } => {
            let answer = execute(*op, fd, pass);
            spin(counter, stop);
            answer?
        }
        Op::InTurn { ops } => {
            let answers = ops.into_iter().map(|op| execute(op, None, pass));
            Answer::All(answers.collect::<nix::Result<_>>()?)
        }
        Op::Unshare { flags } => unshare(CloneFlags::from_bits_retain(flags)).map(|()| done)?,
        Op::FailNth { nth, op } => fail_nth(nth, *op, pass)?,
        Op::InTwin { op } => in_twin(*op, pass)?,
        Op::TakeFile => Answer::Number(fd.expect("a descriptor").into_raw_fd() as u64),
        Op::GiveFile { fd } => {
            // SAFETY: the descriptor is only looked at, to be duplicated; if it is not open, that fails.
            let given = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned();
            *pass = Some(Arc::new(Device::from_fd(given.map_err(|_| Errno::EBADF)?)));
            done
        }
        Op::CloseFile { fd } => nix::unistd::close(fd).map(|()| done)?,
        Op::DeviceAs { slot, fd } => {
            let device = device(slot)?;
            // SAFETY: no object of this process owns the number: the conductor got it from a transaction.
            keep(Device::from_fd(unsafe { nix::unistd::dup2_raw(&*device, fd)? }))
        }
        Op::PassIn => keep(Device::from_fd(fd.expect("a descriptor"))),
        op => memory(op)?,
    })
}

fn spin(counter: u64, stop: u64) {
    while counter_at(stop).load(Relaxed) == 0 {
        counter_at(counter).fetch_add(1, Relaxed);
    }
}

pub fn errno_of(error: std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

/// Does an operation in another process with this one's memory; this thread waits for it.
fn in_twin(op: Op, pass: &mut Option<Arc<Device>>) -> nix::Result<Answer> {
    let (mut op, mut answer) = (Some(op), None);
    let mut act = || {
        answer = op.take().map(|op| execute(op, None, pass));
        0
    };
    let mut stack = vec![0; 1 << 18];
    let flags = CloneFlags::CLONE_VM | CloneFlags::CLONE_VFORK;
    // SAFETY: the stack is the new process's alone, and this thread sleeps until that has ended.
    let twin = unsafe { clone(Box::new(&mut act), &mut stack, flags, Some(libc::SIGCHLD))? };
    waitpid(twin, None)?;
    answer.expect("it was done")
}

fn fail_nth(nth: u32, op: Op, pass: &mut Option<Arc<Device>>) -> nix::Result<Answer> {
    let act = || execute(op, None, pass).unwrap_or_else(|errno| Answer::Failed(errno as i32));
    let (answer, fired) = with_a_failure(nth, act)?;
    Ok(Answer::Injected { fired, answer: Box::new(answer) })
}

/// Makes the n-th possible failure in the calling thread happen during a closure. Returns whether
/// there were so many.
pub fn with_a_failure<T>(nth: u32, act: impl FnOnce() -> T) -> nix::Result<(T, bool)> {
    use std::os::unix::fs::FileExt;
    let mut options = std::fs::OpenOptions::new();
    let control = options.read(true).write(true).open("/proc/thread-self/fail-nth").map_err(errno_of)?;
    control.write_all_at(nth.to_string().as_bytes(), 0).map_err(errno_of)?;
    let result = act();
    let mut left = [0; 16];
    // The counter reads 0 once the failure has happened. Reading it is one more chance to fail.
    let fired = control.read_at(&mut left, 0).is_ok_and(|length| left[..length].trim_ascii() == b"0");
    while control.write_all_at(b"0", 0).is_err() {}
    Ok((result, fired))
}

fn start_thread(channel: OwnedFd) -> Answer {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        tell.send(gettid()).expect("the starter waits");
        serve(channel);
    });
    Answer::Number(told.recv().expect("the thread starts").as_raw() as u64)
}

fn memory(op: Op) -> nix::Result<Answer> {
    let pointer = |address: u64| NonNull::new(address as *mut c_void).ok_or(Errno::EFAULT);
    Ok(Answer::Number(match op {
        Op::Map { slot, length, protection, flags, offset } => {
            let length = NonZeroUsize::new(length).ok_or(Errno::EINVAL)?;
            let protection = ProtFlags::from_bits_retain(protection);
            // The type is 32 bits wide for 32-bit tasks.
            let offset = offset as libc::off_t;
            // SAFETY: the conductor never passes a fixed address, so nothing is replaced.
            let mapped = unsafe {
                mmap(None, length, protection, MapFlags::from_bits_retain(flags), &*device(slot)?, offset)?
            };
            mapped.as_ptr() as u64
        }
        Op::Unmap { address, length } => {
            // SAFETY: the conductor names only ranges that `Op::Map` has made; nothing refers to them.
            unsafe { munmap(pointer(address)?, length)? };
            0
        }
        Op::Protect { address, length, protection } => {
            // SAFETY: as above.
            unsafe { mprotect(pointer(address)?, length, ProtFlags::from_bits_retain(protection))? };
            0
        }
        Op::Cover { address, length } => {
            let at = NonZeroUsize::new(address as usize).ok_or(Errno::EFAULT)?;
            let length = NonZeroUsize::new(length).ok_or(Errno::EINVAL)?;
            let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
            let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_FIXED;
            // SAFETY: as for `Op::Unmap`.
            unsafe { mmap_anonymous(Some(at), length, protection, flags)? }.as_ptr() as u64
        }
        Op::Move { address, length } => {
            let (none, flags) = (ProtFlags::PROT_NONE, MapFlags::MAP_PRIVATE);
            let size = NonZeroUsize::new(length).ok_or(Errno::EINVAL)?;
            // SAFETY: a new anonymous mapping replaces nothing.
            let room = unsafe { mmap_anonymous(None, size, none, flags)? };
            let how = MRemapFlags::MREMAP_MAYMOVE | MRemapFlags::MREMAP_FIXED;
            // SAFETY: what is moved is as for `Op::Unmap`; what is replaced was just made.
            unsafe { mremap(pointer(address)?, length, length, how, Some(room))? }.as_ptr() as u64
        }
        Op::Advise { address, length, advice } => {
            // SAFETY: as for `Op::Unmap`: whatever the advice does, nothing refers to the range.
            Errno::result(unsafe { libc::madvise(address as *mut c_void, length, advice) })?;
            0
        }
        Op::Fill { address, length, byte } => {
            // SAFETY: the conductor names a range that `Op::Cover` has made.
            unsafe { std::ptr::write_bytes(address as *mut u8, byte, length) };
            0
        }
        Op::Touch { address } => {
            // SAFETY: the address lies in a mapping; if it has no page, the process ends, as ordered.
            u64::from(unsafe { (address as *const u8).read_volatile() })
        }
        Op::IntoPipe { address, length } => {
            let (read, write) = nix::unistd::pipe()?;
            let range = libc::iovec { iov_base: address as *mut c_void, iov_len: length };
            // SAFETY: the range lies in a mapping, and the kernel only looks for its pages.
            let put = Errno::result(unsafe { libc::vmsplice(write.as_raw_fd(), &range, 1, 0) })?;
            assert_eq!(put, length as isize);
            read.into_raw_fd() as u64
        }
        Op::Copy { from, to, length } => {
            // SAFETY: the source lies in a mapping, the target in the arena, cut off for this copy.
            unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, length) };
            0
        }
        other => unreachable!("{other:?} is one for the loop"),
    }))
}

fn write_read(device: &Device, args: WriteReadOp) -> Answer {
    let mut returns = vec![0u8; args.room];
    let mut argument = BinderWriteRead {
        write_size: args.write_size.unwrap_or(args.commands.len() as u64),
        write_consumed: args.write_consumed,
        write_buffer: args.write_buffer.unwrap_or(args.commands.as_ptr() as u64),
        read_size: args.read_size.unwrap_or(args.room as u64),
        read_consumed: args.read_consumed,
        read_buffer: args.read_buffer.unwrap_or(returns.as_mut_ptr() as u64),
    };
    let look = |at| {
        if let Some(watch) = args.watch {
            counter_at(watch.seen + at).store(counter_at(watch.counter).load(Relaxed), Relaxed);
        }
    };
    look(0);
    // SAFETY: the read buffer has `room` bytes; where the conductor claims more or another address, it
    // is one that is not mapped, or the driver is expected to write less.
    let errno = unsafe { device.write_read_raw(&mut argument) }.err().map_or(0, |errno| errno as i32);
    look(8);
    Answer::WriteRead {
        errno,
        write_consumed: argument.write_consumed,
        read_consumed: argument.read_consumed,
        returns,
    }
}
