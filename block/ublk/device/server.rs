// SPDX-License-Identifier: GPL-2.0

//! The server of a device: a process that has its file open.

use super::{Device, Life, Settings};
use crate::{
    edge::{
        abi::{flags, io, MOST_DEPTH},
        is_admin, memory, size_of_descriptors, wait_for_all_cpus, works, Command, Context,
        Descriptors, Left, Process, Slot,
    },
    policy::Recovery,
    queue::LOST,
};
use kernel::{
    mm::Mm,
    prelude::*,
    sync::{aref::ARef, atomic::Relaxed, Arc, ArcBorrow, MutexGuard},
    time::{delay::fsleep, Delta},
};

/// Between looks at whether commands of all queues have ended.
const PAUSE_MS: i64 = 3;

/// A process that has the device's file open.
pub(super) struct Server {
    pub(super) process: Process,
    /// Of the only one that may map descriptors.
    memory: Option<ARef<Mm>>,
    /// Slots that were fetched.
    ready: usize,
    /// A task without privileges has fetched.
    is_unprivileged: bool,
    /// Threads that are ending its commands.
    cancelling: u32,
}

/// Its file.
impl Device {
    /// The task's process becomes the server. `EBUSY` if there is one.
    pub(crate) fn open(&self) -> Result {
        let mut server = self.server.lock();
        if server.is_some() {
            return Err(EBUSY);
        }
        *server = Some(Server {
            process: Process::current(),
            memory: None,
            ready: 0,
            is_unprivileged: false,
            cancelling: 0,
        });
        Ok(())
    }

    /// The file is closed. A thread of its own ends what the server has left, for its own ends may wait
    /// for the disk's requests.
    pub(crate) fn release(self: ArcBorrow<'_, Self>) {
        // The file is open once at a time, until this work has ended.
        let _ = works().enqueue::<Arc<Self>, 1>(self.into());
    }

    /// Returns the descriptors that are mapped at a place of the file. `EINVAL` if there are none, or
    /// for another process than the first.
    pub(crate) fn descriptors_at(&self, position: u64) -> Result<&Descriptors> {
        let task = memory()?;
        let mut server = self.server.lock();
        let Some(present) = &mut *server else {
            return Err(EINVAL);
        };
        let first = present.memory.get_or_insert(task.clone());
        if first.as_raw() != task.as_raw() {
            return Err(EINVAL);
        }
        let each = size_of_descriptors(MOST_DEPTH, self.info.descriptor_size) as u64;
        let number = u16::try_from(position / each)?;
        Ok(&self.queue(number).ok_or(EINVAL)?.descriptors)
    }

    /// Takes the first command for a slot, with the address for its request.
    ///
    /// Gives it back with `ENODEV` if the server has to end, `EBUSY` if all slots were fetched, and
    /// `EINVAL` if this one was.
    pub(crate) fn fetch(
        &self,
        slot: &Slot,
        command: Command,
        address: u64,
    ) -> Result<(), (i32, Command)> {
        let mut server = self.server.lock();
        let present = match &mut *server {
            Some(_) if self.policy.is_leaving.load(Relaxed) => return Err((io::ABORT, command)),
            Some(present) if present.ready < self.slots() => present,
            _ => return Err((EBUSY.to_errno(), command)),
        };
        slot.fetch(command, address)
            .map_err(|command| (EINVAL.to_errno(), command))?;
        present.ready += 1;
        present.is_unprivileged |= !is_admin();
        if present.ready == self.slots() {
            drop(server);
            self.changed.notify_all();
        }
        Ok(())
    }
}

/// Its begin.
impl Device {
    /// Waits until all slots are fetched, or the server has to end. `EINTR`.
    pub(super) fn wait_for_server(&self) -> Result<MutexGuard<'_, Settings>> {
        let is_there = |server: &Option<Server>| {
            server.as_ref().is_some_and(|server| {
                server.ready == self.slots() || self.policy.is_leaving.load(Relaxed)
            })
        };
        loop {
            let mut server = self.server.lock();
            while !is_there(&server) {
                if self.changed.wait_interruptible(&mut server) {
                    return Err(EINTR);
                }
            }
            drop(server);
            let settings = self.life.lock();
            let server = self.server.lock();
            if is_there(&server) {
                drop(server);
                return Ok(settings);
            }
        }
    }

    /// Returns whether the server has no privileges. `EINVAL` if it is another process.
    pub(super) fn check_server(&self, process: i32) -> Result<bool> {
        let server = self.server.lock();
        let server = server.as_ref().ok_or(EINVAL)?;
        match server.process.is(process) {
            true => Ok(server.is_unprivileged),
            false => Err(EINVAL),
        }
    }
}

/// Its end.
impl Device {
    /// Marks the server as one that has to end: it gets no more requests for those that it gives back.
    /// Returns whether there is one; [`Self::end_commands`] has to follow then.
    pub(super) fn begin_dismissal(&self) -> bool {
        let mut server = self.server.lock();
        let Some(present) = &mut *server else {
            return false;
        };
        // While this is counted, the server is not replaced by another, whose commands would be ended.
        present.cancelling += 1;
        self.policy.end_serving();
        self.policy.is_leaving.store(true, Relaxed);
        true
    }

    /// Ends the commands that wait for requests.
    pub(super) fn end_commands(&self) {
        // Who lets a command wait looks at the mark then. Behind this, it has seen the mark, or its
        // command is seen here.
        wait_for_all_cpus();
        self.changed.notify_all();
        for queue in self.queues.all() {
            queue.cancel();
        }
        if let Some(present) = &mut *self.server.lock() {
            present.cancelling -= 1;
        }
        self.changed.notify_all();
    }

    /// Ends the commands of the server, and keeps the disk for the next one. Waits until one command of
    /// each queue has ended, at most for so many milliseconds: `EBUSY`; 0 is for ever. `EINTR`.
    ///
    /// `EOPNOTSUPP` if the device is not made for this, `ENODEV` if it has no disk.
    pub(crate) fn quiesce(&self, most_ms: u64) -> Result {
        if !self.has(flags::QUIESCE) {
            return Err(EOPNOTSUPP);
        }
        let settings = self.life.lock();
        match settings.life {
            Life::Dead => return Err(ENODEV),
            Life::Orphaned(_) => return Ok(()),
            Life::Live(_) => {}
        }
        let is_there = self.begin_dismissal();
        drop(settings);
        if is_there {
            self.end_commands();
        }
        let mut waited = 0;
        while self.policy.is_leaving.load(Relaxed) {
            if self
                .queues
                .all()
                .iter()
                .all(|queue| queue.has_ended_command.load(Relaxed))
            {
                break;
            }
            if current!().signal_pending() {
                return Err(EINTR);
            }
            if most_ms != 0 && waited >= most_ms {
                return Err(EBUSY);
            }
            fsleep(Delta::from_millis(PAUSE_MS));
            waited += PAUSE_MS as u64;
        }
        Ok(())
    }

    /// Ends what a server has left.
    pub(super) fn server_has_ended(&self) {
        self.policy.end_serving();
        for queue in self.queues.all() {
            for (tag, slot) in queue.slots().iter().enumerate() {
                match slot.clear(LOST) {
                    Left::Nothing => {}
                    // CAST: There are at most 4096.
                    Left::Request(share) => queue.end_share(tag as u16, share),
                    Left::Command(command) => queue.cancel_command(command, Context::ANYWHERE),
                }
            }
        }
        let mut settings = self.life.lock();
        if self.policy.recovery == Recovery::None {
            self.remove_disk(&mut settings);
        } else if let Life::Live(disk) = &settings.life {
            let disk = disk.clone();
            self.set_life(&mut settings, Life::Orphaned(disk));
        }
        let mut server = self.server.lock();
        while server.as_ref().is_some_and(|server| server.cancelling != 0) {
            self.changed.wait(&mut server);
        }
        for queue in self.queues.all() {
            queue.has_ended_command.store(false, Relaxed);
            for slot in queue.slots() {
                slot.clear_task();
            }
        }
        self.policy.begin_again();
        let ended = server.take();
        drop(server);
        drop(settings);
        drop(ended);
        self.changed.notify_all();
    }
}
