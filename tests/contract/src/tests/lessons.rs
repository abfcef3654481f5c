// SPDX-License-Identifier: GPL-2.0
//! Faults that an incumbent once had and that no other group is about.

use super::*;
use nix::sys::ptrace;
use std::os::unix::fs::FileExt;

/// Gives a holder handles on six nodes of an owner.
fn six(manager: &Port, owner: &Port, holder: &Port) -> [u32; 6] {
    [1, 2, 3, 4, 5, 6].map(|ptr| introduce(manager, owner, FlatBinderObject::binder(ptr * 16, 0), holder))
}

// The owner's end walks through the links on its nodes while their holder clears them.
case!(lesson_r01_links_withdrawn_while_the_owner_dies, ["DN-2", "DN-3", "REL-2"], |t| {
    let manager = t.manager();
    for round in 0..8u64 {
        let (owner, holder) = (t.server(), t.server());
        let handles = six(&manager, &owner, &holder);
        let (mut request, mut clear) = (Commands::new(), Commands::new());
        for handle in &handles {
            request.request_death(*handle, u64::from(*handle));
            clear.clear_death(*handle, u64::from(*handle));
        }
        holder.write(&request);
        kill(Pid::from_raw(owner.actor.pid()), Signal::SIGKILL).expect("kill");
        std::thread::sleep(Duration::from_micros(300 * (round % 8)));
        holder.write(&clear);
        owner.actor.wait_dead();
        // Each link reads its clear once, and before that perhaps the death.
        let (mut died, mut withdrawn) = (Vec::new(), Vec::new());
        until("all are withdrawn", || {
            for item in holder.drain() {
                match item {
                    Return::DeadBinder(cookie) => {
                        holder.send(|c| c.dead_binder_done(cookie));
                        died.push(cookie);
                    }
                    Return::ClearDeathNotificationDone(cookie) => withdrawn.push(cookie),
                    other => panic!("{other:?}"),
                }
            }
            (withdrawn.len() >= handles.len()).then_some(())
        });
        withdrawn.sort_unstable();
        assert_eq!(withdrawn, handles.map(u64::from));
        died.sort_unstable();
        assert!(died.windows(2).all(|two| two[0] < two[1]), "a death is returned twice: {died:?}");
        assert!(died.iter().all(|cookie| withdrawn.contains(cookie)));
        assert_eq!(holder.drain(), [], "returned after it was cleared");
    }
});

// A link that comes too late for the owner's end to find it gets the death, too.
case!(lesson_c05_links_requested_while_the_owner_dies, ["DN-1", "DN-2"], Stage::manager, |t, manager| {
    for round in 0..8u64 {
        let (owner, holder) = (t.server(), t.server());
        let handles = six(&manager, &owner, &holder);
        let mut request = Commands::new();
        for handle in &handles {
            request.request_death(*handle, u64::from(*handle));
        }
        kill(Pid::from_raw(owner.actor.pid()), Signal::SIGKILL).expect("kill");
        std::thread::sleep(Duration::from_micros(300 * (round % 8)));
        holder.write(&request);
        let mut died = Vec::new();
        until("all deaths are read", || {
            died.extend(holder.drain());
            (died.len() >= handles.len()).then_some(())
        });
        died.sort_unstable_by_key(|item| format!("{item:?}"));
        assert_eq!(died, handles.map(|handle| Return::DeadBinder(handle.into())));
        owner.actor.wait_dead();
    }
});

// Handles must not be given to a process whose handles are being taken away.
case!(objects_for_someone_who_dies, ["REL-2", "OBJ-10"], Stage::client, |t, client| {
    for round in 0..8u64 {
        let manager = t.manager();
        let two = |ptr| [FlatBinderObject::binder(ptr, 0), FlatBinderObject::weak_binder(ptr + 8, 0)];
        client.start_call(0, 0, &parcel_of((1..=8).flat_map(|number| two(number * 16))));
        std::thread::sleep(Duration::from_micros(200 * (round % 6)));
        manager.kill();
        assert!(matches!(client.wait_refusal(), Return::DeadReply | Return::FailedReply));
        // Nobody holds any of them, and their owner reads all releases.
        client.expect_forgotten();
    }
});

case!(lesson_c02_two_threads_free_one_buffer, ["OBJ-12"], |t| {
    let (manager, client) = (t.manager_with(2 * page()), t.client());
    let other = manager.looper();
    for i in 0..40 {
        let call = client.call(&manager, 0, 0, &bytes(&vec![i; page()]));
        let commands = stream(|c| c.free_buffer(call.buffer));
        manager.start_raw(WriteReadOp::of(&commands));
        other.start_raw(WriteReadOp::of(&commands));
        assert_eq!(manager.finish_raw().errno, Errno::from_raw(0));
        assert_eq!(other.finish_raw().errno, Errno::from_raw(0));
        client.free(&manager.answer(&client, &empty()));
    }
    // Each was freed once: the free space is exactly one piece.
    let call = client.call(&manager, 0, 0, &bytes(&vec![1; 2 * page()]));
    let second = t.client();
    assert_eq!(second.refused(&second.place(0, 0, &bytes(&[0; 8]))), Return::FailedReply);
    finish(&manager, &client, &call);
});

case!(lesson_c04_counts_dropped_while_the_owner_dies, ["NODE-12", "REL-2"], Stage::manager, |t, manager| {
    for round in 0..8 {
        let (owner, holder) = (t.server(), t.client());
        let handles = six(&manager, &owner, &holder);
        // Count notifications are queued at the owner, read by nobody, and change while it dies.
        let mut commands = Commands::new();
        for handle in &handles {
            commands.increfs(*handle).acquire(*handle).release(*handle).release(*handle).decrefs(*handle);
        }
        holder.start_raw(WriteReadOp::of(&commands));
        if round % 2 == 0 {
            std::thread::yield_now();
        }
        kill(Pid::from_raw(owner.actor.pid()), Signal::SIGKILL).expect("kill");
        assert_eq!(holder.finish_raw().errno, Errno::from_raw(0));
        owner.actor.wait_dead();
        for handle in &handles {
            let refused = holder.refused(&holder.place(*handle, 0, &empty()));
            assert_eq!(refused, Return::FailedReply, "no count is left");
        }
    }
});

case!(lesson_r04_received_data_cannot_be_changed, ["MMAP-2", "OBJ-11"], pair, |t, (manager, client)| {
    let call = client.call(&manager, 0, 0, &object(FlatBinderObject::binder(0x10, 0x20)));
    let before = manager.data(&call);
    // Not by the receiver, who cannot make it writable ...
    let (address, length) = manager.space.expect("a space");
    let protection = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE).bits();
    assert_eq!(manager.actor.number(Op::Protect { address, length, protection }), Err(Errno::EACCES));
    // ... nor by anybody with rights on its memory: not through /proc, not as a debugger.
    let path = format!("/proc/{}/mem", manager.actor.pid());
    let memory = std::fs::OpenOptions::new().write(true).open(path).expect("open the memory");
    assert!(memory.write_at(&[0xff; 8], call.buffer).is_err(), "written through /proc");
    let pid = Pid::from_raw(manager.actor.pid());
    ptrace::attach(pid).expect("attach");
    nix::sys::wait::waitpid(pid, None).expect("wait for the stop");
    assert!(ptrace::write(pid, call.buffer as *mut std::ffi::c_void, -1).is_err(), "written by a debugger");
    ptrace::detach(pid, None).expect("detach");
    assert_eq!(manager.data(&call), before);
    manager.answer(&client, &empty());
});

/// A buffer of traces of its own, in which this event is recorded.
struct Trace(PathBuf);

impl Trace {
    fn of(t: &Stage, event: &str) -> Self {
        let root = t.directory("tracing");
        let mounted = mount(None::<&str>, &root, Some("tracefs"), MsFlags::empty(), None::<&str>);
        t.needs("trace events", mounted.is_ok());
        let instance = root.join("instances/lesson");
        std::fs::create_dir(&instance).expect("make a buffer of traces");
        // Built in beside the C driver, ours have names of their own (docs/patches.md).
        let of_event = |name: String| instance.join("events/binder").join(name);
        let beside =
            Some(of_event(format!("rust_{event}"))).filter(|ours| t.driver == Driver::Rust && ours.exists());
        let found = beside.unwrap_or_else(|| of_event(event.to_owned()));
        std::fs::write(found.join("enable"), "1").expect("turn on");
        Self(instance)
    }

    fn lines(&self) -> Vec<String> {
        let trace = std::fs::read_to_string(self.0.join("trace")).expect("read a trace");
        trace.lines().filter(|line| !line.starts_with('#')).map(str::to_string).collect()
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.join("events/enable"), "0");
        let _ = std::fs::remove_dir(&self.0);
    }
}

// Others wait for a process's end, so it must not depend on the CPU time of the closing task.
case!(lesson_t04_who_closes_a_device_does_not_end_the_process, ["REL-1", "REL-2"], |t| {
    let (server, client) = (t.manager(), t.client());
    let ends = Trace::of(t, "binder_txn_latency_free");
    client.start_blocking_call(0, 0, &empty());
    server.give_up();
    assert_eq!(client.wait_refusal(), Return::DeadReply);
    let closer = format!("-{} ", t.global_pid(&server));
    // The caller may wake before its call has ended.
    let lines = until("the end of the call", || Some(ends.lines()).filter(|lines| !lines.is_empty()));
    assert!(lines.iter().all(|line| !line.contains(&closer)), "{lines:?}");
});
