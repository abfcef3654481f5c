// SPDX-License-Identifier: GPL-2.0

//! An open file of a device: the task that opened it, its threads, its pool, its work, and the
//! space that it receives data in.
//!
//! "Process" is Binder's term: a task that opens a device twice has two of them. The end of a
//! process is described in [`crate::lifecycle::processes`].

use crate::{
    allocation::space::{self, Buffers},
    common::{
        failure::{Failure, Reason},
        limits::LIMITS,
        netlink::Party,
        stats::{Counted, Kind, ProcessCounts},
        transaction_log::TransactionLog, //
    },
    context::Context,
    death_notification::DeathNotification,
    defs::Return,
    freeze_notification::{FreezeNotification, FreezeRegistrations},
    handles::Handles,
    kernel_ext::{
        callers::Records,
        files::OpenFile,
        link::{has_field, LinkedTree},
        once::read_once,
        page_range::PageRange,
        pid::GroupPid,
        poll_queue::PollQueue,
        sched::{self, WakeHint},
        spin_lock::{new_spin_lock, SpinLock, SpinLockGuard}, //
    },
    names::ProcessName,
    node::Node,
    pure::{
        freeze_state::{FreezeState, WakeFreezers},
        looper::Pool,
        numbers::NumberBlock,
        priority_rules::Priority, //
    },
    thread::{Thread, Urgency, WaitState},
    transaction::TransactionBox,
    work::{ThreadWake, Wake, Work, WorkQueue, WorkTicket}, //
};
use core::mem;
use kernel::{
    cred::Credential,
    fs::File,
    prelude::*,
    rbtree::RBTree,
    sync::{
        aref::ARef,
        atomic::Atomic,
        poll::PollTable,
        Arc,
        UniqueArc, //
    }, //
};

/// A process or thread number in the initial pid namespace.
pub(crate) type Pid = i32;

/// The state lock of a process, held.
pub(crate) type StateGuard<'a> = SpinLockGuard<'a, ProcessState>;

/// An open file of a device.
///
/// The state comes first, next to the reference count: see [`ProcessState`].
#[pin_data]
#[repr(C)]
pub(crate) struct Process {
    /// The state of the process, its threads and its nodes, whose own state is bound to this lock.
    #[pin]
    pub(crate) state: SpinLock<ProcessState>,
    /// What others keep of it.
    pub(crate) name: Arc<ProcessName>,
    /// The device that was opened.
    pub(crate) context: Arc<Context>,
    /// The log of what is sent through that device.
    pub(crate) log: Arc<TransactionLog>,
    /// The file that it was opened as.
    pub(crate) file: OpenFile,
    /// The thread group that opened it.
    pub(crate) group: GroupPid,
    /// The priority of its threads while they wait for a call: that of the task that opened the
    /// device.
    pub(crate) default_priority: Priority,
    /// Unique among open files of devices, and ascending in the order of opening.
    pub(crate) opening: i64,
    /// The rights with which the device was opened. Security hooks are called with these, whichever
    /// task makes a call later.
    pub(crate) credential: ARef<Credential>,
    /// Its counters of codes, apart from those of its threads.
    pub(crate) code_counts: KBox<ProcessCounts>,
    /// Its number among the processes that have ended, whose counters are added up, from 1 on; 0
    /// before.
    pub(crate) ended: Atomic<u64>,
    /// The threads, to be found by themselves.
    #[pin]
    pub(crate) callers: Records<Thread>,
    /// Handles on nodes of other processes.
    #[pin]
    pub(crate) handles: SpinLock<Handles>,
    /// The ranges of `pages` that hold buffers.
    pub(crate) buffers: Arc<Buffers>,
    /// The memory that the process maps to receive data in.
    pub(crate) pages: Arc<PageRange>,
    /// The queue of tasks that poll the device, and of tasks that freeze the process. A thread for
    /// which a call is [reserved](WaitState::Reserved) also waits here, if something else wakes it
    /// before the call is queued. All of them check what they wait for. The queue is in the process
    /// and not in a thread, because epoll keeps a pointer to it until the file is closed (lesson
    /// R18). One queue serves all, so that a process has no more than 512 bytes, beyond which the
    /// kernel's allocator gives it 1 024.
    #[pin]
    pub(crate) waiters: PollQueue,
    /// Nothing more can be queued for the process. Set under the state lock.
    pub(crate) has_ended: Atomic<bool>,
    /// True if a descriptor was closed, so that threads may have been made to return to user space.
    pub(crate) was_flushed: Atomic<bool>,
    /// True if a descriptor was closed, and threads have not been made to return for that yet.
    pub(crate) must_flush: Atomic<bool>,
    /// The number of `group` in the initial pid namespace.
    pub(crate) pid: Pid,
    _counted: Counted,
}

// With its reference count no more than the kernel's allocator gives for 512 bytes. Lock checks and
// `PREEMPT_RT` make locks larger.
#[cfg(not(any(CONFIG_DEBUG_SPINLOCK, CONFIG_PREEMPT_RT)))]
const _: () = assert!(size_of::<Process>() <= 504);

has_field!(impl for Process, state: SpinLock<ProcessState>);
has_field!(impl for Process, callers: Records<Thread>);

/// The state of a process that changes, guarded by its state lock, together with the state of its
/// threads and nodes.
///
/// The fields that each call reads or changes come first: one cache line holds them together with
/// the lock, and a CPU that takes the lock gets them with it.
#[repr(C)]
pub(crate) struct ProcessState {
    /// The newest of the idle threads, which sleep until any work of the process is queued; see
    /// [`IdlePlace`]. While an idle thread exists and `work` is not empty, another thread that was
    /// idle is awake and about to read `work`.
    pub(crate) newest_idle: Option<Arc<Thread>>,
    /// Work of the process, for the first available thread that reads.
    pub(crate) work: WorkQueue,
    /// The freeze state, with the number of outstanding transactions.
    pub(crate) freeze: FreezeState,
    pub(crate) threads: RBTree<Pid, Arc<Thread>>,
    /// The number of `threads`, which the tree does not count.
    pub(crate) thread_count: usize,
    /// The calls in `work`.
    pub(crate) queued_calls: u32,
    /// Debug ids for the calls and replies that its threads make. A counter that all processes
    /// write would be a cache line that moves between the CPUs of all calls.
    pub(crate) debug_ids: NumberBlock,
    /// A transaction for the next call of a thread, which then need not be allocated.
    pub(crate) spare_transaction: Option<TransactionBox>,
    /// A place in a queue for the next return code of a thread, for the same reason.
    pub(crate) spare_ticket: Option<WorkTicket>,
    /// The nodes that the process offers, by the pointer in their name.
    pub(crate) nodes: LinkedTree<Node>,
    /// A node that the process has forgotten, and to which nothing else refers, for the next object
    /// that it sends.
    pub(crate) spare_node: Option<Pin<UniqueArc<Node>>>,
    /// Death notifications that are delivered to the process and not confirmed yet.
    pub(crate) delivered_deaths: LinkedTree<DeathNotification>,
    /// A death notification for the next request of the process, to which nothing else refers.
    pub(crate) spare_death: Option<Pin<UniqueArc<DeathNotification>>>,
    /// Freeze notifications of the holders that are notified when this process is frozen or thawed.
    pub(crate) freeze_registrations: FreezeRegistrations,
    /// Freeze notifications that are delivered to the process and not confirmed yet.
    pub(crate) delivered_freezes: LinkedTree<FreezeNotification>,
    pub(crate) pool: Pool,
    /// True if the process has requested to be notified that its oneway calls are suspected of
    /// spam.
    pub(crate) detects_oneway_spam: bool,
    has_pollers: bool,
}

/// The place of a thread in the list of idle threads, which wait for any work of the process. Both
/// references are `None` while the thread is not in the list, and while it is the only one.
///
/// The list is linked through the threads themselves. It allocates no memory, whatever the number
/// of threads, and a thread is removed from any place of it in constant time.
///
/// The state lock guards the whole list. A thread in the list sleeps in the driver and has another
/// reference to itself, and removes itself before it leaves the driver. Therefore an `Arc` that is
/// dropped with a place is never the last.
#[derive(Default)]
pub(crate) struct IdlePlace {
    /// The thread that became idle next.
    newer: Option<Arc<Thread>>,
    /// The thread that became idle just before.
    older: Option<Arc<Thread>>,
}

impl ProcessState {
    fn new() -> Self {
        Self {
            threads: RBTree::new(),
            thread_count: 0,
            newest_idle: None,
            work: WorkQueue::numbered(),
            queued_calls: 0,
            debug_ids: NumberBlock::default(),
            spare_transaction: None,
            spare_ticket: None,
            nodes: LinkedTree::new(),
            spare_node: None,
            delivered_deaths: LinkedTree::new(),
            spare_death: None,
            freeze_registrations: FreezeRegistrations::new(),
            delivered_freezes: LinkedTree::new(),
            pool: Pool::default(),
            detects_oneway_spam: false,
            freeze: FreezeState::new(),
            has_pollers: false,
        }
    }

    /// Returns the first thread whose number is not less than `from`.
    pub(crate) fn thread_from(&self, from: Pid) -> Option<Arc<Thread>> {
        Some(self.threads.cursor_lower_bound(&from)?.current().1.clone())
    }

    /// Returns the code that a thread of the process reads for `answer`. A process that has not
    /// requested the detection of spam reads that the call is on its way (contract TXN-16).
    pub(crate) fn as_delivered(&self, answer: Return) -> Return {
        if answer == Return::OnewaySpamSuspect && !self.detects_oneway_spam {
            Return::TransactionComplete
        } else {
            answer
        }
    }

    /// Queues work of the process, for the first available thread that reads. Returns the wake of
    /// an idle thread, which then looks for the work. If another thread takes the work before that
    /// one runs, this is correct too, and faster: it may take long until a sleeping thread runs.
    ///
    /// The work is queued nowhere.
    pub(crate) fn push_to_process(&mut self, work: Work) -> Wake {
        self.queued_calls += u32::from(matches!(work, Work::Call(_)));
        // If `work` is queued already, the dropped reference is not the last: the queue has one.
        let queued = self.work.push(work);
        debug_assert!(queued.is_ok());
        self.wake_for_work()
    }

    /// Returns the wake for the work that is queued for the process, if any.
    pub(crate) fn wake_for_work(&mut self) -> Wake {
        if self.work.is_empty() {
            return Wake::Nobody;
        }
        let Some(thread) = self.pop_idle() else {
            return Wake::pollers_if(self.has_pollers);
        };
        thread.state.access_mut(self).wait_state = WaitState::Awake;
        Wake::Thread(thread)
    }

    /// Returns whether work is queued that no idle thread is about to read. In that case a thread
    /// that polls, and may have become available now, wakes the pollers to look again. They found
    /// nothing to read while it was not available, and wait for another event (contract POLL-4).
    #[cold]
    pub(crate) fn pollers_have_to_look(&self) -> bool {
        !self.work.is_empty() && self.newest_idle.is_none()
    }

    /// Queues a call whose caller waits for the reply. It is queued for the thread that became idle
    /// last, which the caller wakes and hands the CPU to. If no thread is idle, it is queued for
    /// the first available thread that reads.
    #[inline(always)] // It has one caller.
    pub(crate) fn push_call(&mut self, call: TransactionBox) -> Wake {
        let call = Work::Call(call);
        let Some(thread) = self.pop_idle() else {
            return self.push_to_process(call);
        };
        let state = thread.state.access_mut(self);
        state.wait_state = WaitState::Awake;
        state.push(call);
        state.urgency = Urgency::Urgent;
        Wake::Thread(thread)
    }

    /// Queues work, which is queued nowhere, for one thread. Returns the wake for it.
    #[inline]
    pub(crate) fn push_to_thread<'a>(
        &mut self,
        thread: &'a Arc<Thread>,
        work: Work,
    ) -> ThreadWake<'a> {
        let state = thread.state.access_mut(self);
        state.push(work);
        state.urgency = Urgency::Urgent;
        let polls = state.looper.polls();
        if self.set_wait_state(thread, WaitState::Awake) {
            ThreadWake::Thread(thread)
        } else {
            ThreadWake::pollers_if(polls && self.has_pollers)
        }
    }

    /// The same for a completion of the calling thread that is deferred if it comes behind no other
    /// work (contract TXN-33).
    #[cold]
    pub(crate) fn push_deferred<'a>(
        &mut self,
        thread: &'a Arc<Thread>,
        completion: Work,
    ) -> ThreadWake<'a> {
        let state = thread.state.access_mut(self);
        // A node update is read together with the completion: its sender may drop the object then.
        let is_first = state.work.is_empty() || state.has_only_deferred();
        state.push(completion);
        state.urgency = match is_first {
            true => Urgency::Deferred,
            false => Urgency::Urgent,
        };
        // They look whether there is something to read, or the thread is available now.
        ThreadWake::pollers_if(state.looper.polls() && self.has_pollers)
    }

    /// Records that a sleeping thread is about to be woken, or that a call is reserved for it.
    /// Returns `false`, and changes nothing, if it is awake, or if a call is reserved for it
    /// already: then the sender of that call wakes it.
    #[inline(always)] // Mostly it is awake.
    pub(crate) fn set_wait_state(&mut self, thread: &Arc<Thread>, wait_state: WaitState) -> bool {
        let state = thread.state.access_mut(self);
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

    /// Adds a thread as the newest. It must not be in the list.
    pub(crate) fn push_idle(&mut self, thread: &Arc<Thread>) {
        let older = self.newest_idle.replace(thread.clone());
        if let Some(older) = &older {
            older.state.access_mut(self).idle_place.newer = Some(thread.clone());
        }
        let place = &mut thread.state.access_mut(self).idle_place.older;
        // It replaces `None`. Without `forget`, the compiler would add the drop of an `Arc`.
        mem::forget(mem::replace(place, older));
    }

    /// Takes out the newest thread and returns it, if any is idle.
    fn pop_idle(&mut self) -> Option<Arc<Thread>> {
        let thread = self.newest_idle.take()?;
        let older = thread.state.access_mut(self).idle_place.older.take();
        if let Some(older) = &older {
            older.state.access_mut(self).idle_place.newer = None;
        }
        // As above.
        mem::forget(mem::replace(&mut self.newest_idle, older));
        Some(thread)
    }

    /// Takes out a thread, which must be in the list.
    #[cold]
    fn remove_idle(&mut self, thread: &Arc<Thread>) {
        let IdlePlace { newer, older } = mem::take(&mut thread.state.access_mut(self).idle_place);
        if let Some(older) = &older {
            older.state.access_mut(self).idle_place.newer = newer.clone();
        }
        match newer {
            Some(newer) => newer.state.access_mut(self).idle_place.older = older,
            None => self.newest_idle = older,
        }
    }

    /// Returns whether the pool needs one more thread, and `thread`, which is one of the pool, is
    /// to request it from user space (contract LOOP-5). A thread beyond the limit of threads is not
    /// requested.
    pub(crate) fn needs_thread(&self, thread: &Thread) -> bool {
        let pool = self.pool;
        let is_any_idle = self.newest_idle.is_some();
        if pool.is_thread_requested || pool.started >= pool.max_threads || is_any_idle {
            return false;
        }
        self.pool_may_grow(thread)
    }

    /// Returns whether `thread` is one of the pool, and the limit of threads permits one more.
    #[cold]
    fn pool_may_grow(&self, thread: &Thread) -> bool {
        thread.state.access(self).looper.is_in_pool() && LIMITS.threads.has_room(self.thread_count)
    }

    /// Records the request for one more thread, if the pool [needs one](Self::needs_thread), and
    /// returns how many have started so far.
    pub(crate) fn request_thread(&mut self, thread: &Thread) -> Option<u32> {
        let is_needed = self.needs_thread(thread);
        self.pool.is_thread_requested |= is_needed;
        is_needed.then_some(self.pool.started)
    }
}

impl Process {
    /// Allocates the process of the calling task, which opens a device. `opening` is larger than
    /// those before it.
    pub(crate) fn new(
        context: Arc<Context>,
        credential: &Credential,
        opening: i64,
    ) -> Result<Arc<Self>> {
        let task = current!();
        let mm = task.mm().ok_or(EINVAL)?;
        let pool = space::pool()?;
        let buffers = Buffers::new(task.tgid())?;
        let code_counts = ProcessCounts::new()?;
        let log = context.log()?;
        let name = ProcessName::new(task.tgid())?;
        let pages = PageRange::new(mm, pool, buffers.clone());
        let pages = Arc::pin_init(pages, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                log,
                name,
                context: context.clone(),
                file: OpenFile::new(),
                pid: task.tgid(),
                group: GroupPid::current(),
                default_priority: Priority(sched::of(None)),
                opening,
                credential: ARef::from(credential),
                code_counts,
                ended: Atomic::new(0),
                state <- new_spin_lock!(ProcessState::new(), "Process::state"),
                callers <- Records::new(),
                handles <- new_spin_lock!(Handles::new(), "Process::handles"),
                buffers,
                pages,
                waiters <- PollQueue::new(c"Process::waiters", kernel::static_lock_class!()),
                has_ended: Atomic::new(false),
                was_flushed: Atomic::new(false),
                must_flush: Atomic::new(false),
                _counted: Counted::new(Kind::Process),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the error of a transaction that cannot be sent to the process: that the process has
    /// died if it has, else `error`.
    #[cold]
    pub(crate) fn dead_or(&self, error: Failure) -> Failure {
        if read_once(&self.has_ended) {
            Failure::without_errno(Reason::ReceiverEnded)
        } else {
            error
        }
    }

    /// Returns whether the calling task belongs to the thread group that opened the device. A
    /// descriptor that was passed on or inherited gives no right to act as that thread group
    /// (contract FORK-1).
    pub(crate) fn is_callers(&self) -> bool {
        self.group.is_current()
    }

    /// Names a thread of the process, in the initial pid namespace; 0 is any of them.
    pub(crate) fn party(&self, tid: Pid) -> Party {
        Party { pid: self.pid, tid }
    }

    /// Returns the node that the process names by this pointer.
    pub(crate) fn node(&self, ptr: u64) -> Option<Arc<Node>> {
        self.state.lock().nodes.get(ptr).map(Arc::from)
    }

    /// Releases the state lock and wakes what `wake` names, and the tasks in [`Self::waiters`] if
    /// `wakes_waiters`, without being preempted in between.
    #[inline]
    pub(crate) fn unlock_and_wake(
        &self,
        locks: impl Sized,
        wake: &Wake,
        hint: WakeHint,
        wakes_waiters: bool,
    ) {
        if !wakes_waiters {
            return wake.after(locks, self, hint);
        }
        sched::unpreempted_if(true, || {
            drop(locks);
            wake.now(self, hint);
            sched::expect_unpreempted();
            self.waiters.notify_all();
        });
    }

    /// Releases `locks` and wakes the tasks in [`Self::waiters`], which check what they wait for,
    /// without being preempted in between.
    #[cold]
    pub(crate) fn notify_waiters_after(&self, locks: impl Sized) {
        sched::unpreempted_if(true, || {
            drop(locks);
            sched::expect_unpreempted();
            self.waiters.notify_all();
        });
    }

    /// Releases the state lock and wakes the tasks that wait until no transaction of the process is
    /// outstanding, if they have to check again.
    pub(crate) fn unlock_and_wake_freezers(&self, state: StateGuard<'_>, wake: WakeFreezers) {
        match wake {
            WakeFreezers(true) => self.notify_waiters_after(state),
            WakeFreezers(false) => drop(state),
        }
    }

    /// Registers the calling task, which is `thread`, as a poller of the device. Returns whether a
    /// read would return something.
    pub(crate) fn poll(&self, thread: &Thread, file: &File, table: PollTable<'_>) -> bool {
        self.waiters.register(&table, file);
        let mut state = self.state.lock();
        state.has_pollers = true;
        let has_common_work = !state.work.is_empty();
        let own = thread.state.access_mut(&mut state);
        own.looper.poll();
        let has_own_work = own.ends_wait();
        let takes_common_work = own.is_available() && has_common_work;
        drop(state);
        has_own_work || takes_common_work || read_once(&thread.must_return)
    }
}
