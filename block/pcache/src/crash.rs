// SPDX-License-Identifier: GPL-2.0
//! Crashes: the images that they may leave of a cache, and whether those are legal.
//!
//! Words are durable as [`medium`](crate::medium) describes: each word has what it was durable with, or any later store
//! to it. So the images of a moment are the product of these. A moment before a fence has all images of the moments since
//! the fence before it. The backing device is durable at once, before the cache drops what went there.
//!
//! An image is legal if each block then reads as the last write of it that has ended, or as the one that was under way.

use crate::cache::{Cache, Layout};
use crate::medium::Medium;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::convert::Infallible;
use core::mem;
use core::ops::Range;

/// The stores to a word: the one that is durable for certain comes first.
#[derive(Clone)]
struct Word {
    stores: Vec<u64>,
    /// Which of them a fence makes durable.
    flushed: usize,
}

/// Stored words, flushed ranges, and fences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    pub stores: usize,
    pub flushes: usize,
    pub fences: usize,
}

/// Memory that keeps what may be durable, and how it was before each fence.
pub struct Simulated {
    words: Vec<Word>,
    before_fences: Vec<Vec<Word>>,
    pub cost: Cost,
}

impl Simulated {
    /// Zeroed words.
    pub fn new(words: usize) -> Self {
        Self::of(vec![0; words])
    }

    fn of(words: Vec<u64>) -> Self {
        let words = words.into_iter().map(|word| Word { stores: vec![word], flushed: 0 }).collect();
        Self { words, before_fences: Vec::new(), cost: Cost::default() }
    }
}

impl Medium for Simulated {
    fn load(&self, at: usize) -> u64 {
        *self.words[at].stores.last().expect("a word")
    }

    fn put(&mut self, at: usize, word: u64) {
        self.cost.stores += 1;
        let stores = &mut self.words[at].stores;
        // The same again makes no other image.
        if stores.last() != Some(&word) {
            stores.push(word);
        }
    }

    fn flush_words(&mut self, words: Range<usize>) {
        self.cost.flushes += 1;
        for word in &mut self.words[words] {
            word.flushed = word.stores.len() - 1;
        }
    }

    fn wait(&mut self) {
        self.cost.fences += 1;
        self.before_fences.push(self.words.clone());
        for word in &mut self.words {
            word.stores.drain(..mem::take(&mut word.flushed));
        }
    }
}

/// The images of a moment, by their numbers.
struct Images<'a>(&'a [Word]);

impl Images<'_> {
    fn count(&self) -> usize {
        self.0.iter().map(|word| word.stores.len()).product()
    }

    fn image(&self, mut number: usize) -> Vec<u64> {
        let mut pick = |word: &Word| {
            let choice = number % word.stores.len();
            number /= word.stores.len();
            word.stores[choice]
        };
        self.0.iter().map(&mut pick).collect()
    }
}

/// The backing device, with a number for each block.
#[derive(Clone, Default)]
pub struct Disk(BTreeMap<u64, u64>);

impl Disk {
    pub(crate) fn read(&self, block: u64) -> u64 {
        self.0.get(&block).copied().unwrap_or(0)
    }

    /// Writes a block durably.
    pub(crate) fn write(&mut self, block: u64, data: u64) {
        self.0.insert(block, data);
    }
}

/// A cache that can crash. The data of a block are a number.
pub trait Design: Sized {
    fn create() -> Self;
    /// Writes the same to blocks. Returns for how many there was room.
    fn write(&mut self, blocks: &[u64], data: u64) -> usize;
    fn write_back(&mut self, disk: &mut Disk);
    fn read(&self, block: u64, disk: &Disk) -> u64;
    fn recover(medium: Simulated) -> Option<Self>;
    fn medium(&mut self) -> &mut Simulated;
}

/// A step of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// One write of these blocks.
    Write(&'static [u64]),
    WriteBack,
}

/// Steps of histories.
pub const STEPS: [Step; 3] = [Step::Write(&[0]), Step::Write(&[1]), Step::WriteBack];
/// The same, and writes of both blocks.
pub const MORE_STEPS: [Step; 4] = [STEPS[0], STEPS[1], STEPS[2], Step::Write(&[1, 0])];
const BLOCKS: Range<u64> = 0..2;

/// The images that were recovered, those of them that were illegal, and the first history and image of these.
#[derive(Debug, Default)]
pub struct Found {
    pub images: usize,
    pub illegal: usize,
    pub example: Option<(Vec<Step>, usize)>,
}

/// What one write of some blocks costs in an empty cache.
pub fn cost_of_a_write<D: Design>(blocks: &[u64]) -> Cost {
    let mut cache = D::create();
    cache.medium().cost = Cost::default();
    cache.write(blocks, 1);
    cache.medium().cost
}

/// Runs all histories of `steps` that are `length` long, with a crash in the last step of each of their beginnings.
pub fn enumerate<D: Design>(steps: &[Step], length: u32) -> Found {
    let mut found = Found::default();
    for length in 1..=length {
        for number in 0..steps.len().pow(length) {
            let step = |index| steps[number / steps.len().pow(index) % steps.len()];
            crash_in_the_last::<D>(&(0..length).map(step).collect::<Vec<_>>(), &mut found);
        }
    }
    found
}

fn crash_in_the_last<D: Design>(history: &[Step], found: &mut Found) {
    let (mut cache, mut disk, mut written) = (D::create(), Disk::default(), BTreeMap::new());
    let mut under_way = Vec::new();
    for (index, step) in history.iter().enumerate() {
        cache.medium().before_fences.clear();
        written.extend(under_way.drain(..));
        match *step {
            Step::Write(blocks) => {
                let data = index as u64 + 1;
                let count = cache.write(blocks, data);
                if count == 0 {
                    // The rest of the history is that of a shorter one.
                    return;
                }
                under_way.extend(blocks[..count].iter().map(|block| (*block, data)));
            }
            Step::WriteBack => cache.write_back(&mut disk),
        }
    }
    let mut moments = mem::take(&mut cache.medium().before_fences);
    moments.push(cache.medium().words.clone());
    let last = moments.len() - 1;
    for (index, words) in moments.iter().enumerate() {
        // The last moment is behind the end of the write.
        if index == last {
            written.extend(under_way.drain(..));
        }
        let images = Images(words);
        for number in 0..images.count() {
            found.images += 1;
            if !is_legal::<D>(images.image(number), &disk, &written, &under_way) {
                found.illegal += 1;
                found.example.get_or_insert_with(|| (history.to_vec(), number));
            }
        }
    }
}

/// What all blocks have.
fn reads<D: Design>(cache: &D, disk: &Disk) -> Vec<u64> {
    BLOCKS.map(|block| cache.read(block, disk)).collect()
}

fn is_legal<D: Design>(
    image: Vec<u64>,
    disk: &Disk,
    written: &BTreeMap<u64, u64>,
    under_way: &[(u64, u64)],
) -> bool {
    let Some(mut cache) = D::recover(Simulated::of(image)) else { return false };
    let found = reads(&cache, disk);
    let expected = |block: u64, data: u64| {
        data == written.get(&block).copied().unwrap_or(0) || under_way.contains(&(block, data))
    };
    if !BLOCKS.zip(&found).all(|(block, data)| expected(block, *data)) {
        return false;
    }
    // It stays so when the rest is written back.
    let mut disk = disk.clone();
    (0..BLOCKS.end * 8).for_each(|_| cache.write_back(&mut disk));
    reads(&cache, &disk) == found
}

/// The cache of this crate, with room for a few writes, and blocks of so many words. Each of them depends on the number.
pub struct Ours<const WORDS: usize>(Cache<Simulated>);

impl<const WORDS: usize> Ours<WORDS> {
    const LAYOUT: Layout = Layout { log: 4, slots: 3, block: WORDS };

    fn words(data: u64) -> [u64; WORDS] {
        core::array::from_fn(|index| data + index as u64 * 1000)
    }
}

impl<const WORDS: usize> Design for Ours<WORDS> {
    fn create() -> Self {
        Self(Cache::create(Simulated::new(Self::LAYOUT.words()), Self::LAYOUT))
    }

    fn write(&mut self, blocks: &[u64], data: u64) -> usize {
        let blocks: Vec<_> = blocks.iter().map(|block| (*block, Self::words(data))).collect();
        self.0.write(&blocks).map_or(0, |(count, _)| count)
    }

    fn write_back(&mut self, disk: &mut Disk) {
        let write = |block, data: &[u64]| {
            disk.write(block, data[0]);
            Ok::<_, Infallible>(())
        };
        let Ok(_) = self.0.write_back(write);
    }

    fn read(&self, block: u64, disk: &Disk) -> u64 {
        match self.0.read(block) {
            // A torn block is no number.
            Some(data) if data != Self::words(data[0]) => u64::MAX,
            Some(data) => data[0],
            None => disk.read(block),
        }
    }

    fn recover(medium: Simulated) -> Option<Self> {
        Cache::recover(medium, Self::LAYOUT).map(Self)
    }

    fn medium(&mut self) -> &mut Simulated {
        self.0.medium()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dm_pcache::DmPcache;
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    /// Runs a history of so many steps, in which the cache also crashes and is recovered, and then goes on. `choose(n)` is
    /// a number below `n`.
    fn wander<D: Design>(mut choose: impl FnMut(usize) -> usize, steps: u64) -> Found {
        let (mut cache, mut disk, mut written) = (D::create(), Disk::default(), BTreeMap::new());
        let (mut found, mut history) = (Found::default(), Vec::new());
        for data in 1..=steps {
            cache.medium().before_fences.clear();
            let step = MORE_STEPS[choose(MORE_STEPS.len())];
            history.push(step);
            let mut under_way = Vec::new();
            if let Step::Write(blocks) = step {
                let count = cache.write(blocks, data);
                under_way.extend(blocks[..count].iter().map(|block| (*block, data)));
            }
            if under_way.is_empty() {
                cache.write_back(&mut disk);
            }
            let moments = mem::take(&mut cache.medium().before_fences);
            if moments.is_empty() || choose(4) != 0 {
                written.extend(under_way);
                continue;
            }
            let images = Images(&moments[choose(moments.len())]);
            let number = choose(images.count());
            found.images += 1;
            if !is_legal::<D>(images.image(number), &disk, &written, &under_way) {
                found.illegal += 1;
                found.example = Some((history, number));
                break;
            }
            let Some(recovered) = D::recover(Simulated::of(images.image(number))) else { break };
            cache = recovered;
            // A crash of the recovery leaves what it would have left.
            let before = reads(&cache, &disk);
            if let Some(words) = cache.medium().before_fences.pop().filter(|_| choose(2) == 0) {
                let images = Images(&words);
                let image = images.image(choose(images.count()));
                let again = D::recover(Simulated::of(image));
                let Some(again) = again.filter(|again| reads(again, &disk) == before) else {
                    found.illegal += 1;
                    found.example = Some((history, number));
                    break;
                };
                cache = again;
            }
            // A write that was under way may have happened, and does not vanish later.
            written.extend(BLOCKS.map(|block| (block, cache.read(block, &disk))));
        }
        found
    }

    #[test]
    fn no_crash_of_ours_loses_anything() {
        for (found, least) in [
            (enumerate::<Ours<1>>(&STEPS, 8), 70_000),
            (enumerate::<Ours<2>>(&STEPS, 7), 20_000),
            (enumerate::<Ours<1>>(&MORE_STEPS, 6), 100_000),
        ] {
            assert!(found.images > least, "{found:?}");
            assert_eq!(found.illegal, 0, "{found:?}");
        }
    }

    #[test]
    fn one_fence_makes_a_write_durable() {
        for (blocks, count) in [(&[0][..], 1), (&[1, 0], 2)] {
            let expected = Cost { stores: 516 * count, flushes: 2 * count, fences: 1 };
            assert_eq!(cost_of_a_write::<Ours<512>>(blocks), expected);
        }
    }

    #[test]
    fn ours_goes_on_after_crashes() {
        let mut images = 0;
        for seed in 0..2000 {
            let mut random = SmallRng::seed_from_u64(seed);
            let found = wander::<Ours<2>>(|below| random.random_range(0..below), 100);
            assert_eq!(found.illegal, 0, "seed {seed}: {found:?}");
            images += found.images;
        }
        assert!(images > 20_000, "{images}");
    }

    #[test]
    fn dm_pcache_goes_back_to_old_data() {
        let found = enumerate::<DmPcache<false>>(&STEPS, 6);
        let (history, _) = found.example.expect("an image");
        assert_eq!(
            history,
            [
                Step::Write(&[0]),
                Step::WriteBack,
                Step::Write(&[0]),
                Step::WriteBack,
                Step::Write(&[0]),
                Step::Write(&[0])
            ]
        );
    }

    #[test]
    fn two_more_fences_would_mend_that() {
        let found = enumerate::<DmPcache<true>>(&STEPS, 8);
        assert!(found.images > 50_000, "{found:?}");
        assert_eq!(found.illegal, 0, "{found:?}");
    }
}
