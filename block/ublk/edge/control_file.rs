// SPDX-License-Identifier: GPL-2.0

//! The file that controls all devices, and what they share.

use super::{inline::*, uring};
use crate::{control::Control, LocalModule};
use kernel::{
    bindings, container_of,
    error::to_result,
    module::this_module,
    prelude::*,
    str::{CStr, CString},
    sync::{Arc, ArcBorrow},
    types::Opaque,
    workqueue::Queue as WorkQueue,
};

const OPERATIONS: &bindings::file_operations = &bindings::file_operations {
    owner: this_module::<LocalModule>().as_ptr(),
    uring_cmd: Some(uring::control),
    ..pin_init::zeroed()
};

/// Returns what the names of files begin with.
pub(crate) fn name() -> &'static CStr {
    // SAFETY: The parameter ends with a NUL, and does not change.
    unsafe { CStr::from_char_ptr(ublk_rust_name()) }
}

/// Returns how many devices there may be of users that are no administrators.
pub(crate) fn most_unprivileged() -> u32 {
    ublk_rust_most_unprivileged()
}

/// What all devices share: numbers of files, and a queue of works.
///
/// # Invariants
///
/// It was begun, and the value ends it.
pub(crate) struct Shared(());

/// Returns the queue of works, which all end before the module does. There is a device, so there is
/// [`Shared`].
pub(crate) fn works() -> &'static WorkQueue {
    // SAFETY: Devices are made by users of a control file, which is added later than `Shared`. It ends
    // when the module does, which has no device then, and waits for all works.
    unsafe { WorkQueue::from_raw(ublk_rust_works()) }
}

/// Returns the first number of all devices' files.
pub(crate) fn file_major() -> u32 {
    ublk_rust_file_major()
}

impl Shared {
    /// `EBUSY` or `EEXIST` if another driver has the name; `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: There is one module, which does this once.
        to_result(unsafe { ublk_rust_begin() })?;
        Ok(Self(()))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: By the type's invariant.
        unsafe { ublk_rust_end() };
    }
}

/// The file.
///
/// # Invariants
///
/// `file` is registered.
#[pin_data(PinnedDrop)]
pub(crate) struct ControlFile {
    #[pin]
    file: Opaque<bindings::miscdevice>,
    _name: CString,
    control: Arc<Control>,
}

// SAFETY: Any thread may remove it.
unsafe impl Send for ControlFile {}
// SAFETY: It is only passed to the kernel.
unsafe impl Sync for ControlFile {}

impl ControlFile {
    /// Adds the file. `EEXIST`, `ENOMEM`. Sleeps.
    pub(crate) fn add(control: Arc<Control>) -> Result<Pin<KBox<Self>>> {
        let name = CString::try_from_fmt(fmt!("{}-control", name()))?;
        let file = bindings::miscdevice {
            minor: bindings::MISC_DYNAMIC_MINOR as c_int,
            name: name.as_char_ptr(),
            fops: OPERATIONS,
            ..pin_init::zeroed()
        };
        let init = try_pin_init!(Self {
            // SAFETY: The place does not move from now on, and the name stays with it.
            file <- Opaque::try_ffi_init(|place: *mut bindings::miscdevice| unsafe {
                place.write(file);
                to_result(bindings::misc_register(place))
            }),
            _name: name,
            control,
        });
        KBox::pin_init(init, GFP_KERNEL)
    }
}

#[pinned_drop]
impl PinnedDrop for ControlFile {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type's invariant.
        unsafe { bindings::misc_deregister(self.file.get()) };
    }
}

/// Returns the control of a file.
///
/// # Safety
///
/// The file is one of [`ControlFile`], and open during the lifetime.
pub(super) unsafe fn control_of<'a>(file: *mut bindings::file) -> ArcBorrow<'a, Control> {
    // SAFETY: By the condition. The kernel has set the pointer to what was registered, which stays
    // while the file keeps the module.
    unsafe {
        let registered = (*file).private_data.cast::<bindings::miscdevice>();
        let file = container_of!(Opaque::cast_from(registered), ControlFile, file);
        (*file).control.as_arc_borrow()
    }
}

/// A number of a device.
///
/// # Invariants
///
/// It is taken, and the value frees it.
pub(crate) struct Number(u32);

impl Number {
    /// Takes a number, or the lowest one that is free for `u32::MAX`. `EEXIST`, `ENOSPC`, `ENOMEM`.
    pub(crate) fn take(wanted: u32) -> Result<Self> {
        let number = ublk_rust_number(wanted);
        to_result(number.min(0))?;
        // CAST: It is not negative.
        Ok(Self(number as u32))
    }

    pub(crate) fn get(&self) -> u32 {
        self.0
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        // SAFETY: By the type's invariant.
        unsafe { ublk_rust_free_number(self.0) };
    }
}

/// Checks that a path is that of a device's file, and that the task may read it, and write it.
/// `EPERM`, `EACCES`, and the errors of looking up a path. Sleeps.
pub(crate) fn check_path(path: &CStr, number: u32, may_write: bool) -> Result {
    // CAST: Small numbers.
    let mask = match may_write {
        true => bindings::MAY_READ | bindings::MAY_WRITE,
        false => bindings::MAY_READ,
    } as c_int;
    // SAFETY: The path ends with a NUL.
    to_result(unsafe { ublk_rust_check_path(path.as_char_ptr(), number, mask) })
}
