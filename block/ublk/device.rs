// SPDX-License-Identifier: GPL-2.0

//! A device: a disk whose requests a server handles.
//!
//! Locks, outermost first: [`Device::life`], which is held while disks are added and removed;
//! [`Device::server`], which is held for a short time, and by servers that fetch.

use crate::{
    control::Registered,
    edge::{
        abi::{flags, io, part, state, Info, Parameters},
        ids, is_admin, memory,
        trace::Name,
        works, Closed, Command, Context, Descriptors, Disk, Left, Process, Queues, Slot,
    },
    params,
    queue::{Policy, Queue, Recovery, Ways, LOST},
};
use kernel::{
    mm::Mm,
    new_condvar, new_mutex,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{Atomic, Relaxed},
        Arc, ArcBorrow, CondVar, Mutex, MutexGuard,
    },
    time::{delay::fsleep, Delta},
    workqueue::{impl_has_work, new_work, Work, WorkItem},
};

/// Between looks at whether a server knows that it has to end.
const PAUSE_MS: i64 = 3;

/// What a device is doing.
enum Life {
    /// It has no disk.
    Dead,
    Live(Arc<Disk>),
    /// The server has ended, and another may come.
    Orphaned(Arc<Disk>),
}

impl Life {
    fn disk(&self) -> Option<&Arc<Disk>> {
        match self {
            Self::Dead => None,
            Self::Live(disk) | Self::Orphaned(disk) => Some(disk),
        }
    }
}

/// What a device is, and is set to.
struct Settings {
    life: Life,
    parameters: Option<Parameters>,
}

/// A process that has the device's file open.
struct Server {
    process: Process,
    /// Of the only one that may map descriptors.
    memory: Option<ARef<Mm>>,
    /// Slots that were fetched.
    ready: usize,
    /// A task without privileges has fetched.
    is_unprivileged: bool,
    /// It was told to end.
    is_leaving: bool,
    /// Threads that are ending its commands.
    cancelling: u32,
}

/// A device.
#[pin_data]
pub(crate) struct Device {
    pub(crate) queues: Pin<KBox<Queues>>,
    info: Info,
    policy: Arc<Policy>,
    #[pin]
    life: Mutex<Settings>,
    #[pin]
    server: Mutex<Option<Server>>,
    /// Of the server: it is ready, leaves, or is gone.
    #[pin]
    changed: CondVar,
    /// A disk was added, and somebody still has it.
    has_disk: Atomic<bool>,
    pub(crate) is_closed: Closed,
    #[pin]
    server_is_gone: Work<Device, 1>,
    #[pin]
    scan: Work<Device, 2>,
    /// Frees the number at last.
    _registered: Registered,
}

impl_has_work! {
    impl HasWork<Self, 1> for Device { self.server_is_gone }
    impl HasWork<Self, 2> for Device { self.scan }
}

impl WorkItem<1> for Device {
    type Pointer = Arc<Self>;

    fn run(device: Arc<Self>) {
        device.server_has_ended();
    }
}

impl WorkItem<2> for Device {
    type Pointer = Arc<Self>;

    fn run(device: Arc<Self>) {
        let disk = device.life.lock().life.disk().cloned();
        if let Some(disk) = disk {
            disk.scan();
        }
    }
}

impl Device {
    /// Makes a device as checked information describes it. `ENOMEM`. Sleeps.
    pub(crate) fn new(info: Info, registered: Registered) -> Result<Arc<Self>> {
        let has = |flag| info.flags & flag != 0;
        let ways = Ways {
            copies: !has(flags::WITHOUT_COPY),
            asks: has(flags::NEED_GET_DATA),
            user_copy: has(flags::USER_COPY),
            zero_copy: has(flags::ZERO_COPY),
            auto_buffers: has(flags::AUTO_BUFFERS),
        };
        let policy = Policy::new(recovery_of(info.flags))?;
        let mut queues = KVec::with_capacity(info.queues.into(), GFP_KERNEL)?;
        for queue in 0..info.queues {
            let name = Name {
                device: info.id,
                queue,
            };
            let (depth, size) = (info.depth, info.descriptor_size);
            let queue = Queue::new(depth, size, ways, policy.clone(), name)?;
            queues.push(queue, GFP_KERNEL)?;
        }
        let queues = Queues::new(queues, info.depth)?;
        let settings = Settings {
            life: Life::Dead,
            parameters: None,
        };
        let init = pin_init!(Self {
            queues,
            info,
            policy,
            life <- new_mutex!(settings, "ublk life"),
            server <- new_mutex!(None, "ublk server"),
            changed <- new_condvar!("ublk changed"),
            has_disk: Atomic::new(false),
            is_closed: Closed::new(),
            server_is_gone <- new_work!("ublk server is gone"),
            scan <- new_work!("ublk scan"),
            _registered: registered,
        });
        Arc::pin_init(init, GFP_KERNEL)
    }

    fn has(&self, flag: u64) -> bool {
        self.info.flags & flag != 0
    }

    pub(crate) fn number(&self) -> u32 {
        self.info.id
    }

    pub(crate) fn is_unprivileged(&self) -> bool {
        self.has(flags::UNPRIVILEGED)
    }

    /// Returns whether the device is of a user, who is not the task's.
    pub(crate) fn is_of_other_user(&self) -> bool {
        self.is_unprivileged() && ids() != (self.info.uid, self.info.gid)
    }

    #[inline(always)]
    pub(crate) fn queue(&self, number: u16) -> Option<&Queue> {
        self.queues.all().get(usize::from(number))
    }

    /// Returns how data get to the server.
    pub(crate) fn ways(&self) -> &Ways {
        // A device has at least one queue.
        &self.queues.all()[0].ways
    }

    fn slots(&self) -> usize {
        self.queues.all().len() * usize::from(self.info.depth)
    }
}

/// What user space asks for.
impl Device {
    /// Returns what is known of the device.
    pub(crate) fn info(&self) -> Info {
        let settings = self.life.lock();
        let mut info = self.info;
        info.state = match settings.life {
            Life::Dead => state::DEAD,
            Life::Live(_) => state::LIVE,
            Life::Orphaned(_) if self.policy.recovery == Recovery::Fail => state::FAILING,
            Life::Orphaned(_) => state::QUIESCED,
        };
        let is_served = settings.life.disk().is_some();
        let server = self.server.lock();
        info.server = match &*server {
            Some(server) if is_served => server.process.number(),
            _ => -1,
        };
        info
    }

    /// `EACCES` if there is a disk, `EINVAL` if the device cannot have such parameters.
    pub(crate) fn set_parameters(&self, parameters: Parameters) -> Result {
        let mut settings = self.life.lock();
        if self.has_disk.load(Relaxed) {
            return Err(EACCES);
        }
        settings.parameters = None;
        let checked = params::checked(parameters, self.info.flags, self.info.most_bytes)?;
        settings.parameters = Some(checked);
        Ok(())
    }

    /// Returns the parameters, with the numbers of files.
    pub(crate) fn parameters(&self, file_major: u32) -> Parameters {
        let settings = self.life.lock();
        let mut parameters = settings.parameters.unwrap_or_default();
        parameters.parts |= part::NUMBERS;
        parameters.numbers.file_major = file_major;
        parameters.numbers.file_minor = self.number();
        if let Some(disk) = settings.life.disk() {
            (parameters.numbers.disk_major, parameters.numbers.disk_minor) = disk.number();
        }
        parameters
    }

    /// Waits for the server, which is this process for the task, and adds the disk.
    ///
    /// `EINVAL` for another process or without parameters, `EEXIST` if there is a disk, `EBUSY` if the
    /// server was told to end, `EINTR`. Sleeps.
    pub(crate) fn start(self: &Arc<Self>, process: i32) -> Result {
        if process <= 0 || self.life.lock().parameters.is_none() {
            return Err(EINVAL);
        }
        let mut settings = self.wait_for_server()?;
        let parameters = settings.parameters.ok_or(EINVAL)?;
        let is_unprivileged = self.check_server(process)?;
        if self.has_disk.load(Relaxed) {
            return Err(EEXIST);
        }
        if self.policy.is_leaving.load(Relaxed) {
            return Err(EBUSY);
        }
        self.policy.serve();
        let disk = Arc::new(
            Disk::add(params::shape(&parameters), self.number(), self.clone())?,
            GFP_KERNEL,
        )?;
        self.has_disk.store(true, Relaxed);
        settings.life = Life::Live(disk.clone());
        drop(settings);
        if !is_unprivileged {
            match self.has(flags::NO_PARTITION_SCAN) {
                true => disk.allow_scan(),
                // It is queued already only if it has not begun, and then it finds this disk.
                false => {
                    let _ = works().enqueue::<Arc<Self>, 2>(self.clone());
                }
            }
        }
        Ok(())
    }

    /// Waits until all slots are fetched, or the server is told to end. `EINTR`.
    fn wait_for_server(&self) -> Result<MutexGuard<'_, Settings>> {
        let is_there = |server: &Option<Server>| {
            server
                .as_ref()
                .is_some_and(|server| server.ready == self.slots() || server.is_leaving)
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
    fn check_server(&self, process: i32) -> Result<bool> {
        let server = self.server.lock();
        let server = server.as_ref().ok_or(EINVAL)?;
        match server.process.is(process) {
            true => Ok(server.is_unprivileged),
            false => Err(EINVAL),
        }
    }

    /// Removes the disk, and tells the server to end. Waits for all requests.
    pub(crate) fn stop(&self) {
        let mut settings = self.life.lock();
        self.remove_disk(&mut settings);
        drop(settings);
        self.dismiss_server();
    }

    fn remove_disk(&self, settings: &mut MutexGuard<'_, Settings>) {
        let life = core::mem::replace(&mut settings.life, Life::Dead);
        if let Life::Live(disk) | Life::Orphaned(disk) = life {
            self.policy.stop();
            disk.kick();
            disk.remove();
        }
    }

    /// The same, unless somebody has the disk open: `EBUSY`. `ENODEV` if there is none.
    pub(crate) fn try_stop(&self) -> Result {
        let disk = self.life.lock().life.disk().cloned().ok_or(ENODEV)?;
        disk.close(&self.is_closed)?;
        drop(disk);
        self.stop();
        Ok(())
    }

    /// Tells the server to end, if there is one: its commands end, and it gets no more requests.
    fn dismiss_server(&self) {
        let mut server = self.server.lock();
        let Some(present) = &mut *server else {
            return;
        };
        present.is_leaving = true;
        // While this is counted, the server is not replaced by another, whose commands these were.
        present.cancelling += 1;
        self.policy.end_serving();
        self.policy.is_leaving.store(true, Relaxed);
        drop(server);
        self.changed.notify_all();
        for queue in self.queues.all() {
            queue.cancel();
        }
        if let Some(present) = &mut *self.server.lock() {
            present.cancelling -= 1;
        }
        self.changed.notify_all();
    }

    /// Tells the server to end, but keeps the disk for the next one. Waits until it was told in each
    /// queue, at most for so many milliseconds: `EBUSY`; 0 is for ever. `EINTR`.
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
            Life::Live(_) => drop(settings),
        }
        self.dismiss_server();
        let mut waited = 0;
        while self.server.lock().is_some() {
            if self
                .queues
                .all()
                .iter()
                .all(|queue| queue.is_told.load(Relaxed))
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

    /// Changes the size of the disk. `ENODEV` if there is none.
    pub(crate) fn resize(&self, sectors: u64) -> Result {
        let mut settings = self.life.lock();
        settings.life.disk().ok_or(ENODEV)?.resize(sectors);
        if let Some(parameters) = &mut settings.parameters {
            parameters.basic.sectors = sectors;
        }
        Ok(())
    }

    /// Checks that another server may come. `EINVAL` if the device does not allow that, `EBUSY` while
    /// there is a server.
    pub(crate) fn start_recovery(&self) -> Result {
        let settings = self.life.lock();
        if self.policy.recovery == Recovery::None {
            return Err(EINVAL);
        }
        match settings.life {
            Life::Orphaned(_) if self.server.lock().is_none() => Ok(()),
            _ => Err(EBUSY),
        }
    }

    /// Waits for the next server, which is this process for the task, and lets requests go on.
    ///
    /// `EINVAL` for another process, or if the device does not allow that, `EBUSY` if it was not
    /// without a server, or this one was told to end, `EINTR`. Sleeps.
    pub(crate) fn end_recovery(&self, process: i32) -> Result {
        let mut settings = self.wait_for_server()?;
        self.check_server(process)?;
        if self.policy.recovery == Recovery::None {
            return Err(EINVAL);
        }
        let Life::Orphaned(disk) = &settings.life else {
            return Err(EBUSY);
        };
        if self.policy.is_leaving.load(Relaxed) {
            return Err(EBUSY);
        }
        let disk = disk.clone();
        self.policy.serve();
        disk.kick();
        settings.life = Life::Live(disk);
        Ok(())
    }
}

/// What the block layer asks for.
impl Device {
    /// Nobody has the disk any more.
    pub(crate) fn disk_is_free(&self) {
        self.has_disk.store(false, Relaxed);
    }

    /// A request takes long. A server without privileges, which may do that on purpose, is killed.
    /// Returns whether it was.
    pub(crate) fn request_takes_long(&self) -> bool {
        if !self.is_unprivileged() {
            return false;
        }
        match self.server.lock().as_ref() {
            Some(server) => server.process.kill(),
            None => return false,
        }
        true
    }
}

/// What a server's file asks for.
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
            is_leaving: false,
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
        let each = Descriptors::most_size(self.info.descriptor_size) as u64;
        let number = u16::try_from(position / each)?;
        Ok(&self.queue(number).ok_or(EINVAL)?.descriptors)
    }

    /// Takes the first command for a slot, with the address for its request.
    ///
    /// Gives it back with `ENODEV` if the server was told to end, `EBUSY` if all slots were fetched, and
    /// `EINVAL` if this one was.
    pub(crate) fn fetch(
        &self,
        slot: &Slot,
        command: Command,
        address: u64,
    ) -> Result<(), (i32, Command)> {
        let mut server = self.server.lock();
        let present = match &mut *server {
            Some(present) if present.is_leaving => return Err((io::ABORT, command)),
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

    /// Ends what a server has left.
    fn server_has_ended(&self) {
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
            settings.life = Life::Orphaned(disk.clone());
        }
        let mut server = self.server.lock();
        while server.as_ref().is_some_and(|server| server.cancelling != 0) {
            self.changed.wait(&mut server);
        }
        for queue in self.queues.all() {
            queue.is_told.store(false, Relaxed);
        }
        self.policy.is_leaving.store(false, Relaxed);
        let ended = server.take();
        drop(server);
        drop(settings);
        drop(ended);
        self.changed.notify_all();
    }
}

/// Returns what flags say of a device whose server is gone.
fn recovery_of(all: u64) -> Recovery {
    match all & (flags::RECOVERY | flags::RECOVERY_REISSUE | flags::RECOVERY_FAIL) {
        0 => Recovery::None,
        flags::RECOVERY => Recovery::Wait,
        reissue if reissue & flags::RECOVERY_REISSUE != 0 => Recovery::Reissue,
        _ => Recovery::Fail,
    }
}
