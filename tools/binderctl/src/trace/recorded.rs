// SPDX-License-Identifier: GPL-2.0
//! Pages that were recorded in the guests, one of each CPU, while some tests of the contract ran.

use super::calls::{Call, Calls, Gaps};
use super::event::{Decoder, Event, OF_DRIVER, OF_SCHEDULER};
use super::record::duration;
use super::ring::Layout;

const HEADER_PAGE: &str = include_str!("recorded/header_page");

fn events(formats: &str, pages: [&[u8]; 2]) -> Vec<Event> {
    let mut decoder = Decoder::default();
    for wanted in OF_DRIVER.iter().chain([&OF_SCHEDULER]) {
        let mut parts = formats.split("name: ");
        let format = parts.find(|part| part.lines().next() == Some(wanted.name));
        assert!(decoder.add(wanted, format.unwrap()), "{}", wanted.name);
    }
    let layout = Layout::parse(HEADER_PAGE).unwrap();
    let records = pages.into_iter().flat_map(|page| layout.records(page).unwrap()).map(Result::unwrap);
    let mut events: Vec<_> = records.filter_map(|(time, bytes)| decoder.decode(time, bytes)).collect();
    events.sort_by_key(|event| event.time);
    events
}

/// The calls of a recording, in trees, and what could not be followed.
pub fn followed(formats: &str, pages: [&[u8]; 2]) -> (Vec<Vec<Call>>, Gaps) {
    let (mut calls, mut trees) = (Calls::default(), Vec::new());
    for event in events(formats, pages) {
        // The first thread of each process is its only one.
        trees.extend(calls.take(&event, &mut |thread| thread));
    }
    assert!(calls.finish(0).is_empty());
    (trees, calls.gaps)
}

/// Those of the C driver.
pub fn of_c() -> (Vec<Vec<Call>>, Gaps) {
    let pages = [include_bytes!("recorded/c-cpu0.page"), include_bytes!("recorded/c-cpu1.page")];
    followed(include_str!("recorded/c-formats"), pages.map(|page| page.as_slice()))
}

fn line(call: &Call) -> String {
    let Call { depth, caller, server, node, code, size, .. } = call;
    let size = size.map_or(0, |size| size.data);
    format!(
        "{:indent$}{} -> {}:{} node {node} code {code} {size} B {:?} {} {} {}\n",
        "",
        caller.thread,
        server.process,
        server.thread,
        call.end,
        duration(call.queued()),
        duration(call.served()),
        duration(Some(call.total())),
        indent = 2 * depth,
    )
}

#[test]
fn calls_through_the_c_driver() {
    let (trees, gaps) = of_c();
    let lines: String = trees.iter().flatten().map(line).collect();
    assert_eq!(lines, include_str!("recorded/c-calls"));
    assert_eq!(gaps, Gaps::default());
}

#[test]
fn calls_through_rust_binder_are_told_as_those_through_the_c_driver() {
    let pages = [include_bytes!("recorded/rust-cpu0.page"), include_bytes!("recorded/rust-cpu1.page")];
    let (trees, gaps) = followed(include_str!("recorded/rust-formats"), pages.map(|page| page.as_slice()));
    // Numbers and times differ, and nothing else.
    let told = |trees: &[Vec<Call>]| -> Vec<_> {
        let calls = trees.iter().flatten();
        calls.map(|call| (call.depth, call.code, call.flags, call.size, call.reply_size, call.end)).collect()
    };
    assert_eq!(told(&trees), told(&of_c().0));
    assert_eq!(gaps, Gaps::default());
}
