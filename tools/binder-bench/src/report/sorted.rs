// SPDX-License-Identifier: GPL-2.0
//! All results, sorted by the point and the driver or yardstick that they are about.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::result::Carrier;
use crate::result::Cell;
use crate::result::Count;
use crate::result::CpuTime;
use crate::result::Growth;
use crate::result::Label;
use crate::result::Latency;
use crate::result::Measured;
use crate::result::Memory;
use crate::result::Pressure;
use crate::yardstick;

/// Whom a row is about. Yardsticks come after drivers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// A Binder driver, by its label.
    Driver(String),
    /// Something to compare Binder with; the same in every boot, whatever driver is loaded.
    Yardstick(Carrier),
}

impl Subject {
    /// The name in tables.
    pub fn name(&self) -> &str {
        match self {
            Subject::Driver(label) => label,
            Subject::Yardstick(carrier) => carrier.name(),
        }
    }
}

/// What one boot says of one place.
pub type Timed<'a> = (&'a Latency, Option<CpuTime>);

/// A measured point, by the order in which points are met first.
pub type Place = usize;

/// All results, sorted by what they are about.
#[derive(Default)]
pub struct Sorted<'a> {
    /// What each place is: a label that leaves the carrier open.
    pub places: Vec<Label>,
    pub latency: BTreeMap<(Place, Subject), Vec<Timed<'a>>>,
    pub counts: BTreeMap<(Place, Subject), Vec<&'a Count>>,
    pub memory: BTreeMap<(Place, Subject), Vec<&'a Memory>>,
    pub pressure: BTreeMap<(Place, Subject), Vec<&'a Pressure>>,
    pub growth: BTreeMap<(Place, Subject), Vec<&'a Growth>>,
    /// Yardsticks by the driver that was loaded meanwhile, to see whether the machine treated all drivers alike.
    pub controls: BTreeMap<(Place, Carrier, String), Vec<&'a Latency>>,
}

impl<'a> Sorted<'a> {
    pub fn add(&mut self, driver: &str, cell: &'a Cell) {
        let carrier = cell.label.carrier;
        let label = Label { carrier: Carrier::Binder, ..cell.label.clone() };
        let known = self.places.iter().position(|p| *p == label);
        let place = known.unwrap_or_else(|| {
            self.places.push(label);
            self.places.len() - 1
        });
        let subject = match carrier {
            Carrier::Binder => Subject::Driver(driver.to_string()),
            other => Subject::Yardstick(other),
        };
        match &cell.measured {
            Measured::Latency(latency) => {
                if carrier != Carrier::Binder {
                    self.controls.entry((place, carrier, driver.to_string())).or_default().push(latency);
                }
                self.latency.entry((place, subject)).or_default().push((latency, cell.cpu));
            }
            Measured::Count(count) => self.counts.entry((place, subject)).or_default().push(count),
            Measured::Pressure(pressure) => self.pressure.entry((place, subject)).or_default().push(pressure),
            Measured::Growth(growth) => self.growth.entry((place, subject)).or_default().push(growth),
            Measured::Memory(memory) => self.memory.entry((place, subject)).or_default().push(memory),
        }
    }

    /// What a yardstick showed while a driver was loaded: at the same place, or else for the same workload.
    pub fn control(&self, place: Place, carrier: Carrier, driver: &str) -> Option<&[&'a Latency]> {
        let workload = &self.places[place].workload;
        let general =
            || self.places.iter().position(|p| &p.workload == workload && p.case == yardstick::CASE);
        let at = |place| self.controls.get(&(place, carrier, driver.to_string())).map(Vec::as_slice);
        at(place).or_else(|| at(general()?))
    }
}
