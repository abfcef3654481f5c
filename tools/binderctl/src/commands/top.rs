// SPDX-License-Identifier: GPL-2.0
//! `binderctl top`: processes live, from the log files and the trace events.

use std::io;
use std::io::IsTerminal;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use clap::Args;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Hide;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event;
use ratatui::crossterm::event::Event;
use ratatui::crossterm::event::KeyCode;
use ratatui::crossterm::event::KeyEvent;
use ratatui::crossterm::event::KeyEventKind;
use ratatui::crossterm::event::KeyModifiers;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::disable_raw_mode;
use ratatui::crossterm::terminal::enable_raw_mode;
use ratatui::crossterm::terminal::Clear;
use ratatui::crossterm::terminal::ClearType;
use ratatui::crossterm::terminal::EnterAlternateScreen;
use ratatui::crossterm::terminal::LeaveAlternateScreen;
use ratatui::layout::Rect;
use ratatui::Terminal;
use ratatui::TerminalOptions;
use ratatui::Viewport;

use crate::error::Error;
use crate::error::Kind;
use crate::error::Outcome;
use crate::error::Result;
use crate::escape;
use crate::instances;
use crate::logs::Logs;
use crate::options::Options;
use crate::output::Output;
use crate::signals;
use crate::terminal;
use crate::top::column::Column;
use crate::top::draw;
use crate::top::draw::Styles;
use crate::top::latency::Latencies;
use crate::top::plain;
use crate::top::sample::Sample;
use crate::top::view::Press;
use crate::top::view::View;
use crate::trace::calls::Calls;
use crate::trace::event::What;
use crate::trace::names::Names;
use crate::trace::source::Source;

/// How often keys, signals and trace events are looked at, in milliseconds.
const TICK: u16 = 50;

/// Latencies are those of the last one or two of these.
const WINDOW: Duration = Duration::from_secs(5);

/// Memory for trace events, for each CPU, in KiB.
const BUFFER: usize = 4096;

/// Columns of what is printed to a file.
const WIDE: usize = 120;

/// What to show, and how often.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// Print the table again and again instead of drawing it. --json does that, too.
    #[arg(short, long)]
    batch: bool,
    /// End after so many times.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Seconds between two looks at the log files.
    #[arg(short, long, value_name = "SECONDS", default_value_t = 1.0, value_parser = delay)]
    delay: f64,
    /// Sort by this column.
    #[arg(short, long, value_name = "COLUMN", default_value = "in")]
    sort: Column,
    /// Show only processes whose name or device contains this, or that have this number.
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// Leave the trace events alone: without latencies, callers and callees, but at no cost for calls.
    #[arg(long)]
    no_trace: bool,
}

fn delay(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("must be a number of seconds from 0.1 to 3600".into()),
    }
}

/// Shows processes until it is told to stop.
pub fn run(arguments: &Arguments, options: &Options, output: Output) -> Result<Outcome> {
    let is_batch = arguments.batch || options.json;
    if !is_batch && !io::stdout().is_terminal() {
        return Err(Error::new(Kind::Usage, "the output is no terminal").hint("--batch prints lines"));
    }
    let stop = signals::stop_flag()?;
    let mut watch = Watch::start(arguments, options)?;
    match is_batch {
        true => print(&mut watch, arguments, options.json, &stop),
        false => show(&mut watch, arguments, output, &stop),
    }
    .map(|()| Outcome::Fine)
}

/// The view, and where it comes from.
struct Watch {
    view: View,
    logs: Logs,
    /// Where the device that was asked for is; nowhere if all devices are shown.
    devices: Vec<PathBuf>,
    source: Option<Source>,
    calls: Calls,
    names: Names,
    latencies: Latencies,
    turned: Instant,
}

impl Watch {
    fn start(arguments: &Arguments, options: &Options) -> Result<Self> {
        let mut view = View::default();
        view.sort.by = arguments.sort;
        view.filter = arguments.filter.clone();
        view.device = options.device_name().map(str::to_owned);
        let devices = match options.device_name() {
            Some(name) => instances::devices_called(name)?,
            None => Vec::new(),
        };
        let mut watch = Self {
            view,
            logs: Logs::find(options)?,
            devices,
            source: None,
            calls: Calls::default(),
            names: Names::default(),
            latencies: Latencies::default(),
            turned: Instant::now(),
        };
        // What the log files say is worth showing without latencies.
        match arguments.no_trace {
            true => watch.view.no_latency = Some("trace events are not wanted".into()),
            false => match Source::start(false, BUFFER) {
                Ok(source) => watch.source = Some(source),
                Err(error) => watch.view.no_latency = Some(error.message),
            },
        }
        watch.look()?;
        Ok(watch)
    }

    /// Takes what the trace events say.
    fn listen(&mut self) {
        let Some(source) = &mut self.source else { return };
        match source.read() {
            Ok(events) => {
                for event in events {
                    let latencies = &mut self.latencies;
                    let mut take = |calls: Vec<_>| calls.iter().for_each(|call| latencies.take(call));
                    self.calls.take(&event, &mut self.names, &mut take);
                    if event.what == What::Ended {
                        self.names.forget(event.thread);
                    }
                }
            }
            Err(error) => {
                self.view.no_latency = Some(error.message);
                self.source = None;
            }
        }
        self.view.lost_events = self.calls.gaps().lost_events;
        if self.turned.elapsed() >= WINDOW {
            self.turned = Instant::now();
            self.latencies.turn();
        }
    }

    /// Takes what the log files say.
    fn look(&mut self) -> Result<()> {
        let stats = match self.logs.stats() {
            Ok(stats) => Some(stats),
            Err(error) if error.kind == Kind::NotOffered => {
                self.view.no_counts = Some(error.message);
                None
            }
            Err(error) => return Err(error),
        };
        let sample = Sample::new(Instant::now(), stats.as_ref(), &self.logs.state()?);
        self.expect_device()?;
        self.names.forget_names();
        let names = &mut self.names;
        self.view.take(sample, &self.latencies, |pid| names.name(pid).to_owned());
        Ok(())
    }

    /// Fails if the device that was asked for was there, and is not any more.
    fn expect_device(&self) -> Result<()> {
        match self.devices.first() {
            Some(path) if !self.devices.iter().any(|path| instances::is_device(path)) => {
                Err(Error::new(Kind::Gone, format!("{} is gone: it was removed", path.display()))
                    .hint("who had it open keeps it; without --device all processes are shown"))
            }
            _ => Ok(()),
        }
    }
}

/// Prints the table again and again.
fn print(watch: &mut Watch, arguments: &Arguments, is_json: bool, stop: &Arc<AtomicBool>) -> Result<()> {
    let width = if io::stdout().is_terminal() { terminal::size().0.into() } else { WIDE };
    for nth in 0..arguments.count.unwrap_or(u64::MAX) {
        let next = Instant::now() + Duration::from_secs_f64(arguments.delay);
        while Instant::now() < next {
            if stop.load(Ordering::Relaxed) || terminal::reader_leaves_within(TICK) {
                return Ok(());
            }
            watch.listen();
        }
        watch.look()?;
        let text = match is_json {
            true => escape::json(&plain::Record::new(&watch.view))
                .map(|line| line + "\n")
                .map_err(|error| Error::new(Kind::Io, format!("cannot make JSON: {error}")))?,
            false => {
                let gap = if nth > 0 { "\n" } else { "" };
                let reasons = if nth > 0 { String::new() } else { plain::reasons(&watch.view) };
                format!("{reasons}{gap}{}", plain::lines(&watch.view, width))
            }
        };
        let mut out = io::stdout().lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            // Whoever reads has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            done => {
                done.map_err(|error| Error::new(Kind::Io, format!("cannot write the output: {error}")))?
            }
        }
    }
    Ok(())
}

/// Draws the table, and lets the user choose.
fn show(watch: &mut Watch, arguments: &Arguments, output: Output, stop: &Arc<AtomicBool>) -> Result<()> {
    let failed = |error: io::Error| Error::new(Kind::Io, format!("cannot use the terminal: {error}"));
    let _screen = Screen::take().map_err(failed)?;
    let styles = Styles::new(output.has_colour());
    let mut size = terminal::size();
    let mut terminal = canvas(size).map_err(failed)?;
    let delay = Duration::from_secs_f64(arguments.delay);
    let mut next = Instant::now() + delay;
    let mut left = arguments.count.unwrap_or(u64::MAX);
    while !stop.load(Ordering::Relaxed) && left > 0 {
        // A serial line has no signal for another size.
        if terminal::size() != size {
            size = terminal::size();
            terminal = canvas(size).map_err(failed)?;
        }
        terminal.draw(|frame| draw::draw(&watch.view, styles, frame)).map_err(failed)?;
        let until = next.min(Instant::now() + 4 * Duration::from_millis(TICK.into()));
        while Instant::now() < until && !stop.load(Ordering::Relaxed) {
            if event::poll(Duration::from_millis(TICK.into())).map_err(failed)? {
                if !pressed(event::read().map_err(failed)?, &mut watch.view, size.1) {
                    return Ok(());
                }
                break;
            }
            watch.listen();
        }
        if Instant::now() >= next {
            next = Instant::now() + delay;
            left -= 1;
            if !watch.view.is_paused {
                watch.look()?;
            }
        }
    }
    Ok(())
}

/// An empty screen of a size. It is not asked where its cursor is: not every terminal answers.
fn canvas((columns, rows): (u16, u16)) -> io::Result<Terminal<CrosstermBackend<io::Stdout>>> {
    execute!(io::stdout(), Clear(ClearType::All))?;
    let viewport = Viewport::Fixed(Rect::new(0, 0, columns, rows));
    Terminal::with_options(CrosstermBackend::new(io::stdout()), TerminalOptions { viewport })
}

/// Deals with what has happened at the terminal. False: the user has seen enough.
fn pressed(event: Event, view: &mut View, height: u16) -> bool {
    let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = event else { return true };
    let press = match code {
        KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => return false,
        KeyCode::Char(c) => Press::Char(c),
        KeyCode::F(n) => Press::F(n),
        KeyCode::Up => Press::Up,
        KeyCode::Down => Press::Down,
        KeyCode::PageUp => Press::PageUp,
        KeyCode::PageDown => Press::PageDown,
        KeyCode::Home => Press::Home,
        KeyCode::End => Press::End,
        KeyCode::Enter => Press::Enter,
        KeyCode::Esc => Press::Escape,
        KeyCode::Backspace => Press::Backspace,
        _ => return true,
    };
    view.press(press, draw::page(height))
}

/// The terminal while it is ours; it is given back when this is dropped.
struct Screen;

impl Screen {
    fn take() -> io::Result<Self> {
        enable_raw_mode()?;
        let screen = Self;
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Who has hung up has no terminal that could be given back.
        let _ = execute!(io::stdout(), Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}
