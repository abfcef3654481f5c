// SPDX-License-Identifier: GPL-2.0
//! Faults that an incumbent once had and that no other group is about.

use crate::actor::PATIENCE;
use crate::cases;
use crate::ops::{Answer, Op};
use crate::port::{bytes, empty, introduce, object};
use crate::stage::Stage;
use binder_sys::*;
use nix::errno::Errno;
use nix::sys::mman::ProtFlags;
use nix::sys::ptrace;
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

cases! { "lessons":
    lesson_c02_two_threads_free_one_buffer ["OBJ-12"],
    lesson_c04_counts_dropped_while_the_owner_dies ["NODE-12", "REL-2"],
    lesson_r04_received_data_cannot_be_changed ["MMAP-2", "OBJ-11"],
    lesson_r23_open_fails_at_each_step ["OPEN-1"],
    calls_fail_at_each_step ["TXN-19", "OBJ-10"],
}

fn lesson_c02_two_threads_free_one_buffer(t: &Stage) {
    let (manager, client) = (t.manager_with(8192), t.client());
    let other = manager.looper();
    for i in 0..60 {
        client.start_call(0, 0, &bytes(&[i; 4096]));
        let call = manager.wait_call();
        let mut commands = Commands::new();
        commands.free_buffer(call.buffer);
        let order =
            || crate::ops::WriteReadOp { commands: commands.as_bytes().to_vec(), ..Default::default() };
        manager.start_raw(order());
        other.start_raw(order());
        assert_eq!(manager.finish_raw().errno, Errno::from_raw(0));
        assert_eq!(other.finish_raw().errno, Errno::from_raw(0));
        manager.reply(&empty());
        client.free(&client.wait_reply());
    }
    // Each was freed once: what is free is one piece, no more and no less.
    client.start_call(0, 0, &bytes(&[1; 8192]));
    let call = manager.wait_call();
    let second = t.client();
    assert_eq!(second.refused(&second.place(0, 0, &bytes(&[0; 8]))), Return::FailedReply);
    manager.free(&call);
    manager.reply(&empty());
    client.wait_reply();
}

fn lesson_c04_counts_dropped_while_the_owner_dies(t: &Stage) {
    let manager = t.manager();
    for round in 0..12 {
        let (owner, holder) = (t.server(), t.client());
        let handles: Vec<u32> = (1..=6)
            .map(|ptr| introduce(&manager, &owner, FlatBinderObject::binder(ptr * 16, 0), &holder))
            .collect();
        // News of counts are queued at the owner, read by nobody, and change while he dies.
        let mut commands = Commands::new();
        for handle in &handles {
            commands.increfs(*handle).acquire(*handle).release(*handle).release(*handle).decrefs(*handle);
        }
        let commands = commands.as_bytes().to_vec();
        holder.start_raw(crate::ops::WriteReadOp { commands, ..Default::default() });
        if round % 2 == 0 {
            std::thread::yield_now();
        }
        kill(Pid::from_raw(owner.actor.pid()), Signal::SIGKILL).expect("kill");
        assert_eq!(holder.finish_raw().errno, Errno::from_raw(0));
        owner.actor.wait_dead();
        for handle in &handles {
            assert_eq!(
                holder.refused(&holder.place(*handle, 0, &empty())),
                Return::FailedReply,
                "no count is left"
            );
        }
    }
}

fn lesson_r04_received_data_cannot_be_changed(t: &Stage) {
    let (manager, client) = (t.manager(), t.client());
    client.start_call(0, 0, &object(FlatBinderObject::binder(0x10, 0x20)));
    let call = manager.wait_call();
    let before = manager.data(&call);
    // Not by the receiver, who cannot make it writable ...
    let (address, length) = manager.space.expect("a space");
    let protection = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE).bits();
    assert_eq!(manager.actor.number(Op::Protect { address, length, protection }), Err(Errno::EACCES));
    // ... nor by anybody with rights on his memory: not through /proc, not as a debugger.
    let path = format!("/proc/{}/mem", manager.actor.pid());
    let memory = std::fs::OpenOptions::new().write(true).open(path).expect("open the memory");
    assert!(memory.write_at(&[0xff; 8], call.buffer).is_err(), "written through /proc");
    let pid = Pid::from_raw(manager.actor.pid());
    ptrace::attach(pid).expect("attach");
    nix::sys::wait::waitpid(pid, None).expect("wait for the stop");
    assert!(ptrace::write(pid, call.buffer as *mut std::ffi::c_void, -1).is_err(), "written by a debugger");
    ptrace::detach(pid, None).expect("detach");
    assert_eq!(manager.data(&call), before);
    manager.reply(&empty());
    client.wait_reply();
}

/// Has an operation fail at its first, second, ... allocation or copy, until it succeeds; says how
/// often it failed.
fn fail_at_each_step(actor: &crate::actor::Actor, op: &Op, undo: impl Fn(Answer)) -> u32 {
    let deadline = Instant::now() + 4 * PATIENCE;
    for nth in 1.. {
        assert!(Instant::now() < deadline, "no end after {nth} steps");
        let answer = actor.order(Op::FailNth { nth, op: Box::new(op.clone()) });
        let Answer::Injected { fired, answer } = answer else {
            panic!("{answer:?}");
        };
        if !matches!(*answer, Answer::Failed(_)) {
            undo(*answer);
        }
        if !fired {
            return nth - 1;
        }
    }
    unreachable!()
}

/// Whether allocations can be made to fail, those that may wait included.
fn has_fault_injection() -> bool {
    let settings = ["failslab", "fail_page_alloc"].map(|what| Path::new("/sys/kernel/debug").join(what));
    let set = |folder: &Path, name: &str, value: &str| std::fs::write(folder.join(name), value).is_ok();
    Path::new("/proc/self/fail-nth").exists()
        && settings.iter().all(|folder| set(folder, "ignore-gfp-wait", "N") && set(folder, "verbose", "0"))
}

fn lesson_r23_open_fails_at_each_step(t: &Stage) {
    if !t.needs("CONFIG_FAULT_INJECTION and debugfs", has_fault_injection()) {
        return;
    }
    let client = t.client();
    let path = t.device("binder").to_str().expect("text").to_string();
    let open = Op::Open { path, flags: libc::O_RDWR };
    let steps = fail_at_each_step(&client.actor, &open, |answer| {
        if let Answer::Number(slot) = answer {
            client.actor.number(Op::Close { slot: slot as usize }).expect("close");
        }
    });
    assert!(steps > 0, "nothing was made to fail");
    // What was left behind, the runner finds when it unloads the module. The device works.
    let manager = t.manager();
    client.round_trip(0, &manager, &empty(), &empty());
}

fn calls_fail_at_each_step(t: &Stage) {
    if !t.needs("CONFIG_FAULT_INJECTION and debugfs", has_fault_injection()) {
        return;
    }
    let (manager, client) = (t.manager(), t.server());
    for ptr in [0x10, 0x20, 0x30] {
        let mut commands = Commands::new();
        let parcel = object(FlatBinderObject::binder(ptr, 0));
        let flags = TransactionFlags::ONE_WAY;
        let call = BinderTransactionData { flags: flags.bits(), ..client.place(0, 0, &parcel) };
        commands.transaction(&call);
        let args = crate::ops::WriteReadOp { commands: commands.as_bytes().to_vec(), ..Default::default() };
        let write = Op::WriteRead { slot: client.slot, args };
        fail_at_each_step(&client.actor, &write, |_| {
            // Refused or queued: one of the two, and nothing in between.
            let said = client.drain();
            let queued = said.contains(&Return::TransactionComplete);
            if queued {
                manager.free(&manager.wait_call());
            } else if !said.is_empty() {
                assert!(said.contains(&Return::FailedReply), "{said:?}");
            }
            client.answer_counts();
        });
    }
    assert_eq!(manager.drain(), []);
    client.round_trip(0, &manager, &empty(), &empty());
}
