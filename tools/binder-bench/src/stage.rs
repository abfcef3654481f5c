// SPDX-License-Identifier: GPL-2.0
//! What a workload sets up: processes, and the points that can be measured with them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use nix::time::clock_getcpuclockid;

use crate::caller::{run_client, Caller};
use crate::cli::{Common, Manager, Placement};
use crate::clock::{nanoseconds, Clock};
use crate::error::Result;
use crate::registry;
use crate::result::Label;
use crate::session::Session;
use crate::talk::{Talker, SPACE};
use crate::workers::{Control, Setting, Worker, Workers};

/// A process that has not answered for so long is hung.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// Something to be measured: a label, and who is told to do what.
#[derive(Clone, Debug)]
pub struct Point {
    /// What the result calls it.
    pub label: Label,
    pub setting: Setting,
    pub clients: Vec<Worker>,
    pub servers: Vec<Worker>,
}

impl Point {
    /// A point whose clients are told its size and this variant.
    pub fn new(label: Label, variant: u32, clients: &[Worker], servers: &[Worker]) -> Point {
        let setting = Setting { size: label.size, variant };
        Point { label, setting, clients: clients.to_vec(), servers: servers.to_vec() }
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
    /// Only points that one client measures are wanted.
    pub alone: bool,
    /// What servers and clients started from now on map for what arrives.
    pub space: usize,
    placement: Placement,
    cpus: Vec<usize>,
    manager: Manager,
    managed: bool,
    points: Vec<Point>,
    gathered: u64,
}

impl Stage {
    /// Nobody there yet. Without wishes: a manager of our own, everyone on one CPU.
    pub fn new(session: &Session, wishes: Option<&Common>) -> Result<Stage> {
        Ok(Stage {
            workers: Workers::new()?,
            clock: session.clock,
            device: session.site.device.clone(),
            alone: wishes.is_none_or(|common| common.count && !common.together),
            space: SPACE,
            placement: wishes.map_or(Placement::Same, |common| common.placement),
            cpus: session.cpus.clone(),
            manager: wishes.map_or(Manager::Own, |common| common.manager),
            managed: false,
            points: Vec::new(),
            gathered: 0,
        })
    }

    pub fn seat(&self, pair: u32) -> Cpus {
        cpus_of(self.placement, pair as usize, &self.cpus)
    }

    /// Where one of many clients of one server sits: the server is where that of the first pair would be.
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

    /// Makes sure that there is a context manager, ours or the one that we were told to use.
    pub fn need_manager(&mut self) -> Result<()> {
        if self.managed {
            return Ok(());
        }
        self.managed = true;
        let device = self.device.clone();
        if self.manager == Manager::Existing {
            return registry::greet(&mut Talker::open(&device, SPACE)?);
        }
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

    /// Starts a server and its client where the pair with this number sits: the client, the server. In the name `{}` stands for the role.
    pub fn pair<C: Caller>(
        &mut self,
        (name, pair): (&str, u32),
        service: &str,
        serve: impl FnOnce(Talker) -> Result<()>,
        make: impl FnOnce(Talker, u32) -> Result<C>,
    ) -> Result<(Worker, Worker)> {
        let seat = self.seat(pair);
        let server = self.server(name.replace("{}", "server"), seat.server, service, serve)?;
        Ok((self.client(name.replace("{}", "client"), seat.client, service, make)?, server))
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

    /// Adds a point whose clients are told its size and this variant.
    pub fn add(&mut self, label: Label, variant: u32, clients: &[Worker], servers: &[Worker]) {
        self.points.push(Point::new(label, variant, clients, servers));
    }

    /// All points that are wanted, each once.
    pub fn points(&self) -> Vec<Point> {
        let mut wanted: Vec<Point> = Vec::new();
        for point in self.points.iter().filter(|p| !self.alone || p.clients.len() == 1) {
            if wanted.iter().all(|known| known.label != point.label) {
                wanted.push(point.clone());
            }
        }
        wanted
    }

    /// How many clients will have come together when these have, who are to start together; 0 if there is one alone.
    pub fn gathered(&mut self, clients: &[Worker]) -> u64 {
        if clients.len() < 2 {
            return 0;
        }
        self.gathered += clients.len() as u64;
        self.gathered
    }

    /// CPU time that processes have used so far.
    pub fn cpu_ns(&self, workers: &[Worker]) -> u64 {
        let of = |&worker: &Worker| nanoseconds(clock_getcpuclockid(self.workers.pid(worker)).ok()?).ok();
        workers.iter().filter_map(of).sum()
    }

    /// CPUs that the threads of processes were on last.
    pub fn seen_on(&self, workers: &[Worker], seen: &mut BTreeSet<usize>) {
        for &worker in workers {
            let tasks = format!("/proc/{}/task", self.workers.pid(worker));
            let Ok(entries) = std::fs::read_dir(tasks) else { continue };
            let stats = entries.flatten().filter_map(|e| std::fs::read_to_string(e.path().join("stat")).ok());
            seen.extend(stats.filter_map(|stat| last_cpu(&stat)));
        }
    }
}

/// The field `processor` of a task's `stat`: the 39th, where the second may hold spaces between its parentheses.
fn last_cpu(stat: &str) -> Option<usize> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(39 - 3)?.parse().ok()
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

    #[test]
    fn the_cpu_of_a_task_is_found_behind_any_name() {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let awkward = stat.replacen('(', "(a ) b ", 1);
        let cpu = last_cpu(&stat).unwrap();
        assert!(cpu < 4096);
        assert_eq!(last_cpu(&awkward), Some(cpu));
        assert_eq!(last_cpu("1 (x) S 1"), None);
    }
}
