// SPDX-License-Identifier: GPL-2.0
//! What Android's init does for Binder, and the services that it starts.

use crate::aidl::PING;
use crate::hardware;
use crate::identity::{self, user};
use crate::shared::{Shared, Started};
use crate::talk::{Outcome, Port, Serve, Thread};
use crate::work;
use crate::{system, watchdog};
use anyhow::Context;
use binder_sys::fs::mount_at;
use nix::sys::resource::{setrlimit, Resource};
use nix::unistd::Pid;
use std::fs::{self, Permissions};
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The devices of Android.
pub const DEVICES: [&str; 3] = ["binder", "hwbinder", "vndbinder"];
const ROOT: &str = "/dev/binderfs";
/// A service that has not come by then never will.
const PATIENCE: Duration = Duration::from_secs(30);

/// Mounts binderfs, opens its devices to everybody, and links them to where they used to be.
pub fn mount_binderfs() -> anyhow::Result<()> {
    fs::create_dir_all(ROOT)?;
    mount_at(ROOT, Some("stats=global")).context("mount binderfs")?;
    fs::set_permissions(ROOT, Permissions::from_mode(0o755))?;
    for name in DEVICES {
        let device = Path::new(ROOT).join(name);
        let link = Path::new("/dev").join(name);
        let _ = fs::remove_file(&link);
        symlink(&device, &link).with_context(|| format!("link {}", link.display()))?;
        fs::set_permissions(&device, Permissions::from_mode(0o666)).with_context(|| name.to_owned())?;
    }
    Ok(())
}

/// Lets every process choose its nice value, as Android's init does: a thread that serves a call is to be as nice as its caller.
pub fn allow_all_nice_values() -> anyhow::Result<()> {
    setrlimit(Resource::RLIMIT_NICE, 40, 40).context("the limit of nice values")
}

/// Has the security module load a policy, and enforce it.
pub fn load_policy(policy: &Path) -> anyhow::Result<()> {
    let policy = fs::read(policy).with_context(|| policy.display().to_string())?;
    fs::write("/sys/fs/selinux/load", policy).context("load the policy: boot with lsm=selinux")?;
    // It cannot be told where it always enforces.
    let enforce = Path::new("/sys/fs/selinux/enforce");
    if fs::read_to_string(enforce)?.trim() != "1" {
        fs::write(enforce, "1").context("enforce the policy")?;
    }
    anyhow::ensure!(identity::has_policy(), "the policy is loaded, and this process has no context of it");
    Ok(())
}

/// Starts managers and services, one after the other, as each needs those before it.
pub fn start_services(
    shared: &'static Shared,
    started: &'static [Started],
    manager: &Path,
    seed: u64,
) -> anyhow::Result<Vec<(&'static str, Pid)>> {
    let run = |name, uid, domain, what: fn(&'static Shared)| {
        (name, identity::start(shared, name, uid, domain, move || what(shared)))
    };
    let mut services = vec![
        (
            "servicemanager",
            identity::execute(shared, "servicemanager", "servicemanager", manager, "/dev/binder"),
        ),
        (
            "vndservicemanager",
            identity::execute(shared, "vndservicemanager", "vndservicemanager", manager, "/dev/vndbinder"),
        ),
        run("hwservicemanager", user::SYSTEM, "hwservicemanager", |_| hardware::manage()),
    ];
    for device in DEVICES {
        wait_for_manager(shared, device)?;
    }
    services.push(run("vendor service", user::VENDOR, "vendor_service", hardware::serve_vendor));
    wait_until("the vendor's service", || shared.services.ready.get() == 1)?;
    services.push(run("sound service", user::AUDIO, "hal_audio", hardware::serve_sound));
    wait_until("the sound service", || shared.services.ready.get() == 2)?;
    let what = move || system::run(shared, started, seed);
    services.push(("system", identity::start(shared, "system", user::SYSTEM, "system_server", what)));
    wait_until("the system", || shared.system_served.ready.get() == 1)?;
    services.push(run("watchdog", user::SYSTEM, "dumpstate", watchdog::run));
    Ok(services)
}

/// Waits until a device has a context manager, as who watches.
fn wait_for_manager(shared: &'static Shared, device: &'static str) -> anyhow::Result<()> {
    let before = shared.managers.get();
    let pid = identity::start(shared, "a client", user::SYSTEM, "dumpstate", move || {
        let nobody: Arc<dyn Serve> = Arc::new(crate::talk::Nothing);
        let mut thread = Thread::new(&Port::open(&format!("/dev/{device}")), &nobody);
        while !matches!(thread.call(0, PING, &work::parcel_of(&[])), Outcome::Reply(_)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        shared.managers.add();
    });
    let came = wait_until(device, || shared.managers.get() > before);
    if came.is_err() {
        identity::end(pid);
    } else {
        nix::sys::wait::waitpid(pid, None)?;
    }
    came
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) -> anyhow::Result<()> {
    let start = Instant::now();
    while !is_so() {
        anyhow::ensure!(start.elapsed() < PATIENCE, "{what} does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
