// SPDX-License-Identifier: GPL-2.0
//! Cuts the power of a disk again and again, and checks each block. It has the data that were
//! flushed last, or data of a later write.
//!
//!     cuts FOLDER DEVICE BLOCK CUTS SEED
//!
//! The folder is the disk's in configfs. Prints how many blocks have lost data, and how many have
//! kept some that were not flushed.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const O_DIRECT: i32 = 0o40000;
const O_DSYNC: i32 = 0o10000;
/// Between two cuts.
const WRITES: usize = 400;
const MOST_BLOCKS: usize = 8;
const PAGE: usize = 4096;

/// splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % end as u64) as usize
    }
}

/// Memory for direct accesses.
struct Buffer(Vec<u8>, usize);

impl Buffer {
    fn new(size: usize) -> Self {
        let memory = vec![0; size + PAGE];
        let start = memory.as_ptr().align_offset(PAGE);
        Self(memory, start)
    }

    fn get(&mut self, size: usize) -> &mut [u8] {
        &mut self.0[self.1..][..size]
    }
}

/// A disk, and what its blocks may have.
struct Disk {
    folder: PathBuf,
    device: PathBuf,
    block: usize,
    /// For each block, numbers that fill it; the last one is what was written last.
    allowed: Vec<Vec<u64>>,
    last: u64,
    buffer: Buffer,
}

impl Disk {
    fn new(folder: &str, device: &str, block: usize) -> Self {
        let name = Path::new(device).file_name().expect("a name");
        let sectors =
            fs::read_to_string(Path::new("/sys/block").join(name).join("size")).expect("its size");
        let blocks = sectors.trim().parse::<usize>().expect("a number") * 512 / block;
        let (allowed, buffer) = (vec![vec![0]; blocks], Buffer::new(MOST_BLOCKS * block));
        Self {
            folder: folder.into(),
            device: device.into(),
            block,
            allowed,
            last: 0,
            buffer,
        }
    }

    fn open(&self, flags: i32) -> File {
        let device = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(O_DIRECT | flags)
            .open(&self.device);
        device.expect("open the disk")
    }

    fn set(&self, attribute: &str, value: u64) {
        fs::write(self.folder.join(attribute), value.to_string()).expect(attribute);
    }

    /// Writes to a file of the disk, durably or not.
    fn write(&mut self, file: &File, random: &mut Random, is_durable: bool) {
        let count = 1 + random.below(MOST_BLOCKS);
        let first = random.below(self.allowed.len() - count);
        self.last += 1;
        let data = self.buffer.get(count * self.block);
        data.chunks_mut(8)
            .for_each(|word| word.copy_from_slice(&self.last.to_le_bytes()));
        file.write_all_at(data, (first * self.block) as u64)
            .expect("write");
        for numbers in &mut self.allowed[first..first + count] {
            if is_durable {
                numbers.clear();
            }
            numbers.push(self.last);
        }
    }

    /// Writes at random, cuts the power, and turns the disk on again.
    fn cut(&mut self, random: &mut Random) {
        let (disk, durable) = (self.open(0), self.open(O_DSYNC));
        for _ in 0..WRITES {
            match random.below(100) {
                0 => {
                    disk.sync_data().expect("flush");
                    self.allowed
                        .iter_mut()
                        .for_each(|numbers| drop(numbers.drain(..numbers.len() - 1)));
                }
                1..=5 => self.write(&durable, random, true),
                _ => self.write(&disk, random, false),
            }
        }
        self.set("powercut", random.below(1 << 32) as u64);
        assert!(
            disk.read_at(self.buffer.get(self.block), 0).is_err(),
            "a disk without power can be read"
        );
        drop((disk, durable));
        self.set("power", 0);
        self.set("power", 1);
    }

    /// Checks each block. Returns how many have lost data, and how many have kept what was not durable.
    fn check(&mut self) -> (usize, usize) {
        let (disk, mut lost, mut kept) = (self.open(0), 0, 0);
        for (at, numbers) in self.allowed.iter_mut().enumerate() {
            let data = self.buffer.get(self.block);
            disk.read_exact_at(data, (at * self.block) as u64)
                .expect("read");
            let (word, _) = data.split_first_chunk().expect("eight bytes");
            assert!(
                data.chunks(8).all(|other| other == word),
                "block {at} is torn"
            );
            let found = u64::from_le_bytes(*word);
            assert!(
                numbers.contains(&found),
                "block {at} has {found}, not one of {numbers:?}"
            );
            lost += usize::from(numbers.last() != Some(&found));
            kept += usize::from(numbers.first() != Some(&found));
            *numbers = vec![found];
        }
        (lost, kept)
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [folder, device, numbers @ ..] = &words[..] else {
        panic!("cuts FOLDER DEVICE BLOCK CUTS SEED")
    };
    let numbers: Vec<usize> = numbers
        .iter()
        .map(|word| word.parse().expect("a number"))
        .collect();
    let [block, cuts, seed] = numbers[..] else {
        panic!("cuts FOLDER DEVICE BLOCK CUTS SEED")
    };
    let (mut disk, mut random) = (Disk::new(folder, device, block), Random(seed as u64));
    let (mut lost, mut kept) = (0, 0);
    for _ in 0..cuts {
        disk.cut(&mut random);
        let (more_lost, more_kept) = disk.check();
        (lost, kept) = (lost + more_lost, kept + more_kept);
    }
    println!("{lost} {kept}");
}
