// SPDX-License-Identifier: GPL-2.0
//! Where the fields of a record stand: what the kernel says in the `format` file of an event and in `header_page`.

/// The layout of an event's records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The number that its records start with.
    pub id: i64,
    fields: Vec<(String, Slot)>,
}

/// Where a number stands.
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

    /// Where it starts.
    pub fn offset(self) -> usize {
        self.offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: x
ID: 439
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;

print fmt: \"x\"
";

    #[test]
    fn fields_are_found_by_name() {
        let format = Format::parse(FORMAT).unwrap();
        assert_eq!(format.id, 439);
        assert_eq!(format.slot("common_pid"), Some(Slot { offset: 4, size: 4, signed: true }));
        assert_eq!(format.slot("comm").map(Slot::offset), Some(8));
        assert_eq!(format.slot("code"), None);
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
