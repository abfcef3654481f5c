// SPDX-License-Identifier: GPL-2.0
//! What is shown: the rows that follow from two samples and the latencies, and what the user has chosen.

use super::column::Column;
use super::column::COLUMNS;
use super::latency::Latencies;
use super::latency::Summary;
use super::row::Row;
use super::sample::Key;
use super::sample::Process;
use super::sample::Sample;
use crate::trace::event::Pid;

/// Who calls whom, with one side chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partner {
    /// The other side.
    pub pid: Pid,
    /// What it is called.
    pub name: String,
    /// Whether it calls the one that was chosen.
    pub is_caller: bool,
    /// How long its calls take.
    pub latency: Summary,
}

/// A key that was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Press {
    /// A character.
    Char(char),
    /// A function key.
    F(u8),
    /// The line above.
    Up,
    /// The line below.
    Down,
    /// A page up.
    PageUp,
    /// A page down.
    PageDown,
    /// The first line.
    Home,
    /// The last line.
    End,
    /// Into what is selected.
    Enter,
    /// Back.
    Escape,
    /// One character back.
    Backspace,
}

/// What the screen is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Screen {
    /// All processes.
    #[default]
    Table,
    /// One process.
    Process(Key),
    /// What the keys do.
    Help,
    /// By which column to sort: the one that is selected.
    Sort(usize),
    /// A filter is typed.
    Filter,
}

/// What is shown and how.
#[derive(Debug, Default)]
pub struct View {
    /// The rows, all of them.
    all: Vec<Row>,
    /// Those that the filter leaves, in their order.
    rows: Vec<Row>,
    /// Who calls the chosen process and whom it calls.
    partners: Vec<Partner>,
    before: Option<Sample>,
    /// What the screen is about.
    pub screen: Screen,
    /// By which column rows are sorted.
    pub sort: Sort,
    /// Only rows are shown that contain this.
    pub filter: String,
    /// The line that is selected, of the table or of a process's threads.
    pub selected: usize,
    /// Whether nothing changes for the time being.
    pub is_paused: bool,
    /// The device whose processes are shown alone.
    pub device: Option<String>,
    /// Why there are no calls a second and no oneway space.
    pub no_counts: Option<String>,
    /// Why there are no latencies.
    pub no_latency: Option<String>,
    /// Trace events that were lost.
    pub lost_events: u64,
}

/// The order of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sort {
    /// The column.
    pub by: Column,
    /// Whether it is the other way round.
    pub is_reversed: bool,
}

impl Default for Sort {
    fn default() -> Self {
        Self { by: Column::In, is_reversed: false }
    }
}

impl View {
    /// Takes a new sample, and what is known of latencies by then.
    pub fn take(&mut self, sample: Sample, latencies: &Latencies, mut name: impl FnMut(Pid) -> String) {
        let before = self.before.as_ref();
        let seconds = before.map_or(0.0, |before| sample.time.duration_since(before.time).as_secs_f64());
        let row = |(&key, process): (&Key, &Process)| {
            let before = before.and_then(|before| before.processes.get(&key)).filter(|_| seconds > 0.0);
            // A number that was given to another process has smaller counts than before.
            let rate = |now: Option<i64>, before: Option<i64>| {
                let more = now?.checked_sub(before?).filter(|more| *more >= 0)?;
                Some(more as f64 / seconds)
            };
            Row {
                key,
                name: name(key.pid),
                process: process.clone(),
                calls_in: before.and_then(|before| rate(process.calls_in, before.calls_in)),
                calls_out: before.and_then(|before| rate(process.calls_out, before.calls_out)),
                latency: latencies.of_server(key.pid),
            }
        };
        self.all = sample.processes.iter().map(row).collect();
        if let Screen::Process(Key { pid, .. }) = self.screen {
            self.partners = partners(pid, latencies, &mut name);
        }
        self.before = Some(sample);
        self.arrange();
    }

    /// The rows to show.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// All rows.
    pub fn all(&self) -> &[Row] {
        &self.all
    }

    /// The row of a process.
    pub fn row(&self, key: Key) -> Option<&Row> {
        self.all.iter().find(|row| row.key == key)
    }

    /// Who calls the chosen process and whom it calls.
    pub fn partners(&self) -> &[Partner] {
        &self.partners
    }

    /// What a process is called, if it has a row.
    pub fn name(&self, pid: Pid) -> &str {
        self.all.iter().find(|row| row.key.pid == pid).map_or("", |row| &row.name)
    }

    /// Deals with a key. `page`: so many lines are on the screen. False: the user has seen enough.
    pub fn press(&mut self, key: Press, page: usize) -> bool {
        match (&mut self.screen, key) {
            (Screen::Filter, key) => self.press_in_filter(key),
            (Screen::Sort(at), key) => match key {
                Press::Up => *at = at.saturating_sub(1),
                Press::Down => *at = (*at + 1).min(COLUMNS.len() - 1),
                Press::Enter => {
                    self.sort = Sort { by: COLUMNS[*at], is_reversed: false };
                    self.screen = Screen::Table;
                }
                Press::Escape | Press::F(6 | 10) | Press::Char('q') => self.screen = Screen::Table,
                _ => {}
            },
            (Screen::Help, _) => self.screen = Screen::Table,
            (Screen::Process(_), Press::Escape | Press::Backspace | Press::Char('q') | Press::F(10)) => {
                self.screen = Screen::Table;
                self.selected = 0;
            }
            (_, Press::Char('q') | Press::F(10)) => return false,
            (_, Press::Char('h' | '?') | Press::F(1)) => self.screen = Screen::Help,
            (_, Press::Char('Z' | 'z' | ' ')) => self.is_paused = !self.is_paused,
            (Screen::Table, key) => self.press_in_table(key, page),
            (_, key) => self.go(key, page),
        }
        self.arrange();
        true
    }

    fn press_in_table(&mut self, key: Press, page: usize) {
        let mut by = |by| self.sort = Sort { by, is_reversed: false };
        match key {
            Press::F(4) | Press::Char('\\' | '/') | Press::F(3) => self.screen = Screen::Filter,
            Press::F(6) | Press::Char('>' | '.' | ',') => {
                let at = COLUMNS.iter().position(|column| *column == self.sort.by);
                self.screen = Screen::Sort(at.unwrap_or(0));
            }
            Press::Char('I') => self.sort.is_reversed = !self.sort.is_reversed,
            Press::Char('N') => by(Column::Pid),
            Press::Char('P') => by(Column::In),
            Press::Char('O') => by(Column::Out),
            Press::Char('B') => by(Column::Busy),
            Press::Char('M') => by(Column::Oneway),
            Press::Char('T') => by(Column::P99),
            Press::Escape => self.filter.clear(),
            Press::Enter => {
                if let Some(row) = self.rows.get(self.selected) {
                    self.screen = Screen::Process(row.key);
                    self.partners.clear();
                    self.selected = 0;
                }
            }
            key => self.go(key, page),
        }
    }

    fn press_in_filter(&mut self, key: Press) {
        match key {
            Press::Char(c) => self.filter.push(c),
            Press::Backspace => drop(self.filter.pop()),
            Press::Enter => self.screen = Screen::Table,
            Press::Escape => {
                self.filter.clear();
                self.screen = Screen::Table;
            }
            _ => {}
        }
        self.selected = 0;
    }

    fn go(&mut self, key: Press, page: usize) {
        self.selected = match key {
            Press::Up => self.selected.saturating_sub(1),
            Press::Down => self.selected.saturating_add(1),
            Press::PageUp => self.selected.saturating_sub(page),
            Press::PageDown => self.selected.saturating_add(page),
            Press::Home => 0,
            Press::End => usize::MAX,
            _ => self.selected,
        };
    }

    /// Filters and sorts anew, and keeps the selection inside.
    fn arrange(&mut self) {
        let Sort { by, is_reversed } = self.sort;
        let wanted = |row: &&Row| {
            self.device.as_ref().is_none_or(|device| *device == row.process.context)
                && (row.name.contains(&self.filter)
                    || row.process.context.contains(&self.filter)
                    || row.key.pid.to_string() == self.filter)
        };
        self.rows = self.all.iter().filter(wanted).cloned().collect();
        self.rows.sort_by(|one, other| {
            let order = by.order(one, other);
            if is_reversed {
                order.reverse()
            } else {
                order
            }
        });
        let lines = match self.screen {
            Screen::Process(key) => self.row(key).map_or(0, |row| row.process.threads.len()),
            _ => self.rows.len(),
        };
        self.selected = self.selected.min(lines.saturating_sub(1));
    }
}

fn partners(pid: Pid, latencies: &Latencies, name: &mut impl FnMut(Pid) -> String) -> Vec<Partner> {
    let pairs = latencies.pairs_with(pid).into_iter();
    pairs
        .filter_map(|(caller, server)| {
            let is_caller = server == pid;
            let other = if is_caller { caller } else { server };
            let latency = latencies.of_pair((caller, server))?;
            Some(Partner { pid: other, name: name(other), is_caller, latency })
        })
        .collect()
}

#[cfg(test)]
pub mod tests;
