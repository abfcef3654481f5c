// SPDX-License-Identifier: GPL-2.0
//! `binderctl graph`: who calls whom, and who holds whose objects.

use clap::Args;
use clap::ValueEnum;

use crate::dot;
use crate::error::Error;
use crate::error::Kind;
use crate::error::Outcome;
use crate::error::Result;
use crate::graph::Graph;
use crate::logs::Logs;
use crate::options::Options;
use crate::output::Output;
use crate::output::Page;
use crate::output::Report;
use crate::output::Text;
use crate::svg;
use crate::tasks::Names;

/// What to draw, and how.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// Only what has to do with this process.
    pid: Option<i32>,
    /// Only who holds this node, by the number that the driver's logs have.
    #[arg(long, value_name = "NUMBER", conflicts_with = "pid")]
    node: Option<i64>,
    /// Whether to draw it: as SVG for browsers, or in the language of Graphviz.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Dot,
    Svg,
}

/// Draws what the logs have at this moment.
pub fn run(arguments: &Arguments, options: &Options, output: Output) -> Result<Outcome> {
    let logs = Logs::find(options)?;
    let mut names = Names::new();
    // Without the log of transactions there is still who holds and who waits.
    let log = logs.transaction_log().ok();
    let mut graph = Graph::of(&logs.state()?, log.as_ref(), &mut names);
    if let Some(name) = options.device_name() {
        graph.keep_device(name);
    }
    if let Some(pid) = arguments.pid {
        graph.keep_around(pid);
        if graph.processes.is_empty() {
            return Err(Error::new(Kind::NotThere, format!("process {pid} has no Binder device open")));
        }
    }
    if let Some(node) = arguments.node {
        graph.keep_holders(node);
        if graph.arrows.is_empty() {
            return Err(Error::new(Kind::NotThere, format!("nobody holds a node {node}")));
        }
    }
    match arguments.format {
        Format::Text => output.print(&graph)?,
        Format::Dot => output.print_text(&Text::of(dot::draw(&graph).as_bytes()))?,
        Format::Svg => output.print_text(&Text::of(svg::draw(&graph).as_bytes()))?,
    }
    Ok(Outcome::Fine)
}

impl Report for Graph {
    const SCHEMA: &'static str = "binderctl.graph/1";

    fn show(&self, page: &mut Page) {
        let who = |pid: i32| {
            let found = self.processes.iter().find(|process| process.pid == pid);
            match found.and_then(|process| process.name.as_deref()) {
                Some(name) => format!("{pid} ({name})"),
                None => pid.to_string(),
            }
        };
        for arrow in &self.arrows {
            let lines = dot::arrow_lines(&arrow.context, &arrow.ties);
            page.say(format!("{} -> {}: {}", who(arrow.from), who(arrow.to), lines.join(", ")));
        }
        if self.arrows.is_empty() {
            page.say("nobody holds or calls anybody");
        }
    }
}
