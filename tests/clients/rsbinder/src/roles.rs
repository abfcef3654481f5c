// SPDX-License-Identifier: GPL-2.0
//! The tasks of the processes that a test starts.

use crate::workshop_aidl::IObserver::BnObserver;
use crate::workshop_aidl::IWorkshop::IWorkshop;
use crate::{stage, workshop};
use anyhow::{ensure, Context, Result};
use clap::Subcommand;
use nix::unistd::{setgid, setuid, Gid, Uid};
use rsbinder::{hub, ParcelFileDescriptor, ProcessState, Strong};
use std::io::{Read, Write};

#[derive(Subcommand)]
pub enum Role {
    /// Register a workshop and serve
    Serve {
        name: String,
        #[arg(long)]
        threads: u32,
    },
    /// As another user, get the caller's pid in the service; prints the own pid and the answer
    AskCaller { service: String, uid: u32 },
    /// Give the service an object to watch, and live on
    Lend { service: String, name: String },
    /// Call the service from several threads at once and check each answer
    Load { service: String, threads: i64, calls: i64 },
}

/// Be that process.
pub fn play(role: &Role) -> Result<()> {
    match role {
        Role::Serve { name, threads } => serve(name, *threads),
        Role::AskCaller { service, uid } => ask_caller(service, *uid),
        Role::Lend { service, name } => lend(service, name),
        Role::Load { service, threads, calls } => load(service, *threads, *calls),
    }
}

fn say(line: &str) -> Result<()> {
    println!("{line}");
    Ok(std::io::stdout().flush()?)
}

fn find(service: &str) -> Result<Strong<dyn IWorkshop>> {
    hub::check_interface(service).with_context(|| format!("looking {service} up"))
}

fn serve(name: &str, threads: u32) -> Result<()> {
    stage::join_binder(threads)?;
    hub::add_service(name, workshop::Workshop::object())?;
    say("serving")?;
    Ok(ProcessState::join_thread_pool()?)
}

fn ask_caller(service: &str, uid: u32) -> Result<()> {
    setgid(Gid::from_raw(uid))?;
    setuid(Uid::from_raw(uid))?;
    stage::join_binder(0)?;
    let seen = find(service)?.caller()?;
    say(&format!("{} {seen:?}", std::process::id()))
}

fn lend(service: &str, name: &str) -> Result<()> {
    stage::join_binder(1)?;
    let object = workshop::token();
    find(service)?.watch(&object, name)?;
    say("lent")?;
    loop {
        std::thread::park();
    }
}

fn load(service: &str, threads: i64, calls: i64) -> Result<()> {
    stage::join_binder(2)?;
    let workers: Vec<_> = (0..threads)
        .map(|worker| {
            let service = service.to_owned();
            std::thread::spawn(move || (0..calls).try_for_each(|call| one_of_each(&service, worker, call)))
        })
        .collect();
    for worker in workers {
        worker.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
    }
    say("all right")
}

/// One call of a kind that changes from call to call, with an answer that no other call has.
fn one_of_each(service: &str, worker: i64, call: i64) -> Result<()> {
    let workshop = find(service)?;
    match call % 6 {
        0 => {
            let numbers: Vec<i64> = (0..100).map(|n| n * worker + call).collect();
            ensure!(workshop.sum(&numbers)? == numbers.iter().sum::<i64>(), "a wrong sum");
        }
        1 => {
            let data: Vec<u8> = (0..4096).map(|n| (n * 7 + worker + call).to_le_bytes()[0]).collect();
            let mut answer = workshop.reverse(&data)?;
            answer.reverse();
            ensure!(answer == data, "wrong bytes");
        }
        2 => {
            let text = format!("{} {worker} {call}", std::process::id());
            let mut answer = String::new();
            workshop.pipeWith(&text)?.read_to_string(&mut answer)?;
            ensure!(answer == text, "the pipe has {answer}");
        }
        3 => {
            let (read, mut write) = ParcelFileDescriptor::pipe()?;
            let text = format!("{worker}:{call}");
            write.write_all(text.as_bytes())?;
            drop(write);
            ensure!(workshop.slurp(&read)? == text, "another pipe was read");
        }
        4 => {
            let observer = BnObserver::new_binder(crate::tests::callbacks::Observer::default());
            let number = i32::try_from(worker * 1000 + call)?;
            ensure!(workshop.askBack(&observer, number)? == 2 * number, "a wrong answer to a callback");
        }
        _ => {
            ensure!(workshop.busy(1)? >= 1, "nobody was busy");
        }
    }
    Ok(())
}
