// SPDX-License-Identifier: GPL-2.0
//! What is typed, and what has to be seen.

use std::io::BufRead;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Instant;

use anyhow::ensure;
use anyhow::Context;
use anyhow::Result;
use clap::Args;
use clap::ValueEnum;

use crate::load::Part;
use crate::picture::Picture;
use crate::session::Session;
use crate::session::Size;

const SMALL: Size = (80, 24);
const LARGE: Size = (200, 60);

type Test = fn(&Stage) -> Result<()>;

/// The load, and who looks at it.
#[derive(Args)]
pub struct Arguments {
    /// The program.
    #[arg(long)]
    binderctl: String,
    /// The device for the load.
    #[arg(long, default_value = "/dev/binderfs/binder")]
    device: PathBuf,
    /// Leave the screens here, as JSON.
    #[arg(long)]
    pictures: Option<PathBuf>,
}

/// Runs all sessions; how many have failed.
pub fn run(arguments: &Arguments) -> Result<usize> {
    let stage = Stage::new(arguments)?;
    let sessions: [(&str, Test); 15] = [
        ("top shows the load", top_shows_the_load),
        ("top sorts and filters", top_sorts_and_filters),
        ("top goes into a process", top_goes_into_a_process),
        ("top on a terminal without colour", top_without_colour),
        ("top takes another size", top_takes_another_size),
        ("trace shows nested calls", trace_shows_nested_calls),
        ("trace shows what fails", trace_shows_what_fails),
        ("a brief trace has no sizes", a_brief_trace_has_no_sizes),
        ("doctor finds who waits", doctor_finds_who_waits),
        ("explain says why", explain_says_why),
        ("trace says who may", trace_says_who_may),
        ("top ends with its device", top_ends_with_its_device),
        ("top ends with its binderfs", top_ends_with_its_binderfs),
        // From then on nobody can open the device any more.
        ("trace and top go on without a device", trace_and_top_go_on),
        // The last one: there is no tracefs from then on.
        ("top and trace without trace events", without_trace_events),
    ];
    let mut failed = 0;
    for (name, session) in &sessions {
        match session(&stage) {
            Ok(()) => println!("{name} ok"),
            Err(error) => {
                failed += 1;
                println!("{name} FAILED: {error:#}");
            }
        }
    }
    println!("{} passed, {failed} failed", sessions.len() - failed);
    Ok(failed)
}

/// The load, which ends with it.
struct Stage<'a> {
    arguments: &'a Arguments,
    parts: Vec<(Part, Child)>,
}

impl<'a> Stage<'a> {
    fn new(arguments: &'a Arguments) -> Result<Self> {
        let mut stage = Self { arguments, parts: Vec::new() };
        for part in Part::value_variants() {
            let mut child = Command::new(std::env::current_exe()?)
                .args(["part", part.name()])
                .arg(&arguments.device)
                .stdout(Stdio::piped())
                .spawn()?;
            let mut line = String::new();
            BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
            ensure!(line == "ready\n", "{} is not ready", part.name());
            stage.parts.push((*part, child));
        }
        Ok(stage)
    }

    fn pid(&self, part: Part) -> u32 {
        let found = self.parts.iter().find(|(other, _)| *other == part);
        found.expect("all parts are started").1.id()
    }

    /// A process as lines of a trace have it.
    fn named(&self, part: Part) -> String {
        format!("{}/{}", part.name(), self.pid(part))
    }

    fn start(&self, words: &[&str], size: Size, kind: &str) -> Result<Session> {
        let mut argv = vec![self.arguments.binderctl.as_str()];
        argv.extend(words);
        Session::start(&argv, size, kind)
    }

    /// Leaves the screen as a picture for the documentation.
    fn picture(&self, name: &str, session: &Session) -> Result<()> {
        let Some(folder) = &self.arguments.pictures else { return Ok(()) };
        let picture = serde_json::to_string(&Picture::of(session.screen()))?;
        Ok(std::fs::write(folder.join(format!("{name}.json")), picture)?)
    }

    /// The cells of a process's line in a table of `top`.
    fn cells(
        &self,
        session: &mut Session,
        part: Part,
        complete: impl Fn(&[&str]) -> bool,
    ) -> Result<Vec<String>> {
        let pid = self.pid(part).to_string();
        session.until(part.name(), |lines| {
            let mut rows = lines.iter().map(|line| line.split_whitespace().collect::<Vec<_>>());
            let row = rows.find(|cells| cells.first() == Some(&pid.as_str()) && complete(cells))?;
            Some(row.into_iter().map(str::to_owned).collect())
        })
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        // Callers before those whom they call, who would complain.
        for (_, child) in self.parts.iter_mut().rev() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn top_shows_the_load(stage: &Stage) -> Result<()> {
    for (size, name) in [(SMALL, "top-80x24"), (LARGE, "top-200x60")] {
        let mut top = stage.start(&["top"], size, "xterm-256color")?;
        // Complete as soon as there are rates and latencies.
        let has_all =
            |cells: &[&str]| cells.iter().rev().take(2).all(|cell| *cell != "-") && !cells.contains(&"-");
        let media = stage.cells(&mut top, Part::Media, has_all)?;
        let player = stage.cells(&mut top, Part::Player, |cells| cells.len() == media.len())?;
        let wide = usize::from(size == LARGE);
        let heading = top.line("the heading", |line| line.contains("PID PROCESS"))?;
        let titles: Vec<_> = heading.split_whitespace().collect();
        let at = |title: &str| titles.iter().position(|other| *other == title).context(title.to_owned());
        ensure!(media[1] == "media" && player[1] == "player", "{media:?} {player:?}");
        ensure!(media[at("THR")?] == "2" && media[at("NODES")?] == "1", "{media:?}");
        ensure!(media[at("BUSY")?] != "0" && player[at("NODES")?] == "0", "{media:?} {player:?}");
        let rate = |cells: &[String], title| Ok::<_, anyhow::Error>(cells[at(title)?].parse::<u32>()?);
        ensure!((2..=120).contains(&rate(&media, "IN/s")?), "{media:?}");
        ensure!((2..=120).contains(&rate(&player, "OUT/s")?), "{player:?}");
        // The codec takes two milliseconds, which the player waits for.
        ensure!(media[at("MEDIAN")?].ends_with("ms"), "{media:?}");
        ensure!(titles.contains(&"DEVICE") == (wide == 1), "{titles:?}");
        let foot = top.lines().pop().unwrap_or_default();
        ensure!(foot.starts_with("F1 Help") && foot.contains("F10 Quit"), "{foot}");
        stage.picture(name, &top)?;
        top.press("q")?;
        ensure!(top.exit_code()? == 0);
    }
    Ok(())
}

fn top_sorts_and_filters(stage: &Stage) -> Result<()> {
    let mut top = stage.start(&["top"], SMALL, "xterm-256color")?;
    stage.cells(&mut top, Part::Media, |_| true)?;
    top.press("N")?;
    let media = stage.pid(Part::Media).to_string();
    let is_first = |lines: &[String]| lines.get(4)?.trim_start().starts_with(&media).then_some(());
    top.until("media first", is_first)?;
    top.press("I")?;
    let unlucky = stage.pid(Part::Unlucky).to_string();
    top.until("unlucky first", |lines| lines.get(4)?.trim_start().starts_with(&unlucky).then_some(()))?;
    top.press("/cod\r")?;
    let codec = stage.pid(Part::Codec).to_string();
    top.until("codec alone", |lines| {
        (lines.get(4)?.trim_start().starts_with(&codec) && lines.get(5)?.is_empty()).then_some(())
    })?;
    // F6 as a terminal sends it, and the first column of the menu.
    top.press("\x1b[17~")?;
    top.line("the menu", |line| line == "Sort by")?;
    stage.picture("top-sort-80x24", &top)?;
    top.press("\x1b[A\r")?;
    top.line("the table", |line| line.contains("PID PROCESS"))?;
    top.press("\x03")?;
    ensure!(top.exit_code()? == 0);
    Ok(())
}

fn top_goes_into_a_process(stage: &Stage) -> Result<()> {
    for (size, name) in [(SMALL, "top-process-80x24"), (LARGE, "top-process-200x60")] {
        let mut top = stage.start(&["top", "--sort", "pid"], size, "xterm-256color")?;
        stage.cells(&mut top, Part::Media, |cells| !cells.contains(&"-"))?;
        top.press("\r")?;
        let waiter = stage.named(Part::Waiter);
        top.line("who is served for ever", |line| {
            line.contains("serves") && line.contains(&waiter) && line.contains("code 0x5")
        })?;
        top.line("its caller", |line| line.contains("player") && line.contains(" calls "))?;
        top.line("its callee", |line| line.contains("codec") && line.contains(" called "))?;
        stage.picture(name, &top)?;
        top.press("qq")?;
        ensure!(top.exit_code()? == 0);
    }
    Ok(())
}

fn top_without_colour(stage: &Stage) -> Result<()> {
    let mut top = stage.start(&["top", "--no-color"], SMALL, "vt100")?;
    stage.cells(&mut top, Part::Media, |cells| !cells.contains(&"-"))?;
    top.press("q")?;
    ensure!(top.exit_code()? == 0);
    let written = String::from_utf8_lossy(&top.written).into_owned();
    ensure!(written.is_ascii(), "there is more than ASCII");
    // Attributes are set by what ends with m: all off, bold, reverse; 39 and 49 and 59 are the terminal's own colours.
    for sequence in written.split("\x1b[").skip(1) {
        let end = sequence.find(|c: char| c.is_ascii_alphabetic()).context("an unfinished sequence")?;
        if sequence[end..].starts_with('m') {
            let known = |number: &str| ["", "0", "1", "7", "22", "27", "39", "49", "59"].contains(&number);
            ensure!(sequence[..end].split(';').all(known), "{:?}", &sequence[..end]);
        }
    }
    Ok(())
}

fn top_takes_another_size(stage: &Stage) -> Result<()> {
    let mut top = stage.start(&["top"], SMALL, "xterm-256color")?;
    stage.cells(&mut top, Part::Media, |_| true)?;
    for size in [(120, 30), (60, 10)] {
        top.resize(size)?;
        let last = usize::from(size.1) - 1;
        top.until("the last line", |lines| lines.get(last)?.starts_with("F1 Help").then_some(()))?;
        stage.cells(&mut top, Part::Media, |_| true)?;
        let is_wide = top.lines().iter().any(|line| line.contains("DEVICE"));
        ensure!(is_wide == (size.0 == 120), "{:?}", top.lines());
    }
    top.press("q")?;
    ensure!(top.exit_code()? == 0);
    Ok(())
}

fn trace_shows_nested_calls(stage: &Stage) -> Result<()> {
    for (size, name) in [(SMALL, "trace-80x24"), (LARGE, "trace-200x60")] {
        let mut trace = stage.start(&["trace"], size, "xterm-256color")?;
        let outer = format!("  {} -> {}", stage.named(Part::Player), stage.named(Part::Media));
        let inner = format!("    {}", stage.named(Part::Media));
        trace.until("a call, and one nested in it", |lines| {
            let at = lines.iter().position(|line| line.contains(&outer) && line.contains("code 0x2"))?;
            let next = lines.get(at + 1)?;
            (next.contains(&inner) && next.contains(&format!("-> {}", stage.named(Part::Codec))))
                .then_some(())
        })?;
        trace.line("a oneway call", |line| line.contains(&outer) && line.contains("code 0x4 one"))?;
        trace.until("a screen full of calls", |lines| (!lines.last()?.is_empty()).then_some(()))?;
        stage.picture(name, &trace)?;
        trace.press("\x03")?;
        ensure!(trace.exit_code()? == 0);
        let last = trace.lines().into_iter().rfind(|line| !line.is_empty()).unwrap_or_default();
        ensure!(last.contains(" calls"), "{last}");
    }
    Ok(())
}

fn trace_shows_what_fails(stage: &Stage) -> Result<()> {
    let mut trace = stage.start(&["trace", "--failed", "--count", "3"], SMALL, "xterm-256color")?;
    let unlucky = stage.named(Part::Unlucky);
    trace.line("what fails", |line| line.contains(&unlucky) && line.contains("BR_FAILED_REPLY"))?;
    ensure!(trace.exit_code()? == 0);
    ensure!(trace.lines().iter().filter(|line| line.contains(&unlucky)).count() == 3, "{:?}", trace.lines());
    Ok(())
}

fn a_brief_trace_has_no_sizes(stage: &Stage) -> Result<()> {
    let call = format!("  {} -> {}", stage.named(Part::Player), stage.named(Part::Media));
    for (words, has_sizes) in [(&["trace"][..], true), (&["trace", "--brief"], false)] {
        let mut trace = stage.start(words, LARGE, "xterm-256color")?;
        let line = trace.line("a call", |line| line.contains(&call) && line.contains("code 0x2"))?;
        ensure!(line.ends_with(" B") == has_sizes, "{line}");
        trace.press("\x03")?;
        ensure!(trace.exit_code()? == 0);
    }
    Ok(())
}

fn doctor_finds_who_waits(stage: &Stage) -> Result<()> {
    for (size, name) in [(SMALL, "doctor-80x24"), (LARGE, "doctor-200x60")] {
        let mut doctor = stage.start(&["doctor"], size, "xterm-256color")?;
        let waiter = stage.pid(Part::Waiter).to_string();
        doctor.line("who waits", |line| line.contains(&waiter))?;
        ensure!(doctor.exit_code()? == 1, "{:?}", doctor.lines());
        stage.picture(name, &doctor)?;
    }
    Ok(())
}

fn explain_says_why(stage: &Stage) -> Result<()> {
    for (size, name) in [(SMALL, "explain-80x24"), (LARGE, "explain-200x60")] {
        let unlucky = stage.pid(Part::Unlucky).to_string();
        let mut explain = stage.start(&["explain", &unlucky], size, "xterm-256color")?;
        explain.line("what failed", |line| line.contains("handle 77"))?;
        explain.exit_code()?;
        stage.picture(name, &explain)?;
    }
    Ok(())
}

fn trace_says_who_may(stage: &Stage) -> Result<()> {
    // Somebody who is not root.
    let own = std::env::current_exe()?;
    let own = own.to_str().context("a strange path")?;
    let argv = [own, "as-nobody", &stage.arguments.binderctl, "trace"];
    let mut trace = Session::start(&argv, SMALL, "xterm-256color")?;
    trace.line("who may", |line| line.contains("trace events are for root"))?;
    ensure!(trace.exit_code()? == 3);
    Ok(())
}

/// Runs a program that has to succeed.
fn succeed(argv: &[&str]) -> Result<()> {
    let done = Command::new(argv[0]).args(&argv[1..]).stdout(Stdio::null()).status()?;
    ensure!(done.success(), "{argv:?}: {done}");
    Ok(())
}

fn top_ends_with_its_device(stage: &Stage) -> Result<()> {
    succeed(&[&stage.arguments.binderctl, "add", "watched"])?;
    let mut top = stage.start(&["top", "--device", "watched"], SMALL, "xterm-256color")?;
    top.line("the table", |line| line.contains("PID PROCESS"))?;
    succeed(&[&stage.arguments.binderctl, "rm", "watched"])?;
    top.line("what is gone", |line| line.contains("/watched is gone: it was removed"))?;
    top.line("what to do", |line| line.contains("without --device"))?;
    ensure!(top.exit_code()? == 7);
    Ok(())
}

fn top_ends_with_its_binderfs(stage: &Stage) -> Result<()> {
    let place = "/tmp/watched";
    std::fs::create_dir_all(place)?;
    succeed(&[&stage.arguments.binderctl, "mount", "--logs", place])?;
    let mut top = stage.start(&["top", "--binderfs", place], SMALL, "xterm-256color")?;
    stage.cells(&mut top, Part::Media, |_| true)?;
    // It may be reading at this moment.
    succeed(&["/bin/umount", "-l", place])?;
    top.line("what is gone", |line| line.contains("is gone: its binderfs was unmounted"))?;
    ensure!(top.exit_code()? == 7);
    Ok(())
}

fn trace_and_top_go_on(stage: &Stage) -> Result<()> {
    let begun = Instant::now();
    let mut trace = stage.start(&["trace"], SMALL, "xterm-256color")?;
    trace.line("the heading", |line| line.contains("CALL"))?;
    std::fs::remove_file(&stage.arguments.device)?;
    // Whoever has it open goes on, and so does who looks at that.
    let removed = begun.elapsed().as_secs_f64();
    trace.line("a call that has begun since", |line| {
        let time = line.split_whitespace().next().and_then(|time| time.parse::<f64>().ok());
        time.is_some_and(|time| time > removed)
    })?;
    trace.press("\x03")?;
    ensure!(trace.exit_code()? == 0);
    let mut top = stage.start(&["top"], SMALL, "xterm-256color")?;
    stage.cells(&mut top, Part::Media, |_| true)?;
    top.press("q")?;
    ensure!(top.exit_code()? == 0);
    Ok(())
}

fn without_trace_events(stage: &Stage) -> Result<()> {
    ensure!(
        Command::new("/bin/umount").arg("/sys/kernel/tracing").status()?.success(),
        "an instance is left"
    );
    let mut trace = stage.start(&["trace"], SMALL, "xterm-256color")?;
    trace.line("what is missing", |line| line.contains("tracefs is not mounted"))?;
    trace.line("what to do", |line| line.contains("mount -t tracefs"))?;
    ensure!(trace.exit_code()? == 4);
    let mut top = stage.start(&["top"], SMALL, "xterm-256color")?;
    top.line("what is missing", |line| line.starts_with("no latencies: tracefs is not mounted"))?;
    let media = stage.cells(&mut top, Part::Media, |_| true)?;
    ensure!(media.ends_with(&["-".to_owned(), "-".to_owned()]), "{media:?}");
    top.press("q")?;
    ensure!(top.exit_code()? == 0);
    Ok(())
}
