// SPDX-License-Identifier: GPL-2.0
//! The system's process: applications introduce themselves to it, and it calls them.

use crate::aidl;
use crate::app::SYSTEM;
use crate::hardware::{self, SOUND};
use crate::identity::{has_policy, user};
use crate::shared::{Shared, Started};
use crate::talk::{Answer, Message, Outcome, Port, Remote, Serve, Thread};
use crate::work::{self, Callee, ATTACH, NODE, NOTE, PEER, WORK};
use nix::errno::Errno;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Threads that call, and wait for an answer.
const CALLERS: u64 = 2;
/// All threads that are to rest in the end.
pub const RESTING: u64 = CALLERS + 1;
/// Threads that serve.
const SERVERS: usize = 4;
/// Applications, each with a user of its own.
pub const APPLICATIONS: u64 = 6;

/// What the system knows of an application.
struct Known {
    id: u64,
    remote: Arc<Remote>,
}

struct System {
    shared: &'static Shared,
    started: &'static [Started],
    known: Mutex<BTreeMap<u64, Arc<Known>>>,
    /// Those that have died, until nothing of them comes any more.
    leaving: Mutex<BTreeMap<u64, Arc<Known>>>,
    has_policy: bool,
}

impl System {
    fn pick(&self, random: &mut SmallRng, other_than: Option<u64>) -> Option<Arc<Known>> {
        let known = self.known.lock().expect("a lock");
        let all: Vec<_> = known.values().filter(|app| Some(app.id) != other_than).collect();
        (!all.is_empty()).then(|| all[random.random_range(0..all.len())].clone())
    }

    fn attach(&self, thread: &mut Thread, call: &Message) -> Answer {
        let id = work::number(&call.data, 0);
        assert_eq!(
            u64::from(call.euid),
            u64::from(user::FIRST_APPLICATION) + id % APPLICATIONS,
            "another user"
        );
        assert!(!self.has_policy || call.context == "u:r:untrusted_app", "the context is {:?}", call.context);
        let remote = call.objects.first().expect("an application's object").clone();
        thread.watch(&remote, id);
        self.known.lock().expect("a lock").insert(id, Arc::new(Known { id, remote }));
        self.started[id as usize].attached.store(true, SeqCst);
        // It may have died meanwhile, and somebody else been told.
        if self.started[id as usize].death_told.get() > 0 {
            self.forget(thread, id);
        }
        Answer::default()
    }

    /// Gives the object of an application back that has died, as soon as that can be.
    fn forget(&self, thread: &mut Thread, id: u64) {
        let Some(app) = self.known.lock().expect("a lock").remove(&id) else { return };
        self.leaving.lock().expect("a lock").insert(id, app.clone());
        thread.leave(&app.remote, id);
    }
}

impl Serve for System {
    fn serve(&self, thread: &mut Thread, call: &Message) -> Answer {
        self.shared.system_served.calls.add();
        match call.code {
            WORK => work::answer(call),
            ATTACH => self.attach(thread, call),
            PEER => {
                let mut random = SmallRng::seed_from_u64(self.shared.system_served.calls.get());
                let peer = self.pick(&mut random, Some(work::number(&call.data, 0)));
                // Mostly one that runs.
                let peer = peer.filter(|peer| !self.is_spared(peer, &mut random));
                match peer {
                    Some(peer) => work::passed_on(&[peer.id], Some(peer.remote.clone())),
                    None => work::passed_on(&[], None),
                }
            }
            aidl::PING => Answer::default(),
            other => panic!("the system is asked for {other}"),
        }
    }

    fn oneway(&self, call: &Message) {
        assert_eq!(call.code, NOTE, "the system serves one kind of oneway call");
        let from = &self.started[work::number(&call.data, 0) as usize];
        assert_eq!(
            work::number(&call.data, 1),
            from.noted.get(),
            "a oneway call is lost, twice there, or out of order"
        );
        from.noted.add();
        self.shared.system_served.oneway.add();
    }

    fn died(&self, thread: &mut Thread, cookie: u64) {
        self.started[cookie as usize].death_told.add();
        self.forget(thread, cookie);
    }

    fn left(&self, cookie: u64) {
        let gone = self.leaving.lock().expect("a lock").remove(&cookie);
        drop(gone.expect("an application that is leaving"));
    }

    fn frozen(&self, cookie: u64, is_frozen: bool) {
        let app = &self.started[cookie as usize];
        if is_frozen { &app.freezes_told } else { &app.thaws_told }.add();
        // The next word comes only after this one is confirmed.
        app.told_frozen.store(is_frozen, SeqCst);
    }
}

impl System {
    /// Whether a call to an application is left out because it is frozen, as nearly all are: one that was called while it was
    /// frozen is killed.
    fn is_spared(&self, app: &Known, random: &mut SmallRng) -> bool {
        self.started[app.id as usize].frozen.load(SeqCst) && random.random_range(0..100) > 0
    }
}

/// Is the system until it is killed.
pub fn run(shared: &'static Shared, started: &'static [Started], seed: u64) {
    let port = Port::open("/dev/binder");
    let (known, leaving) = (Mutex::new(BTreeMap::new()), Mutex::new(BTreeMap::new()));
    let system = Arc::new(System { shared, started, known, leaving, has_policy: has_policy() });
    let server: Arc<dyn Serve> = system.clone();
    aidl::add_service(&mut Thread::new(&port, &server), SYSTEM, NODE).expect("a service of the system");
    shared.system_served.ready.add();
    for _ in 0..SERVERS {
        let (port, server) = (port.clone(), server.clone());
        std::thread::spawn(move || Thread::new(&port, &server).serve());
    }
    for number in 0..CALLERS {
        let (port, system) = (port.clone(), system.clone());
        std::thread::spawn(move || call_around(&port, &system, seed ^ number));
    }
    send_notes(&port, &system, seed);
}

fn rest_if_told(shared: &'static Shared) {
    if shared.stop.load(SeqCst) {
        shared.resting.add();
        std::thread::sleep(Duration::MAX);
    }
}

fn call_around(port: &Arc<Port>, system: &Arc<System>, seed: u64) {
    let mut random = SmallRng::seed_from_u64(seed);
    let server: Arc<dyn Serve> = system.clone();
    let mut thread = Thread::new(port, &server);
    let hardware = Port::open("/dev/hwbinder");
    let mut to_hardware = Thread::new(&hardware, &server);
    let sound = hardware::wait_for(&mut to_hardware, SOUND);
    loop {
        rest_if_told(system.shared);
        std::thread::sleep(Duration::from_micros(random.random_range(0..1000)));
        if random.random_range(0..4) == 0 {
            work::call(&mut to_hardware, Callee::service(sound.handle), &system.shared.system, &mut random);
            continue;
        }
        let Some(app) = system.pick(&mut random, None) else { continue };
        if !system.is_spared(&app, &mut random) {
            let callee = Callee::application(app.remote.handle, &system.started[app.id as usize]);
            work::call(&mut thread, callee, &system.shared.system, &mut random);
        }
    }
}

/// Sends oneway calls to applications, frozen or not. It is the only one who does, so that it knows how many were taken.
fn send_notes(port: &Arc<Port>, system: &Arc<System>, seed: u64) {
    let mut random = SmallRng::seed_from_u64(seed ^ 99);
    let server: Arc<dyn Serve> = system.clone();
    let mut thread = Thread::new(port, &server);
    loop {
        rest_if_told(system.shared);
        std::thread::sleep(Duration::from_micros(random.random_range(0..2000)));
        let Some(app) = system.pick(&mut random, None) else { continue };
        // Those that are about to be frozen would never be left alone for long enough.
        if system.started[app.id as usize].frozen.load(SeqCst) && random.random_range(0..8) > 0 {
            continue;
        }
        let own = &system.started[app.id as usize];
        let parcel = work::parcel_of(&[app.id, own.accepted.get()]);
        match thread.oneway(app.remote.handle, NOTE, &parcel) {
            Outcome::Accepted => own.accepted.add(),
            Outcome::Pending => {
                system.shared.pending.add();
                own.accepted.add();
            }
            Outcome::Dead => {
                own.seen_dead.add();
                system.shared.oneway_dead.add();
            }
            Outcome::Failed(error) if -error == Errno::ENOSPC as i32 => system.shared.oneway_no_space.add(),
            _ => panic!("a oneway call to an application fails"),
        }
    }
}
