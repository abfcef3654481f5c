// SPDX-License-Identifier: GPL-2.0

//! Commands that add, change and delete devices.

use crate::{
    device::Device,
    edge::{
        abi::{
            control, flags, ControlCommand, Descriptor, Info, Parameters, MOST_DEPTH,
            MOST_DESCRIPTOR_SIZE, MOST_QUEUES,
        },
        check_path, file_major, ids, is_admin, most_unprivileged, name, DeviceFile, Issued, Number,
    },
    latency::Latency,
};
use kernel::{
    cpu::nr_cpu_ids,
    debugfs::{Dir, Scope},
    new_condvar, new_mutex,
    page::PAGE_MASK,
    prelude::*,
    rbtree::{RBTree, RBTreeNodeReservation},
    str::CString,
    sync::{Arc, ArcBorrow, CondVar, Mutex},
    transmute::{AsBytes, FromBytes},
    uaccess::{UserPtr, UserSlice},
};

/// The length of a path with its NUL is not more.
const MOST_PATH: u16 = 4096;
/// Minors of files have so many bits.
const MINOR_BITS: u32 = 20;
/// The queue of a command that is for none.
const NO_QUEUE: u16 = u16::MAX;
/// The number of a command that leaves the choice to the driver.
const ANY_NUMBER: u32 = u32::MAX;

/// A device and its files.
struct Added {
    device: Arc<Device>,
    _file: DeviceFile,
    _latency: Pin<KBox<Scope<Latency>>>,
}

/// All devices.
struct Devices {
    /// Also the numbers of devices that were deleted and are still used.
    by_number: RBTree<u32, Option<Added>>,
    /// Devices of users without privileges.
    unprivileged: u32,
}

/// The devices, and what they have in common.
#[pin_data]
pub(crate) struct Control {
    #[pin]
    devices: Mutex<Devices>,
    /// A number is free again.
    #[pin]
    freed: CondVar,
    /// In debugfs.
    dir: Dir,
}

/// The number of a device, which is free again when this value is dropped.
pub(crate) struct Registered {
    control: Arc<Control>,
    /// Taken while the value is there.
    number: Option<Number>,
    is_unprivileged: bool,
}

impl Drop for Registered {
    fn drop(&mut self) {
        let number = self.number.take();
        let mut devices = self.control.devices.lock();
        let entry = number
            .as_ref()
            .and_then(|number| devices.by_number.remove_node(&number.get()));
        devices.unprivileged -= u32::from(self.is_unprivileged);
        drop(number);
        drop(devices);
        drop(entry);
        self.control.freed.notify_all();
    }
}

impl Control {
    pub(crate) fn new() -> Result<Arc<Self>> {
        let devices = Devices {
            by_number: RBTree::new(),
            unprivileged: 0,
        };
        let init = pin_init!(Self {
            devices <- new_mutex!(devices, "ublk devices"),
            freed <- new_condvar!("ublk freed"),
            dir: Dir::new(name()),
        });
        Arc::pin_init(init, GFP_KERNEL)
    }

    /// Runs a command. Returns its result.
    pub(crate) fn run(self: ArcBorrow<'_, Self>, issued: &Issued<'_>) -> Result<i32> {
        let number = issued.number()?;
        let is_short = matches!(
            number,
            control::GET_QUEUE_AFFINITY
                | control::GET_INFO
                | control::GET_INFO_BY_PATH
                | control::GET_FEATURES
        );
        if !is_short && issued.may_not_sleep() {
            return Err(EAGAIN);
        }
        let mut command = issued.control()?;
        match number {
            control::GET_FEATURES if usize::from(command.length) != size_of::<u64>() => {
                return Err(EINVAL);
            }
            control::GET_FEATURES => write_to(&command, &flags::ALL, size_of::<u64>())?,
            control::ADD => self.add(&command)?,
            control::DELETE => self.delete(&mut command, true)?,
            control::DELETE_LATER => self.delete(&mut command, false)?,
            _ => {
                let device = self.find(command.id)?.ok_or(ENODEV)?;
                check_access(&device, number, &mut command)?;
                run_for(&device, number, &command)?;
            }
        }
        Ok(0)
    }

    /// Returns the device of a number. `None` if that was deleted and is still used, `ENODEV` if there is
    /// no such number.
    fn find(&self, number: u32) -> Result<Option<Arc<Device>>> {
        let devices = self.devices.lock();
        let added = devices.by_number.get(&number).ok_or(ENODEV)?;
        Ok(added.as_ref().map(|added| added.device.clone()))
    }

    /// Adds a device, and writes its properties for the caller.
    fn add(self: ArcBorrow<'_, Self>, command: &ControlCommand) -> Result {
        if command.queue != NO_QUEUE {
            return Err(EINVAL);
        }
        let mut info: Info = read_from(command)?;
        check_size(&info)?;
        check_flags(&mut info)?;
        let is_any = command.id == ANY_NUMBER;
        if command.id != info.id || (!is_any && command.id >> MINOR_BITS != 0) {
            return Err(EINVAL);
        }
        let is_unprivileged = info.flags & flags::UNPRIVILEGED != 0;
        let (registered, number) = self.register(command.id, is_unprivileged)?;
        info.id = number;
        info.server = -1;
        info.state = 0;
        (info.uid, info.gid) = ids();
        let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let device = Device::new(info, registered)?;
        write_to(command, &info, size_of::<Info>())?;
        let file = DeviceFile::add(number, device.clone())?;
        let name = CString::try_from_fmt(fmt!("{number}"))?;
        let latency = Latency::add(&self.dir, &name, device.clone())?;
        let added = Added {
            device,
            _file: file,
            _latency: latency,
        };
        let mut devices = self.devices.lock();
        // The number is of this device alone, so nothing is replaced.
        devices
            .by_number
            .insert(node.into_node(number, Some(added)));
        Ok(())
    }

    /// Takes a number, and returns it. `EACCES` if there are too many devices of users without privileges.
    fn register(
        self: ArcBorrow<'_, Self>,
        wanted: u32,
        is_unprivileged: bool,
    ) -> Result<(Registered, u32)> {
        let mut devices = self.devices.lock();
        if is_unprivileged && devices.unprivileged >= most_unprivileged() {
            return Err(EACCES);
        }
        devices.unprivileged += u32::from(is_unprivileged);
        drop(devices);
        let mut registered = Registered {
            control: self.into(),
            number: None,
            is_unprivileged,
        };
        let number = Number::take(wanted)?;
        let taken = number.get();
        registered.number = Some(number);
        Ok((registered, taken))
    }

    /// Deletes a device. Waits until nobody uses it and its number is free, or not. `ENODEV`, `EINTR`.
    fn delete(&self, command: &mut ControlCommand, waits: bool) -> Result {
        let number = command.id;
        match self.find(number)? {
            Some(device) => {
                check_access(&device, control::DELETE, command)?;
                self.remove(&device);
            }
            None if is_admin() => {}
            None => return Err(EPERM),
        }
        let mut devices = self.devices.lock();
        while waits && devices.by_number.get(&number).is_some() {
            if self.freed.wait_interruptible(&mut devices) {
                return Err(EINTR);
            }
        }
        Ok(())
    }

    /// Stops a device, and removes its file.
    fn remove(&self, device: &Arc<Device>) {
        device.end();
        let mut devices = self.devices.lock();
        let added = devices.by_number.get_mut(&device.number());
        let removed = added.and_then(|added| match added {
            Some(present) if Arc::ptr_eq(&present.device, device) => added.take(),
            _ => None,
        });
        drop(devices);
        drop(removed);
    }

    /// Removes all devices, and waits until they are gone. The module has no other user.
    pub(crate) fn remove_all(&self) {
        loop {
            let mut devices = self.devices.lock();
            let Some(cursor) = devices.by_number.cursor_front() else {
                return;
            };
            let (number, _) = cursor.current();
            let number = *number;
            drop(devices);
            if let Ok(Some(device)) = self.find(number) {
                self.remove(&device);
            }
            devices = self.devices.lock();
            while devices.by_number.get(&number).is_some() {
                self.freed.wait(&mut devices);
            }
        }
    }
}

/// Runs a command for a device to which the task has access.
fn run_for(device: &Arc<Device>, number: u32, command: &ControlCommand) -> Result {
    // CAST: As C, which takes the low bits.
    let process = command.data as i32;
    match number {
        control::GET_INFO | control::GET_INFO_BY_PATH => {
            write_to(command, &device.info(), size_of::<Info>())
        }
        control::GET_QUEUE_AFFINITY => write_cpus(device, command),
        control::GET_PARAMETERS => write_parameters(device, command),
        control::SET_PARAMETERS => device.set_parameters(read_parameters(command)?),
        control::START => device.start(process),
        control::STOP => {
            device.stop();
            Ok(())
        }
        control::TRY_STOP => device.try_stop(),
        control::QUIESCE => device.quiesce(command.data),
        control::UPDATE_SIZE => device.resize(command.data),
        control::START_RECOVERY => device.start_recovery(),
        control::END_RECOVERY => device.end_recovery(process),
        _ => Err(EOPNOTSUPP),
    }
}

fn check_size(info: &Info) -> Result {
    let has_size = info.flags & flags::DESCRIPTOR_SIZE != 0;
    let least = size_of::<Descriptor>() as u16;
    let are_allowed = (1..=MOST_DEPTH).contains(&info.depth)
        && (1..=MOST_QUEUES).contains(&info.queues)
        && (!has_size
            || ((least..=MOST_DESCRIPTOR_SIZE).contains(&info.descriptor_size)
                && info.descriptor_size % 8 == 0));
    are_allowed.then_some(()).ok_or(EINVAL)
}

/// Checks the flags for a new device, and replaces them by those that the device gets. `EPERM`, `EINVAL`.
fn check_flags(info: &mut Info) -> Result {
    use flags::*;
    match is_admin() {
        true => info.flags &= !UNPRIVILEGED,
        false if info.flags & UNPRIVILEGED == 0 => return Err(EPERM),
        false => {}
    }
    let has = |flag| info.flags & flag != 0;
    let needs_recovery = has(RECOVERY_REISSUE | RECOVERY_FAIL | QUIESCE);
    if (needs_recovery && !has(RECOVERY)) || (has(RECOVERY_REISSUE) && has(RECOVERY_FAIL)) {
        return Err(EINVAL);
    }
    if info.flags & UNPRIVILEGED != 0 {
        // Who uses the disk must not wait for a server that nobody vouches for.
        info.flags &= !(RECOVERY | RECOVERY_REISSUE);
        if info.flags & WITHOUT_COPY != 0 {
            return Err(EINVAL);
        }
    }
    if info.flags & ZONED != 0 {
        return Err(EINVAL);
    }
    if info.flags & DESCRIPTOR_SIZE == 0 {
        info.descriptor_size = size_of::<Descriptor>() as u16;
    }
    info.flags = info.flags & ALL | ALWAYS;
    if info.flags & WITHOUT_COPY != 0 {
        info.flags &= !NEED_GET_DATA;
    }
    info.queues = info
        .queues
        .min(u16::try_from(nr_cpu_ids()).unwrap_or(u16::MAX));
    info.most_bytes &= PAGE_MASK as u32;
    Ok(())
}

/// Checks that the task may run a command for a device. For a device without privileges, and for
/// [`control::GET_INFO_BY_PATH`], the path of its file is before what the command passes; it is
/// removed. `EPERM`, `EINVAL`, and the errors of looking up a path.
fn check_access(device: &Device, number: u32, command: &mut ControlCommand) -> Result {
    if !device.is_unprivileged() {
        if !is_admin() {
            return Err(EPERM);
        }
        if number != control::GET_INFO_BY_PATH {
            return Ok(());
        }
    }
    let may_write = match number {
        control::GET_INFO
        | control::GET_INFO_BY_PATH
        | control::GET_QUEUE_AFFINITY
        | control::GET_PARAMETERS => false,
        control::START
        | control::STOP
        | control::DELETE
        | control::SET_PARAMETERS
        | control::START_RECOVERY
        | control::END_RECOVERY
        | control::UPDATE_SIZE
        | control::QUIESCE
        | control::TRY_STOP => true,
        _ => return Err(EINVAL),
    };
    let length = command.path_length;
    if length == 0 || length > MOST_PATH || command.length < length {
        return Err(EINVAL);
    }
    let mut text = KVVec::new();
    UserSlice::new(place(command), length.into()).read_all(&mut text, GFP_KERNEL)?;
    text.push(0, GFP_KERNEL)?;
    let path = CStr::from_bytes_until_nul(&text).map_err(|_| EINVAL)?;
    check_path(path, device.number(), may_write)?;
    command.length -= length;
    command.address += u64::from(length);
    Ok(())
}

fn place(command: &ControlCommand) -> UserPtr {
    UserPtr::from_addr(command.address as usize)
}

/// Reads a value from the address of a command. `EINVAL` if that has less.
fn read_from<T: FromBytes>(command: &ControlCommand) -> Result<T> {
    if usize::from(command.length) < size_of::<T>() || command.address == 0 {
        return Err(EINVAL);
    }
    UserSlice::new(place(command), size_of::<T>())
        .reader()
        .read()
}

/// Writes the first bytes of a value to the address of a command. `EINVAL` if there is less room.
fn write_to<T: AsBytes>(command: &ControlCommand, value: &T, bytes: usize) -> Result {
    if usize::from(command.length) < bytes || command.address == 0 {
        return Err(EINVAL);
    }
    UserSlice::new(place(command), bytes)
        .writer()
        .write_slice(&value.as_bytes()[..bytes])
}

/// Writes which CPUs use a queue, as a mask.
fn write_cpus(device: &Device, command: &ControlCommand) -> Result {
    const WORD: usize = size_of::<usize>();
    let length = usize::from(command.length);
    let queue = u16::try_from(command.data)?;
    if length * 8 < nr_cpu_ids() as usize || length % WORD != 0 || command.address == 0 {
        return Err(EINVAL);
    }
    device.queue(queue).ok_or(EINVAL)?;
    let mut mask = KVVec::from_elem(0usize, length / WORD, GFP_KERNEL)?;
    for cpu in 0..nr_cpu_ids() {
        if device.queues.is_of(queue.into(), cpu) {
            mask[cpu as usize / usize::BITS as usize] |= 1 << (cpu % usize::BITS);
        }
    }
    UserSlice::new(place(command), length)
        .writer()
        .write_slice(AsBytes::as_bytes(&mask[..]))
}

/// Returns how many bytes of parameters a command is about, by their first word. `EINVAL`.
fn parameters_length(command: &ControlCommand) -> Result<usize> {
    if usize::from(command.length) <= 2 * size_of::<u32>() || command.address == 0 {
        return Err(EINVAL);
    }
    let length: u32 = UserSlice::new(place(command), size_of::<u32>())
        .reader()
        .read()?;
    match length as usize {
        0 => Err(EINVAL),
        length if length > command.length.into() => Err(EINVAL),
        length => Ok(length.min(size_of::<Parameters>())),
    }
}

/// Reads parameters. Those behind the caller's struct are zero.
fn read_parameters(command: &ControlCommand) -> Result<Parameters> {
    let length = parameters_length(command)?;
    let mut parameters = Parameters::default();
    UserSlice::new(place(command), length)
        .reader()
        .read_slice(&mut parameters.as_bytes_mut()[..length])?;
    match parameters.parts {
        0 => Err(EINVAL),
        _ => Ok(parameters),
    }
}

fn write_parameters(device: &Device, command: &ControlCommand) -> Result {
    let length = parameters_length(command)?;
    write_to(command, &device.parameters(file_major()), length)
}
