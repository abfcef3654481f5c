// SPDX-License-Identifier: GPL-2.0
//! Many threads and processes at once, each checking its data.

use super::*;
use crate::load::{self, Work};

/// A process that is the context manager until it is killed.
pub(super) fn start_server(t: &Stage, threads: u32) -> Pid {
    let path = t.device("binder");
    child::ready(|ready| load::serve(&path, threads, ready))
}

/// A process that calls the manager.
pub(super) fn start_client(t: &Stage, work: &Work) -> Pid {
    child::spawn(|| load::call(&t.device("binder"), work).expect("answers, or a death that is tolerated"))
}

fn start_clients(t: &Stage, processes: u64, threads: usize, calls: usize, largest: usize) -> Vec<Pid> {
    let work = |seed| Work { threads, calls, largest, seed, tolerate_death: false };
    (0..processes).map(|seed| start_client(t, &work(seed))).collect()
}

/// A server with so many threads more serves the calls of so many processes.
fn serve(t: &Stage, pool: u32, processes: u64, threads: usize, calls: usize, largest: usize) {
    let server = start_server(t, pool);
    all_well(start_clients(t, processes, threads, calls, largest));
    end(server);
}

case!(clients_of_one_server, ["TXN-21", "LOOP-6", "WR-11"], |t| serve(t, 4, 6, 1, 100, 2000));

case!(threads_of_one_client, ["TXN-21", "TXN-13"], |t| serve(t, 6, 1, 6, 100, 2000));

// One thread to begin with; the driver requests the others.
case!(pool_grows_on_demand, ["LOOP-5", "LOOP-3"], |t| serve(t, 1, 4, 2, 50, 100));

case!(large_replies_to_many, ["ALLOC-1", "ALLOC-4"], |t| serve(t, 4, 4, 1, 30, 60_000));

case!(server_dies_under_load, ["REL-2", "TREL-1"], |t| {
    let mut server = start_server(t, 3);
    let work = |seed| Work { threads: 2, calls: 150, largest: 3000, seed, tolerate_death: true };
    let clients = (0..4).map(|seed| start_client(t, &work(seed))).collect();
    for _ in 0..5 {
        end(server);
        server = start_server(t, 3);
    }
    all_well(clients);
    end(server);
});

case!(clients_die_under_load, ["REL-2", "TXN-13"], |t| {
    let server = start_server(t, 4);
    for round in 0..4 {
        let clients = start_clients(t, 4, 2, 100_000, 3000);
        // Some calls succeed first: a client of another kind is served at the same time.
        all_well(start_clients(t, 1, 1, 20 + round * 7, 500));
        for pid in clients {
            end(pid);
        }
    }
    all_well(start_clients(t, 2, 2, 100, 3000));
    end(server);
});
