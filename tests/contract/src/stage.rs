// SPDX-License-Identifier: GPL-2.0
//! The start of a test: a fresh binderfs, an arena, and the usual cast.

use crate::actor::{patience, Actor};
use crate::arena::Arena;
use crate::loading;
use crate::pids::GlobalPids;
use crate::port::Port;
use crate::suite::Driver;
use binder_logs::Task;
use binder_sys::{fs, ObjectFlags};
use nix::errno::Errno;
use nix::sys::stat::{mknod, Mode, SFlag};
use std::cell::RefCell;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The size of the space that an actor maps by default.
pub const SPACE: usize = 1 << 20;

/// The numbers of the driver start near their ends.
static NEAR_LIMITS: AtomicBool = AtomicBool::new(false);

/// Sets [`NEAR_LIMITS`].
pub fn set_near_limits() {
    NEAR_LIMITS.store(true, Ordering::Relaxed);
}

/// The start of a panic that reports a test as skipped, because the guest lacks something.
pub const NEEDS: &str = "this test needs ";

/// The need of tests of binderfs.
const BINDERFS: &str = "a driver with binderfs";

/// The devices of a C driver that was configured without binderfs, as Debian's is.
const DEVICES: &str = "/dev";

/// Makes files of these devices in a directory, which a test may remove or change, as in binderfs.
fn make_devices(directory: &Path) {
    for name in ["binder", "hwbinder", "vndbinder"] {
        let Ok(device) = std::fs::metadata(Path::new(DEVICES).join(name)) else { continue };
        let path = directory.join(name);
        mknod(&path, SFlag::S_IFCHR, Mode::empty(), device.rdev()).expect("make a device's file");
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("set its mode");
    }
}

/// The surroundings of one test.
pub struct Stage {
    /// The driver that is loaded.
    pub driver: Driver,
    arena: Rc<Arena>,
    root: PathBuf,
    has_binderfs: bool,
    pids: GlobalPids,
    differences: RefCell<Vec<String>>,
}

impl Stage {
    /// Mounts a fresh binderfs; the caller has its own mount namespace. With a C driver without
    /// binderfs all tests use the same devices, one after another, each by files of its own.
    pub fn new(driver: Driver, scratch: &Path, pids: GlobalPids) -> Self {
        Self::named(fs::TYPE, driver, scratch, pids)
    }

    /// The same with a driver whose filesystem has this name.
    pub fn named(filesystem: &str, driver: Driver, scratch: &Path, pids: GlobalPids) -> Self {
        let root = scratch.join("binderfs");
        std::fs::create_dir_all(&root).expect("make the mount point");
        let has_binderfs = match fs::mount_named(filesystem, &root, None) {
            Err(Errno::ENODEV) if driver == Driver::C => {
                make_devices(&root);
                false
            }
            mounted => mounted.map(|()| true).expect("mount binderfs"),
        };
        Self {
            driver,
            arena: Rc::new(Arena::new()),
            root,
            has_binderfs,
            pids,
            differences: RefCell::default(),
        }
    }

    /// The mount point of binderfs.
    pub fn root(&self) -> &Path {
        self.needs(BINDERFS, self.has_binderfs);
        &self.root
    }

    /// Needs devices of a new binderfs, whose contexts no other test manages.
    pub fn needs_new_devices(&self) {
        self.needs(BINDERFS, self.has_binderfs);
    }

    /// Needs a driver that is a module which only this stage uses, so that the test may unload it.
    pub fn needs_driver_alone(&self) {
        // The mount is the one user.
        self.needs("a driver that is loaded for it alone", loading::users(self.driver) == Some(1));
    }

    /// Mounts binderfs again, with its logs.
    pub fn mount_with_logs(&self) {
        self.unmount();
        fs::mount_at(self.root(), Some("stats=global")).expect("mount binderfs");
    }

    /// Unmounts binderfs; files that are open stay.
    pub fn unmount(&self) {
        nix::mount::umount2(self.root(), nix::mount::MntFlags::MNT_DETACH).expect("unmount binderfs");
    }

    /// The pid of a port's process in the initial pid namespace.
    pub fn global_pid(&self, port: &Port) -> u32 {
        self.pid_of(&port.actor)
    }

    /// The pid of an actor's process in the initial pid namespace.
    pub fn pid_of(&self, actor: &Actor) -> u32 {
        self.pids.of(actor.pid())
    }

    /// The pid by which a process of the test's own namespace can freeze one of that namespace.
    pub fn pid_to_freeze(&self, actor: &Actor) -> u32 {
        if self.driver == Driver::Rust {
            actor.pid() as u32
        } else {
            self.pid_of(actor)
        }
    }

    /// The tid of a port's thread in the initial pid namespace.
    pub fn global_tid(&self, port: &Port) -> u32 {
        self.pids.of_thread(port.actor.pid(), port.actor.tid())
    }

    /// The pid of the calling process in the initial pid namespace.
    pub fn own_pid(&self) -> u32 {
        self.pids.of(nix::unistd::getpid().as_raw())
    }

    /// A port's thread and its process in the initial pid namespace.
    pub fn task_of(&self, port: &Port) -> Task {
        Task { process: self.global_pid(port) as i32, thread: self.global_tid(port) as i32 }
    }

    /// A device's path.
    pub fn device(&self, name: &str) -> PathBuf {
        let path = self.root.join(name);
        self.needs(BINDERFS, self.has_binderfs || path.exists());
        path
    }

    /// A new empty directory beside binderfs.
    pub fn directory(&self, name: &str) -> PathBuf {
        let path = self.root().with_file_name(name);
        std::fs::create_dir_all(&path).expect("make a directory");
        path
    }

    /// A new process with the device open, nothing mapped.
    pub fn opened(&self) -> Port {
        self.open_by(Rc::new(Actor::new()))
    }

    /// The device opened by an actor that exists.
    pub fn open_by(&self, actor: Rc<Actor>) -> Port {
        Port::open(actor, &self.arena, &self.device("binder"), 0).expect("open the device")
    }

    /// A device opened and its space mapped by an actor that exists.
    pub fn client_at(&self, device: &Path, actor: Rc<Actor>) -> Port {
        let mut port = Port::open(actor, &self.arena, device, 0).expect("open the device");
        port.map(SPACE).expect("map the space");
        port
    }

    /// The same with the device "binder".
    pub fn client_by(&self, actor: Rc<Actor>) -> Port {
        self.client_at(&self.device("binder"), actor)
    }

    /// A new process with the device open and its space mapped.
    pub fn client(&self) -> Port {
        self.client_with(SPACE)
    }

    /// A client with another size of the space.
    pub fn client_with(&self, space: usize) -> Port {
        let mut port = self.opened();
        port.map(space).expect("map the space");
        port
    }

    /// A new process that is the context manager, its thread in the pool.
    pub fn manager(&self) -> Port {
        self.manager_with(SPACE)
    }

    /// A manager with another size of the space.
    pub fn manager_with(&self, space: usize) -> Port {
        let port = self.client_with(space);
        port.set_context_manager().expect("become context manager");
        port.enter_looper();
        port
    }

    /// A new process that is the context manager by a node with these flags, its thread in the pool.
    pub fn manager_flagged(&self, flags: ObjectFlags) -> Port {
        self.client().managing(flags)
    }

    /// A manager whose calls may carry files.
    pub fn file_manager(&self) -> Port {
        self.manager_flagged(ObjectFlags::ACCEPTS_FDS)
    }

    /// A new process whose thread is in the pool.
    pub fn server(&self) -> Port {
        let port = self.client();
        port.enter_looper();
        port
    }

    /// How long to wait for what our driver does in any case, and another one may not do.
    pub fn patience_for_ours(&self) -> Duration {
        match self.driver {
            Driver::Rust => patience(),
            _ => Duration::from_secs(2),
        }
    }

    /// Passes if the check holds. If it does not, that is a failure, unless the driver is the one
    /// that is known to differ: then it is noted as an expected difference.
    #[track_caller]
    pub fn known_difference(&self, driver: Driver, why: &str, holds: bool) -> bool {
        if !holds {
            assert!(self.driver == driver, "{why}");
            let mut differences = self.differences.borrow_mut();
            if !differences.iter().any(|known| known == why) {
                differences.push(why.to_string());
            }
        }
        holds
    }

    /// Passes if our driver alone does this. On another one the rest of the test is void then.
    #[track_caller]
    pub fn ours_alone(&self, why: &str, holds: bool) -> bool {
        if self.driver == Driver::Rust {
            assert!(holds, "{why}");
            return true;
        }
        self.known_difference(self.driver, why, holds)
    }

    /// Passes if the check holds on our driver. On another one chance decides, so this is noted as a
    /// difference each time.
    #[track_caller]
    pub fn ours_always(&self, why: &str, holds: bool) {
        self.ours_alone(why, holds && self.driver == Driver::Rust);
    }

    /// Ends the test, which is then reported as skipped, unless the guest has what it needs.
    pub fn needs(&self, what: &str, is_there: bool) {
        if !is_there {
            self.lacks(what);
        }
    }

    /// Ends the test, for the guest lacks this.
    pub fn lacks(&self, what: &str) -> ! {
        panic!("{NEEDS}{what}");
    }

    /// Needs a kernel without KASAN, which delays the reuse of freed memory, and costs time.
    pub fn needs_no_kasan(&self) {
        self.needs("a kernel without KASAN", !self.has_kasan());
    }

    /// Returns whether KASAN, and lock checks, enlarge each object.
    pub fn has_kasan(&self) -> bool {
        std::fs::read_to_string("/proc/kallsyms").unwrap_or_default().contains(" kasan_report\n")
    }

    /// The number of tries, of `all`, for a fault that shows by chance: a quarter where the kernel
    /// checks locks and memory. Such a kernel is slow, and reports each wrong access.
    pub fn tries(&self, all: u32) -> u32 {
        if Path::new("/proc/lockdep_stats").exists() {
            all / 4
        } else {
            all
        }
    }

    /// Returns whether the numbers of the driver start near their ends.
    pub fn is_near_limits(&self) -> bool {
        NEAR_LIMITS.load(Ordering::Relaxed)
    }

    /// The expected differences seen so far.
    pub fn differences(&self) -> String {
        self.differences.borrow().join("; ")
    }

    /// Returns whether upstream's Rust driver is loaded, whose errno values differ as documented.
    pub fn upstream(&self) -> bool {
        self.driver == Driver::Upstream
    }
}
