// SPDX-License-Identifier: GPL-2.0
//! A write-back cache: a log of what was written, and the data.
//!
//! ```text
//!   header │ header │ entry 0 … entry LOG-1 │ data 0 … data SLOTS-1
//! ```
//!
//! - An entry has its number, the block, the slot of the data, and a checksum of these and of the data.
//! - A header has its number, the number of the first entry in the log, and a checksum.
//!
//! Entry `n` has place `n % LOG`. The log ends before the first place whose entry has another number, or a wrong checksum.
//! So one fence makes a write of any number of blocks durable: an entry is valid only together with its number and its data.
//! The place had another number before. Headers take turns, so one of them is valid whatever is lost of the other.

use crate::medium::{Durable, Flushed, Medium};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use crc::{Crc, CRC_64_XZ};

/// The sizes of a cache.
#[derive(Clone, Copy)]
pub struct Layout {
    /// The entries of the log: at least 2.
    pub log: usize,
    /// The blocks for which there is room.
    pub slots: usize,
    /// The words of a block.
    pub block: usize,
}

const HEADER: usize = 3;
const ENTRY: usize = 4;

impl Layout {
    /// The words of the medium.
    pub fn words(&self) -> usize {
        self.data(self.slots)
    }

    fn entry(&self, number: u64) -> usize {
        2 * HEADER + (number as usize % self.log) * ENTRY
    }

    fn data(&self, slot: usize) -> usize {
        2 * HEADER + self.log * ENTRY + slot * self.block
    }
}

const SUM: Crc<u64> = Crc::<u64>::new(&CRC_64_XZ);

pub(crate) fn sum(words: &[u64]) -> u64 {
    sum_of_both(words, &[])
}

fn sum_of_both(words: &[u64], more: &[u64]) -> u64 {
    let mut digest = SUM.digest();
    words.iter().chain(more).for_each(|word| digest.update(&word.to_le_bytes()));
    digest.finalize()
}

/// Reads words of a medium.
fn load(medium: &impl Medium, at: usize, words: usize) -> Vec<u64> {
    (at..at + words).map(|at| medium.load(at)).collect()
}

/// A write that found no room: [write back](Cache::write_back) first.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

pub struct Cache<M> {
    medium: M,
    layout: Layout,
    /// The block and the slot of each entry in the log, the oldest first.
    entries: VecDeque<(u64, usize)>,
    /// The number of the oldest entry.
    first: u64,
    /// The newest entry of each block, by its number.
    newest: BTreeMap<u64, u64>,
    free: Vec<usize>,
    /// The number of the next header.
    header: u64,
}

impl<M: Medium> Cache<M> {
    /// Makes an empty cache. Only then may the medium be [recovered](Self::recover).
    pub fn create(mut medium: M, layout: Layout) -> Self {
        // Numbers begin at 1, so zeroed words are no entry and no header.
        let _ = medium.write(0, &vec![0; layout.data(0)]);
        let mut made = Self {
            medium,
            layout,
            entries: VecDeque::new(),
            first: 1,
            newest: BTreeMap::new(),
            free: (0..layout.slots).collect(),
            header: 1,
        };
        made.write_header();
        made
    }

    /// Finds what the medium has after a crash. `None` if no cache was made there.
    pub fn recover(mut medium: M, layout: Layout) -> Option<Self> {
        let headers = [0, HEADER].map(|at| load(&medium, at, HEADER));
        let valid = headers.iter().filter(|header| header[0] != 0 && header[2] == sum(&header[..2]));
        let [header, first, _] = valid.max_by_key(|header| header[0])?[..] else { return None };
        let mut entries = VecDeque::new();
        let mut newest = BTreeMap::new();
        let mut is_free = vec![true; layout.slots];
        for number in (first..).take(layout.log) {
            let [found, block, slot, given] = load(&medium, layout.entry(number), ENTRY)[..] else { break };
            let slot = slot as usize;
            let data = (slot < layout.slots).then(|| load(&medium, layout.data(slot), layout.block));
            let is_whole = |data: Vec<u64>| given == sum_of_both(&[number, block, slot as u64], &data);
            if found != number || !data.is_some_and(is_whole) {
                break;
            }
            entries.push_back((block, slot));
            newest.insert(block, number);
            is_free[slot] = false;
        }
        // The next writes have the numbers of those that had not ended. What is durable of these must not become valid by
        // the numbers of the next, nor by what is stored here: 0 may be the block that an entry lacks.
        let (begin, count) = (layout.entry(first + entries.len() as u64), layout.log - entries.len());
        let to_end = usize::min(count, (layout.data(0) - begin) / ENTRY);
        let stored = medium.store(begin, &vec![u64::MAX; to_end * ENTRY]);
        let flushed = medium.flush(stored);
        let stored = medium.store(layout.entry(0), &vec![u64::MAX; (count - to_end) * ENTRY]);
        let flushed = flushed.and(medium.flush(stored));
        let _ = medium.fence([flushed]);
        let free = (0..layout.slots).filter(|slot| is_free[*slot]).collect();
        Some(Self { medium, layout, entries, first, newest, free, header: header + 1 })
    }

    /// Returns the medium, which nobody else may change.
    pub fn medium(&mut self) -> &mut M {
        &mut self.medium
    }

    /// Returns the newest data of a block. `None` if only the backing device has them.
    pub fn read(&self, block: u64) -> Option<Vec<u64>> {
        let number = self.newest.get(&block)?;
        let (_, slot) = self.entries[(number - self.first) as usize];
        Some(load(&self.medium, self.layout.data(slot), self.layout.block))
    }

    /// Writes blocks, as many as there is room for: at least one. Returns how many; these are durable then.
    ///
    /// # Panics
    ///
    /// If data do not have the length of a block, or there are none.
    pub fn write<D: AsRef<[u64]>>(&mut self, blocks: &[(u64, D)]) -> Result<(usize, Durable), Full> {
        assert!(!blocks.is_empty(), "there is nothing to write");
        let mut flushed: Option<Flushed> = None;
        let mut written = 0;
        for (block, data) in blocks {
            let Ok(more) = self.append(*block, data.as_ref()) else { break };
            flushed = Some(match flushed {
                Some(before) => before.and(more),
                None => more,
            });
            written += 1;
        }
        Ok((written, self.medium.fence([flushed.ok_or(Full)?])))
    }

    /// Stores and flushes a block, and its entry.
    fn append(&mut self, block: u64, data: &[u64]) -> Result<Flushed, Full> {
        assert_eq!(data.len(), self.layout.block, "a block has another length");
        // The place behind the last entry stays free: recovery marks the end of the log there.
        if self.entries.len() + 1 >= self.layout.log {
            return Err(Full);
        }
        let slot = self.free.pop().ok_or(Full)?;
        let number = self.first + self.entries.len() as u64;
        let stored = self.medium.store(self.layout.data(slot), data);
        let stored = self.medium.flush(stored);
        let given = sum_of_both(&[number, block, slot as u64], data);
        let entry = self.medium.store(self.layout.entry(number), &[number, block, slot as u64, given]);
        self.entries.push_back((block, slot));
        self.newest.insert(block, number);
        Ok(stored.and(self.medium.flush(entry)))
    }

    /// Moves the oldest entry to the backing device; `false` if there is none. `write` is called with its block if that is
    /// the newest there is, and makes it durable. If it fails, nothing changes.
    pub fn write_back<E>(&mut self, write: impl FnOnce(u64, &[u64]) -> Result<(), E>) -> Result<bool, E> {
        let Some(&(block, slot)) = self.entries.front() else { return Ok(false) };
        if self.newest.get(&block) == Some(&self.first) {
            write(block, &load(&self.medium, self.layout.data(slot), self.layout.block))?;
            self.newest.remove(&block);
        }
        self.entries.pop_front();
        self.first += 1;
        self.write_header();
        // Not before: the header of before still leads to it.
        self.free.push(slot);
        Ok(true)
    }

    fn write_header(&mut self) {
        let at = (self.header % 2) as usize * HEADER;
        let _ = self.medium.write(at, &[self.header, self.first, sum(&[self.header, self.first])]);
        self.header += 1;
    }
}
