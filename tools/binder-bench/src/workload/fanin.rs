// SPDX-License-Identifier: GPL-2.0
//! Many clients and one server process with a pool of threads: contention in the driver.

use std::sync::{mpsc, Arc};

use clap::Args;

use super::Workload;
use crate::exchange::{self, BinderCaller};
use crate::prelude::*;
use crate::workers::sit;

const NAME: &str = "fanin";

/// The number of each. A thread of the server sits where the server of a pair would.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Clients at the same time.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 16], value_parser = clap::value_parser!(u32).range(1..=64))]
    pub clients: Vec<u32>,
    /// Threads of the server.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4], value_parser = clap::value_parser!(u32).range(1..=64))]
    pub threads: Vec<u32>,
}

impl Workload for Options {
    fn set_up(&self, stage: &mut Stage) -> Result<()> {
        let clients: &[u32] = if stage.alone { &[1] } else { &self.clients };
        for &threads in &self.threads {
            let service = format!("fanin{threads}");
            let seats: Vec<_> = (0..threads).map(|thread| stage.seat(thread).server).collect();
            let name = format!("fan-in server of {threads} threads");
            stage.server(name, seats[0], &service, |talker| serve(&talker, &seats))?;
            let mut members = Vec::new();
            for client in 0..clients.iter().copied().max().unwrap_or(1) {
                let name = format!("fan-in client {} of {threads} threads", client + 1);
                let seat = stage.seat_of_many(client);
                members.push(stage.client(name, seat, &service, |talker, handle| {
                    Ok(BinderCaller::new(talker.port().clone(), handle, 0))
                })?);
            }
            for &pairs in clients {
                let label = Label { pairs, ..Label::new(NAME, "").with("threads", threads) };
                stage.add(label, 0, &members[..pairs as usize]);
            }
        }
        Ok(())
    }
}

/// Serves with a thread on each of these CPUs until one of them fails.
fn serve(talker: &Talker, seats: &[Option<usize>]) -> Result<()> {
    let (failed, failures) = mpsc::channel();
    for &seat in seats {
        let (port, failed) = (Arc::clone(talker.port()), failed.clone());
        std::thread::spawn(move || {
            let mut talker = Talker::on(port);
            let result = sit(seat).and_then(|()| talker.enter_looper()).and_then(|()| {
                exchange::serve(Arc::clone(talker.port()), 0, TransactionFlags::empty(), |_| 0)
            });
            // The receiver waits as long as the process lives.
            let _ = failed.send(result);
        });
    }
    failures.recv().unwrap_or_else(|_| Err(Error::failed("all threads of a server are gone")))
}
