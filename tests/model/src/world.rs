// SPDX-License-Identifier: GPL-2.0

//! The state of the model, and its steps. A step is what the driver does in one round under a state lock, with what commutes with that, such as
//! the reservation of a buffer. Names are the driver's.

use crate::pure::call_stack::{CallStack, Frame, FrameId};
use crate::pure::freeze_state::{Admission, Attempt, FreezeEvent, FreezeProgress, FreezeState, WakeFreezers};
use crate::pure::node_counts::{Life, NodeCounts, Strength};
use crate::pure::notification_state::{DeathState, FreezeNotificationState, Message};
use crate::scenes::{Fault, Op, Setup, K, N, P, T, COUNTS, DEATH, FREEZE, LOST, ONEWAY, OUTCOME};
use std::{collections::VecDeque, iter::once, mem::{replace, take}};

type Id = (T, u8);
type Waiter = (T, FrameId);

macro_rules! state { ($($item:item)*) => { $(#[derive(Clone, Debug, PartialEq, Eq, Hash)] $item)* } }

state! {
    #[derive(Copy)] pub enum Error { Dead, Failed, Frozen, Complete }
    #[derive(Copy, Default)] enum Content { #[default] Empty, Draft, Call { has_turn: bool }, Reply { is_queued: bool }, Failed(Error) }
    #[derive(Copy)] enum Wait { Awake, ForOwnWork, ForAnyWork, Reserved }
    #[derive(Copy)] pub enum Urgency { None, Deferred, Urgent }
    #[derive(Copy, Default)] enum CompletionRead { #[default] Delivered, StopsCommands, Withdrawn }
    enum Work { Call(Transaction), Outcome(Transaction), Completion, Code, Error(Error), Node(N), Notification(K) }
    enum Notice { Death(DeathState), Freeze(FreezeNotificationState) }
    /// A call as the program sees it.
    #[derive(Copy)] enum Level { Called { id: Id, is_completed: bool }, Serving { node: N, path: &'static [N] } }
    /// A call; `path` is the nodes that are called in the course of it.
    pub struct Transaction {
        id: Id, node: N, path: &'static [N], is_oneway: bool, is_deferred: bool, is_served: bool, frame: FrameId, content: Content,
    }
    /// The fields from `levels` on are the program's: completions of oneway calls and replies that it has not read, whether it waits for them,
    /// whether the call that it serves has made its own call, what it has to do next, and how far it is.
    pub struct Thread {
        process: P, has_ended: bool, work: VecDeque<Work>, pending_calls: u32, wait: Wait, urgency: Urgency, unread: u32, last: CompletionRead,
        has_unread_error: bool, stack: CallStack<Transaction>,
        levels: Vec<Level>, owed: u8, waits: bool, has_called: bool, to_free: Option<N>, to_confirm: Option<K>, calls: u8, at: usize,
    }
    /// It has no `buffers` once they are closed.
    pub struct Process { has_ended: bool, freeze: FreezeState, work: VecDeque<Work>, idle: Vec<T>, buffers: Option<u8>, handles: Vec<bool> }
    /// The fields from `is_busy` on are the owner's: of oneway calls, how many exist, and the last one of each thread that was served.
    pub struct Node {
        owner: P, counts: NodeCounts, waiting: VecDeque<Transaction>, has_update: bool, is_busy: bool, was_released: bool, oneways: u8, served: Vec<u8>,
    }
    /// The fields from `deaths` on are what the holder has read.
    pub struct Notification {
        holder: P, node: N, notice: Notice, is_requested: bool, is_registered: bool, is_cleared: bool, is_over: bool,
        deaths: u8, clearings: u8, frozen: Option<bool>,
    }
    /// What a task does next.
    pub enum Step {
        FindWaitingThread(Transaction, Waiter), ExpectReplyLate(Transaction, Option<Waiter>), Submit(Transaction, Option<Waiter>),
        PushReserved(Transaction, T), GiveUpCall(FrameId, Error), QueueReturnCode(Urgency), EndReply { has_failed: bool }, ReturnToCaller(Transaction),
        EndOneway(N), EndCall(N), EndTransaction(P), Read(Option<bool>, bool), Deliver(Transaction), DropPendingCall,
        EndThread(T), EndThreads(P), Orphan(N), PopWork(P), Lower(P, N), Register(K, Option<FreezeEvent>), Notify(K, Option<FreezeEvent>),
        Unregister(K), Clear(K), Cancel(K), Freeze(P), WaitForTransactions(P, Attempt, bool), AreIdle(P, Attempt), Complete(P, Attempt, bool), Thaw(P),
        /// Those behind this one that are registered for the death of a node, or for an event of a process.
        NotifyAll(usize, Option<FreezeEvent>, K),
    }
    /// `tasks` has the steps of each thread, of the end of each process, and of each freezer, the next one last.
    pub struct World {
        threads: Vec<Thread>, processes: Vec<Process>, nodes: Vec<Node>, notifications: Vec<Notification>, pub tasks: Vec<Vec<Step>>,
        is_changing: bool, pub broken: Option<&'static str>,
    }
}

use Step::*;

impl World {
    pub fn new(s: &Setup) -> Self {
        let count = 1 + s.threads.iter().max().unwrap();
        let thread = |process: &P| Thread {
            process: *process, has_ended: false, work: VecDeque::new(), pending_calls: 0, wait: Wait::Awake, urgency: Urgency::None, unread: 0,
            last: CompletionRead::Delivered, has_unread_error: false, stack: CallStack::new(),
            levels: vec![], owed: 0, waits: false, has_called: false, to_free: None, to_confirm: None, calls: 0, at: 0,
        };
        let handles = |p| s.nodes.iter().map(|owner| *owner != p).collect();
        let process = |p| Process { has_ended: false, freeze: FreezeState::new(), work: VecDeque::new(), idle: vec![], buffers: Some(0), handles: handles(p) };
        let node = |owner: &P| {
            let mut counts = NodeCounts::new();
            (1..count).for_each(|_| assert_eq!(counts.raise(true, true), Ok(())));
            assert!(counts.take_update().acquire && counts.confirm(Strength::Strong) && counts.confirm(Strength::Weak));
            let (waiting, served) = (VecDeque::new(), vec![0; s.threads.len()]);
            Node { owner: *owner, counts, waiting, has_update: false, is_busy: false, was_released: false, oneways: 0, served }
        };
        let notification = |&(holder, node, is_freeze): &(P, N, bool)| Notification {
            holder, node, is_requested: false, is_registered: false, is_cleared: false, is_over: false, deaths: 0, clearings: 0, frozen: None,
            notice: if is_freeze { Notice::Freeze(FreezeNotificationState::new()) } else { Notice::Death(DeathState::Registered) },
        };
        let freezer = |&(p, steps): &(P, &[bool])| steps.iter().rev().map(|freezes| if *freezes { Freeze(p) } else { Thaw(p) }).collect();
        World {
            threads: s.threads.iter().map(thread).collect(), processes: (0..count).map(process).collect(), nodes: s.nodes.iter().map(node).collect(),
            notifications: s.notifications.iter().map(notification).collect(), is_changing: false, broken: None,
            tasks: vec![vec![]; s.threads.len() + count].into_iter().chain(s.freezers.iter().map(freezer)).collect(),
        }
    }

    fn check(&mut self, rule: &'static str, holds: bool) { if !holds { self.broken.get_or_insert(rule); } }
    fn then(&mut self, task: usize, steps: impl IntoIterator<Item = Step>) {
        let steps: Vec<_> = steps.into_iter().collect();
        self.tasks[task].extend(steps.into_iter().rev());
    }

    // What is possible.

    pub fn may_step(&self, s: &Setup, task: usize) -> bool {
        match (self.tasks[task].last(), self.threads.get(task)) {
            (None, Some(own)) => !self.is_gone(task) && (!own.is_through() || !s.clients.contains(&task) || Self::op(s, task, own).is_some()),
            (Some(_), Some(own)) => own.wait == Wait::Awake,
            (Some(WaitForTransactions(_, _, sleeps)), _) => !sleeps,
            (Some(Freeze(_) | AreIdle(..) | Thaw(_)), _) => !self.is_changing,
            (next, None) => next.is_some(),
        }
    }

    pub fn may_fail(&self, task: usize) -> bool { matches!(self.tasks[task].last(), Some(Deliver(_) | WaitForTransactions(..))) }
    pub fn may_exit(&self, t: T) -> bool {
        self.tasks[t].is_empty() && !self.is_gone(t) && self.threads[t].to_free.is_none() && self.threads[t].to_confirm.is_none()
    }

    /// The last descriptor of a process is closed when none of its threads is in the driver. Those that sleep leave it for that.
    pub fn may_die(&self, p: P) -> bool {
        let is_out = |own: &Thread, steps: &Vec<Step>| steps.is_empty() || matches!(own.wait, Wait::ForOwnWork | Wait::ForAnyWork);
        !self.processes[p].has_ended && self.threads.iter().zip(&self.tasks).all(|(own, steps)| own.process != p || is_out(own, steps))
    }
    fn is_gone(&self, t: T) -> bool { self.threads[t].has_ended || self.processes[self.threads[t].process].has_ended }
    fn op<'a>(s: &'a Setup, t: T, own: &Thread) -> Option<&'a Op> { s.scripts.iter().find(|(of, _)| *of == t).and_then(|(_, ops)| ops.get(own.at)) }

    // What programs do.

    /// Clears the state of a program that has ended. Returns the calls that it made and served.
    fn leave(&mut self, t: T) -> Vec<Level> {
        let own = &mut self.threads[t];
        (own.owed, own.waits, own.to_free, own.to_confirm) = (0, false, None, None);
        take(&mut own.levels)
    }
    pub fn exit(&mut self, t: T) {
        for level in self.leave(t) { if let Level::Serving { node, .. } = level { self.free_buffer(self.threads[t].process, node); } }
        self.then(t, [EndThread(t)]);
    }

    /// `close_process`.
    pub fn die(&mut self, p: P) {
        for t in (0..self.threads.len()).filter(|t| self.threads[*t].process == p).collect::<Vec<_>>() {
            self.set_wait(t, Wait::Awake);
            self.tasks[t].clear();
            self.leave(t);
        }
        self.processes[p].has_ended = true;
        let (_, wake) = self.processes[p].freeze.thaw();
        self.wake_freezers(p, wake);
        let drops: Vec<_> = (0..self.nodes.len()).filter(|n| self.processes[p].handles[*n]).flat_map(|n| self.drop_handle(p, n)).collect();
        let orphans: Vec<_> = (0..self.nodes.len()).filter(|n| self.nodes[*n].owner == p).map(Orphan).collect();
        self.then(self.threads.len() + p, once(EndThreads(p)).chain(orphans).chain([PopWork(p)]).chain(drops));
    }

    fn drop_handle(&self, p: P, n: N) -> Vec<Step> {
        let is_its = |it: &Notification| it.is_requested && !it.is_cleared && !it.is_over && (it.holder, it.node) == (p, n);
        let its = (0..self.notifications.len()).filter(|k| is_its(&self.notifications[*k]));
        its.flat_map(|k| [Unregister(k), Cancel(k)]).chain([Lower(p, n)]).collect()
    }

    fn act(&mut self, s: &Setup, t: T) {
        let op = Self::op(s, t, &self.threads[t]);
        let own = &mut self.threads[t];
        if own.has_unread_error || own.waits { return self.read(s, t, None, false); }
        if let Some(k) = own.to_confirm.take() {
            let is_due = match &mut self.notifications[k].notice { Notice::Death(it) => it.confirm(), Notice::Freeze(it) => it.confirm() };
            return if is_due { self.push_notification(t, k) };
        }
        if let Some(n) = own.to_free.take() {
            self.nodes[n].is_busy = false;
            self.begin_next_oneway(n);
            return self.free_buffer(self.nodes[n].owner, n);
        }
        let p = own.process;
        own.at += usize::from(own.levels.is_empty() && op.is_some());
        match (own.levels.last().copied(), op) {
            (Some(Level::Serving { path, .. }), _) if !path.is_empty() && !own.has_called => self.call(s, t, path, None),
            (Some(Level::Serving { node, .. }), _) => self.reply(s, t, node),
            (Some(Level::Called { .. }), _) | (None, None) => self.read(s, t, None, false),
            (None, Some(Op::Call(path))) => self.call(s, t, path, None),
            (None, Some(Op::Oneway(path, is_deferred))) => self.call(s, t, path, Some(*is_deferred)),
            (None, Some(Op::Clear(k))) => self.then(t, [Unregister(*k), Clear(*k)]),
            (None, Some(Op::Drop(n))) => { self.processes[p].handles[*n] = false; self.then(t, self.drop_handle(p, *n)); }
            (None, Some(Op::Request(k))) => {
                self.notifications[*k].is_requested = true;
                let early = self.processes[self.nodes[self.notifications[*k].node].owner].freeze.last;
                self.then(t, [Register(*k, (s.fault == Fault::ReadsStateEarly).then_some(early))]);
            }
        }
    }

    /// The thread has read the outcome of call `id`, or a completion, or the error of its last command.
    fn was_told(&mut self, t: T, error: Option<Error>, id: Option<Id>) {
        let has_any_ended = (0..self.threads.len()).any(|t| self.is_gone(t));
        let (own, is_completion) = (&mut self.threads[t], matches!(error, None | Some(Error::Complete)));
        let mut holds = error != Some(Error::Dead) || has_any_ended;
        match (own.levels.last_mut(), id) {
            (Some(Level::Called { id: of, is_completed: true }), Some(id)) if *of == id && own.owed == 0 => own.has_called = own.levels.pop().is_some(),
            (Some(Level::Called { is_completed: false, .. }), None) if !is_completion => own.has_called = own.levels.pop().is_some(),
            (_, None) if own.owed > 0 => (own.owed, own.waits) = (own.owed - 1, own.waits && own.owed > 1),
            (Some(Level::Called { is_completed: it @ false, .. }), None) => *it = true,
            _ => holds = false,
        }
        self.check(OUTCOME, holds);
    }

    /// Checks what has to be where nothing happens any more.
    pub fn check_rest(&mut self) {
        let w = self.clone();
        for (task, steps) in w.tasks.iter().enumerate() {
            let has_common = |p: P, takes_common| takes_common == Some(true) && !w.processes[p].work.is_empty();
            self.check(LOST, match (steps.last(), w.threads.get(task)) {
                (Some(Read(takes_common, _)), Some(own)) => !own.ends_wait() && !has_common(own.process, *takes_common),
                (next, _) => next.is_none(),
            });
        }
        for own in (0..w.threads.len()).filter(|t| !w.is_gone(*t)).map(|t| &w.threads[t]) {
            self.check(LOST, own.levels.is_empty() && !own.waits && own.pending_calls == 0 && own.stack.frames.len() == 0);
        }
        for process in &w.processes {
            self.check(COUNTS, process.freeze.outstanding == 0 && process.buffers.unwrap_or_default() == 0);
            self.check(LOST, process.work.is_empty());
        }
        for (n, node) in w.nodes.iter().enumerate() {
            let (counts, has_ended) = (&node.counts, w.processes[node.owner].has_ended);
            let refs = w.processes.iter().filter(|it| !it.has_ended && it.handles[n]).count() as u32;
            self.check(COUNTS, (counts.refs, counts.strong_refs, counts.locals()) == (refs, refs, (0, 0)));
            self.check(COUNTS, has_ended || node.was_released == (refs == 0));
            self.check(ONEWAY, has_ended || !counts.is_busy && node.waiting.is_empty() && node.oneways == 0);
        }
        for it in w.notifications.iter().filter(|it| it.is_requested && !it.is_over && !w.processes[it.holder].has_ended) {
            let owner = &w.processes[w.nodes[it.node].owner];
            let (rule, holds) = match it.notice {
                Notice::Death(_) => (DEATH, it.deaths == u8::from(owner.has_ended)),
                Notice::Freeze(_) => (FREEZE, owner.has_ended || it.frozen == Some(owner.freeze.last.is_frozen)),
            };
            self.check(rule, if it.is_cleared { it.clearings == 1 } else { holds });
        }
    }
}

impl Thread {
    fn is_through(&self) -> bool {
        self.levels.is_empty() && !self.waits && !self.has_unread_error && self.to_free.is_none() && self.to_confirm.is_none()
    }
    fn is_available(&self) -> bool { self.stack.frames.last().is_none() && (self.work.is_empty() || self.urgency == Urgency::Deferred) }
    fn ends_wait(&self) -> bool {
        let waits_for_reply = matches!(self.stack.frames.last(), Some(Frame::Outgoing { .. }));
        self.urgency == Urgency::Urgent || (self.urgency == Urgency::Deferred && !waits_for_reply)
    }
    fn pop_work(&mut self) -> Option<Work> {
        let popped = self.work.pop_front();
        if self.work.is_empty() { self.urgency = Urgency::None; }
        popped
    }
    fn push(&mut self, work: Work) { self.pending_calls += u32::from(matches!(work, Work::Call(_))); self.work.push_back(work); }
    fn make_room(&mut self) {
        let Some(shortage) = self.stack.shortage().unwrap() else { return };
        self.stack.frames.add_room(shortage.allocate(kernel::alloc::flags::GFP_KERNEL).unwrap());
    }

    fn expect_reply(&mut self, target: P) -> FrameId {
        self.make_room();
        self.unread += 1;
        self.push(Work::Completion);
        self.stack.push_outgoing(target as i32)
    }
}

// Queues and counts.
impl World {
    fn wake_freezers(&mut self, p: P, WakeFreezers(wake): WakeFreezers) {
        for steps in &mut self.tasks { if let Some(WaitForTransactions(of, _, sleeps)) = steps.last_mut() { *sleeps &= *of != p || !wake; } }
    }

    fn set_wait(&mut self, t: T, wait: Wait) -> bool {
        let sleeps = !matches!(self.threads[t].wait, Wait::Awake | Wait::Reserved);
        if sleeps { self.threads[t].wait = wait; }
        self.processes[self.threads[t].process].idle.retain(|idle| *idle != t);
        sleeps
    }

    fn push_to_process(&mut self, p: P, work: Work) {
        self.processes[p].work.push_back(work);
        if let Some(t) = self.processes[p].idle.pop() { self.threads[t].wait = Wait::Awake; }
    }
    fn push_to_thread(&mut self, t: T, work: Work) {
        self.threads[t].push(work);
        self.threads[t].urgency = Urgency::Urgent;
        self.set_wait(t, Wait::Awake);
    }

    fn push_notification(&mut self, t: T, k: K) {
        match self.notifications[k].notice {
            Notice::Death(_) => self.push_to_thread(t, Work::Notification(k)),
            Notice::Freeze(_) => self.push_to_process(self.threads[t].process, Work::Notification(k)),
        }
    }

    fn queue_error(&mut self, t: T, error: Error) {
        self.threads[t].has_unread_error = true;
        self.push_to_thread(t, Work::Error(error));
    }
    fn queue_kept_outcome(&mut self, t: T) {
        let own = &mut self.threads[t];
        let kept = if own.pending_calls == 0 { own.stack.pop_ended() } else { None };
        if let Some(outcome) = kept { self.push_to_thread(t, Work::Outcome(outcome)); }
    }
    fn complete_reply(&mut self, t: T) {
        self.threads[t].unread += 1;
        self.push_to_thread(t, Work::Completion);
        self.queue_kept_outcome(t);
    }
    fn end_transaction(&mut self, p: P) { let wake = self.processes[p].freeze.end_transaction(); self.wake_freezers(p, wake); }
    fn give_back_buffer(&mut self, p: P) { if let Some(count) = &mut self.processes[p].buffers { *count -= 1; } }
    fn free_buffer(&mut self, p: P, n: N) { self.give_back_buffer(p); self.end_use(n); }
    fn end_use(&mut self, n: N) { self.lower(n, false, |counts| counts.drop_local(Strength::Strong)); }

    fn lower(&mut self, n: N, is_name: bool, change: impl FnOnce(&mut NodeCounts)) {
        let Node { counts, has_update, owner, .. } = &mut self.nodes[n];
        change(counts);
        if counts.is_known_to_be_held() || counts.life != Life::Known { return; }
        if counts.is_unreferenced() { return counts.life = Life::Forgotten; }
        if *has_update || !(counts.has_update_after_fall() || (is_name && counts.is_only_used())) { return; }
        let p = *owner;
        *has_update = true;
        self.push_to_process(p, Work::Node(n));
    }

    fn begin_next_oneway(&mut self, n: N) {
        let Some(next) = self.nodes[n].waiting.pop_front() else { return self.nodes[n].counts.is_busy = false };
        self.push_to_process(self.nodes[n].owner, Work::Call(Transaction { content: Content::Call { has_turn: true }, ..next }));
    }

    /// Undoes what a transaction holds on to: at once what commutes with all else, and the rest by these steps.
    fn release_content(&mut self, s: &Setup, transaction: &mut Transaction) -> Vec<Step> {
        let (n, sender) = (transaction.node, self.threads[transaction.id.0].process);
        match take(&mut transaction.content) {
            Content::Call { has_turn } => {
                self.give_back_buffer(self.nodes[n].owner);
                self.nodes[n].oneways -= u8::from(transaction.is_oneway);
                let passes_turn = has_turn && s.fault != Fault::KeepsTurn;
                passes_turn.then_some(EndOneway(n)).into_iter().chain([EndCall(n)]).collect()
            }
            Content::Reply { is_queued } => {
                self.give_back_buffer(sender);
                is_queued.then_some(EndTransaction(sender)).into_iter().collect()
            }
            Content::Empty | Content::Draft | Content::Failed(_) => vec![],
        }
    }

    fn fail(&mut self, s: &Setup, task: usize, mut call: Transaction, error: Error) {
        let steps = self.release_content(s, &mut call);
        call.content = Content::Failed(error);
        self.then(task, steps.into_iter().chain((!call.is_oneway).then_some(ReturnToCaller(call))));
    }

    fn end_work(&mut self, s: &Setup, task: usize, work: Work) {
        match work {
            Work::Call(call) => self.fail(s, task, call, Error::Dead),
            Work::Outcome(mut outcome) => { let steps = self.release_content(s, &mut outcome); self.then(task, steps); }
            _ => {}
        }
    }
}

// Calls and replies.
impl World {
    fn call(&mut self, s: &Setup, t: T, path: &'static [N], oneway: Option<bool>) {
        let (node, own) = (path[0], &mut self.threads[t]);
        let (target, is_oneway, mut frame, mut caller) = (self.nodes[node].owner, oneway.is_some(), FrameId::NONE, None);
        own.calls += 1;
        let id = (t, own.calls);
        match oneway {
            Some(is_deferred) => (own.owed, own.waits) = (own.owed + 1, !is_deferred),
            None => own.levels.push(Level::Called { id, is_completed: false }),
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
        let (path, is_deferred, content) = (&path[1..], oneway == Some(true), Content::Draft);
        self.route(s, t, Transaction { id, node, path, is_oneway, is_deferred, is_served: false, frame, content }, caller);
    }

    /// Goes on to look for the thread of the target that waits for the outcome of the chain of calls.
    fn route(&mut self, s: &Setup, t: T, call: Transaction, caller: Option<Waiter>) {
        let target = self.nodes[call.node].owner;
        let route = caller.filter(|(waiter, _)| !self.threads[*waiter].has_ended);
        self.then(t, [match caller {
            Some(waiter) if self.threads[waiter.0].process != target => FindWaitingThread(call, waiter),
            _ if s.has_objects && !call.is_oneway => ExpectReplyLate(call, route),
            _ => Submit(call, route),
        }]);
    }

    fn submit(&mut self, s: &Setup, t: T, mut call: Transaction, route: Option<Waiter>) {
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
            let is_deferred = call.is_deferred && admission == Admission::Accepted;
            self.then(t, [QueueReturnCode(if is_deferred { Urgency::Deferred } else { Urgency::Urgent })]);
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

    fn reply(&mut self, s: &Setup, t: T, node: N) {
        let own = &mut self.threads[t];
        own.levels.pop();
        (own.owed, own.waits) = (own.owed + 1, true);
        let begun = if s.has_objects { own.stack.begin_reply() } else { own.stack.pop_incoming() };
        let Some(mut reply) = begun else { return self.check(LOST, false) };
        let reads_at_once = !s.has_objects && own.work.is_empty() && !matches!(own.stack.frames.last(), Some(Frame::Ended(_)));
        let (p, caller) = (own.process, reply.id.0);
        if reads_at_once { self.was_told(t, None, None); } else if !s.has_objects { self.complete_reply(t); }
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

    fn return_to_caller(&mut self, s: &Setup, task: usize, mut call: Transaction) {
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

    fn read(&mut self, s: &Setup, t: T, takes_common: Option<bool>, mut has_read: bool) {
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

    fn read_node(&mut self, n: N) -> bool {
        let node = &mut self.nodes[n];
        node.has_update = false;
        if node.counts.life != Life::Known { return false; }
        let update = node.counts.take_update();
        if update.forget { node.counts.life = Life::Forgotten; }
        node.was_released |= update.release;
        self.check(COUNTS, !update.increfs && !update.acquire);
        true
    }

    fn read_notification(&mut self, k: K) -> Option<Message> {
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

    fn deliver(&mut self, t: T, mut call: Transaction) {
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

// Notifications, freezing and the end.
impl World {
    fn register(&mut self, s: &Setup, t: T, k: K, early: Option<FreezeEvent>) {
        let it = &mut self.notifications[k];
        let (node, is_death) = (&self.nodes[it.node], matches!(it.notice, Notice::Death(_)));
        let owner = &self.processes[node.owner];
        let is_dead = if is_death { node.counts.life == Life::Orphaned } else { owner.has_ended };
        it.is_registered = !is_dead;
        let event = (!is_death).then_some(early.unwrap_or(owner.freeze.last));
        if is_dead == is_death && s.fault != Fault::MissesDead { self.then(t, [Notify(k, event)]); }
    }

    fn notify(&mut self, k: K, event: Option<FreezeEvent>) {
        let it = &mut self.notifications[k];
        let (p, has_owner_ended) = (it.holder, self.processes[self.nodes[it.node].owner].has_ended);
        let is_due = !self.processes[p].has_ended && match (&mut it.notice, event) {
            (Notice::Death(state), _) => state.node_died(),
            (Notice::Freeze(state), event) => !has_owner_ended && state.notify(event.unwrap()),
        };
        if is_due { self.push_to_process(p, Work::Notification(k)); }
    }

    fn notify_all(&mut self, task: usize, of: usize, event: Option<FreezeEvent>, from: K) {
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

    fn announce(&mut self, task: usize, p: P, (event, wake): (Option<FreezeEvent>, WakeFreezers)) {
        self.wake_freezers(p, wake);
        self.then(task, event.map(|event| NotifyAll(p, Some(event), 0)));
    }

    fn end_thread(&mut self, s: &Setup, task: usize, t: T) {
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
            QueueReturnCode(Urgency::Urgent) => self.push_to_thread(t, Work::Code),
            QueueReturnCode(deferred) => {
                let own = &mut self.threads[t];
                own.urgency = if own.work.is_empty() || own.urgency == deferred { deferred } else { Urgency::Urgent };
                own.push(Work::Code);
            }
            EndReply { has_failed } => {
                self.threads[t].stack.end_reply();
                if has_failed { self.queue_error(t, Error::Complete); self.queue_kept_outcome(t); } else { self.complete_reply(t); }
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
