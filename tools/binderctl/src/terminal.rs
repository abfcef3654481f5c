// SPDX-License-Identifier: GPL-2.0
//! The terminal that is written to: its size, and whether anybody is there.

use std::io;
use std::os::fd::AsFd;

use nix::poll::poll;
use nix::poll::PollFd;
use nix::poll::PollFlags;

/// Columns and rows of a terminal that does not say, such as one behind a serial line.
const USUAL: (u16, u16) = (80, 24);

/// Columns and rows.
pub fn size() -> (u16, u16) {
    match ratatui::crossterm::terminal::size() {
        Ok((columns, rows)) if columns > 0 && rows > 0 => (columns, rows),
        _ => (variable("COLUMNS").unwrap_or(USUAL.0), variable("LINES").unwrap_or(USUAL.1)),
    }
}

fn variable(name: &str) -> Option<u16> {
    std::env::var(name).ok()?.parse().ok().filter(|number| *number > 0)
}

/// Waits, or until it is known that nobody reads what is printed, which it tells. A signal may end it early.
pub fn reader_leaves_within(milliseconds: u16) -> bool {
    let out = io::stdout();
    let mut fds = [PollFd::new(out.as_fd(), PollFlags::empty())];
    poll(&mut fds, milliseconds).is_ok_and(|ready| ready > 0)
}
