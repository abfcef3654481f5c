// SPDX-License-Identifier: GPL-2.0
//! Many clients, many threads, every kind of call.

use crate::stage::{eventually, Process, Service};
use crate::workshop_aidl::IWorkshop::IWorkshop;
use anyhow::{ensure, Result};

const POOL: u32 = 4;

pub fn clients_and_threads() -> Result<String> {
    let service = Service::start("crowd", POOL)?;
    let files = service.workshop.openFiles()?;
    let mut clients: Vec<_> =
        (0..6).map(|_| Process::play(&["load", "crowd", "4", "60"])).collect::<Result<_>>()?;
    for client in &mut clients {
        ensure!(client.line()? == "all right");
        ensure!(client.wait()?);
    }
    // One is this call itself.
    let together = most_at_once(&service)?;
    ensure!(together > 1, "one thread did it all");
    ensure!(together <= POOL + 2, "{together} threads, more than the pool may have");
    eventually("all descriptors are closed", || Ok(service.workshop.openFiles()? == files))?;
    Ok(format!("6 processes of 4 threads, 1440 calls; a pool of {POOL} served several at once"))
}

/// Call the service from more threads than it has: how many of them were served at once.
fn most_at_once(service: &Service) -> Result<u32> {
    let callers: Vec<_> = (0..3 * POOL)
        .map(|_| {
            let workshop = service.workshop.clone();
            std::thread::spawn(move || workshop.busy(20))
        })
        .collect();
    let mut most = 0;
    for caller in callers {
        let together = caller.join().map_err(|_| anyhow::anyhow!("a caller panicked"))??;
        most = most.max(together.unsigned_abs());
    }
    Ok(most)
}
