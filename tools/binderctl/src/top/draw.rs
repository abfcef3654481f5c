// SPDX-License-Identifier: GPL-2.0
//! Draws a view. There are no characters but ASCII's, and without colour no attributes but bold and reverse, which every
//! terminal has.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Color;
use ratatui::style::Modifier;
use ratatui::style::Style;
use ratatui::Frame;

use super::column::Column;
use super::column::COLUMNS;
use super::row::Row;
use super::sample::Activity;
use super::sample::Doing;
use super::sample::Key;
use super::sample::Other;
use super::view::Screen;
use super::view::View;
use crate::escape;
use crate::trace::text::cut;
use crate::trace::text::duration;

/// Lines above the table and below it.
const AROUND: usize = 5;

const HELP: [&str; 16] = [
    "Up Down PgUp PgDn Home End   move the selection",
    "Enter                        one process: its threads, callers and callees",
    "Esc                          back; in the table: no filter",
    "F4 \\ F3 /                    type a filter: part of a name or device, or a PID",
    "F6 > .                       choose the column to sort by",
    "P O                          sort by calls a second that are served, made",
    "B M T N                      sort by busy threads, oneway space, p99, PID",
    "I                            sort the other way round",
    "Z Space                      stop and go on",
    "F10 q                        leave",
    "",
    "THR BUSY    threads that use the device; those that make or serve a call",
    "IN/s OUT/s  calls a second that the process is given, and that it makes",
    "1WAY        bytes that oneway calls to it may still take",
    "MEDIAN P99  how long the calls take that it serves, from trace events",
    "Any key leads back.",
];

/// How things are set off.
#[derive(Clone, Copy, Debug)]
pub struct Styles {
    heading: Style,
    selected: Style,
    warning: Style,
    strong: Style,
    dim: Style,
}

impl Styles {
    /// With colour, or without.
    pub fn new(has_colour: bool) -> Self {
        let reverse = Style::new().add_modifier(Modifier::REVERSED);
        let bold = Style::new().add_modifier(Modifier::BOLD);
        if !has_colour {
            return Self {
                heading: reverse,
                selected: reverse,
                warning: bold,
                strong: bold,
                dim: Style::new(),
            };
        }
        Self {
            heading: Style::new().fg(Color::Black).bg(Color::Green),
            selected: Style::new().fg(Color::Black).bg(Color::Cyan),
            warning: bold.fg(Color::Red),
            strong: bold,
            dim: Style::new().fg(Color::DarkGray),
        }
    }
}

/// Draws what is shown.
pub fn draw(view: &View, styles: Styles, frame: &mut Frame) {
    let area = frame.area();
    Canvas { styles, area, buffer: frame.buffer_mut() }.view(view);
}

/// As many lines of the table are on a screen of a height.
pub fn page(height: u16) -> usize {
    usize::from(height).saturating_sub(AROUND).max(1)
}

struct Canvas<'a> {
    styles: Styles,
    area: Rect,
    buffer: &'a mut Buffer,
}

impl Canvas<'_> {
    fn view(mut self, view: &View) {
        self.head(view);
        match &view.screen {
            Screen::Help => {
                for (line, text) in HELP.iter().enumerate() {
                    self.line(3 + line, text, Style::new());
                }
            }
            Screen::Sort(at) => self.menu(*at),
            Screen::Process(key) => self.process(view, *key),
            Screen::Table | Screen::Filter => self.table(view),
        }
        self.foot(view);
    }

    /// A line from one end of the screen to the other.
    fn line(&mut self, line: usize, text: &str, style: Style) {
        let width = usize::from(self.area.width);
        if line < usize::from(self.area.height) {
            let text = format!("{:width$}", cut(text, width));
            self.buffer.set_stringn(0, line as u16, text, width, style);
        }
    }

    fn head(&mut self, view: &View) {
        let all = view.all();
        let threads: usize = all.iter().map(|row| row.process.threads.len()).sum();
        let busy: usize = all.iter().map(|row| row.process.busy()).sum();
        let calls: f64 = all.iter().filter_map(|row| row.calls_in).sum();
        let paused = if view.is_paused { "  STOPPED" } else { "" };
        let text = format!(
            "binderctl top: {} processes, {threads} threads, {busy} busy, {calls:.0} calls/s{paused}",
            all.len()
        );
        self.line(0, &text, self.styles.strong);
        let (text, style) = match &view.no_latency {
            Some(why) => (format!("no latencies: {why}"), self.styles.dim),
            None if view.lost_events > 0 => (
                format!("latencies lack {} trace events that were lost", view.lost_events),
                self.styles.warning,
            ),
            None => ("latencies are of the last seconds".into(), self.styles.dim),
        };
        self.line(1, &text, style);
        if let Some(why) = &view.no_counts {
            self.line(2, &format!("no calls/s, no oneway space: {why}"), self.styles.dim);
        }
    }

    fn foot(&mut self, view: &View) {
        let last = usize::from(self.area.height).saturating_sub(1);
        let text = match &view.screen {
            Screen::Filter => {
                format!("Filter: {}_   Enter: done  Esc: no filter", escape::visible(&view.filter))
            }
            Screen::Process(_) => "Esc Back  F1 Help  Z Stop  F10 Back".into(),
            Screen::Sort(_) => "Up Down Select  Enter Sort  Esc Back".into(),
            Screen::Help => String::new(),
            Screen::Table => {
                let filter = match view.filter.as_str() {
                    "" => String::new(),
                    filter => format!("  [{}]", escape::visible(filter)),
                };
                format!("F1 Help  F4 Filter  F6 Sort  Enter Process  I Invert  Z Stop  F10 Quit{filter}")
            }
        };
        self.line(last, &text, self.styles.heading);
    }

    fn table(&mut self, view: &View) {
        let width = usize::from(self.area.width);
        self.line(3, &heading(width), self.styles.heading);
        let height = page(self.area.height);
        let first = view.selected.saturating_sub(height - 1);
        for (at, row) in view.rows().iter().enumerate().skip(first).take(height) {
            let style = if at == view.selected { self.styles.selected } else { Style::new() };
            self.line(4 + at - first, &line(row, width), style);
        }
    }

    fn menu(&mut self, at: usize) {
        self.line(3, "Sort by", self.styles.heading);
        for (line, column) in COLUMNS.iter().enumerate() {
            let style = if line == at { self.styles.selected } else { Style::new() };
            self.line(4 + line, column.title(), style);
        }
    }

    fn process(&mut self, view: &View, key: Key) {
        let Some(row) = view.row(key) else {
            return self.line(3, &format!("process {} is gone", key.pid), self.styles.warning);
        };
        let process = &row.process;
        let title = format!(
            "{} {} on {}: {} nodes, {} references, {} buffers, {} pending",
            key.pid,
            escape::visible(&row.name),
            escape::visible(&process.context),
            process.nodes,
            process.references,
            process.buffers,
            process.pending.map_or("-".into(), |pending| pending.to_string()),
        );
        self.line(2, &title, self.styles.strong);
        self.line(3, "    TID  DOES", self.styles.heading);
        // Threads have the upper half, and what they do not need is for the others.
        let room = page(self.area.height);
        let height = process.threads.len().min(room.saturating_sub(2).max(room / 2)).max(1);
        let first = view.selected.saturating_sub(height - 1);
        for (at, thread) in process.threads.iter().enumerate().skip(first).take(height) {
            let style = if at == view.selected { self.styles.selected } else { Style::new() };
            self.line(4 + at - first, &format!("{:>7}  {}", thread.tid, does(thread, view)), style);
        }
        let mut at = 4 + height;
        self.line(at, "    PID  PROCESS          WAY      CALLS MEDIAN    P99", self.styles.heading);
        for partner in view.partners() {
            at += 1;
            if at + 1 >= usize::from(self.area.height) {
                break;
            }
            let text = format!(
                "{:>7}  {:<16} {:<6} {:>7} {:>6} {:>6}",
                partner.pid,
                cut(&escape::visible(&partner.name), 16),
                if partner.is_caller { "calls" } else { "called" },
                partner.latency.count,
                duration(Some(partner.latency.median)),
                duration(Some(partner.latency.p99)),
            );
            self.line(at, &text, Style::new());
        }
    }
}

/// The line above the table.
pub fn heading(width: usize) -> String {
    columns(width, |column| column.title().to_owned())
}

/// The line of a row.
pub fn line(row: &Row, width: usize) -> String {
    columns(width, |column| escape::visible(&column.cell(row)))
}

fn columns(terminal: usize, cell: impl Fn(Column) -> String) -> String {
    let shown = COLUMNS.iter().filter_map(|column| Some((*column, column.width(terminal)?)));
    let cells: Vec<_> = shown
        .map(|(column, width)| match column.is_text() {
            true => format!("{:<width$}", cut(&cell(column), width)),
            false => format!("{:>width$}", cell(column)),
        })
        .collect();
    cells.join(" ")
}

/// What a thread does, in words.
fn does(thread: &Doing, view: &View) -> String {
    let who = |Other { process, thread, .. }: Other| {
        let name = escape::visible(view.name(process));
        match (process, thread) {
            (0, _) => "a process that is gone".to_owned(),
            (_, 0) => format!("{name}/{process}, where no thread has it yet"),
            _ => format!("{name}/{process}:{thread}"),
        }
    };
    match thread.what {
        Activity::Idle => "waits for work".into(),
        Activity::Away => "is in user space".into(),
        Activity::Waits(other) => {
            format!("has called {}, code {:#x}, {} ms ago", who(other), other.code, other.elapsed)
        }
        Activity::Serves(other) => {
            format!("serves {}, code {:#x}, for {} ms", who(other), other.code, other.elapsed)
        }
    }
}

#[cfg(test)]
mod tests;
