// SPDX-License-Identifier: GPL-2.0
//! A write-back cache in a file, in front of another storage.

use crate::storage::{Durability, Storage};
use pcache::cache::{Cache, Full, Layout};
use pcache::medium::Medium;
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The bytes of a block of the cache.
const BLOCK: usize = 4096;
const WORD: usize = size_of::<u64>();

/// A storage with a cache in front of it. A write is durable when it has ended; the storage behind gets the data when the
/// cache is full. The file of the cache belongs to the data: without it, the newest of them are missing.
///
/// After an error of the file nothing can be written any more. The file is also kept in memory.
pub struct Cached<S> {
    inner: S,
    cache: Cache<FileMedium>,
}

impl<S: Storage> Cached<S> {
    /// Opens the cache in a file, or makes one of so many bytes in a file that is empty or not there.
    ///
    /// `InvalidData` if the file has something else.
    pub fn open(path: &Path, bytes: u64, inner: S) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let is_new = file.metadata()?.len() == 0;
        if is_new {
            file.set_len(bytes)?;
        }
        let mut words = vec![0; file.metadata()?.len() as usize / WORD];
        let mut data = vec![0; words.len() * WORD];
        file.read_exact_at(&mut data, 0)?;
        from_bytes(&data, &mut words);
        let layout = layout_of(words.len())
            .ok_or_else(|| Error::new(ErrorKind::InvalidInput, "too small for a cache"))?;
        let medium = FileMedium { file, words, failure: None };
        let cache = match is_new {
            true => Some(Cache::create(medium, layout)),
            false => Cache::recover(medium, layout),
        };
        let no_cache = "the file has something that is no cache";
        let mut made =
            Self { inner, cache: cache.ok_or_else(|| Error::new(ErrorKind::InvalidData, no_cache))? };
        made.check()?;
        Ok(made)
    }

    /// Writes blocks into the cache, where old ones make room.
    fn put(&mut self, mut blocks: &[(u64, Vec<u64>)]) -> Result<()> {
        while !blocks.is_empty() {
            self.check()?;
            match self.cache.write(blocks) {
                Ok((count, _)) => blocks = &blocks[count..],
                Err(Full) => {
                    let inner = &mut self.inner;
                    self.cache.write_back(|block, words| {
                        inner.write(block * BLOCK as u64, &to_bytes(words), Durability::AtOnce)
                    })?;
                }
            }
        }
        self.check()
    }

    /// Reads a part of what is at a position from the storage behind.
    fn read_inner(&mut self, at: u64, into: &mut [u8], part: Range<usize>) -> Result<()> {
        match part.is_empty() {
            true => Ok(()),
            false => self.inner.read(at + part.start as u64, &mut into[part]),
        }
    }

    /// Fails if the file has failed.
    fn check(&mut self) -> Result<()> {
        match &self.cache.medium().failure {
            Some(kind) => Err((*kind).into()),
            None => Ok(()),
        }
    }
}

impl<S: Storage> Storage for Cached<S> {
    fn size(&self) -> u64 {
        self.inner.size() / BLOCK as u64 * BLOCK as u64
    }

    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<()> {
        // All parts that are not in the cache are read from the storage, neighbours at once.
        let mut missing = 0..0;
        for part in Parts::of(at, into.len()) {
            match self.cache.read(part.block) {
                Some(words) => into[part.place].copy_from_slice(&to_bytes(&words)[part.inside]),
                None if missing.end == part.place.start => missing.end = part.place.end,
                None => {
                    let before = std::mem::replace(&mut missing, part.place);
                    self.read_inner(at, into, before)?;
                }
            }
        }
        self.read_inner(at, into, missing)
    }

    fn write(&mut self, at: u64, from: &[u8], _: Durability) -> Result<()> {
        let mut data = vec![0; BLOCK];
        let mut blocks = Vec::new();
        for part in Parts::of(at, from.len()) {
            if part.inside.len() < BLOCK {
                self.read(part.block * BLOCK as u64, &mut data)?;
            }
            data[part.inside].copy_from_slice(&from[part.place]);
            let mut words = vec![0; BLOCK / WORD];
            from_bytes(&data, &mut words);
            blocks.push((part.block, words));
        }
        self.put(&blocks)
    }
}

/// A part of a request that is in one block.
struct Part {
    block: u64,
    /// Its bytes in the block, and in the request.
    inside: Range<usize>,
    place: Range<usize>,
}

struct Parts {
    at: u64,
    done: usize,
    length: usize,
}

impl Parts {
    fn of(at: u64, length: usize) -> Self {
        Self { at, done: 0, length }
    }
}

impl Iterator for Parts {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        let at = self.at + self.done as u64;
        let start = (at % BLOCK as u64) as usize;
        let length = usize::min(BLOCK - start, self.length - self.done);
        let place = self.done..self.done + length;
        self.done += length;
        (length > 0).then_some(Part { block: at / BLOCK as u64, inside: start..start + length, place })
    }
}

/// The largest cache that fits into so many words.
fn layout_of(words: usize) -> Option<Layout> {
    let of = |slots| Layout { log: slots + 2, slots, block: BLOCK / WORD };
    let needed = |slots| of(slots).words();
    let slots = words.checked_sub(needed(0))? / (needed(1) - needed(0));
    (slots > 0).then(|| of(slots))
}

fn from_bytes(bytes: &[u8], words: &mut [u64]) {
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(WORD)) {
        *word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    }
}

fn to_bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A file as a medium: a flush writes what was stored to it, and a fence waits for its disk.
struct FileMedium {
    file: File,
    words: Vec<u64>,
    failure: Option<ErrorKind>,
}

impl FileMedium {
    fn note(&mut self, done: Result<()>) {
        if let Err(error) = done {
            self.failure.get_or_insert(error.kind());
        }
    }
}

impl Medium for FileMedium {
    fn load(&self, at: usize) -> u64 {
        self.words[at]
    }

    fn put(&mut self, at: usize, word: u64) {
        self.words[at] = word;
    }

    fn flush_words(&mut self, words: Range<usize>) {
        let at = (words.start * WORD) as u64;
        let written = self.file.write_all_at(&to_bytes(&self.words[words]), at);
        self.note(written);
    }

    fn wait(&mut self) {
        let synchronised = self.file.sync_data();
        self.note(synchronised);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storages::{flaky, Ram};

    /// A path in the folder for temporary files, without a file.
    fn fresh(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        path
    }

    #[test]
    fn newest_data_are_read_also_after_it_was_left() {
        let (path, mut model) = (fresh("cache"), vec![0; 64 * BLOCK]);
        let mut cached = Cached::open(&path, 40_000, Ram::new(model.len())).expect("a cache");
        for step in 0..400_usize {
            let (at, length) = (step * 7919 % 500 * 512, 512 * (1 + step % 12));
            let data: Vec<u8> = (0..length).map(|index| (index + step * 31) as u8).collect();
            cached.write(at as u64, &data, Durability::WhenFlushed).expect("write");
            model[at..at + length].copy_from_slice(&data);
            if step % 50 == 7 {
                let Cached { inner, .. } = cached;
                cached = Cached::open(&path, 0, inner).expect("the same cache");
            }
            let mut found = vec![0; model.len()];
            cached.read(0, &mut found).expect("read");
            assert!(found == model, "step {step}");
        }
        std::fs::remove_file(path).expect("remove it");
    }

    #[test]
    fn what_the_cache_has_is_not_read_behind_it() {
        let path = fresh("alone");
        let mut cached = Cached::open(&path, 80_000, flaky(Ram::new(8 * BLOCK), 1)).expect("a cache");
        cached.write(BLOCK as u64, &[3; 2 * BLOCK], Durability::WhenFlushed).expect("write");
        let mut found = [0; 2 * BLOCK];
        cached.read(BLOCK as u64, &mut found).expect("read");
        assert_eq!(found, [3; 2 * BLOCK]);
        assert!(cached.read(0, &mut found).is_err());
        std::fs::remove_file(path).expect("remove it");
    }

    #[test]
    fn other_files_stay_what_they_are() {
        let path = fresh("no-cache");
        std::fs::write(&path, [7; 80_000]).expect("write");
        let opened = Cached::open(&path, 80_000, Ram::new(BLOCK));
        assert_eq!(opened.err().map(|error| error.kind()), Some(ErrorKind::InvalidData));
        assert!(std::fs::read(&path).expect("read").iter().all(|byte| *byte == 7));
        std::fs::remove_file(&path).expect("remove it");
        let small = Cached::open(&path, 4096, Ram::new(BLOCK));
        assert_eq!(small.err().map(|error| error.kind()), Some(ErrorKind::InvalidInput));
        std::fs::remove_file(path).expect("remove it");
    }
}
