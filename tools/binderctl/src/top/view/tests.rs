// SPDX-License-Identifier: GPL-2.0
//! What is shown of three processes, without a terminal.

use std::time::Duration;
use std::time::Instant;

use super::*;
use crate::top::sample::Activity;
use crate::top::sample::Doing;
use crate::top::sample::Other;
use crate::trace::recorded;

fn process(
    context: &str,
    calls_in: i64,
    calls_out: i64,
    oneway: i64,
    threads: &[(Pid, Activity)],
) -> Process {
    Process {
        context: context.into(),
        nodes: 2,
        references: 3,
        buffers: 1,
        oneway_free: Some(oneway),
        pending: Some(0),
        calls_in: Some(calls_in),
        calls_out: Some(calls_out),
        threads: threads.iter().map(|&(tid, what)| Doing { tid, what }).collect(),
    }
}

fn sample(time: Instant, factor: i64) -> Sample {
    let other = |process, thread| Other { process, thread, code: 0x17, elapsed: 12 };
    let ui = [(91, Activity::Waits(other(90, 93))), (94, Activity::Idle)];
    let server = [
        (90, Activity::Idle),
        (93, Activity::Serves(other(91, 91))),
        (95, Activity::Away),
        (96, Activity::Idle),
    ];
    let processes = [
        (90, process("binder", 5 * factor, 0, 520_192, &server)),
        (91, process("binder", 0, 5 * factor, 260_096, &ui)),
        (97, process("hwbinder", 0, 0, 1_024, &[])),
    ];
    let keyed = processes.map(|(pid, process)| (Key { pid, nth: 0 }, process));
    Sample { time, processes: keyed.into() }
}

/// What the processes of the tests are called.
pub fn name(pid: Pid) -> String {
    match pid {
        90 => "surfaceflinger".into(),
        91 => "com.example.app".into(),
        pid => format!("process {pid}"),
    }
}

/// A view after two samples, ten seconds apart, with the latencies of a recorded trace.
pub fn view() -> View {
    let mut view = View::default();
    let start = Instant::now();
    let mut latencies = Latencies::default();
    recorded::of_c().0.iter().flatten().for_each(|call| latencies.take(call));
    view.take(sample(start, 1), &latencies, name);
    view.take(sample(start + Duration::from_secs(10), 201), &latencies, name);
    view
}

fn pids(view: &View) -> Vec<Pid> {
    view.rows().iter().map(|row| row.key.pid).collect()
}

#[test]
fn rates_need_two_samples() {
    let mut view = View::default();
    view.take(sample(Instant::now(), 1), &Latencies::default(), name);
    assert!(view.rows().iter().all(|row| row.calls_in.is_none()));
    let view = self::view();
    assert_eq!((view.rows()[0].calls_in, view.rows()[0].calls_out), (Some(100.0), Some(0.0)));
}

#[test]
fn a_number_that_has_gone_to_another_process_has_no_rate_at_first() {
    let mut view = View::default();
    let start = Instant::now();
    view.take(sample(start, 9), &Latencies::default(), name);
    view.take(sample(start + Duration::from_secs(1), 1), &Latencies::default(), name);
    assert_eq!(view.row(Key { pid: 90, nth: 0 }).unwrap().calls_in, None);
}

#[test]
fn rows_are_sorted_by_any_column() {
    let mut view = view();
    for (key, order) in [('P', [90, 91, 97]), ('O', [91, 90, 97]), ('M', [97, 91, 90]), ('N', [90, 91, 97])] {
        assert!(view.press(Press::Char(key), 10));
        assert_eq!(pids(&view), order, "{key}");
    }
    view.press(Press::Char('I'), 10);
    assert_eq!(pids(&view), [97, 91, 90]);
}

#[test]
fn the_menu_sorts_by_the_column_that_is_selected() {
    let mut view = view();
    view.press(Press::F(6), 10);
    let at = COLUMNS.iter().position(|column| *column == Column::In).unwrap();
    assert_eq!(view.screen, Screen::Sort(at));
    view.press(Press::Down, 10);
    view.press(Press::Enter, 10);
    assert_eq!((view.sort.by, &view.screen), (Column::Out, &Screen::Table));
}

#[test]
fn a_filter_is_typed_and_taken_back() {
    let mut view = view();
    view.press(Press::F(4), 10);
    for c in "hwq".chars() {
        assert!(view.press(Press::Char(c), 10));
    }
    assert!(pids(&view).is_empty());
    view.press(Press::Backspace, 10);
    view.press(Press::Enter, 10);
    assert_eq!(pids(&view), [97]);
    view.press(Press::Escape, 10);
    assert_eq!(pids(&view).len(), 3);
}

#[test]
fn one_device_may_be_shown_alone() {
    let mut view = view();
    view.device = Some("hwbinder".into());
    view.press(Press::Up, 10);
    assert_eq!(pids(&view), [97]);
}

#[test]
fn the_selection_stays_inside() {
    let mut view = view();
    for (key, selected) in [
        (Press::Up, 0),
        (Press::Down, 1),
        (Press::PageDown, 2),
        (Press::Down, 2),
        (Press::Home, 0),
        (Press::End, 2),
        (Press::PageUp, 0),
    ] {
        view.press(key, 10);
        assert_eq!(view.selected, selected, "{key:?}");
    }
}

#[test]
fn enter_goes_into_a_process_and_escape_back() {
    let mut view = view();
    view.press(Press::Enter, 10);
    assert_eq!(view.screen, Screen::Process(Key { pid: 90, nth: 0 }));
    // Its threads are lines, too.
    view.press(Press::End, 10);
    assert_eq!(view.selected, 3);
    assert!(view.press(Press::Char('q'), 10));
    assert_eq!((&view.screen, view.selected), (&Screen::Table, 0));
    assert!(!view.press(Press::Char('q'), 10));
}

#[test]
fn partners_are_callers_and_servers_of_the_process() {
    let mut view = view();
    view.press(Press::Enter, 10);
    let mut latencies = Latencies::default();
    recorded::of_c().0.iter().flatten().for_each(|call| latencies.take(call));
    view.take(sample(Instant::now(), 202), &latencies, name);
    let partners: Vec<_> =
        view.partners().iter().map(|one| (one.pid, one.is_caller, one.latency.count)).collect();
    assert_eq!(partners, [(92, true, 3), (91, true, 2)]);
}
