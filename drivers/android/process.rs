// SPDX-License-Identifier: GPL-2.0

//! An opened device: who opened it, its threads, its pool, its work, and the space that it receives
//! data in.
//!
//! "Process" is Binder's word: a task that opens a device twice is two of them. What happens at its
//! end is told in [`crate::lifecycle::teardown`].

use crate::{
    allocation::Delivered,
    buffers::space::{self, Buffers},
    common::{
        error::TransactionError,
        limits::limits,
        stats::{Counted, Kind}, //
    },
    context::Context,
    defs::{NodeDebugInfo, NodeFlags, NodeName, Return},
    handles::Handles,
    kernel_ext::{
        closable::{Closable, Open},
        open_file::OpenFile,
        page_range::PageRange,
        park::WakeHint,
        pid::GroupPid,
        sched, //
    },
    node::Node,
    notification::{DeathNotification, FreezeNotification},
    pure::{
        counted_tree::CountedTree,
        freeze_state::{FreezeState, WakeFreezers},
        node_counts::Uncounted,
        pool::Pool,
        priority_rules::Priority, //
        registrations::{DeliveredNotifications, Place, Registrations},
    },
    scheduling::{
        idle::{IdlePlace, IdleThreads},
        priority, //
    },
    thread::{Thread, WaitState},
    work::{ThreadWake, Urgency, Wake, Work, WorkQueue, WorkTicket}, //
};
use kernel::{
    cred::Credential,
    fs::File,
    new_condvar,
    new_spinlock,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{AtomicFlag, Relaxed},
        lock::{spinlock::SpinLockBackend, Guard, Lock},
        poll::{PollCondVarBox, PollTable},
        Arc,
        CondVar,
        SpinLock, //
    }, //
};

/// A process or thread number in the initial pid namespace.
pub(crate) type Pid = i32;

/// The state lock of a process, held.
pub(crate) type StateGuard<'a> = Guard<'a, ProcessState, SpinLockBackend>;

/// An opened device.
#[pin_data]
pub(crate) struct Process {
    /// The device that was opened.
    pub(crate) context: Arc<Context<Node>>,
    /// The file that it was opened as.
    pub(crate) file: OpenFile,
    /// The number of who opened it, in the initial pid namespace.
    pid: Pid,
    /// The same for whoever asks in another one.
    pub(crate) group: GroupPid,
    /// How urgent its threads are while they wait for a call, as the opener was.
    pub(crate) default_priority: Priority,
    /// Unique among opened devices, and in their order.
    pub(crate) opening: i64,
    /// With which rights: security hooks ask for these, whoever calls later.
    /// Gone once it has ended.
    pub(crate) credential: Closable<ARef<Credential>>,
    #[pin]
    state: SpinLock<ProcessState>,
    /// Handles on other processes' nodes. Taken before any process's state lock.
    #[pin]
    pub(crate) handles: SpinLock<Handles>,
    /// Which ranges of `pages` hold buffers.
    pub(crate) buffers: Arc<Buffers<Delivered>>,
    /// The memory that the process maps to receive data in.
    pub(crate) pages: Arc<PageRange>,
    /// What `poll` waits on. Here rather than in a thread, for epoll keeps hold of it (lesson R18).
    pollers: PollCondVarBox,
    /// What those wait on who freeze the process.
    #[pin]
    pub(crate) freezers: CondVar,
    /// What threads wait on to whom a call is promised, if something else has woken them.
    #[pin]
    pub(crate) promises: CondVar,
    /// Nothing new can reach the process. Set under the state lock.
    pub(crate) has_ended: AtomicFlag,
    _counted: Counted,
}

/// What changes in the life of a process, guarded by its state lock, together with the state of its
/// threads and nodes.
pub(crate) struct ProcessState {
    pub(crate) threads: CountedTree<Pid, Arc<Thread>>,
    /// The newest of the threads that sleep until something comes for the process; see [`crate::scheduling::idle`].
    /// While there is one and there is `work`, another one that was idle is awake and on its way to look
    /// at it.
    pub(crate) newest_idle: Option<Arc<Thread>>,
    /// Work for whichever thread comes first.
    pub(crate) work: WorkQueue,
    /// The nodes that the process offers, by the pointer that it gave them.
    pub(crate) nodes: CountedTree<u64, Arc<Node>>,
    /// Deaths that the process was told of and has not confirmed.
    pub(crate) delivered_deaths: DeliveredNotifications<DeathNotification>,
    /// Who wants to be told when the process is frozen or thawed.
    pub(crate) freeze_registrations: Registrations<FreezeNotification>,
    /// What the process was told of the freezing of others and has not confirmed.
    pub(crate) delivered_freezes: DeliveredNotifications<FreezeNotification>,
    pub(crate) pool: Pool,
    /// Whether the process wants to hear that its oneway calls look like spam.
    pub(crate) detects_oneway_spam: bool,
    /// Whether the process takes calls, and how many are on their way.
    pub(crate) freeze: FreezeState,
    has_pollers: bool,
}

impl ProcessState {
    fn new() -> Self {
        Self {
            threads: CountedTree::new(),
            newest_idle: None,
            work: WorkQueue::numbered(),
            nodes: CountedTree::new(),
            delivered_deaths: DeliveredNotifications::new(),
            freeze_registrations: Registrations::new(),
            delivered_freezes: DeliveredNotifications::new(),
            pool: Pool::default(),
            detects_oneway_spam: false,
            freeze: FreezeState::new(),
            has_pollers: false,
        }
    }

    /// What the process hears of an answer, now that a thread of it reads it: who did not ask for the
    /// detection of spam hears that the call is on its way (contract TXN-16).
    pub(crate) fn as_delivered(&self, answer: Return) -> Return {
        if answer == Return::OnewaySpamSuspect && !self.detects_oneway_spam {
            Return::TransactionComplete
        } else {
            answer
        }
    }

    /// Queues work for whichever thread comes first. An idle one is woken to look for it, but if another
    /// is there before it, so much the better: it may take long until a sleeper runs.
    pub(crate) fn push_to_process(&mut self, ticket: WorkTicket, work: Work) -> Wake {
        self.work.push_back(ticket, work);
        self.wake_for_work()
    }

    /// Says who is to be woken for work that is there for whichever thread comes first.
    pub(crate) fn wake_for_work(&mut self) -> Wake {
        if self.work.is_empty() {
            return Wake::Nobody;
        }
        let Some(thread) = self.pop_idle() else {
            return self.wake_pollers();
        };
        thread.state(self).wait_state = WaitState::Awake;
        Wake::Thread(thread)
    }

    /// Queues a call that somebody waits for: for the thread that fell idle last, which its caller wakes and
    /// lets run, or for whichever comes first if none is idle.
    pub(crate) fn push_call(&mut self, ticket: WorkTicket, call: Work) -> Wake {
        let Some(thread) = self.pop_idle() else {
            return self.push_to_process(ticket, call);
        };
        let state = thread.state(self);
        state.wait_state = WaitState::Awake;
        state.push_work(ticket, call);
        state.is_work_urgent = true;
        Wake::Thread(thread)
    }

    /// Queues work for one thread.
    #[inline]
    pub(crate) fn push_to_thread(
        &mut self,
        thread: &Arc<Thread>,
        ticket: WorkTicket,
        work: Work,
        urgency: Urgency,
    ) -> ThreadWake {
        let state = thread.state(self);
        state.push_work(ticket, work);
        if urgency == Urgency::Deferred {
            return ThreadWake::Nobody;
        }
        state.is_work_urgent = true;
        let polls = state.looper.polls;
        if self.stop_waiting(thread) {
            ThreadWake::Thread
        } else if polls && self.has_pollers {
            ThreadWake::Pollers
        } else {
            ThreadWake::Nobody
        }
    }

    /// Notes that a thread is about to be woken. `false` when it is awake, or will be woken by whoever
    /// has promised it a call.
    pub(crate) fn stop_waiting(&mut self, thread: &Arc<Thread>) -> bool {
        self.set_wait_state(thread, WaitState::Awake)
    }

    /// Notes that a sleeping thread is about to be given a call. `false` when it does not sleep.
    pub(crate) fn reserve_thread(&mut self, thread: &Arc<Thread>) -> bool {
        self.set_wait_state(thread, WaitState::Reserved)
    }

    /// Ends the rest of a thread that sleeps and has not been promised anything.
    #[inline]
    fn set_wait_state(&mut self, thread: &Arc<Thread>, wait_state: WaitState) -> bool {
        let state = thread.state(self);
        let before = state.wait_state;
        if matches!(before, WaitState::Awake | WaitState::Reserved) {
            return false;
        }
        state.wait_state = wait_state;
        if before == WaitState::ForAnyWork {
            self.remove_idle(thread);
        }
        true
    }

    /// Whether the pool should grow by a thread, and `thread`, which is one of it, is to tell user
    /// space so (contract LOOP-5). Notes that it was asked for, and gives how many have started so far.
    /// One beyond the limit of threads is not asked for.
    pub(crate) fn request_thread(&mut self, thread: &Thread) -> Option<u32> {
        let pool = self.pool;
        let is_any_idle = self.newest_idle.is_some();
        if pool.is_thread_requested || pool.started >= pool.max_threads || is_any_idle {
            return None;
        }
        let is_in_pool =
            thread.state(self).looper.is_in_pool() && limits().threads.has_room(self.threads.len());
        self.pool.is_thread_requested = is_in_pool;
        is_in_pool.then_some(pool.started)
    }

    fn wake_pollers(&self) -> Wake {
        if self.has_pollers {
            Wake::Pollers
        } else {
            Wake::Nobody
        }
    }
}

impl IdleThreads for ProcessState {
    type Thread = Thread;

    #[inline]
    fn newest(&mut self) -> &mut Option<Arc<Thread>> {
        &mut self.newest_idle
    }

    #[inline]
    fn place<'a>(&'a mut self, thread: &'a Thread) -> &'a mut IdlePlace<Thread> {
        &mut thread.state(self).idle_place
    }
}

impl Process {
    /// Makes what the calling task has opened a device as. `opening` is larger than those before it.
    pub(crate) fn new(
        context: Arc<Context<Node>>,
        credential: &Credential,
        opening: i64,
    ) -> Result<Arc<Self>> {
        let task = current!();
        let mm = task.mm().ok_or(EINVAL)?;
        let pool = space::pool()?;
        let buffers = Buffers::new()?;
        let pages = PageRange::new(mm, pool, buffers.clone());
        let pages = Arc::pin_init(pages, GFP_KERNEL)?;
        let pollers = PollCondVarBox::new(c"Process::pollers", kernel::static_lock_class!())?;
        Arc::pin_init(
            pin_init!(Self {
                context: context.clone(),
                file: OpenFile::new(),
                pid: task.tgid(),
                group: GroupPid::current(),
                default_priority: priority::current_priority(),
                opening,
                credential: Closable::new(ARef::from(credential)),
                state <- new_spinlock!(ProcessState::new(), "Process::state"),
                handles <- new_spinlock!(Handles::new(), "Process::handles"),
                buffers,
                pages,
                pollers,
                freezers <- new_condvar!("Process::freezers"),
                promises <- new_condvar!("Process::promises"),
                has_ended: AtomicFlag::new(false),
                _counted: Counted::new(Kind::Process),
            }),
            GFP_KERNEL,
        )
    }

    /// The lock behind [`Self::lock_state`], which threads and nodes name as theirs.
    pub(crate) fn state_lock(&self) -> &Lock<ProcessState, SpinLockBackend> {
        &self.state
    }

    /// Locks the state of the process, its threads and its nodes.
    pub(crate) fn lock_state(&self) -> StateGuard<'_> {
        self.state.lock()
    }

    /// Who opened the device, in the initial pid namespace.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// With which rights the device was opened. `ESRCH` once the process has ended: it may do so at any
    /// time, and what is given here stays for as long as it is used.
    #[inline]
    pub(crate) fn credential(&self) -> Result<Open<'_, ARef<Credential>>> {
        self.credential.open().ok_or(ESRCH)
    }

    /// Why nothing can be sent to the process: whatever went wrong, that it has died comes first.
    #[cold]
    pub(crate) fn dead_or(&self, error: TransactionError) -> TransactionError {
        if self.has_ended.load(Relaxed) {
            TransactionError::DIED
        } else {
            error
        }
    }

    /// Whether the calling task belongs to whoever opened the device. A descriptor that was passed
    /// on or inherited gives no right to act as its owner (contract FORK-1).
    pub(crate) fn is_callers(&self) -> bool {
        self.group.is_current()
    }

    /// The node of this name, pinned, made with these flags if the process has not sent it before.
    ///
    /// Fails with `EINVAL` when it was sent with another cookie, `ENOMEM` also when the process has as
    /// many nodes as it may have.
    pub(crate) fn pin_node(
        self: &Arc<Self>,
        name: NodeName,
        flags: NodeFlags,
    ) -> Result<Arc<Node>> {
        let node = match self.pin_known_node(name.ptr)? {
            Some(node) => node,
            None => self.pin_new_node(name, flags)?,
        };
        if node.name.cookie != name.cookie {
            node.unpin();
            return Err(EINVAL);
        }
        Ok(node)
    }

    fn pin_known_node(&self, ptr: u64) -> Result<Option<Arc<Node>>> {
        let mut state = self.lock_state();
        let node = state.nodes.get(&ptr).cloned();
        if let Some(node) = &node {
            node.pin(&mut state).map_err(|Uncounted| EINVAL)?;
        }
        Ok(node)
    }

    fn pin_new_node(self: &Arc<Self>, name: NodeName, flags: NodeFlags) -> Result<Arc<Node>> {
        let (ours, reservation) = Node::new(self, name, flags)?;
        let mut state = self.lock_state();
        let node = match state.nodes.get(&name.ptr) {
            // Another thread was faster; ours is freed once the lock is gone.
            Some(theirs) => theirs.clone(),
            None => {
                limits().nodes.check(state.nodes.len())?;
                state
                    .nodes
                    .insert(reservation.into_node(name.ptr, ours.clone()));
                ours.clone()
            }
        };
        let pinned = node.pin(&mut state);
        drop(state);
        pinned.map(|()| node).map_err(|Uncounted| EINVAL)
    }

    /// The node that the process calls by this pointer.
    pub(crate) fn node(&self, ptr: u64) -> Option<Arc<Node>> {
        self.lock_state().nodes.get(&ptr).cloned()
    }

    /// What the owner has been told of the first of his nodes behind `ptr`.
    pub(crate) fn node_debug_info(&self, ptr: u64) -> NodeDebugInfo {
        let mut state = self.lock_state();
        let next = ptr
            .checked_add(1)
            .and_then(|next| state.nodes.first_from(&next));
        let (name, (has_strong_ref, has_weak_ref)) = match &next {
            Some(node) => (node.name, node.owner_refs(&mut state)),
            None => (NodeName::default(), (false, false)),
        };
        // The tree still has the node, or `next` is freed after the lock.
        drop(state);
        NodeDebugInfo {
            name,
            has_strong_ref,
            has_weak_ref,
        }
    }

    /// Makes all threads go back to user space: somebody closes a descriptor of the device.
    pub(crate) fn flush(&self) {
        let mut next = Pid::MIN;
        while let Some(thread) = self.flush_thread(next) {
            next = thread.id + 1;
        }
    }

    /// Makes the first thread from number `from` on go back to user space.
    fn flush_thread(&self, from: Pid) -> Option<Arc<Thread>> {
        let mut state = self.lock_state();
        let thread = state.threads.first_from(&from)?;
        thread.must_return.store(true, Relaxed);
        let was_asleep = state.stop_waiting(&thread);
        drop(state);
        if was_asleep {
            thread.wake(WakeHint::Anywhere);
        }
        Some(thread)
    }

    /// Wakes those who watch the device.
    pub(crate) fn notify_pollers(&self) {
        self.pollers.notify_all();
    }

    /// Takes a freeze notification off the list of this process, unless that has been done: gives its place.
    pub(crate) fn remove_freeze_registration(
        &self,
        notification: &Arc<FreezeNotification>,
    ) -> Option<Place<FreezeNotification>> {
        self.lock_state().freeze_registrations.remove(notification)
    }

    /// Wakes those who wait for the process to come to rest, if they are to look again. To be called with
    /// no lock held.
    pub(crate) fn wake_freezers(&self, wake: WakeFreezers) {
        sched::expect_no_spinlock();
        if wake.is_needed() {
            self.freezers.notify_all();
        }
    }

    /// A transaction that counted for the process has ended.
    pub(crate) fn end_transaction(&self) {
        let wake = self.lock_state().freeze.end_transaction();
        self.wake_freezers(wake);
    }

    /// Lets the calling task, which is `thread`, watch the device; says whether there is something to read.
    pub(crate) fn poll(&self, thread: &Thread, file: &File, table: PollTable<'_>) -> bool {
        table.register_wait(file, &self.pollers);
        let mut state = self.lock_state();
        state.has_pollers = true;
        let has_common_work = !state.work.is_empty();
        let own = thread.state(&mut state);
        own.looper.polls = true;
        let has_own_work = own.is_work_urgent;
        let takes_common_work = own.is_available() && has_common_work;
        drop(state);
        has_own_work || takes_common_work || thread.must_return.load(Relaxed)
    }
}
