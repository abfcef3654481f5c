// SPDX-License-Identifier: GPL-2.0
//! `binderctl list`: the driver, the mounted instances of binderfs and their devices.

use std::path::PathBuf;

use binder_logs::State;
use serde::Serialize;

use crate::accounts;
use crate::driver;
use crate::driver::Driver;
use crate::error::Outcome;
use crate::error::Result;
use crate::instances;
use crate::instances::Device;
use crate::instances::Instance;
use crate::logs::Logs;
use crate::managers;
use crate::options::Options;
use crate::output::Output;
use crate::output::Page;
use crate::output::Report;
use crate::output::Span;
use crate::output::Style;
use crate::tasks::Names;

#[derive(Serialize)]
struct Listing {
    driver: Option<Driver>,
    instances: Vec<Place>,
}

/// An instance and what is in it, or why that cannot be read.
#[derive(Serialize)]
struct Place {
    directory: PathBuf,
    max: Option<u32>,
    logs: bool,
    read_only: bool,
    error: Option<String>,
    devices: Vec<Entry>,
}

/// A device, and who its context manager is, if the driver's logs tell.
#[derive(Serialize)]
struct Entry {
    #[serde(flatten)]
    device: Device,
    managers: Option<Vec<i32>>,
}

/// Lists all instances, or the one asked for.
pub fn run(options: &Options, output: Output) -> Result<Outcome> {
    let all = match options.binderfs {
        Some(_) => vec![instances::chosen(options)?],
        None => instances::mounted()?,
    };
    let wanted = options.device_name();
    // Who may not read the logs is not told who the managers are.
    let state = Logs::find(options).and_then(|logs| logs.state()).ok();
    let instances = all.iter().map(|instance| place(instance, wanted, state.as_ref())).collect();
    output.print(&Listing { driver: driver::detect(), instances })?;
    Ok(Outcome::Fine)
}

fn place(instance: &Instance, wanted: Option<&str>, state: Option<&State>) -> Place {
    let (mut devices, error) = match instance.devices() {
        Ok(devices) => (devices, None),
        Err(error) => (Vec::new(), Some(error.message)),
    };
    devices.retain(|device| wanted.is_none_or(|name| name == device.name));
    let Instance { directory, max, logs, read_only, .. } = instance.clone();
    let entry = |device| Entry { managers: state.map(|state| managers::of(&device, state)), device };
    Place { directory, max, logs, read_only, error, devices: devices.into_iter().map(entry).collect() }
}

impl Report for Listing {
    const SCHEMA: &'static str = "binderctl.list/1";

    fn show(&self, page: &mut Page) {
        match &self.driver {
            Some(driver) => {
                let name = Span::new(Style::Strong, driver.kind.name());
                page.line([
                    "driver: ".into(),
                    name,
                    Span::new(Style::Dim, format!(" ({})", driver.evidence)),
                ]);
            }
            None => page.say("driver: none; load one, such as binder_rust or binder_linux"),
        }
        if self.instances.is_empty() {
            page.say(format!("no binderfs is mounted; as root: binderctl mount {}", instances::USUAL));
        }
        for place in &self.instances {
            place.show(page);
        }
    }
}

impl Place {
    fn show(&self, page: &mut Page) {
        let max = self.max.map(|max| format!("at most {max} devices"));
        let logs = self.logs.then(|| "with log files".to_owned());
        let read_only = self.read_only.then(|| "read-only".to_owned());
        let notes: Vec<String> = [max, logs, read_only].into_iter().flatten().collect();
        page.gap();
        page.line([
            Span::new(Style::Strong, self.directory.display().to_string()),
            Span::new(Style::Dim, format!("  {}", notes.join(", "))),
        ]);
        if let Some(error) = &self.error {
            page.line([Span::new(Style::Bad, format!("  {error}"))]);
            return;
        }
        let mut names = Names::new();
        let rows: Vec<[Span; 5]> = self.devices.iter().map(|entry| row(entry, &mut names)).collect();
        page.table(2, ["DEVICE", "NUMBERS", "MODE", "OWNER", "CONTEXT MANAGER"], &rows);
    }
}

fn row(entry: &Entry, names: &mut Names) -> [Span; 5] {
    let Entry { device, managers } = entry;
    let managers = match managers.as_deref() {
        None => "?".to_owned(),
        Some([]) => "-".to_owned(),
        Some(some) => some.iter().map(|&pid| names.of_process(pid)).collect::<Vec<_>>().join(" or "),
    };
    let owner =
        format!("{}:{}", accounts::Kind::User.name(device.uid), accounts::Kind::Group.name(device.gid));
    [
        device.name.as_str().into(),
        format!("{}:{}", device.major, device.minor).into(),
        device.mode.as_str().into(),
        owner.into(),
        managers.into(),
    ]
}
