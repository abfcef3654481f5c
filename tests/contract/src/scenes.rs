// SPDX-License-Identifier: GPL-2.0
//! Processes in a certain state, for as long as another program looks at them: for tests of tools.
//!
//! The program finds their numbers in its environment.

use crate::freezer::Freezer;
use crate::logs::until;
use crate::ops::Op;
use crate::pids::GlobalPids;
use crate::port::{bytes, empty, introduce, Port};
use crate::stage::Stage;
use crate::suite::Driver;
use crate::tests::nested::couple;
use binder_sys::*;
use clap::{Args, ValueEnum};
use std::path::Path;
use std::process::Command;

#[derive(Args)]
pub struct SceneArgs {
    /// The scene to play
    #[arg(value_enum)]
    scene: Scene,
    /// The program that looks at them, and its arguments
    #[arg(required = true, trailing_var_arg = true)]
    command: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Scene {
    /// CALLER waits for MIDDLE, which waits for MANAGER, which works
    Chain,
    /// CALLER and MIDDLE wait for each other, and have no other thread
    Cycle,
    /// CALLER waits for MIDDLE on one device, and MIDDLE for CALLER on another
    Crossed,
    /// A cycle of processes with idle threads on another device and in another instance
    Beside,
    /// A cycle until CALLER had another thread, which serves MIDDLE
    Joined,
    /// CALLER waits for MIDDLE, which calls MANAGER again and again
    Nested,
    /// A thread of CALLER has called MANAGER, which works, and has ended
    Left,
    /// CALLER waits for MANAGER, whose only thread works for MIDDLE
    Busy,
    /// CALLER has filled MANAGER's space with oneway calls, and was refused the last
    Full,
    /// CALLER holds an object of a process that has ended, and has called it
    Dead,
    /// MANAGER is frozen; a oneway call of CALLER's waits for it, and a call was refused
    Frozen,
}

/// The mount point of the scene's binderfs.
const PLACE: &str = "/tmp/scene";
/// The code of all calls, by which a test finds them.
const CODE: u32 = 0x2a;
/// A space that few calls fill.
const SMALL: usize = 1 << 16;

/// Sets the scene, and runs the program, whose exit code this gives.
pub fn run(args: &SceneArgs) -> anyhow::Result<i32> {
    std::fs::create_dir_all(PLACE)?;
    // Differences between drivers play no part in these scenes.
    let stage = Stage::new(Driver::C, Path::new(PLACE), GlobalPids::new());
    let cast = match args.scene {
        Scene::Chain => chain(&stage),
        Scene::Cycle => close(couple(&stage)),
        Scene::Crossed => crossed(&stage),
        Scene::Beside => beside(&stage),
        Scene::Joined => joined(&stage),
        Scene::Nested => nested(&stage),
        Scene::Left => left(&stage),
        Scene::Busy => busy(&stage),
        Scene::Full => full(&stage),
        Scene::Dead => dead(&stage),
        Scene::Frozen => frozen(&stage),
    };
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]).env("SCENE", stage.root());
    for (name, port) in ["CALLER", "MIDDLE", "MANAGER"].into_iter().zip(cast.iter()) {
        command.env(name, port.actor.pid().to_string());
    }
    let mut child = command.spawn()?;
    let status = loop {
        if !matches!(args.scene, Scene::Nested) {
            break child.wait()?;
        }
        if let Some(status) = child.try_wait()? {
            break status;
        }
        cast[1].round_trip(0, &cast[2], &empty(), &empty());
    };
    cast.iter().for_each(Port::kill);
    stage.unmount();
    Ok(status.code().unwrap_or(1))
}

fn chain(t: &Stage) -> [Port; 3] {
    let (manager, a, b, on_b, _) = couple(t);
    a.call(&b, on_b, CODE, &empty());
    b.call(&manager, 0, CODE, &empty());
    [a, b, manager]
}

/// Has two processes call each other at once.
fn close((manager, a, b, on_b, on_a): (Port, Port, Port, u32, u32)) -> [Port; 3] {
    a.start_call(on_b, CODE, &empty());
    b.start_call(on_a, CODE, &empty());
    a.actor.expect_blocked();
    b.actor.expect_blocked();
    [a, b, manager]
}

/// Another device of the same process, used by a thread.
fn also(t: &Stage, thread: &Port, name: &str) -> Port {
    let port = t.client_at(&t.device(name), thread.actor.clone());
    port.enter_looper();
    port
}

fn crossed(t: &Stage) -> [Port; 3] {
    let (manager, a, b, on_b, _) = couple(t);
    let a_too = also(t, &a, "hwbinder");
    a_too.set_context_manager().expect("become context manager");
    let b_too = also(t, &b, "hwbinder");
    a.call(&b, on_b, CODE, &empty());
    b_too.start_blocking_call(0, CODE, &empty());
    std::mem::forget((a_too, b_too));
    [a, b, manager]
}

fn beside(t: &Stage) -> [Port; 3] {
    let cast = couple(t);
    let other = Stage::new(Driver::C, &t.directory("other"), GlobalPids::new());
    for port in [&cast.1, &cast.2] {
        for (stage, name) in [(t, "hwbinder"), (&other, "binder")] {
            let idle = also(stage, &port.thread(), name);
            idle.park();
            // A thread whose port is dropped ends.
            std::mem::forget(idle);
        }
    }
    other.unmount();
    close(cast)
}

fn joined(t: &Stage) -> [Port; 3] {
    let cast = couple(t);
    let another = cast.1.thread();
    let cast = close(cast);
    another.enter_looper();
    another.wait_call();
    std::mem::forget(another);
    cast
}

fn nested(t: &Stage) -> [Port; 3] {
    let (manager, a, b, on_b, _) = couple(t);
    a.call(&b, on_b, CODE, &empty());
    [a, b, manager]
}

fn left(t: &Stage) -> [Port; 3] {
    let (manager, caller) = (t.manager(), t.client());
    let gone = caller.thread();
    gone.send_call_to(&manager, 0, CODE, &empty());
    gone.actor.start(Op::EndThread);
    let task = format!("/proc/{}/task/{}", caller.actor.pid(), gone.actor.tid());
    until("the thread ends", || (!Path::new(&task).exists()).then_some(()));
    [caller, t.client(), manager]
}

fn busy(t: &Stage) -> [Port; 3] {
    let (manager, caller, served) = (t.manager(), t.client(), t.client());
    served.call(&manager, 0, CODE, &empty());
    caller.start_blocking_call(0, CODE, &empty());
    [caller, served, manager]
}

fn full(t: &Stage) -> [Port; 3] {
    let (manager, caller, other) = (t.manager_with(SMALL), t.client(), t.client());
    let data = || caller.place_oneway(0, CODE, &bytes(&[0; 4000]));
    for _ in 0..SMALL / 2 / 4000 {
        caller.start_transaction(&data());
        caller.wait("a completion", |item| {
            matches!(item, Return::TransactionComplete | Return::OnewaySpamSuspect).then_some(())
        });
    }
    assert_eq!(caller.refused(&data()), Return::FailedReply);
    [caller, other, manager]
}

fn dead(t: &Stage) -> [Port; 3] {
    let (manager, owner, caller) = (t.manager(), t.server(), t.client());
    let handle = introduce(&manager, &owner, FlatBinderObject::binder(0xb0, 0xb1), &caller);
    owner.kill();
    assert_eq!(caller.refused(&caller.place(handle, CODE, &empty())), Return::DeadReply);
    [caller, t.client(), manager]
}

fn frozen(t: &Stage) -> [Port; 3] {
    let (manager, caller, freezer) = (t.manager(), t.client(), t.opened());
    Freezer::by(freezer.clone(), manager.actor.pid() as u32).freeze(0).expect("freeze");
    caller.tell_with(&caller.place_oneway(0, CODE, &empty()), Return::TransactionPendingFrozen);
    assert_eq!(caller.refused(&caller.place(0, CODE, &empty())), Return::FrozenReply);
    [caller, freezer, manager]
}
