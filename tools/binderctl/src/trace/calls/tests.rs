// SPDX-License-Identifier: GPL-2.0
//! Calls out of events, each thread of which is a process with ten times its number.

use super::*;
use binder_sys::codes::{BR_DEAD_REPLY, BR_FAILED_REPLY};

/// Calls, the time, and what has ended.
#[derive(Default)]
struct Scene {
    calls: Calls,
    time: u64,
    ended: Vec<Ended>,
}

impl Scene {
    /// One event, a nanosecond after the one before.
    fn on(&mut self, thread: Pid, what: What) -> &mut Self {
        self.time += 1;
        let event = Event { time: self.time, thread, what };
        self.ended.extend(self.calls.take(&event, &mut |thread| 10 * thread));
        self
    }

    fn sent(&mut self, thread: Pid, id: Id, is_reply: bool, to: Pid, flags: u32) -> &mut Self {
        let to_thread = if is_reply { to } else { 0 };
        let sent = Sent { id, node: 7, to_process: 10 * to, to_thread, is_reply, code: 3, flags };
        self.on(thread, What::Sent(sent))
    }

    fn call(&mut self, thread: Pid, id: Id, to: Pid) -> &mut Self {
        self.sent(thread, id, false, to, 0)
    }

    fn oneway(&mut self, thread: Pid, id: Id, to: Pid) -> &mut Self {
        self.sent(thread, id, false, to, ONEWAY)
    }

    fn reply(&mut self, thread: Pid, id: Id, to: Pid) -> &mut Self {
        self.sent(thread, id, true, to, 0)
    }

    fn received(&mut self, thread: Pid, id: Id) -> &mut Self {
        self.on(thread, What::Received(id))
    }

    fn sized(&mut self, id: Id, data: u64) -> &mut Self {
        self.on(0, What::Buffer(id, Size { data, ..Size::default() }))
    }

    /// Number, depth and end of each call, as they were reported.
    fn told(&self) -> Vec<Vec<(Id, usize, End)>> {
        self.ended
            .iter()
            .map(|calls| calls.iter().map(|call| (call.id, call.depth, call.end)).collect())
            .collect()
    }
}

#[test]
fn a_call_is_followed_to_its_caller_again() {
    let mut scene = Scene::default();
    scene.call(1, 100, 2).sized(100, 24).received(2, 100).reply(2, 101, 1).sized(101, 4).received(1, 101);
    let call = &scene.ended[0][0];
    assert_eq!(
        (call.caller, call.server),
        (Task { process: 10, thread: 1 }, Task { process: 20, thread: 2 })
    );
    assert_eq!((call.node, call.code, call.parent), (7, 3, 0));
    assert_eq!((call.size.unwrap().data, call.reply_size.unwrap().data), (24, 4));
    assert_eq!((call.queued(), call.served(), call.total(), call.end), (Some(2), Some(1), 5, End::Replied));
    assert_eq!(scene.calls.gaps, Gaps::default());
    assert!(scene.calls.open.is_empty() && scene.calls.replies.is_empty());
}

#[test]
fn nested_calls_come_with_the_outermost_one() {
    let mut scene = Scene::default();
    scene.call(1, 100, 2).received(2, 100);
    scene.call(2, 101, 3).received(3, 101).reply(3, 102, 2).received(2, 102);
    scene.call(2, 103, 3).received(3, 103);
    // And back to the first one, which waits.
    scene.call(3, 104, 1).received(1, 104).reply(1, 105, 3).received(3, 105);
    scene.reply(3, 106, 2).received(2, 106);
    assert!(scene.ended.is_empty());
    scene.reply(2, 107, 1).received(1, 107);
    let all =
        vec![(100, 0, End::Replied), (101, 1, End::Replied), (103, 1, End::Replied), (104, 2, End::Replied)];
    assert_eq!(scene.told(), [all]);
    assert_eq!(scene.ended[0][3].parent, 103);
}

#[test]
fn oneway_calls_end_when_they_are_taken() {
    let mut scene = Scene::default();
    scene
        .call(1, 100, 2)
        .received(2, 100)
        .oneway(2, 101, 3)
        .received(3, 101)
        .reply(2, 102, 1)
        .received(1, 102);
    assert_eq!(scene.told(), [[(101, 1, End::Taken)], [(100, 0, End::Replied)]]);
    let oneway = &scene.ended[0][0];
    assert_eq!((oneway.parent, oneway.queued(), oneway.served()), (100, Some(1), None));
}

#[test]
fn a_failure_ends_the_innermost_call_of_its_thread() {
    let mut scene = Scene::default();
    scene.call(1, 100, 2).received(2, 100).call(2, 101, 3);
    scene.on(2, What::Failed(BR_DEAD_REPLY)).reply(2, 102, 1).received(1, 102);
    assert_eq!(scene.told(), [[(100, 0, End::Replied), (101, 1, End::Failed(BR_DEAD_REPLY))]]);
}

#[test]
fn a_call_that_the_driver_refuses_has_only_a_caller() {
    let mut scene = Scene::default();
    scene.on(1, What::Failed(BR_FAILED_REPLY));
    assert_eq!(scene.told(), [[(0, 0, End::Refused(BR_FAILED_REPLY))]]);
    assert_eq!(scene.ended[0][0].caller.process, 10);
}

#[test]
fn of_oneway_calls_the_one_fails_that_has_no_buffer_or_gives_it_back() {
    let mut scene = Scene::default();
    scene.oneway(1, 100, 2).sized(100, 4).on(1, What::Undone(100)).on(1, What::Failed(BR_FAILED_REPLY));
    scene.oneway(1, 101, 2).on(1, What::Failed(BR_FAILED_REPLY));
    // This one waits, and the next one is refused before it is sent.
    scene.oneway(1, 102, 2).sized(102, 4).on(1, What::Failed(BR_DEAD_REPLY)).received(2, 102);
    let failed = End::Failed(BR_FAILED_REPLY);
    let refused = End::Refused(BR_DEAD_REPLY);
    assert_eq!(
        scene.told(),
        [[(100, 0, failed)], [(101, 0, failed)], [(0, 0, refused)], [(102, 0, End::Taken)]]
    );
}

#[test]
fn a_oneway_call_may_be_superseded() {
    let mut scene = Scene::default();
    scene.oneway(1, 100, 2).sized(100, 4).oneway(1, 101, 2).on(1, What::Superseded(100));
    assert_eq!(scene.told(), [[(100, 0, End::Superseded)]]);
}

#[test]
fn a_caller_that_ends_takes_its_calls_along() {
    let mut scene = Scene::default();
    scene.call(1, 100, 2).received(2, 100).on(1, What::Ended);
    assert_eq!(scene.told(), [[(100, 0, End::CallerEnded)]]);
    // The server's later events about the call are ignored.
    scene.reply(2, 101, 1).received(1, 101);
    assert_eq!((scene.ended.len(), scene.calls.open.len(), scene.calls.replies.len()), (1, 0, 0));
}

#[test]
fn who_replies_to_a_caller_that_has_ended_makes_no_call() {
    let mut scene = Scene::default();
    scene.call(1, 100, 2).received(2, 100).on(1, What::Ended).on(2, What::Failed(BR_DEAD_REPLY));
    assert_eq!(scene.ended.len(), 1);
    // It makes none nested in that one, either.
    scene.call(2, 101, 3).received(3, 101).reply(3, 102, 2).received(2, 102);
    assert_eq!(scene.told()[1], [(101, 0, End::Replied)]);
}

#[test]
fn what_began_before_is_counted_once() {
    let mut scene = Scene::default();
    // One is served already, one is sent already, and of one there is a reply already.
    scene.reply(2, 100, 1).received(1, 100);
    scene.received(3, 101).reply(3, 102, 1).received(1, 102);
    scene.received(4, 103);
    assert!(scene.ended.is_empty());
    assert_eq!(scene.calls.gaps, Gaps { begun_before: 3, ..Gaps::default() });
    // Later calls are followed.
    scene.call(1, 104, 3).received(3, 104).reply(3, 105, 1).received(1, 105);
    assert_eq!(scene.told(), [[(104, 0, End::Replied)]]);
}

#[test]
fn who_calls_again_has_no_call_that_waits() {
    let mut scene = Scene::default();
    scene.call(1, 100, 2).received(2, 100).call(1, 101, 3).received(3, 101).reply(3, 102, 1).received(1, 102);
    assert_eq!(scene.told(), [[(101, 0, End::Replied)]]);
    assert_eq!((scene.calls.gaps.cut_off, scene.calls.open.len()), (1, 0));
}

#[test]
fn what_is_open_when_events_are_lost_is_cut_off() {
    let mut scene = Scene::default();
    scene.call(1, 100, 2).received(2, 100).call(3, 101, 2).on(0, What::Lost(17));
    scene.reply(2, 102, 1).received(1, 102);
    assert!(scene.ended.is_empty());
    assert_eq!(scene.calls.gaps, Gaps { begun_before: 1, lost_events: 17, cut_off: 2 });
}

#[test]
fn what_is_open_at_the_end_is_told() {
    let mut scene = Scene::default();
    scene.call(1, 100, 2).received(2, 100).call(2, 101, 3);
    let open = scene.calls.finish(50);
    let told: Vec<_> = open.iter().map(|call| (call.id, call.depth, call.total(), call.end)).collect();
    assert_eq!(told, [(100, 0, 49, End::Open), (101, 1, 47, End::Open)]);
}

#[test]
fn very_many_nested_calls_are_told_as_they_end() {
    let mut scene = Scene::default();
    scene.call(1, 1, 2).received(2, 1);
    for id in (0..1000).map(|n| 10 + 2 * n) {
        scene.call(2, id, 3).received(3, id).reply(3, id + 1, 2).received(2, id + 1);
    }
    assert_eq!(scene.ended.len(), 1000 - NESTED_MAX);
    scene.reply(2, 2, 1).received(1, 2);
    assert_eq!(scene.ended.last().map(Vec::len), Some(1 + NESTED_MAX));
}

#[test]
fn what_never_ends_is_bounded() {
    let mut scene = Scene::default();
    for n in 0..OPEN_MAX as Id + 1 {
        scene.oneway(n, 1 + n, 2);
    }
    assert_eq!((scene.calls.open.len(), scene.calls.gaps.cut_off), (1, OPEN_MAX as u64));
}
