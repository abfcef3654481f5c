// SPDX-License-Identifier: GPL-2.0
//! Scenes that are played while the driver's trace events are on, and the events of each task, so
//! that the traces of two drivers can be compared.
//!
//! Values that differ from run to run get names: tasks are called by their parts, debug ids are
//! numbered in the order in which they appear, and addresses of user space are left out.

use crate::freezer::Freezer;
use crate::netlink::Listener;
use crate::port::{bytes, empty, finish, give_in_a_call, introduce, object, Port};
use crate::runner::{in_namespaces, private_mounts, SCRATCH};
use crate::sg::{array_bytes, file_object, SgParcel};
use crate::shrinker::Shrinker;
use crate::stage::Stage;
use crate::suite::Driver;
use anyhow::Context;
use binder_sys::*;
use clap::Args;
use nix::mount::{mount, MsFlags};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub struct TraceArgs {
    /// The driver that is loaded
    #[arg(long, value_enum, default_value_t = Driver::Rust)]
    driver: Driver,
}

type Scene = fn(&Stage, &mut Recorder);

const SCENES: &[(&str, Scene)] = &[
    ("call", call),
    ("threads", threads),
    ("nodes", nodes),
    ("files", files),
    ("pointers", pointers),
    ("oneway", oneway),
    ("nested", nested),
    ("refused", refused),
    ("failed reply", failed_reply),
    ("update", update),
    ("death", death),
    ("thread exit", thread_exit),
    ("dead callee", dead_callee),
    ("unread", unread),
    ("pages", pages),
    ("reclaim", reclaim),
    ("report", report),
];

/// Plays the scenes, and prints what each of them has traced.
pub fn run(args: &TraceArgs) -> anyhow::Result<()> {
    for (name, scene) in SCENES {
        in_namespaces(|| {
            let pids = crate::pids::GlobalPids::new();
            private_mounts();
            let stage = Stage::new(args.driver, Path::new(SCRATCH), pids);
            let mut recorder = Recorder::new(&stage)?;
            crate::child::caught(|| scene(&stage, &mut recorder)).map_err(anyhow::Error::msg)?;
            print!("== {name}\n{}", recorder.tasks());
            Ok(String::new())
        })
        .with_context(|| format!("scene {name}"))?;
    }
    Ok(())
}

/// Records the events of a scene.
struct Recorder {
    tracing: PathBuf,
    /// The names of the tasks, in the order in which their events are printed.
    cast: Vec<(u32, String)>,
    /// Kernel threads are part of the scene.
    has_kernel: bool,
    trace: String,
}

impl Recorder {
    fn new(t: &Stage) -> anyhow::Result<Self> {
        let tracing = t.directory("tracing");
        mount(Some("tracefs"), &tracing, Some("tracefs"), MsFlags::empty(), None::<&str>)
            .context("mount tracefs")?;
        let recorder = Self { tracing, cast: Vec::new(), has_kernel: false, trace: String::new() };
        recorder.set("tracing_on", "0");
        recorder.set("trace", "");
        // One order for all CPUs, however coarse the guest's clock.
        recorder.set("trace_clock", "counter");
        recorder.set("set_event", "binder:*");
        Ok(recorder)
    }

    fn set(&self, file: &str, value: &str) {
        std::fs::write(self.tracing.join(file), value).unwrap_or_else(|error| panic!("{file}: {error}"));
    }

    /// Records what these tasks trace from now on.
    fn start(&mut self, t: &Stage, cast: &[(&str, &Port)]) {
        for (name, port) in cast {
            self.cast.push((t.global_tid(port), name.to_string()));
        }
        self.set("tracing_on", "1");
    }

    /// Ends the record; what comes after is not part of the scene.
    fn stop(&mut self) {
        self.set("tracing_on", "0");
        self.trace = std::fs::read_to_string(self.tracing.join("trace")).expect("the trace");
        self.set("set_event", "!binder:*");
    }

    /// The events of each task of the cast, and those of kernel threads, whose order is free.
    fn tasks(&self) -> String {
        let mut names = Names { cast: &self.cast, ids: BTreeMap::new() };
        let events: Vec<Event> = self.trace.lines().filter_map(Event::parse).collect();
        let mut of = |does: &dyn Fn(&Event) -> bool| -> Vec<String> {
            let mut told = |event: &Event| {
                let words: Vec<String> = event.words.split(' ').map(|word| names.name(word)).collect();
                format!("{} {}\n", event.name, words.join(" "))
            };
            events.iter().filter(|event| does(event)).map(&mut told).collect()
        };
        let mut told = String::new();
        for (pid, name) in &self.cast {
            told += &format!("-- {name}\n{}", of(&|event| event.pid == *pid).concat());
        }
        if self.has_kernel {
            let mut lines = of(&|event| event.task.starts_with("kworker"));
            lines.sort();
            told += &format!("-- kernel threads\n{}", lines.concat());
        }
        told
    }
}

/// One line of a trace.
struct Event<'a> {
    task: &'a str,
    pid: u32,
    name: &'a str,
    words: &'a str,
}

impl<'a> Event<'a> {
    /// `contract-81  [001] .....  1.5: binder_command: cmd=0x40046304 BC_INCREFS`
    fn parse(line: &'a str) -> Option<Self> {
        let (task, rest) = line.split_once(" [")?;
        let (task, pid) = task.trim().rsplit_once('-')?;
        let pid = pid.parse().ok()?;
        let (_, event) = rest.split_once(": ")?;
        let (name, words) = event.split_once(": ")?;
        Some(Self { task, pid, name, words })
    }
}

/// The names for numbers that differ from run to run.
struct Names<'a> {
    cast: &'a [(u32, String)],
    ids: BTreeMap<String, usize>,
}

impl Names<'_> {
    fn name(&mut self, word: &str) -> String {
        if let Some((first, second)) = word.split_once(':') {
            return format!("{}:{}", self.task(first), self.task(second));
        }
        match word.split_once('=') {
            Some(("arg", _)) => "arg=...".to_string(),
            Some((key @ ("proc" | "dest_proc" | "dest_thread"), pid)) => format!("{key}={}", self.task(pid)),
            Some((key @ ("transaction" | "node" | "dest_node" | "src_ref" | "dest_ref"), id)) => {
                format!("{key}={}", self.id(id))
            }
            _ => word.to_string(),
        }
    }

    fn task(&self, pid: &str) -> String {
        let known = self.cast.iter().find(|(number, _)| number.to_string() == pid);
        match known {
            Some((_, name)) => name.clone(),
            None if pid == "0" => "0".to_string(),
            None => "another".to_string(),
        }
    }

    fn id(&mut self, id: &str) -> String {
        if id == "0" {
            return "0".to_string();
        }
        let next = self.ids.len() + 1;
        format!("#{}", self.ids.entry(id.to_string()).or_insert(next))
    }
}

fn call(t: &Stage, record: &mut Recorder) {
    let (server, client) = (t.manager(), t.client());
    record.start(t, &[("server", &server), ("client", &client)]);
    server.park();
    client.round_trip(0, &server, &bytes(b"a question"), &bytes(b"an answer, which is longer"));
    client.round_trip(0, &server, &empty(), &empty());
    record.stop();
}

fn threads(t: &Stage, record: &mut Recorder) {
    let (server, client) = (t.manager(), t.client());
    server.ioctl(ioctl::BINDER_SET_MAX_THREADS, 2u32).expect("a pool of two");
    record.start(t, &[("server", &server), ("client", &client)]);
    finish(&server, &client, &client.call(&server, 0, 0, &empty()));
    record.stop();
    server.ignore_passed();
}

fn nodes(t: &Stage, record: &mut Recorder) {
    let (manager, owner, holder) = (t.manager(), t.client(), t.client());
    record.start(t, &[("manager", &manager), ("owner", &owner), ("holder", &holder)]);
    let handle = introduce(&manager, &owner, FlatBinderObject::binder(0x10, 0x11), &holder);
    // Back to the owner, as its node.
    let call = holder.call(&manager, 0, 7, &object(FlatBinderObject::strong_handle(handle)));
    let again = manager.keep_handle(&call);
    holder.free(&manager.answer(&holder, &empty()));
    manager.free(&owner.call(&manager, 0, 8, &empty()));
    owner.free(&manager.answer(&owner, &object(FlatBinderObject::strong_handle(again))));
    record.stop();
}

fn files(t: &Stage, record: &mut Recorder) {
    let (server, client) = (t.file_manager(), t.client());
    let (ours, theirs) = nix::unistd::pipe().expect("a pipe");
    let (first, second) = (client.actor.give(&ours), client.actor.give(&theirs));
    // Its buffer is kept, so that those with files are not where the space begins.
    client.call(&server, 0, 2, &bytes(b"kept"));
    client.free(&server.answer(&client, &empty()));
    record.start(t, &[("server", &server), ("client", &client)]);
    let mut parcel = bytes(b"lead");
    parcel.object(&file_object(first)).object(&file_object(second));
    let call = client.call_with(&server, &client.place_flagged(0, 3, &parcel, TransactionFlags::ACCEPT_FDS));
    let fd = server.received_fd(&call, 0);
    server.free(&call);
    let mut answer = empty();
    answer.object(&file_object(fd));
    client.free(&server.answer(&client, &answer));
    record.stop();
}

fn pointers(t: &Stage, record: &mut Recorder) {
    let (server, client) = (t.file_manager(), t.client());
    let (ours, _theirs) = nix::unistd::pipe().expect("a pipe");
    let fd = client.actor.give(&ours);
    record.start(t, &[("server", &server), ("client", &client)]);
    let (mut parcel, block) = SgParcel::of(&client.arena, &array_bytes(&[fd, fd]));
    parcel.array(block, 0, 2);
    finish(&server, &client, &client.call_sg(&server, &parcel.call(&client)));
    record.stop();
}

fn oneway(t: &Stage, record: &mut Recorder) {
    let (server, client) = (t.manager(), t.client());
    record.start(t, &[("server", &server), ("client", &client)]);
    for code in [1, 2] {
        client.tell(0, code, &bytes(b"told"));
    }
    // The second is queued when the first is freed.
    for code in [1, 2] {
        let call = server.wait_call();
        assert_eq!(call.code, code);
        server.free(&call);
    }
    record.stop();
}

fn nested(t: &Stage, record: &mut Recorder) {
    let (server, client) = (t.manager(), t.client());
    let handle = give_in_a_call(&server, &client, FlatBinderObject::binder(0x10, 0));
    record.start(t, &[("server", &server), ("client", &client)]);
    let call = client.call(&server, 0, 1, &empty());
    finish(&client, &server, &server.call(&client, handle, 2, &empty()));
    finish(&server, &client, &call);
    record.stop();
}

fn refused(t: &Stage, record: &mut Recorder) {
    let (_server, client) = (t.manager(), t.client());
    record.start(t, &[("client", &client)]);
    assert_eq!(client.refused(&client.place(77, 1, &empty())), Return::FailedReply);
    // No object begins there.
    let mut parcel = bytes(&[0; 32]);
    parcel.offsets.push(8);
    assert_eq!(client.refused(&client.place(0, 2, &parcel)), Return::FailedReply);
    // Larger than any space.
    let large = BinderTransactionData { data_size: 1 << 23, ..client.place(0, 3, &bytes(b"x")) };
    assert_eq!(client.refused(&large), Return::FailedReply);
    let oneway = client.place_oneway(0, 4, &parcel);
    assert_eq!(client.refused(&oneway), Return::FailedReply);
    record.stop();
}

fn failed_reply(t: &Stage, record: &mut Recorder) {
    let (server, client) = (t.manager(), t.client());
    record.start(t, &[("server", &server), ("client", &client)]);
    server.free(&client.call(&server, 0, 1, &empty()));
    let mut answer = bytes(&[0; 32]);
    answer.offsets.push(8);
    server.reply(&answer);
    assert_eq!(client.wait_refusal(), Return::FailedReply);
    record.stop();
}

fn update(t: &Stage, record: &mut Recorder) {
    let (server, client) = (t.manager(), t.client());
    let freezer = Freezer::of(t, &server);
    client.tell(0, 1, &bytes(b"first"));
    let first = server.wait_call();
    freezer.freeze(0).expect("freeze");
    record.start(t, &[("server", &server), ("client", &client)]);
    let updating = TransactionFlags::ONE_WAY | TransactionFlags::UPDATE_TXN;
    for data in [&b"old"[..], b"newer"] {
        let update = client.place_flagged(0, 1, &bytes(data), updating);
        client.tell_with(&update, Return::TransactionPendingFrozen);
    }
    freezer.thaw().expect("thaw");
    server.free(&first);
    server.free(&server.wait_call());
    record.stop();
}

fn death(t: &Stage, record: &mut Recorder) {
    let (manager, owner, holder) = (t.manager(), t.client(), t.server());
    let handle = introduce(&manager, &owner, FlatBinderObject::binder(0x10, 0x11), &holder);
    let other = introduce(&manager, &owner, FlatBinderObject::binder(0x20, 0x21), &holder);
    record.start(t, &[("holder", &holder)]);
    holder.send(|c| c.request_death(handle, 0x123));
    holder.send(|c| c.request_death(other, 0x456));
    holder.start(Commands::new().clear_death(other, 0x456));
    holder.wait_for(Return::ClearDeathNotificationDone(0x456));
    holder.park();
    owner.kill();
    holder.wait_for(Return::DeadBinder(0x123));
    holder.send(|c| c.dead_binder_done(0x123));
    record.stop();
}

fn thread_exit(t: &Stage, record: &mut Recorder) {
    let (server, client) = (t.manager(), t.client());
    let helper = server.looper();
    record.start(t, &[("helper", &helper), ("client", &client)]);
    client.call(&helper, 0, 1, &empty());
    helper.ioctl(ioctl::BINDER_THREAD_EXIT, 0i32).expect("exit");
    assert_eq!(client.wait_refusal(), Return::DeadReply);
    record.stop();
}

fn dead_callee(t: &Stage, record: &mut Recorder) {
    let (server, client) = (t.manager(), t.client());
    record.start(t, &[("client", &client)]);
    client.start_blocking_call(0, 1, &empty());
    server.kill_serving(&client);
    assert_eq!(client.refused(&client.place(0, 2, &empty())), Return::DeadReply);
    record.stop();
}

// The end of a process is in a kernel thread.
fn unread(t: &Stage, record: &mut Recorder) {
    let (server, client) = (t.manager(), t.server());
    let freezer = Freezer::of(t, &server);
    // The second one waits for its turn.
    for _ in 0..2 {
        client.tell(0, 1, &bytes(b"nobody waits"));
    }
    record.start(t, &[("client", &client)]);
    record.has_kernel = true;
    client.start_call(0, 2, &bytes(b"somebody waits"));
    client.actor.expect_blocked();
    server.kill_serving(&client);
    freezer.wait_released(t);
    record.stop();
}

fn pages(t: &Stage, record: &mut Recorder) {
    let (server, client) = (t.manager(), t.client());
    record.start(t, &[("server", &server), ("client", &client)]);
    // Many pages; then fewer, which are there; then a whole one; then two that share one.
    client.round_trip(0, &server, &bytes(&[1; 20_000]), &empty());
    client.round_trip(0, &server, &bytes(&[2; 6_000]), &empty());
    client.round_trip(0, &server, &bytes(&[2; 4_096]), &empty());
    let call = client.call(&server, 0, 0, &bytes(&[3; 6_000]));
    let other = t.client();
    other.start_call(0, 0, &bytes(&[4; 6_000]));
    client.free(&server.answer(&client, &empty()));
    let second = server.wait_call();
    server.free(&call);
    server.free(&second);
    server.answer(&other, &empty());
    record.stop();
}

fn reclaim(t: &Stage, record: &mut Recorder) {
    let (server, client) = (t.manager(), t.client());
    let shrinker = Shrinker::needed(t);
    client.round_trip(0, &server, &bytes(&[1; 6_000]), &empty());
    record.cast.push((t.own_pid(), "conductor".to_string()));
    record.start(t, &[("server", &server), ("client", &client)]);
    shrinker.squeeze();
    record.stop();
}

/// On our driver alone: the C driver's event has a pointer that may be stale when the trace is
/// read, and the kernel warns of that.
fn report(t: &Stage, record: &mut Recorder) {
    if t.driver != Driver::Rust {
        return;
    }
    let client = t.client();
    let _listener = Listener::join().expect("join the group");
    record.start(t, &[("client", &client)]);
    let lost = client.place(77, 5, &bytes(b"lost"));
    assert_eq!(client.refused(&lost), Return::FailedReply);
    // A report has 32 bits for it.
    let huge = BinderTransactionData { data_size: (1 << 32) + 8, ..lost };
    assert_eq!(client.refused(&huge), Return::FailedReply);
    record.stop();
    let told = record.tasks();
    record.cast.clear();
    for size in [4, 8] {
        let wanted = format!(
            "binder_netlink_report from client:client to 0:0 context=binder error=29201 is_reply=0 flags=0x0 \
             code=0x5 size={size}"
        );
        assert!(told.lines().any(|line| line == wanted), "{told}");
    }
}
