// SPDX-License-Identifier: GPL-2.0
//! The processes of a workload, and the points that can be measured with them.

use std::path::PathBuf;
use std::time::Duration;

use crate::caller::{run_client, Caller};
use crate::cli::Placement;
use crate::clock::Clock;
use crate::error::Result;
use crate::registry;
use crate::result::Label;
use crate::session::Session;
use crate::talk::{Talker, SPACE};
use crate::workers::{Control, Setting, Worker, Workers};

/// A process that has not answered for so long is hung.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// A point to measure: a label, and the clients that get its setting.
#[derive(Clone, Debug)]
pub struct Point {
    /// The label of the point in the result.
    pub label: Label,
    pub setting: Setting,
    pub clients: Vec<Worker>,
}

impl Point {
    /// A point whose clients get its size and this variant.
    pub fn new(label: Label, variant: u32, clients: &[Worker]) -> Point {
        let setting = Setting { size: label.size, variant };
        Point { label, setting, clients: clients.to_vec() }
    }
}

/// CPUs of the two sides of a pair; none is "wherever the scheduler likes".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpus {
    pub client: Option<usize>,
    pub server: Option<usize>,
}

/// The processes of a workload and its points.
pub struct Stage {
    pub workers: Workers,
    pub clock: Clock,
    pub device: PathBuf,
    /// Only points that one client measures are added.
    pub alone: bool,
    /// The space that servers and clients started from now on map.
    pub space: usize,
    placement: Placement,
    cpus: Vec<usize>,
    managed: bool,
    points: Vec<Point>,
    gathered: u64,
}

impl Stage {
    /// A stage without processes. `wishes`: the placement of processes, and true for only points that one client
    /// measures. Without wishes all processes are on one CPU, with only these points.
    pub fn new(session: &Session, wishes: Option<(Placement, bool)>) -> Result<Stage> {
        let (placement, alone) = wishes.unwrap_or((Placement::Same, true));
        Ok(Stage {
            workers: Workers::new()?,
            clock: session.clock,
            device: session.device.clone(),
            alone,
            space: SPACE,
            placement,
            cpus: session.cpus.clone(),
            managed: false,
            points: Vec::new(),
            gathered: 0,
        })
    }

    pub fn seat(&self, pair: u32) -> Cpus {
        cpus_of(self.placement, pair as usize, &self.cpus)
    }

    /// The CPU of one of many clients of one server: the server is on that of the first pair's server.
    pub fn seat_of_many(&self, client: u32) -> Option<usize> {
        cpu_of_many(self.placement, client as usize, &self.cpus)
    }

    /// Starts a process and waits until it is set up.
    pub fn start(
        &mut self,
        name: impl Into<String>,
        cpu: Option<usize>,
        body: impl FnOnce(&mut Control) -> Result<()>,
    ) -> Result<Worker> {
        let worker = self.workers.start(name, cpu, body)?;
        self.workers.collect(&[worker], TIMEOUT)?;
        Ok(worker)
    }

    /// Makes sure that there is a context manager.
    pub fn need_manager(&mut self) -> Result<()> {
        if self.managed {
            return Ok(());
        }
        self.managed = true;
        let device = self.device.clone();
        let manage =
            move |control: &mut Control| registry::manage(Talker::open(&device, SPACE)?, || control.ready());
        self.start("binder context manager", None, manage).map(drop)
    }

    /// Starts a server: a process with a node registered as `service`.
    pub fn server(
        &mut self,
        name: impl Into<String>,
        cpu: Option<usize>,
        service: &str,
        serve: impl FnOnce(Talker) -> Result<()>,
    ) -> Result<Worker> {
        self.need_manager()?;
        let (device, space) = (self.device.clone(), self.space);
        self.start(name, cpu, move |control| {
            let mut talker = Talker::open(&device, space)?;
            registry::register(&mut talker, service, 1)?;
            talker.enter_looper()?;
            control.ready()?;
            serve(talker)
        })
    }

    /// Starts a client with a handle on a service.
    pub fn client<C: Caller>(
        &mut self,
        name: impl Into<String>,
        cpu: Option<usize>,
        service: &str,
        make: impl FnOnce(Talker, u32) -> Result<C>,
    ) -> Result<Worker> {
        self.need_manager()?;
        let (device, space) = (self.device.clone(), self.space);
        self.caller(name, cpu, move || {
            let mut talker = Talker::open(&device, space)?;
            let handle = registry::look_up(&mut talker, service)?;
            make(talker, handle)
        })
    }

    /// Starts a server and its client, which is returned, where the pair with this number sits. In the name `{}` stands for the role.
    pub fn pair<C: Caller>(
        &mut self,
        (name, pair): (&str, u32),
        service: &str,
        serve: impl FnOnce(Talker) -> Result<()>,
        make: impl FnOnce(Talker, u32) -> Result<C>,
    ) -> Result<Worker> {
        let seat = self.seat(pair);
        self.server(name.replace("{}", "server"), seat.server, service, serve)?;
        self.client(name.replace("{}", "client"), seat.client, service, make)
    }

    /// Starts a client of any kind.
    pub fn caller<C: Caller>(
        &mut self,
        name: impl Into<String>,
        cpu: Option<usize>,
        make: impl FnOnce() -> Result<C>,
    ) -> Result<Worker> {
        let clock = self.clock;
        self.start(name, cpu, move |control| run_client(control, make()?, &clock))
    }

    /// Adds a point whose clients get its size and this variant.
    pub fn add(&mut self, label: Label, variant: u32, clients: &[Worker]) {
        self.points.push(Point::new(label, variant, clients));
    }

    /// All selected points, each once.
    pub fn points(&self) -> Vec<Point> {
        let mut wanted: Vec<Point> = Vec::new();
        for point in self.points.iter().filter(|p| !self.alone || p.clients.len() == 1) {
            if wanted.iter().all(|known| known.label != point.label) {
                wanted.push(point.clone());
            }
        }
        wanted
    }

    /// The number of clients that have come together when these have, if they start together; 0 for one alone.
    pub fn gathered(&mut self, clients: &[Worker]) -> u64 {
        if clients.len() < 2 {
            return 0;
        }
        self.gathered += clients.len() as u64;
        self.gathered
    }
}

/// CPUs of the client and of the server of a pair.
fn cpus_of(placement: Placement, pair: usize, cpus: &[usize]) -> Cpus {
    let cpu = |turn: usize| cpus.get(turn % cpus.len().max(1)).copied();
    match placement {
        Placement::Free => Cpus { client: None, server: None },
        Placement::Same => Cpus { client: cpu(pair), server: cpu(pair) },
        Placement::Other => Cpus { client: cpu(2 * pair), server: cpu(2 * pair + 1) },
    }
}

/// The CPU of one of many clients of one server: they take turns through all, or through those that the server does not have.
fn cpu_of_many(placement: Placement, client: usize, cpus: &[usize]) -> Option<usize> {
    let server = cpus_of(placement, 0, cpus).server;
    let free: Vec<usize> = match placement {
        Placement::Other if cpus.len() > 1 => {
            cpus.iter().copied().filter(|&cpu| Some(cpu) != server).collect()
        }
        _ => cpus.to_vec(),
    };
    cpus_of(if placement == Placement::Free { placement } else { Placement::Same }, client, &free).client
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_take_turns_through_the_cpus() {
        let cpus = |seat: Cpus| (seat.client, seat.server);
        assert_eq!(cpus(cpus_of(Placement::Same, 3, &[4, 5])), (Some(5), Some(5)));
        assert_eq!(cpus(cpus_of(Placement::Other, 0, &[4, 5])), (Some(4), Some(5)));
        assert_eq!(cpus(cpus_of(Placement::Other, 1, &[4, 5, 6, 7])), (Some(6), Some(7)));
        assert_eq!(cpus(cpus_of(Placement::Free, 1, &[4])), (None, None));
        assert_eq!(cpus(cpus_of(Placement::Other, 1, &[9])), (Some(9), Some(9)));
    }

    #[test]
    fn many_clients_of_one_server_leave_it_its_cpu_if_they_can() {
        let seats = |placement, cpus: &[usize]| [0, 1, 2].map(|client| cpu_of_many(placement, client, cpus));
        assert_eq!(seats(Placement::Same, &[4, 5]), [Some(4), Some(5), Some(4)]);
        assert_eq!(seats(Placement::Other, &[4, 5, 6]), [Some(4), Some(6), Some(4)]);
        assert_eq!(seats(Placement::Other, &[9]), [Some(9); 3]);
        assert_eq!(seats(Placement::Free, &[4, 5]), [None; 3]);
    }
}
