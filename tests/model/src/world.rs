// SPDX-License-Identifier: GPL-2.0
//! The state of the model, and its steps. A step is what the driver does in one round under a state lock, with what commutes with that, such as
//! the reservation of a buffer. Names are the driver's.

mod calls;
mod ends;

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
        id: Id, node: N, path: &'static [N], is_oneway: bool, is_served: bool, frame: FrameId, content: Content,
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
        PushReserved(Transaction, T), GiveUpCall(FrameId, Error), QueueReturnCode, EndReply { has_failed: bool }, ReturnToCaller(Transaction),
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
            (Some(Level::Serving { path, .. }), _) if !path.is_empty() && !own.has_called => self.call(s, t, path, false),
            (Some(Level::Serving { node, .. }), _) => self.reply(s, t, node),
            (Some(Level::Called { .. }), _) | (None, None) => self.read(s, t, None, false),
            (None, Some(Op::Call(path))) => self.call(s, t, path, false),
            (None, Some(Op::Oneway(path))) => self.call(s, t, path, true),
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
    fn ends_wait(&self) -> bool { self.urgency == Urgency::Urgent }
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
    fn complete_reply(&mut self, s: &Setup, t: T) {
        let own = &mut self.threads[t];
        own.unread += 1;
        if s.defers && (own.work.is_empty() || own.urgency == Urgency::Deferred) {
            own.urgency = Urgency::Deferred;
            own.push(Work::Completion);
        } else {
            self.push_to_thread(t, Work::Completion);
        }
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
