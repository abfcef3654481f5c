// SPDX-License-Identifier: GPL-2.0
//! Two sides next to each other: two drivers, or one before and after a change. First of all: may they be compared?

use std::collections::BTreeSet;

use crate::error::Error;
use crate::error::Result;
use crate::report;
use crate::report::Report;
use crate::result::Cell;
use crate::result::Label;
use crate::result::Measured;
use crate::result::RunFile;

/// Compares the second side with the first, where both measured the same. What makes them incomparable is an error, or
/// with `anyway` a remark.
pub fn compare(mut before: Vec<RunFile>, mut after: Vec<RunFile>, anyway: bool) -> Result<Report> {
    let names = names(&before, &after)?;
    let mut obstacles = obstacles(&before, &after);
    let common = labels(&before).intersection(&labels(&after)).cloned().collect::<BTreeSet<_>>();
    if common.is_empty() {
        return Err(Error::BadInput("the two sides measured nothing in common".into()));
    }
    if !obstacles.is_empty() && !anyway {
        let list = obstacles.join("; ");
        return Err(Error::BadInput(format!(
            "the two sides cannot be compared: {list} (--anyway compares them)"
        )));
    }
    let mut left_out = 0;
    for (side, name) in [(&mut before, &names[0]), (&mut after, &names[1])] {
        for file in side {
            file.driver.clone_from(name);
            let measured = file.cells.len();
            file.cells.retain(|cell| common.contains(&key(cell)));
            left_out += measured - file.cells.len();
        }
    }
    before.extend(after);
    let mut report = report::merge(&before, &names[0])?;
    if left_out > 0 {
        report
            .remarks
            .push(format!("{left_out} measurement(s) of one side have no counterpart on the other"));
    }
    report.remarks.append(&mut obstacles);
    Ok(report)
}

/// What the sides are called: by driver if these differ, else `before` and `after`.
fn names(before: &[RunFile], after: &[RunFile]) -> Result<[String; 2]> {
    let of = |side: &[RunFile]| -> Result<String> {
        let drivers: BTreeSet<&str> = side.iter().map(|f| f.driver.as_str()).collect();
        match drivers.iter().collect::<Vec<_>>()[..] {
            [one] => Ok((*one).to_string()),
            _ => Err(Error::BadInput(format!("one side holds results of {} drivers", drivers.len()))),
        }
    };
    let (before, after) = (of(before)?, of(after)?);
    Ok(if before == after { ["before".into(), "after".into()] } else { [before, after] })
}

/// A point and whether it was timed: times and counts are nothing to each other.
type Key = (Label, bool);

fn key(cell: &Cell) -> Key {
    (cell.label.clone(), matches!(cell.measured, Measured::Latency(_) | Measured::Pressure(_)))
}

fn labels(side: &[RunFile]) -> BTreeSet<Key> {
    side.iter().flat_map(|file| &file.cells).map(key).collect()
}

/// Why numbers of the two sides have nothing to do with each other. The kernel and the version of the tool may differ:
/// they may be what is compared.
fn obstacles(before: &[RunFile], after: &[RunFile]) -> Vec<String> {
    let mut found = Vec::new();
    let mut same = |what: &str, of: fn(&RunFile) -> String| {
        let values = |side: &[RunFile]| side.iter().map(of).collect::<BTreeSet<String>>();
        let (before, after) = (values(before), values(after));
        if before != after {
            let list = |values: BTreeSet<String>| values.into_iter().collect::<Vec<_>>().join(", ");
            found.push(format!("{what} differs: {} and {}", list(before), list(after)));
        }
    };
    same("the machine", |f| f.environment.machine.clone());
    same("the clock", |f| f.environment.clock.clone());
    // Counted instructions are the same on any processor and CPU, and so is memory.
    let timed = |side: &[RunFile]| labels(side).iter().any(|(_, timed)| *timed);
    if timed(before) && timed(after) {
        same("the processor", |f| f.environment.processor.clone());
        same("the placement", |f| f.environment.placement.clone());
        same("the set of CPUs", |f| format!("{:?}", f.environment.cpus));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;
    use crate::report::sorted::Subject;

    fn message(result: Result<Report>) -> String {
        match result {
            Err(Error::BadInput(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_driver_before_and_after() {
        let side = |ns| (0..3).map(|b| samples::boot("rust", b, ns)).collect();
        let report = compare(side(20_000), side(18_000), false).unwrap();
        let after = report.latency.iter().find(|r| r.subject == Subject::Driver("after".into())).unwrap();
        assert_eq!(after.ratios.as_ref().unwrap().mean.verdict, "10.0 % faster");
    }

    #[test]
    fn a_side_compared_with_itself_has_no_winner() {
        let side = || (0..3).map(|b| samples::boot("rust", b, 20_000)).collect();
        let report = compare(side(), side(), false).unwrap();
        assert!(report
            .latency
            .iter()
            .filter_map(|r| r.ratios.as_ref())
            .all(|r| !r.mean.verdict.contains('%')));
    }

    #[test]
    fn the_incomparable_is_refused_with_reasons() {
        let (one, mut two) = (samples::boot("c", 0, 5), samples::boot("rust", 0, 5));
        two.environment.processor = "another".into();
        two.environment.placement = "free".into();
        let text = message(compare(vec![one.clone()], vec![two.clone()], false));
        assert!(text.contains("the processor differs: p and another"), "{text}");
        assert!(text.contains("placement"), "{text}");
        assert!(compare(vec![one], vec![two], true).unwrap().remarks.iter().any(|r| r.contains("processor")));
    }

    #[test]
    fn times_and_counts_have_nothing_in_common() {
        let text = message(compare(vec![samples::boot("c", 0, 5)], vec![samples::count("c", 5.0)], true));
        assert!(text.contains("nothing in common"), "{text}");
        let two = vec![samples::count("c", 5.0), samples::count("rust", 5.0)];
        assert!(message(compare(two, vec![samples::count("c", 5.0)], false)).contains("2 drivers"));
    }

    #[test]
    fn counts_do_not_depend_on_the_processor_and_lonely_ones_are_told() {
        let (mut one, mut two) = (samples::count("c", 20.0), samples::count("c", 30.0));
        two.environment.processor = "another".into();
        one.cells.extend(samples::count("c", 1.0).cells.into_iter().map(|mut cell| {
            cell.label.size = 7;
            cell
        }));
        let report = compare(vec![one], vec![two], false).unwrap();
        assert_eq!(report.counts.len(), 2);
        assert_eq!(report.counts[0].ratio.or(report.counts[1].ratio), Some(20.0f64.recip() * 30.0));
        assert!(report.remarks.iter().any(|r| r.contains("1 measurement(s)")));
    }
}
