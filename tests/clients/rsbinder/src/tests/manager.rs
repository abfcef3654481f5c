// SPDX-License-Identifier: GPL-2.0
//! The service manager and its own dealings with the driver.

use crate::stage::{eventually, service_tool, Manager, Process, Service};
use crate::workshop_aidl::IWorkshop::IWorkshop;
use anyhow::{ensure, Context, Result};
use nix::sys::signal::Signal;
use rsbinder::{hub, Strong};
use std::process::Command;

pub fn knows_who_is_there() -> Result<String> {
    let names = ["bellows", "hammer", "tongs"];
    let services: Vec<_> = names.iter().map(|name| Service::start(name, 1)).collect::<Result<_>>()?;
    let listed = hub::list_services(hub::DUMP_FLAG_PRIORITY_ALL);
    ensure!(names.iter().all(|name| listed.iter().any(|l| l == name)), "{listed:?}");
    let (_, table) = service_tool(&["info"])?;
    for (name, service) in names.iter().zip(&services) {
        let pid = format!("pid={}", service.process.pid());
        ensure!(table.lines().any(|l| l.starts_with(name) && l.ends_with(&pid)), "{name} {pid}: {table}");
    }
    ensure!(hub::check_service("chisel").is_none(), "a service out of nowhere");
    let (known, said) = service_tool(&["check", "hammer"])?;
    ensure!(known, "{said}");
    Ok(format!("{names:?} with their pids; {said}"))
}

pub fn tells_who_waits() -> Result<String> {
    let waiting = std::thread::spawn(|| -> Result<i32> {
        let late: Strong<dyn IWorkshop> = hub::wait_for_interface("late")?;
        Ok(late.pid()?)
    });
    std::thread::sleep(std::time::Duration::from_millis(50));
    let service = Service::start("late", 1)?;
    let pid = waiting.join().map_err(|_| anyhow::anyhow!("the waiting thread panicked"))??;
    ensure!(pid == service.process.pid());
    Ok("who waited for a service was called back with it".into())
}

pub fn forgets_the_dead() -> Result<String> {
    for life in 0..5 {
        let service = Service::start("phoenix", 1).with_context(|| format!("life {life}"))?;
        ensure!(service.workshop.pid()? == service.process.pid(), "an earlier life answers");
        service.process.signal(Signal::SIGKILL)?;
        eventually("the manager has read of the death", || Ok(hub::check_service("phoenix").is_none()))?;
    }
    Ok("5 lives under one name".into())
}

pub fn there_is_one_for_each_device() -> Result<String> {
    rsbinder::binderfs::add_device(rsbinder::DEFAULT_BINDER_CONTROL_PATH.as_ref(), "spare")?;
    for _ in 0..3 {
        let manager = Manager::start("spare")?;
        let mut second =
            Process::start(Command::new("rsb_hub").args(["--insecure-allow-all", "--device", "spare"]))?;
        ensure!(!second.wait()?, "two service managers on one device");
        let (listed, names) = service_tool(&["--device", "spare", "list"])?;
        ensure!(listed && names == "manager", "on the spare device: {names}");
        drop(manager);
        // The driver releases a dead manager a moment later.
        eventually("the manager is gone", || Ok(!service_tool(&["--device", "spare", "list"])?.0))?;
    }
    std::fs::remove_file("/dev/binderfs/spare")?;
    Ok("3 managers one after the other on a device of their own, never two".into())
}

pub fn passes_a_dump_on() -> Result<String> {
    let _service = Service::start("dumped", 1)?;
    let (done, said) = service_tool(&["dump", "dumped", "one", "two"])?;
    ensure!(done && said.contains("[one, two]"), "{said}");
    Ok(said)
}
