// SPDX-License-Identifier: GPL-2.0
//! The devices that applications do not use: `hwbinder`, with a manager of our own and a sound service, and `vndbinder`, with
//! Android's manager and a vendor's service, which the sound service calls.

use crate::aidl;
use crate::shared::{Calls, Shared};
use crate::talk::{Answer, Message, Outcome, Port, Remote, Serve, Thread};
use crate::work::{self, Callee, NODE, WORK};
use binder_sys::{FlatBinderObject, ObjectFlags, Parcel};
use rand::rngs::SmallRng;
use rand::SeedableRng;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The sound service's name.
pub const SOUND: &str = "android.hardware.audio@7.0::IDevicesFactory/default";
/// The vendor's service's.
pub const VENDOR: &str = "vendor.codec";

const ADD: u32 = 1;
const GET: u32 = 2;

/// Names and objects: all that a service manager is.
#[derive(Default)]
struct Manager(Mutex<BTreeMap<String, Arc<Remote>>>);

impl Serve for Manager {
    fn serve(&self, _: &mut Thread, call: &Message) -> Answer {
        let mut services = self.0.lock().expect("a lock");
        let name = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("a name");
        match call.code {
            ADD => {
                // The name comes after the object.
                let object = call.objects.first().expect("a service's object").clone();
                services.insert(name(&call.data[size_of::<FlatBinderObject>()..]), object);
                Answer::default()
            }
            GET => work::passed_on(&[], services.get(&name(&call.data)).cloned()),
            aidl::PING => Answer::default(),
            other => panic!("the manager is asked for {other}"),
        }
    }
}

/// Is the manager of `hwbinder`.
pub fn manage() {
    let port = Port::open("/dev/hwbinder");
    let node = FlatBinderObject::binder(0, 0).with_flags(ObjectFlags::TXN_SECURITY_CTX);
    port.device().set_context_manager_ext(&node).expect("become context manager");
    let server: Arc<dyn Serve> = Arc::new(Manager::default());
    Thread::new(&port, &server).serve();
}

/// The sound service, which asks the vendor's before it answers.
struct Sound {
    shared: &'static Shared,
    vendor: Mutex<(Thread, Arc<Remote>)>,
    calls: Calls,
}

impl Serve for Sound {
    fn serve(&self, _: &mut Thread, call: &Message) -> Answer {
        if call.code == aidl::PING {
            return Answer::default();
        }
        assert_eq!(call.code, WORK, "the sound service is asked for something else");
        self.shared.services.calls.add();
        let mut random = SmallRng::seed_from_u64(call.data.len() as u64);
        let (thread, vendor) = &mut *self.vendor.lock().expect("a lock");
        work::call(thread, Callee::service(vendor.handle), &self.calls, &mut random);
        assert_eq!(self.calls.made.get(), self.calls.replied.get(), "the vendor's service does not answer");
        work::answer(call)
    }
}

/// Is the sound service.
pub fn serve_sound(shared: &'static Shared) {
    let nobody: Arc<dyn Serve> = Arc::new(crate::talk::Nothing);
    let vendors = Port::open("/dev/vndbinder");
    let mut thread = Thread::new(&vendors, &nobody);
    let found = aidl::get_service(&mut thread, VENDOR).expect("the vendor's service");
    let server: Arc<dyn Serve> =
        Arc::new(Sound { shared, vendor: Mutex::new((thread, found)), calls: Calls::default() });
    let port = Port::open("/dev/hwbinder");
    let mut thread = Thread::new(&port, &server);
    let mut parcel = Parcel::new();
    parcel.object(&FlatBinderObject::binder(NODE, NODE)).bytes(SOUND.as_bytes());
    assert!(
        matches!(thread.call(0, ADD, &parcel), Outcome::Reply(_)),
        "the manager does not take the service"
    );
    shared.services.ready.add();
    thread.serve();
}

/// The vendor's service.
struct Vendor(&'static Shared);

impl Serve for Vendor {
    fn serve(&self, _: &mut Thread, call: &Message) -> Answer {
        if call.code == aidl::PING {
            return Answer::default();
        }
        assert_eq!(call.code, WORK, "the vendor's service is asked for something else");
        self.0.services.calls.add();
        work::answer(call)
    }
}

/// Is the vendor's service.
pub fn serve_vendor(shared: &'static Shared) {
    let server: Arc<dyn Serve> = Arc::new(Vendor(shared));
    let mut thread = Thread::new(&Port::open("/dev/vndbinder"), &server);
    aidl::add_service(&mut thread, VENDOR, NODE).expect("a service of the vendor");
    shared.services.ready.add();
    thread.serve();
}

/// Asks the manager of `hwbinder` for a service.
pub fn get(thread: &mut Thread, name: &str) -> Option<Arc<Remote>> {
    let mut parcel = Parcel::new();
    parcel.bytes(name.as_bytes());
    match thread.call(0, GET, &parcel) {
        Outcome::Reply(answer) => answer.objects.into_iter().next(),
        _ => panic!("the manager of hwbinder does not answer"),
    }
}

/// The same, until it is there.
pub fn wait_for(thread: &mut Thread, name: &str) -> Arc<Remote> {
    loop {
        if let Some(found) = get(thread, name) {
            return found;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
