// SPDX-License-Identifier: GPL-2.0
//! Detects the kernel's Binder driver.

use crate::error::{self, Error};
use serde::Serialize;
use std::fs;
use std::path::Path;

/// A driver that this program supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The kernel's driver in C.
    C,
    /// This project's.
    Ours,
    /// The kernel's own driver in Rust.
    Upstream,
    /// Another driver.
    Unknown,
}

impl Kind {
    /// Its name in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Self::C => "the C driver",
            Self::Ours => "Rust Binder",
            Self::Upstream => "upstream's Rust driver",
            Self::Unknown => "an unknown driver",
        }
    }
}

/// The kernel's Binder driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Driver {
    pub kind: Kind,
    /// The module's folder in `/sys/module`, if it has one.
    pub module: Option<String>,
    /// True if the driver is a part of the kernel instead of a loaded module.
    pub built_in: Option<bool>,
    /// The evidence for the driver.
    pub evidence: String,
}

/// The modules' directories with their drivers. The C driver's is named after the kernel's configuration: Debian's
/// carries the suffix, a built-in one has the name of its source.
const MODULES: [(&str, Kind); 4] = [
    ("binder_rust", Kind::Ours),
    ("rust_binder", Kind::Upstream),
    ("binder_linux", Kind::C),
    ("binder", Kind::C),
];

/// The driver that the running kernel has; none if it has none.
pub fn detect() -> Option<Driver> {
    detect_in(Path::new("/"))
}

fn detect_in(root: &Path) -> Option<Driver> {
    let registered = registered_device(root);
    for (module, kind) in MODULES {
        let folder = root.join("sys/module").join(module);
        // Two drivers may be built in, and the first one registered its device numbers under its name.
        let rival = registered.as_deref() == Some("binder") && kind == Kind::Upstream
            || registered.as_deref() == Some("rust_binder") && kind != Kind::Upstream;
        if !folder.is_dir() || rival {
            continue;
        }
        let built_in = !folder.join("initstate").exists();
        let how = if built_in { "is built into the kernel" } else { "is loaded" };
        return Some(Driver {
            kind,
            module: Some(module.to_owned()),
            built_in: Some(built_in),
            evidence: format!("module {module} {how}"),
        });
    }
    let (kind, evidence) = match registered?.as_str() {
        "rust_binder" => (Kind::Upstream, "/proc/devices has rust_binder"),
        _ => (Kind::Unknown, "/proc/devices has binder, /sys/module has no driver that is known"),
    };
    Some(Driver { kind, module: None, built_in: None, evidence: evidence.to_owned() })
}

/// The name under which binderfs has its device numbers.
fn registered_device(root: &Path) -> Option<String> {
    let devices = fs::read_to_string(root.join("proc/devices")).ok()?;
    let mut names = devices.lines().filter_map(|line| line.split_whitespace().nth(1));
    names.find(|name| ["binder", "rust_binder"].contains(name)).map(str::to_owned)
}

/// The error of a command that needs a driver where there is none.
pub fn missing() -> Error {
    Error::new(error::Kind::NotThere, NONE).hint(LOAD)
}

/// The message if there is no driver, and the next step.
pub const NONE: &str = "the kernel has no Binder driver";
pub const LOAD: &str = "load one: modprobe binder_rust, or modprobe binder_linux";

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str, devices: &str, folders: &[&str]) -> Option<Kind> {
        let root = std::env::temp_dir().join(format!("binderctl-driver-{}-{name}", std::process::id()));
        fs::create_dir_all(root.join("proc")).unwrap();
        fs::write(root.join("proc/devices"), devices).unwrap();
        for folder in folders {
            fs::create_dir_all(root.join("sys/module").join(folder)).unwrap();
        }
        detect_in(&root).map(|driver| driver.kind)
    }

    #[test]
    fn drivers_are_told_apart() {
        assert_eq!(kind("none", "  1 mem\n", &["ext4"]), None);
        assert_eq!(kind("c", "240 binder\n", &["binder_linux"]), Some(Kind::C));
        assert_eq!(kind("ours", "240 binder\n", &["binder_rust"]), Some(Kind::Ours));
        assert_eq!(kind("upstream", "240 rust_binder\n", &["rust_binder"]), Some(Kind::Upstream));
        assert_eq!(kind("other", "240 binder\n", &[]), Some(Kind::Unknown));
    }

    #[test]
    fn of_two_that_are_built_in_the_one_counts_that_has_the_devices() {
        assert_eq!(kind("both-c", "240 binder\n", &["binder", "rust_binder"]), Some(Kind::C));
        assert_eq!(kind("both-rust", "240 rust_binder\n", &["binder", "rust_binder"]), Some(Kind::Upstream));
    }
}
