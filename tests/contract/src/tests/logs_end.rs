// SPDX-License-Identifier: GPL-2.0
//! Logs of what is added to again and again while they are read: they end. The C driver writes a log, or a process of it,
//! under its locks; ours gives them up between a few lines and the next, and shows what there was when it came.

use super::log_files::with_logs;
use super::*;
use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;

/// Reads a log in pieces that are shorter than a line, and does something between any two, given what is read. It has to end.
#[track_caller]
fn read_while(log: &Path, mut meanwhile: impl FnMut(&str)) -> String {
    let (mut log, mut text) = (File::open(log).expect("open a log"), String::new());
    let mut piece = [0; 64];
    for _ in 0..2_000 {
        let length = log.read(&mut piece).expect("read a log");
        if length == 0 {
            return text;
        }
        text += std::str::from_utf8(&piece[..length]).expect("text");
        meanwhile(&text);
    }
    panic!("it does not end: {text}");
}

fn log_of(t: &Stage, logs: &Path, port: &Port) -> PathBuf {
    logs.join(format!("proc/{}", t.global_pid(port)))
}

/// Reads what is said of one process meanwhile; how many of its lines begin with these words.
#[track_caller]
fn count_while(t: &Stage, logs: &Path, port: &Port, words: &str, mut meanwhile: impl FnMut()) -> usize {
    let log = read_while(&log_of(t, logs, port), |_| meanwhile());
    log.lines().filter(|line| line.starts_with(words)).count()
}

/// Tells the context manager something, and reads nothing.
fn tell(client: &Port) {
    client.send(|c| c.transaction(&client.place_oneway(0, 0, &bytes(b"told"))));
}

/// Reads one code behind the first: a read takes another one as long as there is room for a call with a security context.
fn read_one(port: &Port) -> Vec<Return> {
    let room = 2 * size_of::<u32>() + size_of::<BinderTransactionDataSecctx>();
    port.raw(WriteReadOp { room, ..Default::default() }).returns()
}

/// Has the context manager serve the call that waits first, which has to be that of this caller.
#[track_caller]
fn serve(manager: &Port, caller: &Port, code: u32) {
    let call = manager.wait_call();
    assert_eq!(call.code, code);
    finish(manager, caller, &call);
}

fn call(caller: &Port, code: u32) {
    caller.start_blocking_call(0, code, &bytes(b"waits"));
}

case!(while_devices_are_opened, ["OPEN-2", "BFS-12"], with_logs, |t, logs| {
    let device = t.device("binder");
    let open = || File::options().read(true).write(true).open(&device).expect("open a device");
    for name in ["state", "stats", "transactions"] {
        let mut opened = open();
        read_while(&logs.join(name), |_| drop(std::mem::replace(&mut opened, open())));
    }
});

case!(while_a_process_is_called, ["TXN-22", "BFS-12"], with_logs, |t, logs| {
    const CALLERS: usize = 12;
    let manager = t.manager();
    let mut callers: VecDeque<_> = (0..CALLERS).map(|_| t.client()).collect();
    for caller in &callers {
        call(caller, 0);
    }
    let shown = count_while(t, &logs, &manager, "  pending transaction", || {
        let caller = callers.pop_front().expect("a caller");
        serve(&manager, &caller, 0);
        call(&caller, 0);
        callers.push_back(caller);
    });
    assert!((1..=CALLERS).contains(&shown), "{shown} lines of {CALLERS} calls");
    for caller in &callers {
        caller.actor.kill();
    }
});

// A reader stands between two calls of a queue. One of them, or both, come to its end: each other call is shown once.
case!(while_those_in_front_call_again, ["TXN-22", "BFS-12"], with_logs, |t, logs| {
    const CALLERS: usize = 12;
    let manager = t.manager();
    for served in 1..=8 {
        let callers: Vec<_> = (0..CALLERS).map(|_| t.client()).collect();
        let code = |number: usize| 0x100 * served as u32 + number as u32;
        for (number, caller) in callers.iter().enumerate() {
            call(caller, code(number));
        }
        let words = |number| format!(" code {:x} ", code(number));
        let mut are_served = false;
        let text = read_while(&log_of(t, &logs, &manager), |text| {
            if are_served || !text.contains(&words(0)) {
                return;
            }
            are_served = true;
            for (number, caller) in callers.iter().take(served).enumerate() {
                serve(&manager, caller, code(number));
                call(caller, code(number));
            }
        });
        assert!(are_served, "{text}");
        for number in served..CALLERS {
            let lines = text.matches(&words(number)).count();
            assert_eq!(lines, 1, "call {number} of {served} and others: {text}");
        }
        for number in (served..CALLERS).chain(0..served) {
            serve(&manager, &callers[number], code(number));
        }
    }
});

case!(while_a_node_is_told, ["TXN-22", "BFS-12"], with_logs, |t, logs| {
    const TOLD: usize = 20;
    let (manager, client) = (t.manager(), t.client());
    for _ in 0..TOLD {
        tell(&client);
    }
    let shown = count_while(t, &logs, &manager, "    pending async transaction", || {
        manager.free(&manager.wait_call());
        tell(&client);
        let _ = client.drain();
    });
    assert!((1..=TOLD).contains(&shown), "{shown} lines of {TOLD} calls");
});

case!(while_a_thread_has_acknowledgements, ["TXN-22", "BFS-12"], with_logs, |t, logs| {
    const TOLD: usize = 20;
    let (manager, client) = (t.manager(), t.client());
    for _ in 0..TOLD {
        tell(&client);
    }
    let shown = count_while(t, &logs, &client, "    transaction complete", || {
        assert_eq!(read_one(&client), [Return::Noop, Return::TransactionComplete]);
        manager.free(&manager.wait_call());
        tell(&client);
    });
    assert!((1..=TOLD).contains(&shown), "{shown} lines of {TOLD} acknowledgements");
});

// Each new one has a greater number, so there are some ahead of a reader at any time.
case!(while_threads_come_and_go, ["TREL-1", "BFS-12"], with_logs, |t, logs| {
    const THREADS: usize = 6;
    let port = t.opened();
    let mut threads: VecDeque<_> = (0..THREADS).map(|_| port.looper()).collect();
    let shown = count_while(t, &logs, &port, "  thread ", || {
        // A piece is more than a line.
        for _ in 0..3 {
            threads.push_back(port.looper());
            let oldest = threads.pop_front().expect("a thread");
            oldest.actor.start(Op::EndThread);
        }
    });
    assert!(shown >= THREADS, "{shown} lines of {THREADS} threads and more");
});

// The nodes of one process, and the handles of another: each new one behind those before it.
case!(while_nodes_are_made, ["NODE-12", "BFS-12"], with_logs, |t, logs| {
    const NODES: usize = 8;
    let (manager, owner) = (t.manager(), t.client());
    let mut made = 0;
    let mut make = || {
        made += 1;
        give_in_a_call(&manager, &owner, FlatBinderObject::binder(made * 0x1000, 0));
    };
    for _ in 0..NODES {
        make();
    }
    let shown = count_while(t, &logs, &owner, "  node ", &mut make);
    assert!(shown >= NODES, "{shown} lines of {NODES} nodes and more");
    let shown = count_while(t, &logs, &manager, "  ref ", || {
        // A piece is more than a line.
        make();
        make();
    });
    assert!(shown >= NODES, "{shown} lines of {NODES} handles and more");
});
