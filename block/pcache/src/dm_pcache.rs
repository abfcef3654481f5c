// SPDX-License-Identifier: GPL-2.0
//! A model of the order in which dm-pcache of Linux 7.3 stores, flushes and fences. Its sizes are small: a block is a word,
//! and a key set has one key, which is closed at once, as a flush of the device does.
//!
//! What matters of it: `cache_kset_close` stores an empty key set behind the new one, and then the new one, with one fence
//! behind both. A key set has a checksum and no number. So if the new one is durable and the empty one is not, replay goes
//! on with the key sets of the time when the segment was last used. A key of theirs counts if the generation of its data's
//! segment is that of now.

use crate::cache::sum;
use crate::crash::{Design, Disk, Simulated};
use crate::medium::Medium;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

const SEGMENTS: usize = 4;
/// The words of a segment: a key set, and the last one, which leads to the next segment.
const SEGMENT: usize = KSET + EMPTY;
/// Checksum, magic, and flags with the next segment; then block, place and generation of the key.
const KSET: usize = EMPTY + 3;
const EMPTY: usize = 3;
const MAGIC: u64 = 0x6b73_6574;
const LAST: u64 = 1 << 32;
/// Two records that take turns: number, value, checksum.
const RECORD: usize = 3;
const GENERATIONS: usize = 2 * RECORD;
const DATA: usize = GENERATIONS + SEGMENTS * 2 * RECORD;

/// A segment and a word in it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    segment: usize,
    offset: usize,
}

impl Place {
    fn word(self) -> usize {
        DATA + self.segment * SEGMENT + self.offset
    }

    fn behind(self, words: usize) -> Self {
        Self { offset: self.offset + words, ..self }
    }

    fn packed(self) -> u64 {
        (self.segment << 8 | self.offset) as u64
    }

    fn unpacked(packed: u64) -> Option<Self> {
        let place = Self { segment: (packed >> 8) as usize, offset: (packed & 0xff) as usize };
        (place.segment < SEGMENTS && place.offset < SEGMENT).then_some(place)
    }
}

#[derive(Clone, Copy)]
struct Key {
    block: u64,
    place: Place,
    generation: u64,
}

enum Kset {
    Key(Key),
    Next(usize),
}

/// The cache; with a fence behind each empty key set if it is `FENCED`, which dm-pcache is not.
pub struct DmPcache<const FENCED: bool = false> {
    medium: Simulated,
    used: [bool; SEGMENTS],
    generations: [u64; SEGMENTS],
    /// How many keys in the log, and data heads, have data in a segment.
    references: [usize; SEGMENTS],
    hint: usize,
    data_head: Option<Place>,
    key_head: Place,
    key_tail: Place,
    dirty_tail: Place,
    /// The number of the next record.
    number: u64,
    tree: BTreeMap<u64, Key>,
}

impl<const FENCED: bool> DmPcache<FENCED> {
    fn record(&mut self, at: usize, value: u64) {
        self.number += 1;
        let words = [self.number, value, sum(&[self.number, value])];
        let _ = self.medium.write(at + (self.number % 2) as usize * RECORD, &words);
    }

    fn latest(medium: &Simulated, at: usize) -> Option<(u64, u64)> {
        let records = [at, at + RECORD].map(|at| [0, 1, 2].map(|word| medium.load(at + word)));
        let valid = records.iter().filter(|record| record[0] != 0 && record[2] == sum(&record[..2]));
        valid.max_by_key(|record| record[0]).map(|record| (record[0], record[1]))
    }

    fn segment(&mut self) -> Option<usize> {
        let found =
            (0..SEGMENTS).map(|next| (self.hint + next) % SEGMENTS).find(|segment| !self.used[*segment])?;
        self.used[found] = true;
        self.hint = found;
        Some(found)
    }

    fn put(&mut self, segment: usize) {
        self.references[segment] -= 1;
        if self.references[segment] == 0 {
            self.generations[segment] += 1;
            self.record(GENERATIONS + segment * 2 * RECORD, self.generations[segment]);
            self.used[segment] = false;
        }
    }

    /// Reserves a word for data: `cache_data_alloc`.
    fn allocate(&mut self) -> Option<Place> {
        let head = match self.data_head {
            Some(head) => head,
            None => {
                let segment = self.segment()?;
                self.references[segment] += 1;
                Place { segment, offset: 0 }
            }
        };
        self.references[head.segment] += 1;
        self.data_head = Some(head.behind(1)).filter(|next| next.offset < SEGMENT);
        if self.data_head.is_none() {
            self.put(head.segment);
        }
        Some(head)
    }

    fn kset(medium: &Simulated, at: Place) -> Option<Kset> {
        let words: Vec<u64> =
            (0..KSET.min(SEGMENT - at.offset)).map(|word| medium.load(at.word() + word)).collect();
        let length = if *words.get(2)? & LAST != 0 { EMPTY } else { KSET };
        if words[1] != MAGIC || words[0] != sum(words.get(1..length)?) {
            return None;
        }
        match length {
            EMPTY => Some(Kset::Next((words[2] & 0xff) as usize)),
            _ => Some(Kset::Key(Key {
                block: words[3],
                place: Place::unpacked(words[4])?,
                generation: words[5],
            })),
        }
    }

    /// Stores a key set without a fence.
    fn store_kset(&mut self, words: &[u64]) {
        let mut all = vec![sum(words)];
        all.extend(words);
        let stored = self.medium.store(self.key_head.word(), &all);
        let _ = self.medium.flush(stored);
    }

    fn store_empty(&mut self, at: Place) {
        let stored = self.medium.store(at.word(), &[0; EMPTY]);
        let flushed = self.medium.flush(stored);
        if FENCED {
            let _ = self.medium.fence([flushed]);
        }
    }

    /// `cache_kset_close`; `None` if no segment is left.
    fn close(&mut self, key: Key) -> Option<()> {
        if SEGMENT - self.key_head.offset < KSET + EMPTY {
            let next = Place { segment: self.segment()?, offset: 0 };
            self.store_empty(next);
            self.store_kset(&[MAGIC, LAST | next.segment as u64]);
            self.medium.wait();
            self.key_head = next;
        }
        self.store_empty(self.key_head.behind(KSET));
        self.store_kset(&[MAGIC, 0, key.block, key.place.packed(), key.generation]);
        self.medium.wait();
        self.key_head = self.key_head.behind(KSET);
        Some(())
    }

    /// Lets garbage collection take what is written back.
    fn collect(&mut self) {
        while self.key_tail != self.dirty_tail {
            match Self::kset(&self.medium, self.key_tail) {
                Some(Kset::Key(key)) => {
                    self.put(key.place.segment);
                    self.key_tail = self.key_tail.behind(KSET);
                    self.record(0, self.key_tail.packed());
                }
                Some(Kset::Next(_)) if self.key_tail.segment == self.dirty_tail.segment => return,
                Some(Kset::Next(next)) => {
                    let left = self.key_tail.segment;
                    self.key_tail = Place { segment: next, offset: 0 };
                    self.record(0, self.key_tail.packed());
                    self.used[left] = false;
                }
                None => return,
            }
        }
    }

    /// Writes a block. `None` if there is no room.
    fn write_one(&mut self, block: u64, data: u64) -> Option<()> {
        let place = self.allocate()?;
        // `segment_copy_from_bio` has a fence of its own.
        let _ = self.medium.write(place.word(), &[data]);
        let key = Key { block, place, generation: self.generations[place.segment] };
        self.tree.insert(block, key);
        self.close(key).map(drop)
    }
}

impl<const FENCED: bool> Design for DmPcache<FENCED> {
    fn create() -> Self {
        let start = Place { segment: 0, offset: 0 };
        let mut made = Self {
            medium: Simulated::new(DATA + SEGMENTS * SEGMENT),
            used: [true, false, false, false],
            generations: [0; SEGMENTS],
            references: [0; SEGMENTS],
            hint: 0,
            data_head: None,
            key_head: start,
            key_tail: start,
            dirty_tail: start,
            number: 0,
            tree: BTreeMap::new(),
        };
        made.record(0, start.packed());
        made
    }

    fn write(&mut self, blocks: &[u64], data: u64) -> usize {
        blocks.iter().take_while(|block| self.write_one(**block, data).is_some()).count()
    }

    fn write_back(&mut self, disk: &mut Disk) {
        match Self::kset(&self.medium, self.dirty_tail) {
            _ if self.dirty_tail == self.key_head => return,
            Some(Kset::Key(key)) => {
                disk.write(key.block, self.medium.load(key.place.word()));
                self.dirty_tail = self.dirty_tail.behind(KSET);
            }
            Some(Kset::Next(segment)) => self.dirty_tail = Place { segment, offset: 0 },
            None => return,
        }
        self.collect();
    }

    fn read(&self, block: u64, disk: &Disk) -> u64 {
        match self.tree.get(&block) {
            Some(key) if key.generation == self.generations[key.place.segment] => {
                self.medium.load(key.place.word())
            }
            _ => disk.read(block),
        }
    }

    fn recover(medium: Simulated) -> Option<Self> {
        let (mut number, tail) = Self::latest(&medium, 0)?;
        let mut generations = [0; SEGMENTS];
        for (segment, generation) in generations.iter_mut().enumerate() {
            if let Some((found, value)) = Self::latest(&medium, GENERATIONS + segment * 2 * RECORD) {
                (number, *generation) = (number.max(found), value);
            }
        }
        let tail = Place::unpacked(tail)?;
        let mut made = Self {
            used: [false; SEGMENTS],
            generations,
            references: [0; SEGMENTS],
            hint: 0,
            data_head: None,
            key_head: tail,
            key_tail: tail,
            dirty_tail: tail,
            number,
            tree: BTreeMap::new(),
            medium,
        };
        made.used[tail.segment] = true;
        let mut hops = 0;
        while let Some(kset) = Self::kset(&made.medium, made.key_head) {
            match kset {
                Kset::Key(key) => {
                    if key.generation >= made.generations[key.place.segment] {
                        made.used[key.place.segment] = true;
                        made.references[key.place.segment] += 1;
                        made.tree.insert(key.block, key);
                    }
                    made.key_head = made.key_head.behind(KSET);
                }
                Kset::Next(segment) => {
                    hops += 1;
                    if segment >= SEGMENTS || hops > SEGMENTS {
                        return None;
                    }
                    made.used[segment] = true;
                    made.key_head = Place { segment, offset: 0 };
                }
            }
        }
        Some(made)
    }

    fn medium(&mut self) -> &mut Simulated {
        &mut self.medium
    }
}
