// SPDX-License-Identifier: GPL-2.0

//! A device: a disk whose requests a server handles.
//!
//! Locks, outermost first: [`Device::life`], which is held while disks are added and removed;
//! [`Device::server`], which is held for a short time, and by servers that fetch.

mod server;

use self::server::Server;
use crate::{
    control::Registered,
    edge::{
        abi::{flags, part, state, Info, Parameters},
        ids,
        trace::QueueName,
        works, Closed, Disk, Queues, Slot,
    },
    params,
    policy::{Policy, Recovery},
    queue::{Queue, Ways},
};
use kernel::{
    new_condvar, new_mutex,
    prelude::*,
    sync::{
        atomic::{Acquire, Atomic, Relaxed, Release},
        Arc, CondVar, Mutex, MutexGuard, UniqueArc,
    },
    workqueue::{impl_has_work, new_work, Work, WorkItem},
};

/// The state of a device.
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

/// The state and the parameters of a device.
struct Settings {
    life: Life,
    parameters: Option<Parameters>,
    /// The table of partitions is read by a work.
    scans: bool,
    /// The device is being deleted.
    has_ended: bool,
}

/// A device.
#[pin_data]
pub(crate) struct Device {
    pub(crate) queues: Pin<KBox<Queues>>,
    info: Info,
    policy: Arc<Policy>,
    #[pin]
    life: Mutex<Settings>,
    /// The same as [`Settings::life`], for readers that must not wait for the lock.
    state: Atomic<u32>,
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
        let settings = device.life.lock();
        let disk = settings.life.disk().filter(|_| settings.scans).cloned();
        drop(settings);
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
            needs_get_data: has(flags::NEED_GET_DATA),
            user_copy: has(flags::USER_COPY),
            zero_copy: has(flags::ZERO_COPY),
            auto_buffers: has(flags::AUTO_BUFFERS),
        };
        let policy = Policy::new(recovery_of(info.flags), has(flags::UNPRIVILEGED))?;
        let mut queues = KVec::with_capacity(info.queues.into(), GFP_KERNEL)?;
        for queue in 0..info.queues {
            let name = QueueName {
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
            scans: false,
            has_ended: false,
        };
        let init = pin_init!(Self {
            queues,
            info,
            policy,
            life <- new_mutex!(settings, "ublk life"),
            state: Atomic::new(state::DEAD.into()),
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

/// Commands of user space.
impl Device {
    /// Returns what is known of the device. Waits for no request.
    pub(crate) fn info(&self) -> Info {
        let mut info = self.info;
        info.state = self.state.load(Relaxed) as u16;
        info.server = match &*self.server.lock() {
            Some(server) if info.state == state::LIVE => server.process.number(),
            _ => -1,
        };
        info
    }

    fn set_life(&self, settings: &mut MutexGuard<'_, Settings>, life: Life) {
        let state = match life {
            Life::Dead => state::DEAD,
            Life::Live(_) => state::LIVE,
            Life::Orphaned(_) if self.policy.recovery == Recovery::Fail => state::FAILING,
            Life::Orphaned(_) => state::QUIESCED,
        };
        settings.life = life;
        self.state.store(state.into(), Relaxed);
    }

    /// `EACCES` if there is a disk, `EINVAL` if the device cannot have such parameters.
    pub(crate) fn set_parameters(&self, parameters: Parameters) -> Result {
        let mut settings = self.life.lock();
        if self.has_disk.load(Relaxed) {
            return Err(EACCES);
        }
        settings.parameters = None;
        let checked = params::checked(parameters, self.info.most_bytes)?;
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
    /// server has to end, `ENODEV` if the device is being deleted, `EINTR`. Sleeps.
    pub(crate) fn start(self: &Arc<Self>, process: i32) -> Result {
        if process <= 0 || self.life.lock().parameters.is_none() {
            return Err(EINVAL);
        }
        let mut settings = self.wait_for_server()?;
        let parameters = settings.parameters.ok_or(EINVAL)?;
        let is_unprivileged = self.check_server(process)?;
        if settings.has_ended {
            return Err(ENODEV);
        }
        if self.has_disk.load(Acquire) {
            return Err(EEXIST);
        }
        if self.policy.is_leaving.load(Relaxed) {
            return Err(EBUSY);
        }
        self.policy.serve();
        let place = UniqueArc::<Disk>::new_uninit(GFP_KERNEL)?;
        let disk = Disk::add(params::shape(&parameters), self.number(), self.clone())?;
        let disk = Arc::from(place.write(disk));
        self.has_disk.store(true, Relaxed);
        self.set_life(&mut settings, Life::Live(disk.clone()));
        settings.scans = !is_unprivileged && !self.has(flags::NO_PARTITION_SCAN);
        if settings.scans {
            // It is queued already only if it has not begun, and then it finds this disk.
            let _ = works().enqueue::<Arc<Self>, 2>(self.clone());
        } else if !is_unprivileged {
            disk.allow_scan();
        }
        Ok(())
    }

    /// Removes the disk, and ends the commands of the server. Waits for all requests.
    pub(crate) fn stop(&self) {
        self.stop_with(self.life.lock());
    }

    /// The same, and the device gets no other disk.
    pub(crate) fn end(&self) {
        let mut settings = self.life.lock();
        settings.has_ended = true;
        self.stop_with(settings);
    }

    fn stop_with(&self, mut settings: MutexGuard<'_, Settings>) {
        self.remove_disk(&mut settings);
        // Nobody starts the disk again with this server.
        let is_there = self.begin_dismissal();
        drop(settings);
        if is_there {
            self.end_commands();
        }
    }

    fn remove_disk(&self, settings: &mut MutexGuard<'_, Settings>) {
        if let Some(disk) = settings.life.disk().cloned() {
            self.policy.stop();
            disk.kick();
            disk.remove();
            self.set_life(settings, Life::Dead);
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
    /// without a server, or this one has to end, `EINTR`. Sleeps.
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
        self.set_life(&mut settings, Life::Live(disk));
        Ok(())
    }
}

/// Calls of the block layer.
impl Device {
    /// Nobody has the disk any more.
    pub(crate) fn disk_is_free(&self) {
        self.has_disk.store(false, Release);
    }

    /// The request of a slot takes long. A server without privileges, which may do that on purpose, is
    /// killed.
    pub(crate) fn request_takes_long(&self, slot: &Slot) {
        if self.is_unprivileged() {
            let _server = self.server.lock();
            slot.kill_task();
        }
    }
}

/// Returns the kind of recovery by a device's flags.
fn recovery_of(all: u64) -> Recovery {
    let has = |flag| all & flag != 0;
    match has(flags::RECOVERY) {
        false => Recovery::None,
        true if has(flags::RECOVERY_REISSUE) => Recovery::Reissue,
        true if has(flags::RECOVERY_FAIL) => Recovery::Fail,
        true => Recovery::Wait,
    }
}
