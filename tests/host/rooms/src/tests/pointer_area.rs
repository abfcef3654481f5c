// SPDX-License-Identifier: GPL-2.0
//! The blocks of pointer objects, compared with a model of the contract's rules. Their invariant is
//! checked, too: no byte is written twice, and none of a finished block is missed.

use crate::pure::pointer_area::{Piece, PointerArea};
use kernel::error::code::{EFAULT, EINVAL, ENOMEM};
use proptest::prelude::*;

/// An object that somebody sends.
#[derive(Clone, Debug)]
enum Sent {
    /// A block of this length.
    Root(u64),
    /// A block of this length, to which the parent of this number points at this offset.
    Child(u64, u64, u64),
    /// In the parent of this number at this offset, so many.
    Array(u64, u64, u64),
    /// Something else, which only takes a number.
    Other,
}

/// The writer of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    Nobody,
    /// Copied from there.
    Copied(u64),
    /// Left to the claim of that object.
    Gap(u64),
}

/// The receiver's memory, in which no byte may be written twice.
struct Memory {
    bytes: Vec<Writer>,
}

impl Memory {
    fn put(&mut self, at: usize, length: usize, writer: impl Fn(usize) -> Writer) {
        for i in 0..length {
            let byte = &mut self.bytes[at + i];
            assert_eq!(*byte, Writer::Nobody, "byte {} twice", at + i);
            *byte = writer(i);
        }
    }

    fn copy(&mut self, piece: Piece) -> kernel::error::Result {
        assert_ne!(piece.length, 0, "nothing need not be copied");
        self.put(piece.at, piece.length, |i| Writer::Copied(piece.source + i as u64));
        Ok(())
    }
}

/// The start of the area in the buffer of these tests.
const START: usize = 64;

/// The address of the block of an object in the sender: far from all others.
fn source_of(object: u64) -> u64 {
    (object + 1) << 32
}

/// The contract's rules as the C driver has them: the last object that was fixed, how far, and who
/// its parents are, looked up each time.
#[derive(Default)]
struct Model {
    objects: Vec<Option<ModelBlock>>,
    last: Option<(u64, u64)>,
    used: u64,
}

#[derive(Clone, Copy)]
struct ModelBlock {
    length: u64,
    parent: Option<(u64, u64)>,
}

impl Model {
    /// Returns whether `offset` of `parent` may be replaced now.
    fn allows(&self, parent: u64, offset: u64) -> bool {
        let Some(Some(_)) = self.objects.get(parent as usize) else { return false };
        let Some((mut at, mut minimum)) = self.last else { return false };
        while at != parent {
            match self.objects[at as usize].unwrap().parent {
                Some((next, offset)) => (at, minimum) = (next, offset + 8),
                None => return false,
            }
        }
        offset >= minimum
    }

    fn fits(&self, parent: u64, offset: u64, size: u64) -> bool {
        let length = self.objects[parent as usize].unwrap().length;
        size <= length && offset <= length - size && offset % 4 == 0
    }

    /// Takes an object; `false` if it is refused.
    fn take(&mut self, sent: &Sent, room: u64) -> bool {
        let number = self.objects.len() as u64;
        let (length, parent) = match *sent {
            Sent::Other => {
                self.objects.push(None);
                return true;
            }
            Sent::Array(parent, offset, count) => {
                if !self.allows(parent, offset) || count >= u64::MAX / 4 {
                    return false;
                }
                if count != 0 && !self.fits(parent, offset, 4 * count) {
                    return false;
                }
                self.objects.push(None);
                self.last = Some((parent, offset.wrapping_add(4 * count)));
                return true;
            }
            Sent::Root(length) => (length, None),
            Sent::Child(length, parent, offset) => (length, Some((parent, offset))),
        };
        if length > room - self.used {
            return false;
        }
        if let Some((parent, offset)) = parent {
            if !self.allows(parent, offset) || !self.fits(parent, offset, 8) {
                return false;
            }
        }
        self.used += length.next_multiple_of(8);
        self.objects.push(Some(ModelBlock { length, parent }));
        self.last = Some((number, 0));
        true
    }
}

/// Adds a block without a parent, which leaves no gap. Returns where it goes.
fn add_root(
    area: &mut PointerArea,
    object: u64,
    source: u64,
    length: u64,
    copy: &mut impl FnMut(Piece) -> kernel::error::Result,
) -> kernel::error::Result<usize> {
    area.add(object, source, length, None, copy).map(|(at, gap)| {
        assert_eq!(gap, None);
        at
    })
}

/// Runs a list of objects: how many the area took, and the memory afterwards.
fn run(list: &[Sent], room: usize) -> (usize, Memory, Vec<(usize, u64, u64)>) {
    let bytes = vec![Writer::Nobody; START + room + 64];
    let mut memory = Memory { bytes };
    let mut area = PointerArea::new(START, START + room);
    let mut blocks = Vec::new();
    let mut gaps: Vec<(Piece, u64, u64)> = Vec::new();
    let mut taken = 0;
    for (object, sent) in (0..).zip(list) {
        let source = source_of(object);
        let copy = &mut |piece| memory.copy(piece);
        let result = match *sent {
            Sent::Other => Ok(()),
            Sent::Root(length) => {
                add_root(&mut area, object, source, length, copy).map(|at| blocks.push((at, object, length)))
            }
            Sent::Child(length, parent, offset) => {
                let parent = Some((parent, offset));
                area.add(object, source, length, parent, copy).map(|(at, gap)| {
                    blocks.push((at, object, length));
                    gaps.push((gap.unwrap(), object, 8));
                })
            }
            Sent::Array(parent, offset, count) => match count.checked_mul(4) {
                None => Err(EINVAL),
                Some(size) => {
                    area.claim(parent, offset, size, copy).map(|gap| gaps.push((gap, object, size)))
                }
            },
        };
        // The one that claims a gap fills it at once.
        if let Some((gap, by, size)) = gaps.pop() {
            if size != 0 {
                memory.put(gap.at, size as usize, |_| Writer::Gap(by));
                let whose = (gap.source >> 32) - 1;
                let block = blocks.iter().find(|block| block.1 == whose).unwrap();
                assert_eq!(gap.at - block.0, (gap.source & 0xffff_ffff) as usize);
            }
        }
        match result {
            Ok(()) => taken += 1,
            Err(error) => {
                assert_eq!(error, EINVAL);
                return (taken, memory, blocks);
            }
        }
    }
    area.finish(&mut |piece| memory.copy(piece)).unwrap();
    (taken, memory, blocks)
}

/// Both take the same objects; their blocks are complete, and nothing else was touched.
fn check(list: &[Sent], room: usize) -> usize {
    let mut model = Model::default();
    let wanted = list.iter().take_while(|sent| model.take(sent, room as u64)).count();
    let (taken, memory, blocks) = run(list, room);
    assert_eq!(taken, wanted, "{list:?}");
    let outside = |at: usize| !blocks.iter().any(|b| (b.0..b.0 + b.2 as usize).contains(&at));
    for (at, byte) in memory.bytes.iter().enumerate() {
        if outside(at) {
            assert_eq!(*byte, Writer::Nobody, "byte {at} belongs to no block");
        }
    }
    for &(at, object, length) in &blocks {
        assert!(at % 8 == 0 && at >= START && at + length as usize <= START + room);
        for i in 0..length as usize {
            match memory.bytes[at + i] {
                Writer::Nobody => {
                    assert!(taken < list.len(), "byte {i} of block {object} is missing")
                }
                Writer::Copied(from) => assert_eq!(from, source_of(object) + i as u64),
                Writer::Gap(by) => assert!(by > object),
            }
        }
    }
    taken
}

#[test]
fn lesson_r16_all_short_lists() {
    // Every list of up to four objects over a small alphabet.
    let mut alphabet = vec![Sent::Other];
    alphabet.extend([0, 8, 20, 40].map(Sent::Root));
    for parent in 0..3 {
        for offset in [0, 2, 8, 12, 16] {
            alphabet.push(Sent::Child(16, parent, offset));
            alphabet.push(Sent::Array(parent, offset, 1));
        }
        alphabet.push(Sent::Array(parent, 8, 0));
        alphabet.push(Sent::Array(parent, 4, 3));
    }
    let mut complete = 0;
    for mut number in 0..alphabet.len().pow(4) {
        let list = [(); 4].map(|()| {
            let sent = alphabet[number % alphabet.len()].clone();
            number /= alphabet.len();
            sent
        });
        complete += usize::from(check(&list, 64) == 4);
    }
    assert!(complete > 1000, "only {complete} lists were taken");
}

/// Mostly sensible objects: parents that exist, offsets that grow.
fn sent() -> impl Strategy<Value = Sent> {
    let length = prop_oneof![0u64..100, Just(u64::MAX), Just(u64::MAX - 7), Just(1 << 40)];
    let offset = prop_oneof![8 => (0u64..12).prop_map(|n| n * 4), 2 => 0u64..64, 1 => any::<u64>()];
    let parent = prop_oneof![9 => 0u64..6, 1 => any::<u64>()];
    let count = prop_oneof![8 => 0u64..6, 1 => any::<u64>(), 1 => Just((1 << 62) + 1)];
    prop_oneof![
        2 => length.clone().prop_map(Sent::Root),
        4 => (0u64..60, parent.clone(), offset.clone())
            .prop_map(|(length, parent, offset)| Sent::Child(length, parent, offset)),
        3 => (parent, offset, count)
            .prop_map(|(parent, offset, count)| Sent::Array(parent, offset, count)),
        1 => Just(Sent::Other),
    ]
}

/// Lists that the rules allow.
fn allowed() -> impl Strategy<Value = Vec<Sent>> {
    prop::collection::vec((0u8..4, 0usize..4, 0u64..5, 0u64..6), 1..40).prop_map(|choices| {
        let mut list: Vec<Sent> = Vec::new();
        // Open blocks: number, length, cursor.
        let mut open: Vec<(u64, u64, u64)> = Vec::new();
        for (kind, up, skip, size) in choices {
            let number = list.len() as u64;
            open.truncate(open.len().max(up) - up);
            let length = 24 + 4 * size;
            match (kind, open.last_mut()) {
                (0, _) | (_, None) => {
                    open = vec![(number, length, 0)];
                    list.push(Sent::Root(length));
                }
                (3, _) => list.push(Sent::Other),
                (kind, Some((parent, room, cursor))) => {
                    let (parent, offset) = (*parent, *cursor + 4 * skip);
                    let used = if kind == 1 { 8 } else { 4 * size };
                    if offset + used > *room {
                        continue;
                    }
                    *cursor = offset + used;
                    if kind == 1 {
                        open.push((number, length, 0));
                        list.push(Sent::Child(length, parent, offset));
                    } else {
                        list.push(Sent::Array(parent, offset, size));
                    }
                }
            }
        }
        list
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn lesson_c03_any_list(list in prop::collection::vec(sent(), 0..12), room in 0usize..40) {
        check(&list, room * 8);
    }

    #[test]
    fn lesson_c07_every_allowed_list_is_taken(list in allowed()) {
        prop_assert_eq!(check(&list, 16384), list.len());
    }
}

#[test]
fn lesson_c07_blocks_stay_inside_the_area() {
    let copy = &mut |_: Piece| Ok(());
    for length in [17, 24, 1 << 20, u64::MAX - 6, u64::MAX] {
        let mut area = PointerArea::new(8, 24);
        assert_eq!(add_root(&mut area, 0, 0, length, copy), Err(EINVAL), "{length:#x}");
        // A refused block has taken nothing.
        assert_eq!(add_root(&mut area, 0, 0, 16, copy), Ok(8));
        assert_eq!(add_root(&mut area, 1, 0, 1, copy), Err(EINVAL));
        assert_eq!(add_root(&mut area, 1, 0, 0, copy), Ok(24));
    }
}

#[test]
fn errors_of_copying_come_through() {
    let mut area = PointerArea::new(0, 64);
    let fails = &mut |_: Piece| Err(EFAULT);
    assert_eq!(add_root(&mut area, 0, 0, 16, fails), Ok(0));
    assert_eq!(area.claim(0, 4, 4, fails), Err(EFAULT));
    assert_eq!(area.finish(fails), Err(EFAULT));
}

#[test]
fn lack_of_memory_is_told() {
    let mut area = PointerArea::new(0, 64);
    let copy = &mut |_: Piece| Ok(());
    kernel::testing::fail_after(0);
    assert_eq!(add_root(&mut area, 0, 0, 16, copy), Err(ENOMEM));
    assert_eq!(add_root(&mut area, 0, 0, 16, copy), Ok(16));
}
