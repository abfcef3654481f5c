// SPDX-License-Identifier: GPL-2.0
//! All results, sorted by the point and the driver or yardstick that they are about.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::result::{Carrier, Cell, Label, RunFile};
use crate::yardstick;

/// Whom a row is about. Yardsticks come after drivers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    Driver(String),
    /// Something to compare Binder with; the same in every boot, whatever driver is loaded.
    Yardstick(Carrier),
}

impl Subject {
    pub fn name(&self) -> &str {
        match self {
            Subject::Driver(label) => label,
            Subject::Yardstick(carrier) => carrier.name(),
        }
    }
}

/// A measured point, by the order in which points are met first, and whom it is about.
pub type Key = (usize, Subject);

/// What one point came to with one driver or yardstick, next to the base.
#[derive(Debug, Serialize)]
pub struct Row<T> {
    /// What was measured; its carrier says nothing here.
    #[serde(flatten)]
    pub label: Label,
    pub subject: Subject,
    #[serde(flatten)]
    pub figures: T,
}

#[derive(Default)]
pub struct Sorted<'a> {
    /// What each point is: a label that leaves the carrier open.
    points: Vec<Label>,
    /// Cells with the driver that was loaded.
    cells: BTreeMap<Key, Vec<(&'a str, &'a Cell)>>,
}

impl<'a> Sorted<'a> {
    pub fn add(&mut self, file: &'a RunFile) {
        for cell in &file.cells {
            let carrier = cell.label.carrier;
            let label = Label { carrier: Carrier::Binder, ..cell.label.clone() };
            let point = self.points.iter().position(|known| *known == label).unwrap_or_else(|| {
                self.points.push(label);
                self.points.len() - 1
            });
            let subject = match carrier {
                Carrier::Binder => Subject::Driver(file.driver.clone()),
                yardstick => Subject::Yardstick(yardstick),
            };
            self.cells.entry((point, subject)).or_default().push((&file.driver, cell));
        }
    }

    /// A row for each key of which something of one kind was measured: `pick` gives that, `figures` what it comes to next to the
    /// same of the base, which is empty where there is none.
    pub fn rows<M, T>(
        &self,
        base: &str,
        pick: impl Fn(&'a Cell) -> Option<M>,
        figures: impl Fn(&Key, &[M], &[M]) -> Option<T>,
    ) -> Vec<Row<T>> {
        let row = |key: &Key| {
            let base_key = (key.0, Subject::Driver(base.to_string()));
            let of = |key: &Key| -> Vec<M> {
                self.cells.get(key).into_iter().flatten().filter_map(|(_, cell)| pick(cell)).collect()
            };
            let (seen, of_base) = (of(key), if *key == base_key { Vec::new() } else { of(&base_key) });
            let figures = if seen.is_empty() { None } else { figures(key, &seen, &of_base) }?;
            Some(Row { label: self.points[key.0].clone(), subject: key.1.clone(), figures })
        };
        self.cells.keys().filter_map(row).collect()
    }

    /// What the yardstick showed while a driver was loaded: at the same point, or else for the same workload.
    pub fn control(&self, point: usize, driver: &str) -> Vec<&'a Cell> {
        let at = |point: usize| -> Vec<&'a Cell> {
            let cells =
                self.cells.get(&(point, Subject::Yardstick(Carrier::Seqpacket))).into_iter().flatten();
            cells.filter(|(loaded, _)| *loaded == driver).map(|(_, cell)| *cell).collect()
        };
        let found = at(point);
        if !found.is_empty() {
            return found;
        }
        let workload = &self.points[point].workload;
        let general = |p: &Label| &p.workload == workload && p.case == yardstick::CASE;
        self.points.iter().position(general).map(at).unwrap_or_default()
    }
}
