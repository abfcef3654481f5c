// SPDX-License-Identifier: GPL-2.0
//! The scheduling of an actor's thread, read and changed from outside at any time.

use crate::actor::Actor;
use nix::errno::Errno;
use nix::sched::{sched_setaffinity, CpuSet};
use nix::unistd::Pid;

/// The flag in a policy that children do not inherit.
const RESET_ON_FORK: i32 = libc::SCHED_RESET_ON_FORK;

/// The policy of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// It shares, with this nice value.
    Nice(i32),
    /// It does not, and runs until it waits.
    Fifo(i32),
    /// It takes turns with others of its priority.
    RoundRobin(i32),
}

pub use Schedule::{Fifo, Nice, RoundRobin};

/// The argument of `sched_setattr(2)`, second version; 32-bit C libraries have no such struct.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Its size, which [`Actor::set_attributes`] fills in.
    pub size: u32,
    /// The policy, without a flag.
    pub policy: u32,
    /// The fields that are meant, and whether children inherit them.
    pub flags: u64,
    /// The nice value.
    pub nice: i32,
    /// The real-time priority.
    pub priority: u32,
    /// Nanoseconds: of a deadline, and the slice of a thread that shares.
    pub runtime: u64,
    pub deadline: u64,
    pub period: u64,
    /// The utilization that the scheduler shall assume for the thread: at least, and at most.
    pub util_min: u32,
    pub util_max: u32,
}

impl Attributes {
    /// Both bounds of the need are meant.
    pub const CLAMPS: u64 = 0x60;
    /// Policy and parameters are not.
    pub const KEEP_ALL: u64 = 0x18;

    /// A quarter of a CPU, with an end 40 ms after each beginning.
    pub fn with_deadline() -> Self {
        let (runtime, deadline) = (10_000_000, 40_000_000);
        Self { policy: 6, runtime, deadline, period: deadline, ..Self::default() }
    }
}

/// Changes the policy of a thread.
pub fn set_policy(tid: Pid, policy: i32, priority: i32) {
    let parameter = libc::sched_param { sched_priority: priority };
    // SAFETY: the kernel reads the parameter, which lives long enough.
    let result = unsafe { libc::sched_setscheduler(tid.as_raw(), policy, &parameter) };
    Errno::result(result).expect("sched_setscheduler");
}

impl Actor {
    /// The thread's nice value, which also one has that does not share.
    pub fn nice(&self) -> i32 {
        Errno::clear();
        // SAFETY: no memory is involved.
        let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, self.tid() as libc::id_t) };
        assert_eq!(Errno::last_raw(), 0, "getpriority");
        nice
    }

    /// The thread's policy.
    pub fn schedule(&self) -> Schedule {
        let mut parameter = libc::sched_param { sched_priority: 0 };
        // SAFETY: the kernel fills the parameter, which lives long enough.
        let result = unsafe { libc::sched_getparam(self.tid(), &mut parameter) };
        Errno::result(result).expect("look at the priority");
        match self.policy() & !RESET_ON_FORK {
            libc::SCHED_FIFO => Fifo(parameter.sched_priority),
            libc::SCHED_RR => RoundRobin(parameter.sched_priority),
            _ => Nice(self.nice()),
        }
    }

    /// The policy and its flag.
    pub fn policy(&self) -> i32 {
        // SAFETY: no memory is involved.
        let policy = unsafe { libc::sched_getscheduler(self.tid()) };
        Errno::result(policy).expect("look at the policy")
    }

    /// Returns whether children of the thread start with an ordinary policy.
    pub fn resets_on_fork(&self) -> bool {
        self.policy() & RESET_ON_FORK != 0
    }

    /// Changes how the thread is scheduled.
    pub fn set_schedule(&self, wanted: Schedule) {
        match wanted {
            Nice(nice) => {
                self.set_policy(libc::SCHED_OTHER, 0);
                // SAFETY: no memory is involved.
                let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, self.tid() as libc::id_t, nice) };
                Errno::result(result).expect("setpriority");
            }
            Fifo(priority) => self.set_policy(libc::SCHED_FIFO, priority),
            RoundRobin(priority) => self.set_policy(libc::SCHED_RR, priority),
        }
        assert_eq!(self.schedule(), wanted);
    }

    /// Keeps the thread on one CPU.
    pub fn pin(&self, cpu: usize) {
        pin(Pid::from_raw(self.tid()), cpu);
    }

    /// Changes the policy, nothing else.
    pub fn set_policy(&self, policy: i32, priority: i32) {
        set_policy(Pid::from_raw(self.tid()), policy, priority);
    }

    /// All attributes that the kernel returns.
    pub fn attributes(&self) -> Attributes {
        let mut seen = Attributes::default();
        let (size, none) = (size_of::<Attributes>(), 0);
        // SAFETY: the kernel fills the struct, whose size is an argument.
        let result = unsafe { libc::syscall(libc::SYS_sched_getattr, self.tid(), &raw mut seen, size, none) };
        Errno::result(result).expect("sched_getattr");
        seen
    }

    /// Changes them.
    pub fn set_attributes(&self, wanted: Attributes) -> nix::Result<()> {
        let wanted = Attributes { size: size_of::<Attributes>() as u32, ..wanted };
        // SAFETY: the kernel reads the struct, which lives long enough.
        let result = unsafe { libc::syscall(libc::SYS_sched_setattr, self.tid(), &raw const wanted, 0) };
        Errno::result(result).map(drop)
    }

    /// Makes the process an ordinary user's, whose threads may choose nice values from `nice` on (20:
    /// none) and real-time priorities up to `real_time`.
    pub fn restrict(&self, nice: i32, real_time: u64) {
        self.limit_nice(nice);
        self.set_limit(libc::RLIMIT_RTPRIO, real_time);
        self.number(crate::ops::Op::SetUser { uid: 1000 }).expect("become another user");
    }

    /// Permits the process's threads to choose nice values from `nice` on, without other rights.
    pub fn limit_nice(&self, nice: i32) {
        self.set_limit(libc::RLIMIT_NICE, (20 - nice) as u64);
    }

    /// Sets a limit of the process, the soft and the hard one.
    pub fn set_limit(&self, resource: libc::__rlimit_resource_t, value: u64) {
        // The type is 32 bits wide for 32-bit tasks.
        let value = value as libc::rlim_t;
        let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
        // SAFETY: the kernel reads the limit, which lives long enough, and fills nothing.
        let result = unsafe { libc::prlimit(self.pid(), resource, &limit, std::ptr::null_mut()) };
        Errno::result(result).expect("prlimit");
    }
}

/// Keeps a thread on one CPU; thread 0 is the calling one.
pub fn pin(thread: Pid, cpu: usize) {
    allow(thread, &[cpu]);
}

/// Keeps actors on the first CPU.
pub fn share_a_cpu<'a>(actors: impl IntoIterator<Item = &'a Actor>) {
    actors.into_iter().for_each(|actor| actor.pin(0));
}

/// Restricts a thread to these CPUs. A sleeping thread stays where it is until it is woken.
pub fn allow(thread: Pid, cpus: &[usize]) {
    let mut only = CpuSet::new();
    for cpu in cpus {
        only.set(*cpu).expect("a CPU");
    }
    sched_setaffinity(thread, &only).expect("change where it may run");
}
