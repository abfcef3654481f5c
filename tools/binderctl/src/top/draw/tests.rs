// SPDX-License-Identifier: GPL-2.0
//! Screens, to the character.

use ratatui::backend::TestBackend;
use ratatui::Terminal;

use super::super::plain;
use super::super::view::tests::view;
use super::super::view::Press;
use super::*;

fn screen(view: &View, columns: u16, rows: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| draw(view, Styles::new(false), frame)).unwrap();
    let cells = terminal.backend().buffer().content();
    let lines = cells.chunks(columns.into());
    lines
        .map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned() + "\n")
        .collect()
}

/// Compares with what is recorded. `UPDATE_SCREENS=1` records.
fn compare(name: &str, seen: &str) {
    let path = format!("{}/src/top/draw/screens/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_SCREENS").is_some() {
        std::fs::write(&path, seen).unwrap();
    }
    let recorded = std::fs::read_to_string(&path).unwrap();
    assert!(seen == recorded, "{name}:\n{seen}instead of\n{recorded}");
}

#[test]
fn the_table() {
    compare("table-80x24", &screen(&view(), 80, 24));
    compare("table-200x60", &screen(&view(), 200, 60));
}

#[test]
fn one_process() {
    let mut view = view();
    view.press(Press::Enter, 10);
    compare("process-80x24", &screen(&view, 80, 24));
    compare("process-200x60", &screen(&view, 200, 60));
}

#[test]
fn help_and_the_menu() {
    let mut view = view();
    view.press(Press::F(1), 10);
    compare("help-80x24", &screen(&view, 80, 24));
    view.press(Press::Escape, 10);
    view.press(Press::F(6), 10);
    compare("sort-80x24", &screen(&view, 80, 24));
}

#[test]
fn a_filter_is_seen_while_it_is_typed_and_afterwards() {
    let mut view = view();
    view.press(Press::F(4), 10);
    view.press(Press::Char('s'), 10);
    compare("filter-80x24", &screen(&view, 80, 24));
    view.press(Press::Enter, 10);
    assert!(screen(&view, 80, 24).contains("F10 Quit  [s]"));
}

#[test]
fn what_is_missing_is_said() {
    let mut view = view();
    view.lost_events = 17;
    assert!(screen(&view, 80, 24).contains("lack 17 trace events"));
    view.no_counts = Some("there is no stats".into());
    assert!(screen(&view, 80, 24).contains("no oneway space: there is no stats"));
    view.no_latency = Some("this kernel has no trace events".into());
    assert!(screen(&view, 80, 24).contains("no latencies: this kernel has no trace events"));
}

#[test]
fn a_terminal_may_be_as_small_as_it_likes() {
    for (columns, rows) in [(1, 1), (10, 2), (20, 5), (80, 6)] {
        let mut view = view();
        screen(&view, columns, rows);
        view.press(Press::Enter, 1);
        screen(&view, columns, rows);
    }
}

#[test]
fn the_line_that_is_selected_is_on_the_screen() {
    let mut view = view();
    view.press(Press::End, 10);
    let seen = screen(&view, 80, 7);
    assert!(seen.contains("process 97") && !seen.contains("surfaceflin"), "{seen}");
}

#[test]
fn plain_lines_have_nothing_around_them() {
    compare("plain-80", &plain::lines(&view(), 80));
}
