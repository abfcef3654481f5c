// SPDX-License-Identifier: GPL-2.0
//! Calls and replies.

use super::*;

impl World {
    pub(super) fn call(&mut self, s: &Setup, t: T, path: &'static [N], is_oneway: bool) {
        let (node, own) = (path[0], &mut self.threads[t]);
        let (target, mut frame, mut caller) = (self.nodes[node].owner, FrameId::NONE, None);
        own.calls += 1;
        let id = (t, own.calls);
        match is_oneway {
            true => (own.owed, own.waits) = (own.owed + 1, true),
            false => own.levels.push(Level::Called { id, is_completed: false }),
        }
        if !self.processes[own.process].handles[node] { return self.queue_error(t, Error::Failed); }
        if self.processes[target].has_ended { return self.queue_error(t, Error::Dead); }
        if !is_oneway {
            match own.stack.frames.last() {
                Some(Frame::Incoming(served)) if !matches!(own.work.front(), Some(Work::Call(_))) => caller = Some((served.id.0, served.frame)),
                None if own.pending_calls == 0 => {}
                _ => return self.queue_error(t, Error::Failed),
            }
            if !s.has_objects { frame = own.expect_reply(target); }
        }
        let Some(buffers) = &mut self.processes[target].buffers else { return self.then(t, [GiveUpCall(frame, Error::Dead)]) };
        *buffers += 1;
        let (path, content) = (&path[1..], Content::Draft);
        self.route(s, t, Transaction { id, node, path, is_oneway, is_served: false, frame, content }, caller);
    }

    /// Goes on to look for the thread of the target that waits for the outcome of the chain of calls.
    pub(super) fn route(&mut self, s: &Setup, t: T, call: Transaction, caller: Option<Waiter>) {
        let target = self.nodes[call.node].owner;
        let route = caller.filter(|(waiter, _)| !self.threads[*waiter].has_ended);
        self.then(t, [match caller {
            Some(waiter) if self.threads[waiter.0].process != target => FindWaitingThread(call, waiter),
            _ if s.has_objects && !call.is_oneway => ExpectReplyLate(call, route),
            _ => Submit(call, route),
        }]);
    }

    pub(super) fn submit(&mut self, s: &Setup, t: T, mut call: Transaction, route: Option<Waiter>) {
        let (n, target) = (call.node, self.nodes[call.node].owner);
        let waits = |own: &Thread, frame| own.has_ended || own.stack.waits_for(frame) || s.fault == Fault::TrustsRoute;
        let route = route.filter(|(of, frame)| waits(&self.threads[*of], *frame)).map(|(of, _)| of);
        let is_gone = self.processes[target].has_ended || route.is_some_and(|of| self.threads[of].has_ended);
        let admission = self.processes[target].freeze.admit(call.is_oneway);
        let error = match admission {
            Admission::Rejected => Some(Error::Frozen),
            _ if is_gone && s.fault != Fault::AdmitsTheDead => Some(Error::Dead),
            _ => self.nodes[n].counts.add_local(Strength::Strong).err().map(|_| Error::Failed),
        };
        if let Some(error) = error { self.give_back_buffer(target); return self.then(t, [GiveUpCall(call.frame, error)]); }
        self.processes[target].freeze.outstanding += 1;
        if call.is_oneway {
            self.then(t, [QueueReturnCode]);
            self.nodes[n].oneways += 1;
        }
        let awaits_turn = call.is_oneway && replace(&mut self.nodes[n].counts.is_busy, true);
        call.content = Content::Call { has_turn: call.is_oneway && !awaits_turn };
        if awaits_turn { return self.nodes[n].waiting.push_back(call); }
        let idle = self.processes[target].idle.last().copied();
        match (route.or(idle), route.or(idle.filter(|_| !call.is_oneway))) {
            (Some(server), _) if s.raises && self.set_wait(server, Wait::Reserved) => {
                self.threads[server].pending_calls += 1;
                self.then(t, [PushReserved(call, server)]);
            }
            (_, Some(server)) => self.push_to_thread(server, Work::Call(call)),
            (_, None) => self.push_to_process(target, Work::Call(call)),
        }
    }

    pub(super) fn reply(&mut self, s: &Setup, t: T, node: N) {
        let own = &mut self.threads[t];
        own.levels.pop();
        (own.owed, own.waits) = (own.owed + 1, !s.defers);
        let begun = if s.has_objects { own.stack.begin_reply() } else { own.stack.pop_incoming() };
        let Some(mut reply) = begun else { return self.check(LOST, false) };
        let reads_at_once = !s.has_objects && !s.defers && own.work.is_empty() && !matches!(own.stack.frames.last(), Some(Frame::Ended(_)));
        let (p, caller) = (own.process, reply.id.0);
        if reads_at_once { self.was_told(t, None, None); } else if !s.has_objects { self.complete_reply(s, t); }
        self.end_transaction(p);
        self.free_buffer(p, node);
        // `fill_reply`
        let buffers = &mut self.processes[self.threads[caller].process].buffers;
        let has_failed = self.threads[caller].has_ended || buffers.is_none();
        *buffers = buffers.map(|count| count + u8::from(!has_failed));
        reply.content = if has_failed { Content::Failed(Error::Dead) } else { Content::Reply { is_queued: false } };
        if has_failed && !s.has_objects && !reads_at_once {
            let own = &mut self.threads[t];
            (own.last, own.urgency, own.has_unread_error) = (CompletionRead::StopsCommands, Urgency::Urgent, true);
        }
        self.then(t, s.has_objects.then_some(EndReply { has_failed }).into_iter().chain([ReturnToCaller(reply)]));
    }

    pub(super) fn return_to_caller(&mut self, s: &Setup, task: usize, mut call: Transaction) {
        let (t, own) = (call.id.0, &mut self.threads[call.id.0]);
        let is_ready = own.pending_calls == 0 || s.fault == Fault::IgnoresPendingCalls;
        let is_innermost = !own.has_ended && is_ready && own.stack.pop_outgoing(call.frame);
        if let Content::Reply { is_queued } = &mut call.content {
            *is_queued = true;
            self.processes[own.process].freeze.outstanding += 1;
        }
        if is_innermost || s.fault == Fault::QueuesUnseen { return self.push_to_thread(t, Work::Outcome(call)); }
        let kept = if own.has_ended { Err(call) } else { own.stack.keep_outcome(call.frame, call) };
        if let Err(unwanted) = kept { self.end_work(s, task, Work::Outcome(unwanted)); }
    }

    pub(super) fn read(&mut self, s: &Setup, t: T, takes_common: Option<bool>, mut has_read: bool) {
        let p = self.threads[t].process;
        let takes_common = takes_common.unwrap_or_else(|| self.threads[t].is_available());
        loop {
            let own = &mut self.threads[t];
            let has_common = takes_common && !self.processes[p].work.is_empty();
            if !has_read && !has_common && !own.ends_wait() {
                own.wait = if takes_common { Wait::ForAnyWork } else { Wait::ForOwnWork };
                self.processes[p].idle.extend(takes_common.then_some(t));
                return self.then(t, [Read(Some(takes_common), false)]);
            }
            let is_common = own.work.is_empty() && has_common;
            let Some(work) = (if is_common { self.processes[p].work.pop_front() } else { own.pop_work() }) else { return };
            match work {
                Work::Call(call) => { own.pending_calls += u32::from(is_common); return self.then(t, [Deliver(call)]); }
                Work::Outcome(Transaction { id, content: Content::Failed(error), .. }) => self.was_told(t, Some(error), Some(id)),
                Work::Outcome(reply) => {
                    self.end_transaction(p);
                    self.give_back_buffer(p);
                    self.check(OUTCOME, reply.is_served);
                    return self.was_told(t, None, Some(reply.id));
                }
                Work::Completion => {
                    own.unread -= 1;
                    let fate = if own.unread == 0 { take(&mut own.last) } else { CompletionRead::Delivered };
                    own.has_unread_error &= fate != CompletionRead::StopsCommands;
                    if fate == CompletionRead::Withdrawn && s.fault != Fault::KeepsCompletion { continue; }
                    self.was_told(t, None, None);
                }
                Work::Code => self.was_told(t, None, None),
                Work::Error(error) => { own.has_unread_error = false; self.was_told(t, Some(error), None); }
                Work::Node(n) => { has_read |= self.read_node(n); return self.then(t, [Read(Some(takes_common), has_read)]); }
                Work::Notification(k) => {
                    let message = self.read_notification(k);
                    if message == Some(Message::Event) { return self.threads[t].to_confirm = Some(k); }
                    return self.then(t, [Read(Some(takes_common), has_read || message.is_some())]);
                }
            }
            has_read = true;
        }
    }

    pub(super) fn read_node(&mut self, n: N) -> bool {
        let node = &mut self.nodes[n];
        node.has_update = false;
        if node.counts.life != Life::Known { return false; }
        let update = node.counts.take_update();
        if update.forget { node.counts.life = Life::Forgotten; }
        node.was_released |= update.release;
        self.check(COUNTS, !update.increfs && !update.acquire);
        true
    }

    pub(super) fn read_notification(&mut self, k: K) -> Option<Message> {
        let it = &mut self.notifications[k];
        let message = match &mut it.notice { Notice::Death(state) => state.read(), Notice::Freeze(state) => state.read() };
        let (rule, is_due) = (if matches!(it.notice, Notice::Death(_)) { DEATH } else { FREEZE }, !it.is_over && it.clearings == 0);
        match (message, &it.notice) {
            (Some(Message::ClearDone), _) => it.clearings += 1,
            (Some(Message::Event), Notice::Death(_)) => it.deaths += 1,
            (Some(Message::Event), Notice::Freeze(state)) => it.frozen = Some(state.is_frozen()),
            (None, _) => {}
        }
        let holds = message.is_none() || (is_due && it.deaths <= 1);
        self.check(rule, holds);
        message
    }

    pub(super) fn deliver(&mut self, t: T, mut call: Transaction) {
        let (n, node, own, (of, number)) = (call.node, &mut self.nodes[call.node], &mut self.threads[t], call.id);
        let (p, mut is_due, mut in_order) = (own.process, !replace(&mut call.is_served, true), true);
        own.pending_calls -= 1;
        call.content = Content::Empty;
        if call.is_oneway {
            node.oneways -= 1;
            in_order = !replace(&mut node.is_busy, true) && replace(&mut node.served[of], number) < number;
            own.to_free = Some(n);
            self.end_transaction(p);
            self.queue_kept_outcome(t);
        } else {
            is_due &= matches!(own.levels.last(), None | Some(Level::Called { is_completed: true, .. }));
            own.levels.push(Level::Serving { node: n, path: call.path });
            own.has_called = false;
            own.make_room();
            let _ = own.stack.frames.push(Frame::Incoming(call));
            self.check(FREEZE, !self.processes[p].freeze.last.is_frozen);
        }
        self.check(LOST, is_due);
        self.check(ONEWAY, in_order);
        self.check(COUNTS, !self.nodes[n].was_released);
    }
}
