// SPDX-License-Identifier: GPL-2.0
//! Somebody who calls every service again and again, and reads the driver's log files meanwhile.

use crate::aidl::{self, PING};
use crate::app::SYSTEM;
use crate::hardware::{self, SOUND, VENDOR};
use crate::shared::Shared;
use crate::talk::{Port, Serve, Thread};
use crate::work::{self, Callee};
use binder_logs::{Log, Mode, State, Stats, TransactionLog, Transactions};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Where the log files are.
pub const LOGS: &str = "/dev/binderfs/binder_logs";
const PAUSE: Duration = Duration::from_millis(250);

/// Watches until it is killed; a service that does not answer keeps it from its next round.
pub fn run(shared: &'static Shared) {
    let nobody: Arc<dyn Serve> = Arc::new(crate::talk::Nothing);
    let [mut framework, mut hardware, mut vendor] = ["/dev/binder", "/dev/hwbinder", "/dev/vndbinder"]
        .map(|path| Thread::new(&Port::open(path), &nobody));
    let system = aidl::get_service(&mut framework, SYSTEM).expect("the system's service");
    let sound = hardware::wait_for(&mut hardware, SOUND);
    let codec = aidl::get_service(&mut vendor, VENDOR).expect("the vendor's service");
    loop {
        for (thread, service) in [(&mut framework, &system), (&mut hardware, &sound), (&mut vendor, &codec)] {
            // The device's manager, and a service.
            for handle in [0, service.handle] {
                let callee = Callee::service(handle);
                let answer = work::counted(thread, callee, PING, &work::parcel_of(&[]), &shared.watchdog);
                assert!(answer.is_some(), "a service does not answer the watchdog");
            }
        }
        read::<State>("state");
        read::<Stats>("stats");
        read::<Transactions>("transactions");
        read::<TransactionLog>("transaction_log");
        read::<TransactionLog>("failed_transaction_log");
        shared.rounds.add();
        std::thread::sleep(PAUSE);
    }
}

fn read<T: Log>(name: &str) {
    if let Err(why) = T::read(&Path::new(LOGS).join(name), Mode::Strict) {
        panic!("the log file {name} is not as it should be: {why}");
    }
}
