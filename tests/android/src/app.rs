// SPDX-License-Identifier: GPL-2.0
//! An application: it introduces itself to the system, calls it and other applications, and serves both.

use crate::aidl;
use crate::identity::has_policy;
use crate::shared::{Shared, Started};
use crate::talk::{Answer, Message, Outcome, Port, Remote, Serve, Thread};
use crate::work::{self, Callee, ATTACH, NODE, NOTE, PEER, WORK};
use binder_sys::{FlatBinderObject, ObjectFlags};
use nix::errno::Errno;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::Arc;
use std::time::Duration;

/// The name of the system's service.
pub const SYSTEM: &str = "activity";
/// Threads that call.
pub const CALLERS: usize = 2;
/// Threads that serve.
const SERVERS: usize = 2;
/// More than an application may use, in steps of pages.
const TOO_MUCH: usize = 64 << 20;

struct App {
    id: u64,
    shared: &'static Shared,
    started: &'static [Started],
    /// The number that the system's next oneway call must have.
    next: AtomicU64,
    system: Arc<Remote>,
}

impl App {
    fn own(&self) -> &'static Started {
        &self.started[self.id as usize]
    }

    fn to_system(&self) -> Callee<'static> {
        Callee::service(self.system.handle)
    }
}

impl Serve for App {
    fn serve(&self, thread: &mut Thread, call: &Message) -> Answer {
        assert_eq!(call.code, WORK, "an application serves one kind of call");
        self.own().served.calls.add();
        // What the answer depends on may have to be asked for.
        if call.data.len() % 4 == 0 {
            let mut random = SmallRng::seed_from_u64(call.data.len() as u64);
            work::call(thread, self.to_system(), &self.own().calls, &mut random);
        }
        work::answer(call)
    }

    fn oneway(&self, call: &Message) {
        assert_eq!(call.code, NOTE, "an application serves one kind of oneway call");
        let next = self.next.fetch_add(1, SeqCst);
        assert_eq!(work::number(&call.data, 1), next, "a oneway call is lost, twice there, or out of order");
        self.own().delivered.add();
    }
}

/// Is an application until it is killed.
pub fn run(id: u64, seed: u64, shared: &'static Shared, started: &'static [Started]) {
    let own = &started[id as usize];
    while !own.go.load(SeqCst) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let port = Port::open("/dev/binder");
    let nobody: Arc<dyn Serve> = Arc::new(crate::talk::Nothing);
    let system = aidl::get_service(&mut Thread::new(&port, &nobody), SYSTEM).expect("the system's service");
    let app: Arc<App> = Arc::new(App { id, shared, started, next: AtomicU64::new(0), system });
    let server: Arc<dyn Serve> = app.clone();
    for _ in 0..SERVERS {
        let (port, server) = (port.clone(), server.clone());
        std::thread::spawn(move || Thread::new(&port, &server).serve());
    }
    attach(&mut Thread::new(&port, &server), &app);
    for number in 1..CALLERS {
        let (port, app) = (port.clone(), app.clone());
        std::thread::spawn(move || call_around(&port, &app, number, seed));
    }
    call_around(&port, &app, 0, seed);
}

fn attach(thread: &mut Thread, app: &App) {
    let mut parcel = work::parcel_of(&[app.id]);
    let flags = ObjectFlags::ACCEPTS_FDS;
    parcel.object(&FlatBinderObject::binder(NODE, NODE).with_flags(flags));
    let answer = work::counted(thread, app.to_system(), ATTACH, &parcel, &app.own().calls);
    assert!(answer.is_some(), "the system does not take the application");
}

/// Calls for ever; the first of the threads alone makes oneway calls, so that their numbers are in order.
fn call_around(port: &Arc<Port>, app: &Arc<App>, number: usize, seed: u64) {
    let mut random = SmallRng::seed_from_u64(seed ^ (app.id << 8) ^ number as u64);
    let server: Arc<dyn Serve> = app.clone();
    let mut thread = Thread::new(port, &server);
    let hardware = Port::open("/dev/hwbinder");
    let mut stranger = Thread::new(&hardware, &server);
    // Hardware is not for applications: the security module says no, if there is one.
    let manager = if has_policy() { Callee::forbidden(0) } else { Callee::service(0) };
    loop {
        if app.shared.stop.load(SeqCst) {
            app.own().resting.add();
            std::thread::sleep(Duration::MAX);
        }
        if app.own().hog.load(SeqCst) && number == 0 {
            use_too_much();
        }
        // One that nobody looks at does little: whoever waits for an answer is not frozen.
        if app.own().frozen.load(SeqCst) && random.random_range(0..16) > 0 {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        }
        match random.random_range(0..20) {
            0..=11 => work::call(&mut thread, app.to_system(), &app.own().calls, &mut random),
            12..=14 => call_peer(&mut thread, app, &mut random),
            15 => {
                work::counted(&mut stranger, manager, aidl::PING, &work::parcel_of(&[]), &app.own().calls);
            }
            _ if number == 0 => note(&mut thread, app),
            _ => std::thread::sleep(Duration::from_millis(random.random_range(0..5))),
        }
    }
}

fn call_peer(thread: &mut Thread, app: &App, random: &mut SmallRng) {
    let question = work::parcel_of(&[app.id]);
    let found = work::counted(thread, app.to_system(), PEER, &question, &app.own().calls);
    let Some(answer) = found else { return };
    if let Some(peer) = answer.objects.first() {
        let callee = &app.started[work::number(&answer.data, 0) as usize];
        work::call(thread, Callee::application(peer.handle, callee), &app.own().calls, random);
    }
}

fn note(thread: &mut Thread, app: &App) {
    let own = app.own();
    let before = own.taken.get();
    own.tried.add();
    match thread.oneway(app.system.handle, NOTE, &work::parcel_of(&[app.id, before])) {
        Outcome::Accepted | Outcome::Pending => own.taken.add(),
        Outcome::Failed(error) if -error == Errno::ENOSPC as i32 => app.shared.oneway_no_space.add(),
        _ => panic!("a oneway call to the system fails"),
    }
}

/// Uses more and more memory, until it is killed.
fn use_too_much() {
    let mut held = Vec::new();
    while held.len() < TOO_MUCH {
        held.resize(held.len() + (256 << 10), 1u8);
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{} bytes were to be had", std::hint::black_box(&held).len());
}
