// SPDX-License-Identifier: GPL-2.0

//! How a thread and a process end while others still deal with them.
//!
//! The order is the same for both: first nothing new can arrive, which is decided under the state
//! lock; then what had arrived is taken out, one piece at a time, and each piece is ended without a
//! lock (lesson R01). Whoever waits for something hears that it will not come.

use crate::{
    common::{debug::note, error::Refusal},
    kernel_ext::{park::WakeHint, sched},
    lifecycle::registry,
    process::{Pid, Process},
    pure::{
        call_stack::{CallStack, Frame},
        priority_rules::Priority, //
    },
    scheduling::priority,
    thread::Thread,
    transaction::Transaction,
    work::{Wake, Work, WorkTicket}, //
};
use kernel::{
    alloc::KBox,
    rbtree::RBTreeNode,
    sync::{
        atomic::Relaxed,
        Arc, //
    }, //
};

impl Thread {
    /// The thread has nothing more to do with the driver: `BINDER_THREAD_EXIT`, or its process ends.
    pub(crate) fn end(self: &Arc<Self>) {
        let Some((record, spare, raised_from)) = self.close() else {
            return;
        };
        drop((record, spare));
        if let Some(saved) = raised_from {
            self.end_service(saved);
        }
        while let Some(frame) = self.pop_frame() {
            if let Frame::Incoming(transaction) = frame {
                note!(
                    DeadTransaction,
                    "call {} loses whoever serves it",
                    transaction.id
                );
                if let Some(saved) = transaction.saved_priority.get() {
                    self.end_service(saved);
                }
                transaction.refuse(Refusal::DIED);
            }
            // There can be as many as memory holds.
            sched::cond_resched();
        }
        drop(self.take_stack());
        while let Some(leftover) = self.pass_on_work() {
            leftover.end(&self.process);
        }
    }

    /// The thread will not serve what it was made urgent for. One that does not run is dead.
    fn end_service(&self, saved: Priority) {
        if self.is_current() {
            priority::end_service(saved);
        }
    }

    /// Lets nothing arrive any more. Gives what only the running thread needs, to be dropped without
    /// the lock, and what it was if it was made more urgent; nothing if that was done before.
    fn close(&self) -> Option<(impl Sized, impl Sized, Option<Priority>)> {
        let mut process = self.process.lock_state();
        if self.has_ended.load(Relaxed) {
            return None;
        }
        self.has_ended.store(true, Relaxed);
        let record: Option<RBTreeNode<_, _>> = process.threads.remove_node(&self.id);
        let state = self.state(&mut process);
        let spare = state.take_spares();
        Some((record, spare, state.raised_from.take()))
    }

    fn pop_frame(&self) -> Option<Frame<KBox<Transaction>>> {
        let mut process = self.process.lock_state();
        let stack = &mut self.state(&mut process).stack;
        let frame = stack.pop();
        let surplus = stack.take_surplus();
        if !matches!(frame, Some(Frame::Incoming(_))) {
            drop(process);
            drop(surplus);
            return frame;
        }
        let freezers = process.freeze.end_transaction();
        drop(process);
        drop(surplus);
        self.process.wake_freezers(freezers);
        frame
    }

    /// Takes out the stack, which is empty and has memory.
    fn take_stack(&self) -> CallStack<KBox<Transaction>> {
        let mut process = self.process.lock_state();
        core::mem::replace(&mut self.state(&mut process).stack, CallStack::new())
    }

    /// Takes out the oldest work that the thread will not do any more, or hands it to the other threads: under
    /// one lock, for whoever looks for the news of a node finds them where they are said to be (S22).
    fn pass_on_work(&self) -> Option<Leftover> {
        let mut process = self.process.lock_state();
        let (work, ticket) = self.state(&mut process).pop_work()?;
        // The owner still has to hear of his node (lesson R11), and the holder of a link of a death, and
        // that his request is withdrawn (C16).
        if let Work::Node(node) = &work {
            node.move_news_to_process(&mut process);
        }
        Some(match work {
            Work::Node(_) | Work::Death(_) | Work::Freeze(_) => {
                Leftover::PassedOn(process.push_to_process(ticket, work))
            }
            work => Leftover::Work(work, ticket),
        })
    }
}

/// What is left to be done for work that an ending thread had.
#[must_use]
enum Leftover {
    /// Others do it.
    PassedOn(Wake),
    /// It ends.
    Work(Work, WorkTicket),
}

impl Leftover {
    /// Does it. To be called with no lock held.
    fn end(self, process: &Process) {
        match self {
            Self::PassedOn(wake) => wake.now(process, WakeHint::Anywhere),
            Self::Work(Work::Call(mut call), ticket) => {
                call.put_ticket(ticket);
                note!(DeadTransaction, "call {} ends with its target", call.id);
                call.refuse(Refusal::DIED);
            }
            Self::Work(work, _) => drop(work),
        }
    }
}

impl Process {
    /// The last descriptor of the device is closed.
    pub(crate) fn end(self: &Arc<Self>) {
        note!(OpenClose, "the process of {} ends", self.pid());
        registry::remove(self);
        self.context.forget_manager(self);
        self.close();
        // First of all: then what is undone below has no range of its own to give back.
        self.close_buffers();
        while let Some(thread) = self.any_thread() {
            thread.end();
        }
        self.orphan_nodes();
        while let Some((work, ticket)) = self.pop_work() {
            Leftover::Work(work, ticket).end(self);
        }
        self.close_handles();
        drop(self.take_links());
        self.give_up_belongings();
    }

    /// What the process received its data in, and whose it was goes. What is left is what its nodes
    /// need, for as long as others hold those.
    fn give_up_belongings(&self) {
        self.pages.close();
        self.credential.close();
    }

    /// Lets nothing arrive any more.
    fn close(&self) {
        // Under the lock, so that whoever holds it and sees the process open can finish.
        let mut state = self.lock_state();
        self.has_ended.store(true, Relaxed);
        let freezers = state.freeze.end();
        drop(state);
        self.wake_freezers(freezers);
    }

    fn any_thread(&self) -> Option<Arc<Thread>> {
        let state = self.lock_state();
        state.threads.first_from(&Pid::MIN)
    }

    /// Lets the nodes outlive their owner.
    fn orphan_nodes(&self) {
        let nodes = self.lock_state().nodes.take_all();
        for node in nodes.values() {
            let mut state = self.lock_state();
            let (waiting, link) = node.orphan(&mut state);
            drop(state);
            drop(waiting);
            node.tell_of_death(link);
            // There can be as many as memory holds.
            sched::cond_resched();
        }
    }

    /// Takes out the links on the freezing of this process, and those of which it has been told.
    fn take_links(&self) -> impl Sized {
        let mut state = self.lock_state();
        (
            state.freeze_links.take_all(),
            state.unconfirmed_freezes.take_all(),
            state.unconfirmed.take_all(),
        )
    }

    fn pop_work(&self) -> Option<(Work, WorkTicket)> {
        self.lock_state().work.pop_front()
    }
}
