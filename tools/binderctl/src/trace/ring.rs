// SPDX-License-Identifier: GPL-2.0
//! The pages of the kernel's trace ring, as `trace_pipe_raw` returns them, and the offsets of a record's fields, from
//! an event's `format` file and from `header_page`.
//!
//! A page starts with a time and the length of what follows: records, each behind a word that has its length and the time
//! since the one before.

/// Values of a record's length that mean something else: that nothing follows, or a time.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// Flags beside a page's length: records before it were overwritten, and their number stands behind its last record.
const MISSED: u64 = 1 << 31;
const MISSED_TOLD: u64 = 1 << 30;

/// An absolute time has so many bits; the others are those of the time before.
const STAMP_BITS: u32 = 59;

/// The layout of a page.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    timestamp: Slot,
    commit: Slot,
    data: usize,
}

/// A page that is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl Layout {
    /// Reads `events/header_page`.
    pub fn parse(header_page: &str) -> Option<Self> {
        let format = Format::parse(header_page)?;
        Some(Self {
            timestamp: format.slot("timestamp")?,
            commit: format.slot("commit")?,
            data: format.slot("data")?.offset,
        })
    }

    pub fn records<'a>(&self, page: &'a [u8]) -> Result<Records<'a>, Malformed> {
        let number = |slot: Slot| slot.read(page).map(|value| value as u64).ok_or(Malformed);
        let (time, commit) = (number(self.timestamp)?, number(self.commit)?);
        let length = (commit & (MISSED_TOLD - 1)) as usize;
        let data = page.get(self.data..).ok_or(Malformed)?;
        let rest = data.get(..length).ok_or(Malformed)?;
        let told = data.get(length..).and_then(|after| after.first_chunk().map(|n| u64::from_le_bytes(*n)));
        let lost = match (commit & MISSED != 0, commit & MISSED_TOLD != 0) {
            (false, _) => 0,
            (true, true) => told.ok_or(Malformed)?.max(1),
            (true, false) => 1,
        };
        Ok(Records { rest, time, lost })
    }
}

/// The records of a page, each with its time in nanoseconds.
#[derive(Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    /// When the record was written that was read last, or the page begun.
    pub time: u64,
    /// The least number of records that were lost before the first one of this page.
    pub lost: u64,
}

impl<'a> Records<'a> {
    fn word(&mut self) -> Result<u32, Malformed> {
        let (word, rest) = self.rest.split_first_chunk().ok_or(Malformed)?;
        self.rest = rest;
        Ok(u32::from_le_bytes(*word))
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Malformed)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// The next record, after those entries that are none.
    fn record(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        while !self.rest.is_empty() {
            let head = self.word()?;
            let (kind, delta) = (head & 31, u64::from(head >> 5));
            match kind {
                PADDING if delta == 0 => self.rest = &[],
                PADDING => {
                    let length = self.word()? as usize;
                    self.bytes(length.checked_sub(4).ok_or(Malformed)?)?;
                    self.time += delta;
                }
                TIME_EXTEND => self.time += (u64::from(self.word()?) << 27) + delta,
                TIME_STAMP => {
                    let stamp = (u64::from(self.word()?) << 27) + delta;
                    self.time = (self.time >> STAMP_BITS << STAMP_BITS) | stamp;
                }
                0 => {
                    self.time += delta;
                    let length = (self.word()? as usize).checked_sub(4).ok_or(Malformed)?;
                    return self.bytes(length.next_multiple_of(4)).map(Some);
                }
                words => {
                    self.time += delta;
                    return self.bytes(4 * words as usize).map(Some);
                }
            }
        }
        Ok(None)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<(u64, &'a [u8]), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.record() {
            Ok(record) => record.map(|bytes| Ok((self.time, bytes))),
            Err(malformed) => {
                self.rest = &[];
                Some(Err(malformed))
            }
        }
    }
}

/// The layout of an event's records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The number that its records start with.
    pub id: i64,
    fields: Vec<(String, Slot)>,
}

/// The offset and size of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    offset: usize,
    size: usize,
    signed: bool,
}

impl Format {
    /// Reads a `format` file, or `header_page`, which has no number.
    pub fn parse(text: &str) -> Option<Self> {
        let id =
            text.lines().find_map(|line| line.strip_prefix("ID: ")).map_or(Some(0), |id| id.parse().ok())?;
        let lines = text.lines().map(str::trim_start).filter(|line| line.starts_with("field:"));
        let fields = lines.map(field).collect::<Option<Vec<_>>>()?;
        Some(Self { id, fields })
    }

    /// The place of a field.
    pub fn slot(&self, name: &str) -> Option<Slot> {
        self.fields.iter().find(|(other, _)| other == name).map(|(_, slot)| *slot)
    }
}

/// Reads a line such as `field:unsigned int code; offset:28; size:4; signed:0;`.
fn field(line: &str) -> Option<(String, Slot)> {
    let mut parts = line.split(';').map(str::trim);
    let declaration = parts.next()?.strip_prefix("field:")?;
    let name = declaration.rsplit(' ').next()?.split('[').next()?;
    let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse().ok();
    let slot = Slot { offset: number("offset:")?, size: number("size:")?, signed: number("signed:")? != 0 };
    Some((name.to_owned(), slot))
}

impl Slot {
    /// The number at this place; none where the record ends before.
    pub fn read(self, record: &[u8]) -> Option<i64> {
        let bytes = record.get(self.offset..self.offset.checked_add(self.size)?)?;
        let mut wide = [0; 8];
        wide.get_mut(..self.size)?.copy_from_slice(bytes);
        let value = i64::from_le_bytes(wide);
        let unused = 64 - 8 * self.size as u32;
        Some(if self.signed { value.wrapping_shl(unused).wrapping_shr(unused) } else { value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER_PAGE: &str = include_str!("recorded/header_page");

    fn page(time: u64, flags: u64, words: &[u32], after: u64) -> Vec<u8> {
        let mut page = time.to_le_bytes().to_vec();
        page.extend((flags + 4 * words.len() as u64).to_le_bytes());
        page.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        page.extend(after.to_le_bytes());
        page
    }

    fn read(page: &[u8]) -> Result<Vec<(u64, u32)>, Malformed> {
        let records = Layout::parse(HEADER_PAGE).unwrap().records(page)?;
        let first = |bytes: &[u8]| u32::from_le_bytes(*bytes.first_chunk().unwrap());
        records.map(|item| item.map(|(time, bytes)| (time, first(bytes)))).collect()
    }

    #[test]
    fn times_add_up() {
        let words = [
            1 | 5 << 5,
            11, // One word, 5 ns later.
            TIME_EXTEND | 1 << 5,
            1, // 2^27 + 1.
            2,
            12,
            0, // Two words at the same time.
            7 << 5,
            12,
            13,
            0, // A record with its length in a word of its own: 12 with that word.
            PADDING | 9 << 5,
            8,
            0, // One that was taken back.
            1 | 1 << 5,
            14,
            TIME_STAMP | 3 << 5,
            0,
            1,
            15,
            PADDING,
            99,
            99,
        ];
        let long = (1 << 27) + 1;
        let expected = [(105, 11), (105 + long, 12), (112 + long, 13), (122 + long, 14), (3, 15)];
        assert_eq!(read(&page(100, 0, &words, 0)).unwrap(), expected);
    }

    #[test]
    fn lost_records_are_counted() {
        let lost = |flags| {
            let page = page(1, flags, &[1, 11], 17);
            Layout::parse(HEADER_PAGE).unwrap().records(&page).unwrap().lost
        };
        assert_eq!((lost(0), lost(MISSED), lost(MISSED | MISSED_TOLD)), (0, 1, 17));
    }

    #[test]
    fn a_record_that_ends_behind_its_page_is_refused() {
        assert_eq!(read(&page(0, 0, &[2, 11], 0)), Err(Malformed));
        assert_eq!(read(&page(0, 0, &[0, 3, 1], 0)), Err(Malformed));
        assert_eq!(read(&page(0, 4096, &[1, 11], 0)), Err(Malformed));
        assert_eq!(read(&[0; 12]), Err(Malformed));
    }

    #[test]
    fn numbers_have_their_width_and_sign() {
        let record = [0xfe, 0xff, 0xff, 0xff, 7, 0, 0, 0];
        let slot = |offset, size, signed| Slot { offset, size, signed };
        assert_eq!(slot(0, 4, true).read(&record), Some(-2));
        assert_eq!(slot(0, 4, false).read(&record), Some(0xffff_fffe));
        assert_eq!(slot(4, 1, false).read(&record), Some(7));
        assert_eq!(slot(6, 4, false).read(&record), None);
    }

    #[test]
    fn a_line_that_is_none_is_refused() {
        assert_eq!(Format::parse("ID: 1\n\tfield:int x;\toffset:a;\tsize:4;\tsigned:1;\n"), None);
    }
}
