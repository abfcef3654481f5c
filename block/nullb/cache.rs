// SPDX-License-Identifier: GPL-2.0

//! A volatile cache in front of the data, as disks have one, and what a loss of power leaves of it.

use crate::{
    device::SECTOR_SHIFT,
    edge::{Context, Operation, Pages, Segment, Started, PAGE},
};
use core::ops::Range;
use kernel::{
    new_mutex,
    prelude::*,
    rbtree::RBTree,
    sync::{Arc, Mutex}, //
};

const SECTOR: usize = 1 << SECTOR_SHIFT;

/// A bit for each sector of a page, of which there are up to 128.
type Sectors = u128;

/// A page with data that are not durable.
struct Unflushed {
    /// Those that have such data; not 0.
    sectors: Sectors,
    data: KBox<[u8; PAGE]>,
}

/// What is in the cache, by the numbers of pages.
struct Content {
    pages: RBTree<u64, Unflushed>,
    count: usize,
    /// The page from which on the next one is written back when the cache is full.
    next: u64,
    /// The power is gone, and all accesses fail.
    is_cut: bool,
}

/// Data in memory with a volatile cache. An access takes the lock of the cache: a cache is for
/// tests of what uses the disk, not of its speed.
#[pin_data]
pub(crate) struct Cache {
    durable: Arc<Pages>,
    /// The number of pages for which there is room; not 0.
    room: usize,
    /// The bytes that a loss of power keeps or loses as a whole; a multiple of a sector.
    block: usize,
    #[pin]
    content: Mutex<Content>,
}

impl Cache {
    /// Makes an empty cache in front of durable data, with room for at least one page.
    pub(crate) fn new(durable: Arc<Pages>, room: usize, block: u32) -> impl PinInit<Self> {
        pin_init!(Self {
            durable,
            room: room.max(1),
            block: block as usize,
            content <- new_mutex!(Content {
                pages: RBTree::new(),
                count: 0,
                next: 0,
                is_cut: false,
            }),
        })
    }

    /// Transfers the bytes of a request that are in a range, which begins with its first one, or
    /// executes its other operation. Sleeps. `ENOMEM`, `EOPNOTSUPP`, `EIO` if the power is gone.
    pub(crate) fn transfer(
        &self,
        request: &Started,
        operation: Operation,
        range: Range<u64>,
    ) -> Result {
        let mut content = self.content.lock();
        if content.is_cut {
            return Err(EIO);
        }
        match operation {
            Operation::Flush => return self.flush(&mut content),
            Operation::Discard => {
                self.discard(&mut content, range);
                return Ok(());
            }
            Operation::Other => return Err(EOPNOTSUPP),
            Operation::Read | Operation::Write { .. } => {}
        }
        let mut position = range.start;
        for segment in request.segments() {
            // CAST: A part of a page is never cut.
            let (mut segment, _) = segment.split((range.end - position) as usize);
            while segment.size() > 0 {
                // In one sector each, which is in the cache or is not.
                let (part, rest) = segment.split(SECTOR - position as usize % SECTOR);
                match operation {
                    Operation::Write { is_durable: false } => {
                        self.write(&mut content, position, part)?;
                    }
                    Operation::Write { is_durable: true } => {
                        self.write_through(&mut content, position, part)?;
                    }
                    _ => self.read(&content, position, part),
                }
                position += part.size() as u64;
                segment = rest;
            }
        }
        Ok(())
    }

    fn read(&self, content: &Content, position: u64, part: Segment<'_>) {
        let place = Place::of(position);
        match content.pages.get(&place.page) {
            Some(page) if page.sectors & place.sector() != 0 => {
                part.put(&page.data[place.offset..][..part.size()]);
            }
            _ => self.durable.cursor().read(position, part),
        }
    }

    fn write(&self, content: &mut Content, position: u64, part: Segment<'_>) -> Result {
        let place = Place::of(position);
        if content.pages.get(&place.page).is_none() {
            if content.count == self.room {
                self.write_back_next(content)?;
            }
            let data = KBox::new([0; PAGE], GFP_KERNEL)?;
            let page = Unflushed { sectors: 0, data };
            content
                .pages
                .try_create_and_insert(place.page, page, GFP_KERNEL)?;
            content.count += 1;
        }
        let page = content.pages.get_mut(&place.page).ok_or(ENOMEM)?;
        if part.size() != SECTOR && page.sectors & place.sector() == 0 {
            // The rest of the sector stays what it was.
            let start = place.offset / SECTOR * SECTOR;
            let old = &mut page.data[start..start + SECTOR];
            self.durable
                .cursor()
                .get(position / SECTOR as u64 * SECTOR as u64, old);
        }
        part.get(&mut page.data[place.offset..][..part.size()]);
        page.sectors |= place.sector();
        Ok(())
    }

    /// Writes data that are durable at once, in place of those that are not.
    fn write_through(&self, content: &mut Content, position: u64, part: Segment<'_>) -> Result {
        self.durable
            .cursor()
            .write(position, part, Context::MaySleep)?;
        content.forget(Place::of(position));
        Ok(())
    }

    fn discard(&self, content: &mut Content, range: Range<u64>) {
        content.forget_all(range.clone());
        self.durable.discard(range);
    }

    /// Makes all data durable. `ENOMEM`; then some are, and the others stay in the cache.
    fn flush(&self, content: &mut Content) -> Result {
        if cfg!(forgets_flushes) {
            return Ok(());
        }
        content.next = 0;
        while content.count > 0 {
            self.write_back_next(content)?;
        }
        Ok(())
    }

    /// Makes the data of one page durable, and takes the page out of the cache, which is not empty.
    fn write_back_next(&self, content: &mut Content) -> Result {
        let from = match content.pages.cursor_lower_bound(&content.next) {
            Some(_) => content.next,
            None => 0,
        };
        if let Some(cursor) = content.pages.cursor_lower_bound_mut(&from) {
            let (&number, page) = cursor.current();
            self.write_back(number, page, page.sectors)?;
            cursor.remove_current();
            content.next = number + 1;
            content.count -= 1;
        }
        Ok(())
    }

    /// Makes some sectors of a page durable. `ENOMEM`.
    fn write_back(&self, number: u64, page: &Unflushed, sectors: Sectors) -> Result {
        for at in (0..PAGE / SECTOR).filter(|at| sectors >> at & 1 != 0) {
            let start = at * SECTOR;
            let position = number * PAGE as u64 + start as u64;
            self.durable
                .cursor()
                .put(position, &page.data[start..start + SECTOR])?;
        }
        Ok(())
    }

    /// Cuts the power: of the blocks that are not durable, some become so and the others are lost,
    /// as `seed` decides. From now on all accesses fail. `ENOMEM`, and then nothing else is durable.
    pub(crate) fn cut(&self, seed: u64) -> Result {
        let mut content = self.content.lock();
        if core::mem::replace(&mut content.is_cut, true) {
            return Ok(());
        }
        let mut chance = Chance(seed);
        let block = Sectors::MAX >> (Sectors::BITS as usize - self.block / SECTOR);
        for (&number, page) in &content.pages {
            let mut kept = 0;
            for at in (0..PAGE / SECTOR).step_by(self.block / SECTOR) {
                kept |= if chance.toss() { block << at } else { 0 };
            }
            self.write_back(number, page, page.sectors & kept)?;
        }
        content.pages = RBTree::new();
        content.count = 0;
        Ok(())
    }

    /// Returns whether the power is gone.
    pub(crate) fn is_cut(&self) -> bool {
        self.content.lock().is_cut
    }
}

impl Content {
    /// Takes a sector out of the cache.
    fn forget(&mut self, place: Place) {
        let sector = place.sector();
        self.keep_only(place.page, !sector);
    }

    /// Takes the sectors of a range out of the cache.
    fn forget_all(&mut self, range: Range<u64>) {
        let page = PAGE as u64;
        let mut from = range.start / page;
        while let Some(cursor) = self.pages.cursor_lower_bound(&from) {
            let (&number, _) = cursor.current();
            let start = number * page;
            if start >= range.end {
                break;
            }
            let first = range.start.saturating_sub(start) as usize / SECTOR;
            let end = u64::min(range.end - start, page) as usize / SECTOR;
            let gone = (first..end).fold(0, |gone, at| gone | 1 << at);
            self.keep_only(number, !gone);
            from = number + 1;
        }
    }

    /// Takes sectors of a page out of the cache, and the page if none is left.
    fn keep_only(&mut self, number: u64, kept: Sectors) {
        if let Some(page) = self.pages.get_mut(&number) {
            page.sectors &= kept;
            if page.sectors == 0 {
                drop(self.pages.remove(&number));
                self.count -= 1;
            }
        }
    }
}

/// The place of a byte: its page, and where it is there.
struct Place {
    page: u64,
    offset: usize,
}

impl Place {
    fn of(position: u64) -> Self {
        Self {
            page: position / PAGE as u64,
            offset: position as usize % PAGE,
        }
    }

    /// Returns the bit of the sector.
    fn sector(&self) -> Sectors {
        1 << (self.offset / SECTOR)
    }
}

/// Random bits that depend on a seed alone: splitmix64.
struct Chance(u64);

impl Chance {
    fn toss(&mut self) -> bool {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) & 1 != 0
    }
}
