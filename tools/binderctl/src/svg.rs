// SPDX-License-Identifier: GPL-2.0
//! A graph as a picture for browsers.
//!
//! Processes stand in columns: on the left those that nobody calls or holds anything of, to the right of each those that
//! it has to do with and that are in no column yet. So most arrows lead to the right.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::fmt::Write;

use unicode_width::UnicodeWidthStr;

use crate::dot::arrow_lines;
use crate::dot::line_of;
use crate::dot::process_lines;
use crate::dot::Kind;
use crate::graph::Arrow;
use crate::graph::Graph;

/// Of one character and one line of text.
const CHARACTER: usize = 8;
const LINE: usize = 16;
/// Between columns there has to be room for what stands at arrows.
const BETWEEN_COLUMNS: usize = 280;
const BETWEEN_ROWS: usize = 60;
const MARGIN: usize = 20;

/// A box with text in it.
#[derive(Clone, Copy, Debug)]
struct Place {
    x: usize,
    y: usize,
    width: usize,
    height: usize,
}

/// Draws it.
pub fn draw(graph: &Graph) -> String {
    let (places, width, height) = places(graph);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"monospace\" font-size=\"13\">
<defs><marker id=\"end\" viewBox=\"0 0 10 10\" refX=\"10\" refY=\"5\" markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\"><path d=\"M0 0L10 5L0 10z\" fill=\"context-stroke\"/></marker></defs>
<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for arrow in &graph.arrows {
        text += &line(arrow, places[&arrow.from], places[&arrow.to]);
    }
    for process in &graph.processes {
        let Place { x, y, width, height } = places[&process.pid];
        writeln!(text, "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"4\" fill=\"#f4f6fa\" stroke=\"black\"/>")
            .expect("a String takes everything");
        text += &words(&process_lines(process), x + width / 2, y + LINE, "black");
    }
    text + "</svg>\n"
}

/// In which column each process stands.
fn columns(graph: &Graph) -> BTreeMap<usize, Vec<i32>> {
    let mut column: HashMap<i32, usize> = HashMap::new();
    let has_arrow_to = |pid| graph.arrows.iter().any(|arrow| arrow.to == pid && arrow.from != pid);
    // Of those in circles that nothing else leads to, the first begins.
    let (first, rest): (Vec<i32>, Vec<i32>) =
        graph.processes.iter().map(|process| process.pid).partition(|&pid| !has_arrow_to(pid));
    let mut next: Vec<i32> = Vec::new();
    for start in first.into_iter().chain(rest) {
        if column.insert(start, column.get(&start).copied().unwrap_or(0)).is_some() {
            continue;
        }
        next.push(start);
        while let Some(here) = next.pop() {
            for arrow in graph.arrows.iter().filter(|arrow| arrow.from == here) {
                let beside = column[&here] + 1;
                column.entry(arrow.to).or_insert_with(|| {
                    next.push(arrow.to);
                    beside
                });
            }
        }
    }
    let mut found: BTreeMap<usize, Vec<i32>> = BTreeMap::new();
    for process in &graph.processes {
        found.entry(column[&process.pid]).or_default().push(process.pid);
    }
    found
}

/// Where each process stands, and how large the picture is.
fn places(graph: &Graph) -> (HashMap<i32, Place>, usize, usize) {
    let texts: HashMap<i32, Vec<String>> =
        graph.processes.iter().map(|process| (process.pid, process_lines(process))).collect();
    let mut found = HashMap::new();
    let (mut x, mut lowest) = (MARGIN, MARGIN);
    for pids in columns(graph).values() {
        let longest = pids.iter().flat_map(|pid| &texts[pid]).map(|line| line.width()).max().unwrap_or(0);
        let width = (longest + 2) * CHARACTER;
        let mut y = MARGIN;
        for pid in pids {
            let height = (texts[pid].len() + 1) * LINE;
            found.insert(*pid, Place { x, y, width, height });
            y += height + BETWEEN_ROWS;
        }
        lowest = lowest.max(y);
        x += width + BETWEEN_COLUMNS;
    }
    (found, x, lowest + MARGIN)
}

/// An arrow from the right of a box to the left of another; one that leads back goes round below.
fn line(arrow: &Arrow, from: Place, to: Place) -> String {
    let (color, extra) = match line_of(&arrow.ties) {
        Kind::Waiting => ("#c00000", "stroke-width=\"2.5\""),
        Kind::Calling => ("black", "stroke-width=\"1.2\""),
        Kind::Holding => ("gray", "stroke-width=\"1.2\" stroke-dasharray=\"5 4\""),
    };
    let (x1, y1) = (from.x + from.width, from.y + from.height / 2);
    let (x2, y2) = (to.x, to.y + to.height / 2);
    let below = if x2 > x1 { 0 } else { from.height.max(to.height) };
    let bend = BETWEEN_COLUMNS / 2;
    let mut text = format!(
        "<path d=\"M{x1} {y1}C{} {} {} {} {x2} {y2}\" fill=\"none\" stroke=\"{color}\" {extra} marker-end=\"url(#end)\"/>\n",
        x1 + bend,
        y1 + below,
        x2.saturating_sub(bend),
        y2 + below,
    );
    text += &words(
        &arrow_lines(&arrow.context, &arrow.ties),
        (x1 + x2) / 2,
        (y1 + y2) / 2 + below * 3 / 4,
        color,
    );
    text
}

/// Lines of text around a point.
fn words(lines: &[String], x: usize, y: usize, color: &str) -> String {
    let mut text = format!("<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" fill=\"{color}\">");
    for (number, line) in lines.iter().enumerate() {
        let down = if number == 0 { 0 } else { LINE };
        write!(text, "<tspan x=\"{x}\" dy=\"{down}\">{}</tspan>", escaped(line))
            .expect("a String takes everything");
    }
    text + "</text>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Process;
    use crate::graph::Ties;
    use std::collections::BTreeSet;

    fn process(pid: i32, name: &str) -> Process {
        Process { pid, name: Some(name.into()), contexts: BTreeSet::from(["binder".to_owned()]) }
    }

    fn arrow(from: i32, to: i32) -> Arrow {
        let ties = Ties { nodes: BTreeSet::from([3]), ..Default::default() };
        Arrow { from, to, context: "binder".into(), ties }
    }

    fn graph(size: i32, arrows: &[(i32, i32)]) -> Graph {
        let processes = (0..size).map(|pid| process(pid, "name")).collect();
        Graph { processes, arrows: arrows.iter().map(|&(from, to)| arrow(from, to)).collect() }
    }

    #[test]
    fn a_name_cannot_break_out_of_its_place() {
        let picture =
            draw(&Graph { processes: vec![process(1, "a\x1b[31m<script>&\n")], arrows: vec![arrow(1, 1)] });
        assert!(picture.contains("a\\x1b[31m&lt;script&gt;&amp;\\x0a"), "{picture}");
    }

    #[test]
    fn arrows_lead_to_the_right_and_circles_begin_somewhere() {
        let stands = |graph| columns(&graph).into_values().collect::<Vec<_>>();
        assert_eq!(stands(graph(3, &[(2, 0), (0, 1)])), [vec![2], vec![0], vec![1]]);
        assert_eq!(stands(graph(3, &[(0, 1), (1, 0), (2, 2)])), [vec![0, 2], vec![1]]);
        assert!(stands(graph(0, &[])).is_empty());
    }

    #[test]
    fn every_process_and_arrow_is_in_the_picture() {
        let picture = draw(&graph(4, &[(0, 1), (1, 2), (2, 0), (3, 3)]));
        assert_eq!((picture.matches("<rect x=").count(), picture.matches("<path d=\"M").count() - 1), (4, 4));
    }
}
