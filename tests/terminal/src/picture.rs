// SPDX-License-Identifier: GPL-2.0
//! A screen as JSON, out of which the documentation's pictures are made.

use serde::Serialize;
use vt100::Cell;
use vt100::Color;
use vt100::Screen;

/// Columns and rows, and the lines, each in pieces that look the same.
#[derive(Serialize)]
pub struct Picture {
    columns: u16,
    rows: u16,
    lines: Vec<Vec<Piece>>,
}

#[derive(Serialize)]
struct Piece {
    text: String,
    #[serde(flatten)]
    look: Look,
}

#[derive(Serialize, PartialEq, Eq)]
struct Look {
    foreground: Option<u8>,
    background: Option<u8>,
    bold: bool,
    inverse: bool,
}

impl Picture {
    /// Takes a screen.
    pub fn of(screen: &Screen) -> Self {
        let (rows, columns) = screen.size();
        let line = |row| {
            let mut pieces: Vec<Piece> = Vec::new();
            for cell in (0..columns).filter_map(|column| screen.cell(row, column)) {
                let text = if cell.has_contents() { cell.contents() } else { " " };
                let look = look(cell);
                match pieces.last_mut().filter(|last| last.look == look) {
                    Some(last) => last.text.push_str(text),
                    None => pieces.push(Piece { text: text.to_owned(), look }),
                }
            }
            pieces
        };
        Self { columns, rows, lines: (0..rows).map(line).collect() }
    }
}

fn look(cell: &Cell) -> Look {
    let number = |color| match color {
        Color::Idx(number) => Some(number),
        Color::Default | Color::Rgb(..) => None,
    };
    Look {
        foreground: number(cell.fgcolor()),
        background: number(cell.bgcolor()),
        bold: cell.bold(),
        inverse: cell.inverse(),
    }
}
