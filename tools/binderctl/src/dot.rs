// SPDX-License-Identifier: GPL-2.0
//! A graph in the language of Graphviz, and the words that stand in any picture of it.

use std::fmt::Write;

use crate::escape::visible;
use crate::graph::Arrow;
use crate::graph::Graph;
use crate::graph::Process;
use crate::graph::Ties;
use crate::words;

/// For `dot` and all that reads its language.
pub fn draw(graph: &Graph) -> String {
    let mut text = String::from("digraph binder {\n  rankdir=LR;\n  node [shape=box];\n");
    for process in &graph.processes {
        let lines = quoted(&process_lines(process));
        writeln!(text, "  p{} [label={lines}];", process.pid).expect("a String takes everything");
    }
    for Arrow { from, to, context, ties } in &graph.arrows {
        let lines = quoted(&arrow_lines(context, ties));
        let style = match line_of(ties) {
            Kind::Waiting => "color=red, penwidth=2",
            Kind::Calling => "color=black",
            Kind::Holding => "color=gray, style=dashed",
        };
        writeln!(text, "  p{from} -> p{to} [label={lines}, {style}];").expect("a String takes everything");
    }
    text + "}\n"
}

/// What an arrow is drawn for: the strongest of what it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Somebody waits.
    Waiting,
    /// There were calls.
    Calling,
    /// Objects are held.
    Holding,
}

/// How to draw an arrow.
pub fn line_of(ties: &Ties) -> Kind {
    match ties {
        Ties { waiting: 1.., .. } => Kind::Waiting,
        Ties { logged_calls: 0, logged_oneway: 0, queued: 0, .. } => Kind::Holding,
        _ => Kind::Calling,
    }
}

/// What stands in the box of a process.
pub fn process_lines(process: &Process) -> Vec<String> {
    let name = process.name.iter().map(|name| visible(name));
    let contexts: Vec<String> = process.contexts.iter().map(|context| visible(context)).collect();
    [process.pid.to_string()].into_iter().chain(name).chain([contexts.join(", ")]).collect()
}

/// What stands at an arrow.
pub fn arrow_lines(context: &str, ties: &Ties) -> Vec<String> {
    let mut lines = vec![visible(context)];
    let mut add = |number, what| {
        if number > 0 {
            lines.push(words::count(number, what));
        }
    };
    add(ties.nodes.len(), "object");
    add(ties.logged_calls, "call");
    add(ties.logged_oneway, "oneway call");
    add(ties.queued, "queued oneway call");
    if ties.waiting > 0 {
        lines.push(format!(
            "{} waiting, the longest for {} ms",
            words::count(ties.waiting, "call"),
            ties.longest_ms
        ));
    }
    lines
}

/// A string of that language, with line ends between lines.
fn quoted(lines: &[String]) -> String {
    let lines: Vec<String> =
        lines.iter().map(|line| line.replace('\\', "\\\\").replace('"', "\\\"")).collect();
    format!("\"{}\"", lines.join("\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn process(pid: i32, name: &str) -> Process {
        Process { pid, name: Some(name.into()), contexts: BTreeSet::from(["binder".to_owned()]) }
    }

    fn arrow(from: i32, to: i32, waiting: usize) -> Arrow {
        let ties = Ties { nodes: BTreeSet::from([3]), waiting, longest_ms: 70, ..Default::default() };
        Arrow { from, to, context: "binder".into(), ties }
    }

    #[test]
    fn a_name_cannot_break_out_of_its_place() {
        let hostile =
            Graph { processes: vec![process(1, "a\"]; b \x1b[31m<script>\n")], arrows: vec![arrow(1, 1, 0)] };
        let text = draw(&hostile);
        assert!(text.contains(r#"p1 [label="1\na\"]; b \\x1b[31m<script>\\x0a\nbinder"];"#), "{text}");
    }

    #[test]
    fn an_arrow_says_what_there_is() {
        let text =
            draw(&Graph { processes: vec![process(1, "a"), process(2, "b")], arrows: vec![arrow(1, 2, 2)] });
        assert!(
            text.contains(
                r#"p1 -> p2 [label="binder\n1 object\n2 calls waiting, the longest for 70 ms", color=red"#
            ),
            "{text}"
        );
    }
}
