// SPDX-License-Identifier: GPL-2.0

//! Devices as folders of configfs, with the names that null_blk has for their attributes.

use crate::{
    cache::Cache,
    device::{Completion, Data, Device, Failures, SECTOR_SHIFT},
    edge::{has_subsystem, is_node, BadBlocks, Context, Disk, Pages, Queues, Shape, Sharing, PAGE},
    log::Log,
    module_parameters as parameters,
};
use core::ops::Range;
use kernel::{
    configfs::{self, AttributeOperations, Group, Subsystem},
    configfs_attrs,
    cpu::nr_cpu_ids,
    fmt::Write,
    new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    str::{kstrtobool_bytes, parse_int::ParseInt, BStr, CStr, CString, Formatter},
    sync::{Arc, Mutex},
};

const MIB: u64 = 1 << 20;

/// A value of an attribute.
trait Value: Sized {
    /// `EINVAL` if the text is no such value.
    fn parse(text: &[u8]) -> Result<Self>;
    fn show(&self) -> u64;
}

impl Value for u64 {
    fn parse(text: &[u8]) -> Result<Self> {
        Self::from_str(BStr::from_bytes(text))
    }
    fn show(&self) -> u64 {
        *self
    }
}

impl Value for u32 {
    fn parse(text: &[u8]) -> Result<Self> {
        Self::from_str(BStr::from_bytes(text))
    }
    fn show(&self) -> u64 {
        (*self).into()
    }
}

impl Value for bool {
    fn parse(text: &[u8]) -> Result<Self> {
        kstrtobool_bytes(text)
    }
    fn show(&self) -> u64 {
        (*self).into()
    }
}

/// Declares what can be set while a device is off.
macro_rules! settings {
    ($($(#[$doc:meta])* $id:literal $name:ident: $kind:ty = $default:expr,)*) => {
        /// The attributes of a device, which take effect when it is turned on.
        struct Settings {
            $($(#[$doc])* $name: $kind,)*
        }

        impl Default for Settings {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        $(
            #[vtable]
            impl AttributeOperations<$id> for Item {
                type Data = Item;

                fn show(item: &Item, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
                    let value = item.state.lock().settings.$name.show();
                    line(page, value)
                }

                fn store(item: &Item, text: &[u8]) -> Result {
                    let value = <$kind>::parse(text.trim_ascii())?;
                    let mut state = item.state.lock();
                    if state.disk.is_some() {
                        return Err(EBUSY);
                    }
                    state.settings.$name = value;
                    Ok(())
                }
            }
        )*

        fn item_type() -> &'static configfs::ItemType<Group<Item>, Item> {
            configfs_attrs! {
                container: Group<Item>,
                data: Item,
                attributes: [$($name: $id,)* power: 100, powercut: 101, badblocks: 102, replay: 103],
            }
        }

        const FEATURES: &str =
            concat!($(stringify!($name), ",",)* "power,powercut,badblocks,replay\n");
    };
}

settings! {
    0 badblocks_once: bool = false,
    1 badblocks_partial_io: bool = false,
    2 blocking: bool = parameters::blocking.value(),
    /// In bytes.
    3 blocksize: u32 = parameters::bs.value(),
    /// In MiB.
    4 cache_size: u64 = parameters::cache_size.value(),
    5 completion_nsec: u64 = parameters::completion_nsec.value(),
    6 discard: bool = parameters::discard.value(),
    7 fua: bool = parameters::fua.value(),
    // CAST: The bits of -1.
    8 home_node: u32 = parameters::home_node.value() as u32,
    9 hw_queue_depth: u32 = parameters::hw_queue_depth.value(),
    10 irqmode: u32 = parameters::irqmode.value(),
    11 max_sectors: u32 = parameters::max_sectors.value(),
    12 memory_backed: bool = parameters::memory_backed.value(),
    13 no_sched: bool = parameters::no_sched.value(),
    14 queue_mode: u32 = parameters::queue_mode.value(),
    15 rotational: bool = parameters::rotational.value(),
    16 shared_tag_bitmap: bool = parameters::shared_tag_bitmap.value(),
    17 shared_tags: bool = parameters::shared_tags.value(),
    /// In MiB.
    18 size: u64 = u64::from(parameters::gb.value()) << 10,
    19 submit_queues: u32 = parameters::submit_queues.value(),
    /// Writes are logged, so that `replay` can go back.
    20 write_log: bool = false,
}

/// A folder of a device.
#[pin_data]
pub(crate) struct Item {
    name: CString,
    bad: Arc<BadBlocks>,
    sharing: Arc<Sharing>,
    #[pin]
    state: Mutex<State>,
}

struct State {
    settings: Settings,
    /// What was written, as long as the folder exists.
    pages: Arc<Pages>,
    /// All changes of these.
    log: Option<Arc<Log>>,
    /// The disk and its device, if it is on.
    disk: Option<(Disk, Arc<Device>)>,
}

impl Item {
    fn new(name: &CStr, sharing: Arc<Sharing>) -> Result<impl PinInit<Self, Error>> {
        let state = State {
            settings: Settings::default(),
            pages: Arc::pin_init(Pages::new(), GFP_KERNEL)?,
            log: None,
            disk: None,
        };
        let (name, bad) = (name.try_into()?, Arc::new(BadBlocks::new()?, GFP_KERNEL)?);
        Ok(try_pin_init!(Self {
            name,
            bad,
            sharing,
            state <- new_mutex!(state),
        }))
    }

    /// Turns the device on or off. Sleeps. Fails as [`Disk::add`] does, and with `EINVAL`.
    fn turn(&self, is_on: bool) -> Result {
        let mut state = self.state.lock();
        if is_on == state.disk.is_some() {
            return Ok(());
        }
        if !is_on {
            state.disk = None;
            return Ok(());
        }
        state.settings.correct()?;
        state.log = match (state.settings.write_log, state.log.take()) {
            (false, _) => None,
            (true, Some(log)) => Some(log),
            // It could not lead back to what is there.
            (true, None) if !state.pages.is_empty() => return Err(EINVAL),
            (true, None) => Some(Arc::pin_init(Log::new(), GFP_KERNEL)?),
        };
        let device = Arc::new(self.device(&state)?, GFP_KERNEL)?;
        let sharing = state.settings.shared_tags.then_some(&*self.sharing);
        let disk = Disk::add(&state.settings.shape(&self.name), device.clone(), sharing)?;
        state.disk = Some((disk, device));
        Ok(())
    }

    fn device(&self, state: &State) -> Result<Device> {
        let settings = &state.settings;
        let pages = state.pages.clone();
        let room = settings.cache_size.saturating_mul(MIB / PAGE as u64);
        // CAST: A cache that does not fit into memory is not full before that.
        let cache = || Cache::new(pages.clone(), room as usize, settings.blocksize);
        Ok(Device {
            data: match (settings.memory_backed, settings.cache_size) {
                (false, _) => Data::Nowhere,
                (true, 0) => Data::Memory(pages),
                (true, _) => Data::Cached(KBox::pin_init(cache(), GFP_KERNEL)?),
            },
            log: state.log.clone(),
            bad: self.bad.clone(),
            failures: Failures {
                are_once: settings.badblocks_once,
                are_partial: settings.badblocks_partial_io,
                block_size: settings.blocksize,
            },
            completion: match settings.irqmode {
                0 => Completion::Here,
                1 => Completion::Interrupt,
                _ => Completion::Timer(settings.completion_nsec),
            },
            context: match settings.blocking {
                true => Context::MaySleep,
                false => Context::Atomic,
            },
        })
    }
}

impl Settings {
    /// Changes values that would mean nothing, as null_blk does. `EINVAL` for those that cannot be.
    fn correct(&mut self) -> Result {
        let page = PAGE as u32;
        let has_block = self.blocksize.is_power_of_two() && (512..=page).contains(&self.blocksize);
        // The block layer warns of a request that may not have a page.
        let has_limit = self.max_sectors == 0 || self.max_sectors >= page >> SECTOR_SHIFT;
        if !has_block || !has_limit || !is_node(self.node()) || self.queue_mode != 2 {
            return Err(EINVAL);
        }
        self.submit_queues = self.submit_queues.clamp(1, nr_cpu_ids() as u32);
        self.irqmode = self.irqmode.min(2);
        if !self.memory_backed {
            (self.cache_size, self.discard, self.write_log) = (0, false, false);
        }
        // The cache and the log have locks that sleep.
        self.blocking |= self.cache_size != 0 || self.write_log;
        Ok(())
    }

    fn node(&self) -> i32 {
        // CAST: The greatest number is -1: any node.
        self.home_node as i32
    }

    fn shape<'a>(&self, name: &'a CStr) -> Shape<'a> {
        Shape {
            name,
            sectors: self.size.saturating_mul(MIB) >> SECTOR_SHIFT,
            block_size: self.blocksize,
            most_sectors: self.max_sectors,
            queues: Queues {
                count: self.submit_queues,
                depth: self.hw_queue_depth,
                node: self.node(),
                may_sleep: self.blocking,
                have_scheduler: !self.no_sched,
                have_common_tags: self.shared_tag_bitmap,
            },
            is_rotational: self.rotational,
            may_discard: self.discard,
            has_cache: self.cache_size != 0,
            has_fua: self.fua,
        }
    }
}

/// Writes a value and a newline. Returns the length.
fn line(page: &mut [u8; PAGE_SIZE], value: u64) -> Result<usize> {
    let mut writer = Formatter::new(page);
    writer.write_fmt(fmt!("{value}\n"))?;
    Ok(writer.bytes_written())
}

/// `power`: 1 makes the disk, 0 removes it and keeps its data.
#[vtable]
impl AttributeOperations<100> for Item {
    type Data = Item;

    fn show(item: &Item, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
        let is_on = item.state.lock().disk.is_some();
        line(page, is_on.into())
    }

    fn store(item: &Item, text: &[u8]) -> Result {
        item.turn(bool::parse(text.trim_ascii())?)
    }
}

/// `powercut`: a number cuts the power of a device with a cache. The number decides which of the
/// data survive that no flush has made durable. All accesses fail until the device is turned off
/// and on again.
#[vtable]
impl AttributeOperations<101> for Item {
    type Data = Item;

    fn show(item: &Item, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
        let device = item.on();
        let is_cut = match device.as_deref().map(|device| &device.data) {
            Some(Data::Cached(cache)) => cache.is_cut(),
            _ => false,
        };
        line(page, is_cut.into())
    }

    fn store(item: &Item, text: &[u8]) -> Result {
        let seed = u64::parse(text.trim_ascii())?;
        let device = item.on().ok_or(ENODEV)?;
        match &device.data {
            Data::Cached(cache) => cache.cut(seed),
            _ => Err(EINVAL),
        }
    }
}

/// `badblocks`: `+FIRST-LAST` makes sectors bad, `-FIRST-LAST` good.
#[vtable]
impl AttributeOperations<102> for Item {
    type Data = Item;

    fn show(item: &Item, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
        Ok(item.bad.show(page))
    }

    fn store(item: &Item, text: &[u8]) -> Result {
        match text.trim_ascii() {
            [b'+', rest @ ..] => item.bad.add(sectors(rest)?),
            [b'-', rest @ ..] => item.bad.remove(sectors(rest)?),
            _ => Err(EINVAL),
        }
    }
}

/// `replay`: a number gives the data the state behind so many writes and discards of the log. The
/// device has to be off. When it is on again, the first write removes the rest of the log.
#[vtable]
impl AttributeOperations<103> for Item {
    type Data = Item;

    fn show(item: &Item, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
        let log = item.state.lock().log.clone();
        line(page, log.map_or(0, |log| log.count()) as u64)
    }

    fn store(item: &Item, text: &[u8]) -> Result {
        let count = u64::parse(text.trim_ascii())?;
        let state = item.state.lock();
        if state.disk.is_some() {
            return Err(EBUSY);
        }
        let log = state.log.as_ref().ok_or(EINVAL)?;
        log.replay(usize::try_from(count).map_err(|_| EINVAL)?, &state.pages)
    }
}

/// Parses `FIRST-LAST`.
fn sectors(text: &[u8]) -> Result<Range<u64>> {
    let at = text.iter().position(|byte| *byte == b'-').ok_or(EINVAL)?;
    let (first, last) = (u64::parse(&text[..at])?, u64::parse(&text[at + 1..])?);
    let end = last.checked_add(1).ok_or(EINVAL)?;
    (first < end).then_some(first..end).ok_or(EINVAL)
}

impl Item {
    /// Returns the device if it is on.
    fn on(&self) -> Option<Arc<Device>> {
        let state = self.state.lock();
        state.disk.as_ref().map(|(_, device)| device.clone())
    }
}

/// The folder of all devices.
#[pin_data]
pub(crate) struct Items {
    name: &'static CStr,
    sharing: Arc<Sharing>,
}

#[vtable]
impl configfs::GroupOperations for Items {
    type Child = Item;

    fn make_group(&self, name: &CStr) -> Result<impl PinInit<Group<Item>, Error>> {
        let number = name.to_bytes().strip_prefix(self.name.to_bytes());
        let index = number.and_then(|number| u32::parse(number).ok());
        if let Some(index) = index.filter(|index| *index < parameters::nr_devices.value()) {
            if *name_of_disk(self.name, index)? == *name {
                return Err(EEXIST);
            }
        }
        Ok(Group::new(
            name.try_into()?,
            item_type(),
            Item::new(name, self.sharing.clone())?,
        ))
    }
}

#[vtable]
impl AttributeOperations<0> for Items {
    type Data = Items;

    fn show(_: &Items, page: &mut [u8; PAGE_SIZE]) -> Result<usize> {
        let mut writer = Formatter::new(page);
        writer.write_str(FEATURES)?;
        Ok(writer.bytes_written())
    }
}

/// Returns the name of the folder of devices, and what those of the module's disks begin with:
/// `nullb`, or `nullb_rust` beside the driver in C. Sleeps.
pub(crate) fn name() -> &'static CStr {
    match has_subsystem(c"nullb") {
        true => c"nullb_rust",
        false => c"nullb",
    }
}

/// Makes the disks that the module has by its parameters, and turns them on. Sleeps. Fails as
/// [`Item::turn`] does.
pub(crate) fn disks_of_module(
    name: &CStr,
    sharing: &Arc<Sharing>,
) -> Result<KVec<Pin<KBox<Item>>>> {
    let mut disks = KVec::new();
    for index in 0..parameters::nr_devices.value() {
        let disk = Item::new(&name_of_disk(name, index)?, sharing.clone())?;
        let disk = KBox::pin_init(disk, GFP_KERNEL)?;
        disk.turn(true)?;
        disks.push(disk, GFP_KERNEL)?;
    }
    Ok(disks)
}

/// Returns the name of such a disk, in a module of this name.
fn name_of_disk(name: &CStr, index: u32) -> Result<CString> {
    CString::try_from_fmt(fmt!("{name}{index}"))
}

/// Makes the folder of devices. Sleeps.
///
/// The kernel's `Subsystem` does not survive a failure: its drop unregisters what is not registered
/// (Linux 7.3.4). So the name has to be free.
pub(crate) fn register(
    name: &'static CStr,
    sharing: Arc<Sharing>,
) -> Result<Pin<KBox<Subsystem<Items>>>> {
    let of_all = configfs_attrs! {
        container: Subsystem<Items>,
        data: Items,
        child: Item,
        attributes: [features: 0],
    };
    let folder = Subsystem::new(name, of_all, try_pin_init!(Items { name, sharing }));
    KBox::pin_init(folder, GFP_KERNEL)
}
