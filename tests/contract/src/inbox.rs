// SPDX-License-Identifier: GPL-2.0
//! The returns that a thread has read, and whether the test has looked at them.
//!
//! A return that a test neither waits for nor looks at fails the test: the driver returned
//! something unexpected. Three kinds need no look, since they follow from what the test did. Their
//! number and their order are checked instead:
//!
//! - `BR_NOOP`;
//! - the completion of a call or reply: one for each that was written, and before its outcome;
//! - the first `BR_INCREFS` and `BR_ACQUIRE` of a node, which come of its being sent.

use binder_sys::codes::{BC_REPLY, BC_REPLY_SG, BC_TRANSACTION, BC_TRANSACTION_SG};
use binder_sys::Return;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::panic::Location;
use std::rc::Rc;

/// The returns of one thread from one device.
pub struct Inbox {
    /// The thread's process and number, and the device's.
    who: (i32, i32, usize),
    /// Read, and not yet looked at.
    queue: RefCell<VecDeque<Return>>,
    /// Looked at by who waited there for something else.
    passed: RefCell<Vec<(Return, &'static Location<'static>)>>,
    /// The number of calls and replies without a completion yet.
    uncompleted: Cell<u32>,
    /// The returns that the contract forbids at their place.
    faults: RefCell<Vec<String>>,
}

/// The counts that a node's owner was notified of: weak, strong.
type Told = HashMap<(i32, usize, u64), (bool, bool)>;

thread_local! {
    static ALL: RefCell<Vec<Rc<Inbox>>> = const { RefCell::new(Vec::new()) };
    static TOLD: RefCell<Told> = RefCell::default();
}

impl Inbox {
    /// An empty one, which is looked at when the test ends.
    pub fn new(process: i32, thread: i32, device: usize) -> Rc<Self> {
        let inbox = Rc::new(Self {
            who: (process, thread, device),
            queue: RefCell::default(),
            passed: RefCell::default(),
            uncompleted: Cell::new(0),
            faults: RefCell::default(),
        });
        ALL.with_borrow_mut(|all| all.push(inbox.clone()));
        inbox
    }

    /// The thread has written commands, which were carried out as far as given here.
    pub fn wrote(&self, commands: &[u8]) {
        let mut rest = commands;
        while let Some((code, payload)) = rest.split_first_chunk::<4>() {
            let code = u32::from_ne_bytes(*code);
            if matches!(code, BC_TRANSACTION | BC_REPLY | BC_TRANSACTION_SG | BC_REPLY_SG) {
                self.uncompleted.set(self.uncompleted.get() + 1);
            }
            rest = payload.get((code >> 16 & 0x3fff) as usize..).unwrap_or_default();
        }
    }

    /// The thread has left the driver: its unread completions are gone.
    pub fn left(&self) {
        self.uncompleted.set(0);
    }

    /// The thread has read something.
    pub fn read(&self, items: &[Return]) {
        for item in items {
            let open = self.uncompleted.get();
            match item {
                Return::TransactionComplete
                | Return::OnewaySpamSuspect
                | Return::TransactionPendingFrozen
                    if open == 0 =>
                {
                    self.fault(item, "completes nothing");
                }
                Return::Reply(_) if open > 0 => self.fault(item, "before the completion"),
                // A refusal stands for the completion of the last call or comes after it.
                Return::TransactionComplete
                | Return::OnewaySpamSuspect
                | Return::TransactionPendingFrozen
                | Return::FailedReply
                | Return::DeadReply
                | Return::FrozenReply => self.uncompleted.set(open.saturating_sub(1)),
                _ => self.read_update(item),
            }
        }
    }

    /// Checks that a notification of counts follows from those before it.
    fn read_update(&self, item: &Return) {
        let (Return::Increfs(node) | Return::Acquire(node) | Return::Release(node) | Return::Decrefs(node)) =
            item
        else {
            return;
        };
        let key = (self.who.0, self.who.2, node.ptr);
        let (weak, strong) = TOLD.with_borrow(|told| told.get(&key).copied().unwrap_or_default());
        let (fits, next) = match item {
            Return::Increfs(_) => (!weak && !strong, (true, strong)),
            Return::Acquire(_) => (weak && !strong, (weak, true)),
            Return::Release(_) => (weak && strong, (weak, false)),
            _ => (weak && !strong, (false, strong)),
        };
        if !fits {
            self.fault(item, &format!("after notifications of weak: {weak}, of strong: {strong}"));
        }
        TOLD.with_borrow_mut(|told| told.insert(key, next));
    }

    fn fault(&self, item: &Return, why: &str) {
        self.faults.borrow_mut().push(format!("{item:?} {why}"));
    }

    /// Keeps what was read until the test looks at it.
    pub fn keep(&self, items: Vec<Return>) {
        self.queue.borrow_mut().extend(items);
    }

    /// The oldest return that was not looked at.
    pub fn next(&self) -> Option<Return> {
        self.queue.borrow_mut().pop_front()
    }

    /// Sets a return aside.
    pub fn pass(&self, item: Return, place: &'static Location<'static>) {
        self.passed.borrow_mut().push((item, place));
    }

    /// All that was set aside.
    pub fn take_passed(&self) -> Vec<Return> {
        self.passed.take().into_iter().map(|(item, _)| item).collect()
    }

    /// The faults in all that the thread has read, and the returns that the test did not look at.
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints = self.faults.take();
        let needs_asking = |item: &Return| {
            let is_implied = matches!(
                item,
                Return::Noop | Return::TransactionComplete | Return::Increfs(_) | Return::Acquire(_)
            );
            !is_implied
        };
        let unasked = self.passed.take().into_iter().filter(|(item, _)| needs_asking(item));
        complaints.extend(unasked.map(|(item, place)| format!("{item:?} at {place}")));
        let unread = self.queue.take().into_iter().filter(needs_asking);
        complaints.extend(unread.map(|item| format!("{item:?} in the last read")));
        complaints
    }
}

/// Fails if any thread has read a return that the test did not expect.
pub fn expect_nothing_unasked() {
    for inbox in ALL.with_borrow(|all| all.clone()) {
        let complaints = inbox.complaints();
        let (process, thread, _) = inbox.who;
        assert!(
            complaints.is_empty(),
            "thread {thread} of {process} read unexpected returns: {}",
            complaints.join(", ")
        );
    }
}
