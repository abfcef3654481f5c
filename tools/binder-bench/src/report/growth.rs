// SPDX-License-Identifier: GPL-2.0
//! Growth of costs with numbers, next to the base.

use serde::Serialize;

use super::rows::{Row, Sorted};
use crate::result::{Cell, Grown, Growth, Measured, Stretch};
use crate::stats;

/// The tolerance of an exponent above the base's, and above that of N log N.
const TOLERANCE: f64 = 0.15;

/// Growth of less than this part of what one costs, or of fewer instructions, is none: ticks and the state of free lists.
const FLAT: (f64, f64) = (0.05, 20_000.0);

/// An exponent above this, and below 1, counts as 1.
const LINEAR: f64 = 0.6;

/// The points, besides that of one, that a fit of the growth needs.
const FITTED: usize = 3;

/// The multiple of the largest number at which costs are extrapolated and compared.
const BEYOND: f64 = 16.0;

/// A longest stretch is too long when it is both this many times as long as the base's, and so many instructions longer.
const STRETCH: (f64, f64) = (1.5, 20_000.0);

/// A longest stretch grows if each larger number makes it this many times as long as the number before, and all of them
/// together this many instructions longer.
const STRETCHED: (f64, f64) = (1.5, 4_000.0);

#[derive(Debug, Serialize)]
pub struct Grows {
    /// Pairs of a number and instructions of each of so many, or of each operation.
    pub each: Vec<(u64, f64)>,
    /// The growth is about that of N to this power; none with fewer than three numbers, of which two may differ by chance.
    pub exponent: Option<f64>,
    /// The longest stretch with preemption off, with the largest number, and where.
    pub preempt_off: Option<(u64, String)>,
    /// The same with interrupts off.
    pub irqs_off: Option<(u64, String)>,
    /// Instructions with the largest number that both have, compared with the base.
    pub ratio: Option<f64>,
    /// The faults; empty if there are none.
    pub faults: Vec<String>,
}

pub fn rows(sorted: &Sorted, base: &str) -> Vec<Row<Grows>> {
    sorted.rows(base, growth_of, |seen, of_base| {
        let (growth, other) = (*seen.last()?, of_base.last().copied());
        let stretch = |of: Of| {
            let longest = of(growth.points.last()?).as_ref()?;
            Some((longest.instructions, longest.function.clone()))
        };
        Some(Grows {
            each: each(growth),
            exponent: exponent(growth),
            preempt_off: stretch(|point| &point.preempt_off),
            irqs_off: stretch(|point| &point.irqs_off),
            ratio: other.and_then(|other| ratio(growth, other)),
            faults: faults(growth, other),
        })
    })
}

fn growth_of(cell: &Cell) -> Option<&Growth> {
    let Measured::Growth(growth) = &cell.measured else { return None };
    Some(growth)
}

/// One of the longest stretches of a point.
type Of = fn(&Grown) -> &Option<Stretch>;

/// The cost of one, the largest number, and the cost of that number beyond one.
fn most(growth: &Growth) -> Option<(f64, f64, f64)> {
    let [first, .., last] = &growth.points[..] else { return None };
    let one = first.instructions as f64;
    Some((one, last.count as f64, last.instructions as f64 - one))
}

fn each(growth: &Growth) -> Vec<(u64, f64)> {
    let one = growth.points.first().map_or(0.0, |first| first.instructions as f64);
    let of = |point: &Grown| match growth.operations {
        Some(operations) => point.instructions as f64 / operations as f64,
        None if point.count == 1 => one,
        None => (point.instructions as f64 - one) / (point.count - 1) as f64,
    };
    growth.points.iter().map(|point| (point.count, of(point))).collect()
}

/// Numbers, and what was added up to each of them from the one before: all but one, of which others differ in too much.
fn added(growth: &Growth) -> Vec<(f64, f64)> {
    let points = growth.points.get(1..).unwrap_or_default();
    let of =
        |pair: &[Grown]| (pair[1].count as f64, pair[1].instructions as f64 - pair[0].instructions as f64);
    points.windows(2).map(of).collect()
}

/// The slope of a line through the logarithms of the numbers and of what was added up to each. Numbers grow by one factor, so
/// what is paid once does not matter.
fn exponent(growth: &Growth) -> Option<f64> {
    let (one, _, beyond) = most(growth)?;
    let least = (one * FLAT.0).max(FLAT.1);
    if growth.points.len() <= FITTED {
        return None;
    }
    if beyond < least {
        return Some(0.0);
    }
    slope(&told(growth, least)).map(|power| power.max(0.0))
}

/// The added costs that are large enough to measure; two at least.
fn told(growth: &Growth, least: f64) -> Vec<(f64, f64)> {
    let added = added(growth);
    let enough: Vec<_> = added.iter().copied().filter(|&(_, cost)| cost >= least).collect();
    match enough.len() {
        0 | 1 => {
            added[added.len().saturating_sub(2)..].iter().map(|&(n, cost)| (n, cost.max(least))).collect()
        }
        _ => enough,
    }
}

fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let logarithms: Vec<(f64, f64)> = points.iter().map(|&(count, cost)| (count.ln(), cost.ln())).collect();
    stats::line(&logarithms).map(|(slope, _)| slope)
}

/// The exponent, or that of the two largest numbers if it is smaller: a few cheap first numbers make a line too steep.
fn lasting(growth: &Growth) -> Option<f64> {
    let power = exponent(growth)?;
    match added(growth)[..] {
        [.., (few, before), (many, last)] if before > 0.0 && last > 0.0 => {
            Some(power.min((last / before).ln() / (many / few).ln()))
        }
        _ => Some(power),
    }
}

/// The exponent that N log N would have between the same numbers.
fn of_n_log_n(growth: &Growth) -> Option<f64> {
    let sorting = |point: &Grown| {
        let count = point.count as f64;
        Grown { instructions: (count * count.log2()) as u64, ..point.clone() }
    };
    let points = growth.points.iter().map(sorting).collect();
    slope(&added(&Growth { points, ..growth.clone() }))
}

fn ratio(growth: &Growth, base: &Growth) -> Option<f64> {
    let at = |count| base.points.iter().find(|point| point.count == count);
    let (ours, theirs) = growth.points.iter().rev().find_map(|point| Some((point, at(point.count)?)))?;
    (theirs.instructions > 0).then(|| ours.instructions as f64 / theirs.instructions as f64)
}

fn extrapolated(growth: &Growth, count: f64) -> Option<f64> {
    let (one, largest, cost) = most(growth)?;
    Some(one + cost * (count / largest).powf(exponent(growth)?))
}

fn faults(growth: &Growth, base: Option<&Growth>) -> Vec<String> {
    let mut found = Vec::new();
    if let (Some(power), Some(allowed)) = (lasting(growth), of_n_log_n(growth)) {
        // If the base grows as fast, the cause is the rest of the kernel, such as slabs that are freed.
        let base = base.and_then(exponent).unwrap_or(0.0);
        if power > allowed.max(base) + TOLERANCE {
            found.push(format!("N^{power:.2}"));
        }
    }
    let Some(base) = base else { return found };
    if let (Some(why), true) = (&growth.stopped, growth.points.len() < base.points.len()) {
        found.push(format!("stops {why}"));
    }
    if faster(growth, base) == Some(true) {
        found.push("faster than C".into());
    }
    let stretches: [Of; 2] = [|p| &p.preempt_off, |p| &p.irqs_off];
    for (stretch, name) in stretches.into_iter().zip(["preemption", "interrupts"]) {
        if too_long(growth, base, stretch) == Some(true) {
            found.push(format!("{name} off too long"));
        }
        if lengthens(growth, stretch) && !lengthens(base, stretch) {
            found.push(format!("{name} off for longer with more"));
        }
    }
    found
}

/// Returns true if this grows faster than the base, and costs more for some number.
fn faster(growth: &Growth, base: &Growth) -> Option<bool> {
    let (one, largest, cost) = most(growth)?;
    // So little growth is that of a few pages, and its power an accident.
    if cost < one {
        return None;
    }
    let count = largest * BEYOND;
    // Costs of each object are linear in the end, even if the first ones cost more.
    let theirs = match exponent(base)? {
        power if power > LINEAR => power.max(1.0),
        power => power,
    };
    let steeper = lasting(growth)? > theirs + TOLERANCE;
    Some(steeper && extrapolated(growth, count)? > extrapolated(base, count)?)
}

/// Returns true if a longest stretch grows with the numbers. Rare events that take long are no growth.
fn lengthens(growth: &Growth, of: Of) -> bool {
    let lengths: Vec<f64> = growth.points[growth.points.len().saturating_sub(FITTED)..]
        .iter()
        .map(|point| of(point).as_ref().map_or(0.0, |stretch| stretch.instructions as f64))
        .collect();
    let [first, _, last] = lengths[..] else { return false };
    lengths.windows(2).all(|pair| pair[1] > pair[0] * STRETCHED.0) && last - first > STRETCHED.1
}

fn too_long(growth: &Growth, base: &Growth, of: Of) -> Option<bool> {
    let ours = growth.points.last()?;
    let theirs = base.points.iter().find(|point| point.count == ours.count)?;
    let (ours, theirs) = (of(ours).as_ref()?.instructions as f64, of(theirs).as_ref()?.instructions as f64);
    Some(ours > theirs * STRETCH.0 && ours > theirs + STRETCH.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn growth(cost: impl Fn(f64) -> f64) -> Growth {
        let point = |count: u64| Grown {
            count,
            instructions: cost(count as f64) as u64,
            places: Vec::new(),
            preempt_off: None,
            irqs_off: None,
        };
        Growth { operations: None, points: [1, 64, 256, 1024, 4096].map(point).to_vec(), stopped: None }
    }

    #[test]
    fn powers_are_found_whatever_one_costs() {
        for (power, first) in [(1.0, 50_000.0), (2.0, 50_000.0), (1.0, 0.0)] {
            let found = exponent(&growth(|n| first + 500.0 * n.powf(power))).unwrap();
            assert!((found - power).abs() < 0.02, "{found} for {power}");
        }
        assert_eq!(exponent(&growth(|n| 50_000.0 + n / 10.0)), Some(0.0));
    }

    #[test]
    fn n_log_n_is_allowed_and_more_is_not() {
        let linear = growth(|n| 50_000.0 + 500.0 * n);
        let sorting = growth(|n| 50_000.0 + 500.0 * n * n.log2().max(1.0));
        let square = growth(|n| 50_000.0 + 50.0 * n * n);
        assert!(faults(&sorting, None).is_empty());
        assert_eq!(faults(&square, None), ["N^2.00"]);
        assert!(faults(&linear, Some(&linear)).is_empty());
        assert_eq!(faults(&square, Some(&linear)).len(), 2);
    }

    #[test]
    fn stretches_may_grow_where_the_bases_do() {
        let stretched = |length: fn(u64) -> u64| {
            let mut growth = growth(|n| 500.0 * n);
            for point in &mut growth.points {
                let instructions = length(point.count);
                point.preempt_off = Some(Stretch { instructions, function: String::new() });
            }
            growth
        };
        let (walk, seldom) = (stretched(|n| 300 + 4 * n), stretched(|n| if n > 2000 { 11_000 } else { 300 }));
        assert_eq!(faults(&walk, Some(&seldom)), ["preemption off for longer with more"]);
        assert!(faults(&seldom, Some(&stretched(|_| 300))).is_empty());
        assert!(faults(&walk, Some(&walk)).is_empty());
    }

    fn measured(instructions: [u64; 5]) -> Growth {
        let mut growth = growth(|_| 0.0);
        growth.points.iter_mut().zip(instructions).for_each(|(point, cost)| point.instructions = cost);
        growth
    }

    #[test]
    fn chance_and_little_growth_and_what_is_cheaper_for_long_are_no_faults() {
        let base = measured([198_931, 195_836, 221_952, 291_672, 624_894]);
        // Each of the last two steps costs 1 700 a call, the one before 1 100.
        let chance = measured([192_994, 189_602, 215_965, 379_930, 1_030_459]);
        assert!(exponent(&chance).unwrap() > 1.0 + TOLERANCE);
        let lasts = measured([192_994, 189_602, 215_965, 379_930, 1_330_459]);
        let little_of_base = measured([190_496, 190_624, 192_278, 203_886, 229_960]);
        let little = measured([176_149, 175_429, 180_722, 188_281, 223_673]);
        let more = measured([176_149, 175_429, 180_722, 248_281, 623_673]);
        let flat = growth(|_| 50_000_000.0);
        let (cheap, dear) = (growth(|n| 5_000.0 + 10.0 * n), growth(|n| 5_000.0 + 10_000.0 * n));
        for (ours, base, is_fault) in [
            (chance, &base, false),
            (lasts, &base, true),
            (little, &little_of_base, false),
            (more, &little_of_base, true),
            (cheap, &flat, false),
            (dear, &flat, true),
        ] {
            let wanted: &[&str] = if is_fault { &["faster than C"] } else { &[] };
            assert_eq!(faults(&ours, Some(base)), wanted);
        }
    }
}
