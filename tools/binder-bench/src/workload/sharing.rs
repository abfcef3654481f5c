// SPDX-License-Identifier: GPL-2.0
//! Two processes on two CPUs that share cache lines in known ways, and use no Binder. Their effects on the lines are
//! known, which tests a plugin that counts them (tools/report/lines.c).
//!
//! In each call the first hands over to the second, which hands back. Each reads the word in their common line that the
//! other has written, and writes the word that the other has read. Before it hands over each side runs the case's step.

use std::sync::atomic::Ordering;

use clap::Args;

use super::Workload;
use crate::prelude::*;
use crate::shared::Memory;

const NAME: &str = "sharing";

#[derive(Args, Clone, Debug)]
pub struct Options {}

/// The step of a side in a case; the first is 0, the second 1.
type Step = fn(&Memory, usize);

/// The cases by their names.
const CASES: [(&str, Step); 5] = [
    ("hand over", |_, _| {}),
    ("two counters in a line", |page, side| count_up(page, 1, side)),
    ("counters in lines of their own", |page, side| count_up(page, 2 + side, 0)),
    ("a line that both read", |page, _| {
        std::hint::black_box(page.word(4, 0).load(Ordering::Relaxed));
    }),
    ("one counter, locked", |page, _| {
        page.word(5, 0).fetch_add(1, Ordering::Relaxed);
    }),
];

/// Reads a word, and writes it.
fn count_up(page: &Memory, line: usize, word: usize) {
    let word = page.word(line, word);
    word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

impl Workload for Options {
    fn set_up(&self, stage: &mut Stage) -> Result<()> {
        let seat = stage.seat(0);
        if seat.client == seat.server {
            return Err(Kind::Usage.error("sharing needs two CPUs, and --placement other"));
        }
        let page = Memory::new(4096)?;
        let theirs = page.again()?;
        stage.start("second that shares lines", seat.server, |control| {
            control.ready()?;
            serve(&theirs)
        })?;
        let client = stage.caller("first that shares lines", seat.client, || Ok(First { page, case: 0 }))?;
        for (index, (name, _)) in (0..).zip(CASES) {
            stage.add(Label::new(NAME, name), index, &[client]);
        }
        Ok(())
    }
}

struct First {
    page: Memory,
    case: u32,
}

impl Caller for First {
    fn set(&mut self, setting: Setting) -> Result<()> {
        self.case = setting.variant;
        Ok(())
    }

    fn call(&mut self) -> Result<()> {
        let turn = self.page.word(0, 0);
        CASES[self.case as usize].1(&self.page, 0);
        turn.store(u64::from(self.case) + 1, Ordering::Release);
        while turn.load(Ordering::Acquire) != 0 {
            std::hint::spin_loop();
        }
        Ok(())
    }
}

fn serve(page: &Memory) -> Result<()> {
    let turn = page.word(0, 0);
    loop {
        match turn.load(Ordering::Acquire) {
            0 => std::hint::spin_loop(),
            case => {
                CASES[case as usize - 1].1(page, 1);
                turn.store(0, Ordering::Release);
            }
        }
    }
}
