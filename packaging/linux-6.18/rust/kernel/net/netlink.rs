// SPDX-License-Identifier: GPL-2.0

//! Families of generic netlink that only send to groups in the first network namespace.

use crate::{alloc::Flags, error::to_result, prelude::*, str::CStr, types::Opaque};
use core::{mem::ManuallyDrop, ptr::null_mut};
use pin_init::zeroed;

/// The size of a message that fills a page with its headers.
pub const GENLMSG_DEFAULT_SIZE: usize = bindings::BACKPORTS_GENLMSG_DEFAULT_SIZE;

/// A buffer, and the head of the message in it.
pub struct NetlinkSkBuff(*mut bindings::sk_buff, *mut c_void);

/// A message that has begun.
pub type GenlMsg = NetlinkSkBuff;

impl NetlinkSkBuff {
    /// Allocates a buffer.
    pub fn new(size: usize, flags: Flags) -> Result<Self> {
        // SAFETY: It may be called with any size and flags.
        let buffer = unsafe { bindings::genlmsg_new(size, flags.as_raw()) };
        if buffer.is_null() {
            return Err(ENOMEM);
        }
        Ok(Self(buffer, null_mut()))
    }

    /// Begins a message.
    pub fn genlmsg_put(mut self, port: u32, seq: u32, of: &Family, cmd: u8) -> Result<Self> {
        // SAFETY: The buffer is this one's, and of the family it reads initialised numbers.
        self.1 = unsafe { bindings::genlmsg_put(self.0, port, seq, of.as_raw(), 0, cmd) };
        if self.1.is_null() {
            return Err(ENOMEM);
        }
        Ok(self)
    }

    fn put(&mut self, kind: c_int, bytes: &[u8]) -> Result {
        let size = u16::try_from(bytes.len())?.into();
        // SAFETY: The buffer is this one's, and so many bytes are there. It checks the room.
        to_result(unsafe { bindings::nla_put(self.0, kind, size, bytes.as_ptr().cast()) })
    }

    /// Adds a number.
    pub fn put_u32(&mut self, kind: c_int, value: u32) -> Result {
        self.put(kind, &value.to_ne_bytes())
    }

    /// Adds a string.
    pub fn put_string(&mut self, kind: c_int, value: &CStr) -> Result {
        self.put(kind, value.to_bytes_with_nul())
    }

    /// Adds an attribute without a value.
    pub fn put_flag(&mut self, kind: c_int) -> Result {
        self.put(kind, &[])
    }

    /// Sends the message to a group of the family.
    pub fn multicast(self, of: &Family, port: u32, group: u32, flags: Flags) -> Result {
        if self.1.is_null() {
            return Err(EINVAL);
        }
        let this = ManuallyDrop::new(self);
        // SAFETY: The head is in the buffer. The second function takes the buffer.
        to_result(unsafe {
            bindings::genlmsg_end(this.0, this.1);
            bindings::genlmsg_multicast(of.as_raw(), this.0, port, group, flags.as_raw())
        })
    }
}

impl Drop for NetlinkSkBuff {
    fn drop(&mut self) {
        // SAFETY: Nobody else has the buffer.
        unsafe { bindings::__kfree_skb(self.0) };
    }
}

type Groups = &'static [MulticastGroup];

/// A family.
pub struct Family(Opaque<bindings::genl_family>);

// SAFETY: After its registration it is only changed under the lock of netlink.
unsafe impl Sync for Family {}

impl Family {
    /// Makes a family that is not registered.
    pub const fn const_new(of: &ThisModule, name: &[u8], version: u32, groups: Groups) -> Self {
        let mut family = zeroed::<bindings::genl_family>();
        copy(&mut family.name, name);
        family.version = version;
        family.module = of.as_ptr();
        family.mcgrps = groups.as_ptr().cast();
        family.n_mcgrps = groups.len() as u8;
        Self(Opaque::new(family))
    }

    /// Returns whether anybody listens to a group.
    pub fn has_listeners(&self, group: u32) -> bool {
        let space = &raw mut bindings::init_net;
        // SAFETY: The namespace is a variable of the kernel.
        unsafe { bindings::genl_has_listeners(self.as_raw(), space, group) != 0 }
    }

    /// Returns the struct of C.
    pub const fn as_raw(&self) -> *mut bindings::genl_family {
        self.0.get()
    }

    /// Registers the family, for as long as the result lives.
    pub fn register(&'static self) -> Result<Registration> {
        // SAFETY: The family is initialised and stays where it is. Nobody else uses it yet.
        to_result(unsafe {
            // Other namespaces may look it up.
            (*self.as_raw()).set_netnsok(1);
            bindings::genl_register_family(self.as_raw())
        })?;
        Ok(Registration(self))
    }
}

/// A group of a family.
#[repr(transparent)]
pub struct MulticastGroup(bindings::genl_multicast_group);

// SAFETY: It does not change.
unsafe impl Sync for MulticastGroup {}

impl MulticastGroup {
    /// Makes a group of this name.
    pub const fn const_new(name: &CStr) -> Self {
        let mut group = zeroed::<bindings::genl_multicast_group>();
        copy(&mut group.name, name.to_bytes_with_nul());
        Self(group)
    }
}

/// A family that is registered.
pub struct Registration(&'static Family);

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: It was registered, and nobody else unregisters it.
        unsafe { bindings::genl_unregister_family(self.0.as_raw()) };
    }
}

const fn copy(to: &mut [c_char], from: &[u8]) {
    let mut index = 0;
    while index < from.len() {
        to[index] = from[index];
        index += 1;
    }
}
