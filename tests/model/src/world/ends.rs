// SPDX-License-Identifier: GPL-2.0
//! Notifications, freezing, and the end of threads and processes.

use super::*;

impl World {
    pub(super) fn register(&mut self, s: &Setup, t: T, k: K, early: Option<FreezeEvent>) {
        let it = &mut self.notifications[k];
        let (node, is_death) = (&self.nodes[it.node], matches!(it.notice, Notice::Death(_)));
        let owner = &self.processes[node.owner];
        let is_dead = if is_death { node.counts.life == Life::Orphaned } else { owner.has_ended };
        it.is_registered = !is_dead;
        let event = (!is_death).then_some(early.unwrap_or(owner.freeze.last));
        if is_dead == is_death && s.fault != Fault::MissesDead { self.then(t, [Notify(k, event)]); }
    }

    pub(super) fn notify(&mut self, k: K, event: Option<FreezeEvent>) {
        let it = &mut self.notifications[k];
        let (p, has_owner_ended) = (it.holder, self.processes[self.nodes[it.node].owner].has_ended);
        let is_due = !self.processes[p].has_ended && match (&mut it.notice, event) {
            (Notice::Death(state), _) => state.node_died(),
            (Notice::Freeze(state), event) => !has_owner_ended && state.notify(event.unwrap()),
        };
        if is_due { self.push_to_process(p, Work::Notification(k)); }
    }

    pub(super) fn notify_all(&mut self, task: usize, of: usize, event: Option<FreezeEvent>, from: K) {
        if event.is_some() && self.processes[of].has_ended { return; }
        let is_it = |it: &Notification| it.is_registered && match it.notice {
            Notice::Death(_) => event.is_none() && it.node == of,
            Notice::Freeze(_) => event.is_some() && self.nodes[it.node].owner == of,
        };
        let mut found = (from..self.notifications.len()).filter(|k| is_it(&self.notifications[*k]));
        let (next, is_another_left) = (found.next(), found.next().is_some());
        let Some(k) = next else { return };
        self.notifications[k].is_registered &= event.is_some();
        self.then(task, once(Notify(k, event)).chain(is_another_left.then_some(NotifyAll(of, event, k + 1))));
    }

    pub(super) fn announce(&mut self, task: usize, p: P, (event, wake): (Option<FreezeEvent>, WakeFreezers)) {
        self.wake_freezers(p, wake);
        self.then(task, event.map(|event| NotifyAll(p, Some(event), 0)));
    }

    pub(super) fn end_thread(&mut self, s: &Setup, task: usize, t: T) {
        let own = &mut self.threads[t];
        let is_first = !replace(&mut own.has_ended, true);
        let frame = if is_first { None } else { own.stack.frames.pop() };
        let work = if is_first || frame.is_some() { None } else { own.pop_work() };
        if !is_first && frame.is_none() && work.is_none() { return; }
        let p = own.process;
        self.then(task, [EndThread(t)]);
        match (frame, work) {
            (Some(Frame::Incoming(call)), _) => { self.end_transaction(p); self.fail(s, task, call, Error::Dead); }
            (Some(Frame::Ended(outcome)), _) => self.end_work(s, task, Work::Outcome(outcome)),
            (_, Some(work @ (Work::Node(_) | Work::Notification(_)))) if s.fault != Fault::DropsWork => self.push_to_process(p, work),
            (_, Some(work)) => self.end_work(s, task, work),
            (_, None) => {}
        }
    }

    /// The read buffer cannot be written, or the time of a freezer is over.
    pub fn fail_step(&mut self, s: &Setup, task: usize) {
        match self.tasks[task].pop() {
            Some(Deliver(call)) => { self.then(task, [DropPendingCall]); self.fail(s, task, call, Error::Failed); }
            Some(WaitForTransactions(p, attempt, _)) => self.then(task, [AreIdle(p, attempt)]),
            _ => {}
        }
    }

    /// Takes the next step of a task.
    pub fn step(&mut self, s: &Setup, task: usize) {
        let t = task;
        let Some(step) = self.tasks[task].pop() else { return self.act(s, t) };
        match step {
            FindWaitingThread(call, (waiter, frame)) => {
                let next = self.threads[waiter].stack.served_during(frame).map(|served| (served.id.0, served.frame));
                self.route(s, t, call, next);
            }
            ExpectReplyLate(mut call, route) => {
                call.frame = self.threads[t].expect_reply(self.nodes[call.node].owner);
                self.then(t, [Submit(call, route)]);
            }
            Submit(call, route) => self.submit(s, t, call, route),
            PushReserved(call, server) => {
                let own = &mut self.threads[server];
                (own.pending_calls, own.wait) = (own.pending_calls - 1, Wait::ForOwnWork);
                self.push_to_thread(server, Work::Call(call));
            }
            GiveUpCall(frame, error) => {
                let own = &mut self.threads[t];
                if own.stack.pop_outgoing(frame) { own.last = CompletionRead::Withdrawn; }
                self.queue_error(t, error);
            }
            QueueReturnCode => self.push_to_thread(t, Work::Code),
            EndReply { has_failed } => {
                self.threads[t].stack.end_reply();
                if has_failed { self.queue_error(t, Error::Complete); self.queue_kept_outcome(t); } else { self.complete_reply(s, t); }
            }
            ReturnToCaller(call) => self.return_to_caller(s, task, call),
            EndOneway(n) => self.begin_next_oneway(n),
            EndCall(n) => { self.end_transaction(self.nodes[n].owner); self.end_use(n); }
            EndTransaction(p) => self.end_transaction(p),
            Read(takes_common, has_read) => self.read(s, t, takes_common, has_read),
            Deliver(call) => self.deliver(t, call),
            DropPendingCall => { self.threads[t].pending_calls -= 1; self.queue_kept_outcome(t); }
            EndThread(t) => self.end_thread(s, task, t),
            EndThreads(p) => {
                self.processes[p].buffers = None;
                let next = self.threads.iter().position(|own| own.process == p && !own.has_ended);
                self.then(task, next.into_iter().flat_map(|t| [EndThread(t), EndThreads(p)]));
            }
            Orphan(n) => {
                let node = &mut self.nodes[n];
                if node.counts.life == Life::Known { node.counts.orphan(); }
                let waiting = take(&mut node.waiting);
                self.notify_all(task, n, None, 0);
                waiting.into_iter().for_each(|call| self.fail(s, task, call, Error::Dead));
            }
            PopWork(p) => {
                let Some(work) = self.processes[p].work.pop_front() else { return };
                self.then(task, [PopWork(p)]);
                self.end_work(s, task, work);
            }
            Lower(p, n) => { self.processes[p].handles[n] = false; self.lower(n, true, |counts| counts.lower(true, true)); }
            Register(k, early) => self.register(s, t, k, early),
            Notify(k, event) => self.notify(k, event),
            NotifyAll(of, event, from) => self.notify_all(task, of, event, from),
            Unregister(k) => self.notifications[k].is_registered = false,
            Clear(k) => {
                let it = &mut self.notifications[k];
                it.is_cleared = true;
                let is_due = match &mut it.notice { Notice::Death(state) => state.clear(), Notice::Freeze(state) => state.clear() };
                if is_due { self.push_notification(t, k); }
            }
            Cancel(k) => {
                let it = &mut self.notifications[k];
                it.is_over = true;
                match &mut it.notice { Notice::Death(state) => *state = DeathState::Over, Notice::Freeze(state) => state.cancel() }
                self.processes[it.holder].work.retain(|work| *work != Work::Notification(k));
            }
            Freeze(p) | Thaw(p) if self.processes[p].has_ended => {}
            Freeze(p) => {
                let attempt = self.processes[p].freeze.begin();
                self.then(task, [WaitForTransactions(p, attempt, false)]);
            }
            WaitForTransactions(p, attempt, _) => {
                let progress = self.processes[p].freeze.progress(&attempt);
                let waits = matches!(progress, FreezeProgress::Waiting { outstanding: 1.. }) && !self.processes[p].has_ended;
                self.then(task, [if waits { WaitForTransactions(p, attempt, true) } else { AreIdle(p, attempt) }]);
            }
            AreIdle(p, attempt) => {
                self.is_changing = true;
                let calls = self.threads.iter().any(|own| own.process == p && !own.has_ended && own.stack.is_calling());
                let is_idle = match self.processes[p].freeze.progress(&attempt) {
                    FreezeProgress::Waiting { outstanding } => outstanding == 0 && !calls,
                    progress => progress == FreezeProgress::Completed,
                };
                self.then(task, [Complete(p, attempt, is_idle || self.processes[p].has_ended)]);
            }
            Complete(p, attempt, is_idle) => {
                let freeze = &mut self.processes[p].freeze;
                let change = if is_idle { freeze.complete(attempt) } else { (freeze.give_up(attempt), WakeFreezers(false)) };
                self.is_changing = false;
                self.announce(task, p, change);
            }
            Thaw(p) => {
                let change = self.processes[p].freeze.thaw();
                self.announce(task, p, change);
            }
        }
    }
}
