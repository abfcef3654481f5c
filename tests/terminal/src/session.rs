// SPDX-License-Identifier: GPL-2.0
//! A program in a terminal of its own, the screen of which can be read.

use std::io::Read;
use std::io::Write;
use std::sync::mpsc;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use anyhow::bail;
use anyhow::Context;
use anyhow::Result;
use portable_pty::native_pty_system;
use portable_pty::Child;
use portable_pty::CommandBuilder;
use portable_pty::MasterPty;
use portable_pty::PtySize;

/// What does not come in this time does not come.
const PATIENCE: Duration = Duration::from_secs(30);

/// Columns and rows.
pub type Size = (u16, u16);

/// The program, its keyboard and its screen.
pub struct Session {
    child: Box<dyn Child + Send + Sync>,
    terminal: Box<dyn MasterPty + Send>,
    keyboard: Box<dyn Write + Send>,
    output: Receiver<Vec<u8>>,
    screen: vt100::Parser,
    /// All that the program has written.
    pub written: Vec<u8>,
}

impl Session {
    /// Starts a program in a terminal of a size and a kind.
    pub fn start(argv: &[&str], (columns, rows): Size, kind: &str) -> Result<Self> {
        let size = PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size)?;
        let mut command = CommandBuilder::new(argv[0]);
        command.args(&argv[1..]);
        command.env("TERM", kind);
        let child = pair.slave.spawn_command(command)?;
        let mut reader = pair.master.try_clone_reader()?;
        let keyboard = pair.master.take_writer()?;
        let (sender, output) = mpsc::channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(length @ 1..) = reader.read(&mut bytes) {
                if sender.send(bytes[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        let screen = vt100::Parser::new(rows, columns, 0);
        Ok(Self { child, terminal: pair.master, keyboard, output, screen, written: Vec::new() })
    }

    /// Types.
    pub fn press(&mut self, keys: &str) -> Result<()> {
        self.keyboard.write_all(keys.as_bytes())?;
        Ok(self.keyboard.flush()?)
    }

    /// Makes the terminal larger or smaller.
    pub fn resize(&mut self, (columns, rows): Size) -> Result<()> {
        self.terminal.resize(PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 })?;
        self.screen.screen_mut().set_size(rows, columns);
        Ok(())
    }

    /// Waits until a line of the screen is as wanted, and gives it.
    pub fn line(&mut self, what: &str, wanted: impl Fn(&str) -> bool) -> Result<String> {
        self.until(what, |lines| lines.iter().find(|line| wanted(line)).cloned())
    }

    /// Waits until something is on the screen.
    pub fn until<T>(&mut self, what: &str, wanted: impl Fn(&[String]) -> Option<T>) -> Result<T> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = wanted(&self.lines()) {
                return Ok(found);
            }
            match self.output.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.show(&bytes),
                Err(why) => {
                    let why = if why == RecvTimeoutError::Timeout { "in time" } else { "before the end" };
                    bail!("{what}: not on the screen {why}:\n{}", self.lines().join("\n"));
                }
            }
        }
    }

    /// Waits for the end of the program; its exit code.
    pub fn exit_code(&mut self) -> Result<u32> {
        loop {
            match self.output.recv_timeout(PATIENCE) {
                Ok(bytes) => self.show(&bytes),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => bail!("it does not end:\n{}", self.lines().join("\n")),
            }
        }
        Ok(self.child.wait().context("waiting for it")?.exit_code())
    }

    /// The lines of the screen, without the blanks at their ends.
    pub fn lines(&self) -> Vec<String> {
        let (_, columns) = self.screen.screen().size();
        self.screen.screen().rows(0, columns).map(|line| line.trim_end().to_owned()).collect()
    }

    /// The screen.
    pub fn screen(&self) -> &vt100::Screen {
        self.screen.screen()
    }

    fn show(&mut self, bytes: &[u8]) {
        self.written.extend(bytes);
        self.screen.process(bytes);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // It has ended, or the test has failed.
        let _ = self.child.kill();
    }
}
