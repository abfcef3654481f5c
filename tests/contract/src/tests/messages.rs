// SPDX-License-Identifier: GPL-2.0
//! Messages in the kernel's log that user space causes: a few, only if asked for, never a flood.

use crate::cases;
use crate::port::{empty, introduce, Port};
use crate::stage::Stage;
use crate::suite::Driver;
use binder_sys::ioctl::BINDER_GET_NODE_DEBUG_INFO;
use binder_sys::{FlatBinderObject, Return};
use nix::errno::Errno;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

cases! { "messages":
    mask_is_a_parameter ["PARAM-3"],
    misuse_is_logged_if_asked_for ["PARAM-3", "WR-5"],
    failed_calls_are_logged_if_asked_for ["PARAM-3"],
    lost_calls_are_logged_if_asked_for ["PARAM-3"],
    failed_ioctls_are_logged ["IOCTL-2"],
    success_is_silent ["PARAM-3", "IOCTL-2", "DN-2", "NODE-9"],
    lesson_r24_a_flood_is_cut ["PARAM-3"],
}

/// What the mask is when nobody has set it: user errors, failed and dead transactions.
const DEFAULT: u32 = 7;

/// A kernel says no more than ten things in this time for one limit.
const WINDOW: Duration = Duration::from_secs(5);

/// The driver's `debug_mask`, set back at the end of the test.
struct Mask {
    file: PathBuf,
    before: String,
}

impl Mask {
    fn of(driver: Driver) -> Self {
        let file = driver.parameter("debug_mask");
        let before = std::fs::read_to_string(&file).expect("read debug_mask");
        Self { file, before }
    }

    fn set(&self, mask: u32) {
        std::fs::write(&self.file, mask.to_string()).expect("write debug_mask");
    }
}

impl Drop for Mask {
    fn drop(&mut self) {
        let _ = std::fs::write(&self.file, &self.before);
    }
}

/// The kernel's log from now on.
struct Log(std::fs::File);

impl Log {
    fn open() -> Self {
        let mut options = std::fs::OpenOptions::new();
        let mut file =
            options.read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg").expect("open /dev/kmsg");
        file.seek(SeekFrom::End(0)).expect("go to the end of the log");
        Self(file)
    }

    /// What a Binder driver has said since the last time.
    fn news(&mut self) -> Vec<String> {
        let mut found = Vec::new();
        let mut record = [0; 8192];
        loop {
            match self.0.read(&mut record) {
                Ok(length) => {
                    let text = String::from_utf8_lossy(&record[..length]).into_owned();
                    let text = text.split_once(';').map_or("", |(_, text)| text);
                    let line = text.lines().next().unwrap_or("");
                    if line.contains("binder") && !line.contains("suppressed") {
                        found.push(line.to_string());
                    }
                }
                // Records that were overwritten before we came.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => return found,
                Err(error) => panic!("/dev/kmsg: {error}"),
            }
        }
    }

    /// Repeats something until the log has news: others may have used up the limit a moment ago.
    fn news_of(&mut self, mut what: impl FnMut()) -> Vec<String> {
        let deadline = Instant::now() + 2 * WINDOW;
        loop {
            what();
            let news = self.news();
            if !news.is_empty() || Instant::now() > deadline {
                return news;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// Checks that something is logged with a bit of the mask and not without any. The limit is not what
/// silences it, for after the silence it speaks again.
fn logged_with(t: &Stage, bit: u32, what: impl Fn()) {
    let (mask, mut log) = (Mask::of(t.driver), Log::open());
    mask.set(1 << bit);
    assert_ne!(log.news_of(&what), [""; 0], "nothing is logged");
    mask.set(0);
    what();
    assert_eq!(log.news(), [""; 0], "logged without being asked for");
    mask.set(1 << bit);
    assert_ne!(log.news_of(&what), [""; 0], "nothing is logged any more");
}

/// Frees a buffer that is none.
fn misuse(port: &Port) {
    port.send(|c| c.free_buffer(0xdead_0000));
}

fn mask_is_a_parameter(t: &Stage) {
    use std::os::unix::fs::PermissionsExt;
    let mask = Mask::of(t.driver);
    let mode = std::fs::metadata(&mask.file).expect("the parameter").permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    assert_eq!(mask.before.trim(), DEFAULT.to_string());
    mask.set(0);
    assert_eq!(std::fs::read_to_string(&mask.file).expect("read").trim(), "0");
}

fn misuse_is_logged_if_asked_for(t: &Stage) {
    let client = t.client();
    logged_with(t, 0, || misuse(&client));
    logged_with(t, 0, || client.send(|c| c.release(super::NO_HANDLE)));
}

fn failed_calls_are_logged_if_asked_for(t: &Stage) {
    let (_manager, client) = (t.manager(), t.client());
    logged_with(t, 1, || {
        client.refused(&client.place(super::NO_HANDLE, 0, &empty()));
    });
}

fn lost_calls_are_logged_if_asked_for(t: &Stage) {
    let (manager, client) = (t.manager(), t.client());
    logged_with(t, 2, || {
        client.start_call(0, 0, &empty());
        client.actor.expect_blocked();
        // The thread takes the call and leaves.
        manager.wait_call();
        assert_eq!(manager.ioctl(binder_sys::ioctl::BINDER_THREAD_EXIT, 0i32), Ok(0));
        client.wait_refusal();
        manager.enter_looper();
    });
}

fn failed_ioctls_are_logged(t: &Stage) {
    let (port, mut log) = (t.server(), Log::open());
    let news = log.news_of(|| assert_eq!(port.ioctl_fault(BINDER_GET_NODE_DEBUG_INFO), Err(Errno::EFAULT)));
    assert_ne!(news, [""; 0]);
    // An interrupted wait is none.
    let mut log = Log::open();
    port.park();
    port.actor.interrupt();
    assert_eq!(port.finish_raw().errno, Errno::EINTR);
    assert_eq!(log.news(), [""; 0]);
}

fn success_is_silent(t: &Stage) {
    let (manager, owner, client) = (t.manager(), t.server(), t.server());
    let handle = introduce(&manager, &owner, FlatBinderObject::binder(0x10, 0), &client);
    owner.settle_counts();
    let mut log = Log::open();
    for _ in 0..20 {
        client.round_trip(0, &manager, &empty(), &empty());
    }
    client.send(|c| c.acquire(handle).increfs(handle).release(handle).decrefs(handle));
    client.send(|c| c.request_death(handle, 1).clear_death(handle, 1).request_death(handle, 2));
    client.wait_for(Return::ClearDeathNotificationDone(1));
    owner.close();
    owner.unmap();
    client.wait_for(Return::DeadBinder(2));
    client.send(|c| c.dead_binder_done(2).release(handle));
    assert_eq!(log.news(), [""; 0]);
    // Silent though it may speak.
    assert_ne!(log.news_of(|| misuse(&client)), [""; 0]);
}

fn lesson_r24_a_flood_is_cut(t: &Stage) {
    let (client, mut log) = (t.client(), Log::open());
    let mut commands = binder_sys::Commands::new();
    for _ in 0..100 {
        commands.free_buffer(0xdead_0000);
    }
    assert_ne!(log.news_of(|| misuse(&client)), [""; 0]);
    let began = Instant::now();
    for _ in 0..10 {
        client.write(&commands);
    }
    let windows = 2 + began.elapsed().as_secs() as usize / WINDOW.as_secs() as usize;
    let lines = log.news().len();
    let cut = lines <= 10 * windows;
    t.known_difference(Driver::Upstream, "messages have no rate limit (lesson R24)", cut);
}
