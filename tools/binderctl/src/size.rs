// SPDX-License-Identifier: GPL-2.0
//! The size of the terminal.

/// Columns and rows of a terminal that does not say, such as one behind a serial line.
const USUAL: (u16, u16) = (80, 24);

/// Columns and rows of the terminal that is written to.
pub fn of_terminal() -> (u16, u16) {
    match ratatui::crossterm::terminal::size() {
        Ok((columns, rows)) if columns > 0 && rows > 0 => (columns, rows),
        _ => (variable("COLUMNS").unwrap_or(USUAL.0), variable("LINES").unwrap_or(USUAL.1)),
    }
}

fn variable(name: &str) -> Option<u16> {
    std::env::var(name).ok()?.parse().ok().filter(|number| *number > 0)
}
