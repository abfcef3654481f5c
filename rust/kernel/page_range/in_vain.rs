// SPDX-License-Identifier: GPL-2.0

//! How often each list of pages was asked for an idle one since it had one.

use kernel::{bindings, ffi::c_ulong};

/// Which of a pool's lists: it has one for each node and memory cgroup.
///
/// A cgroup that is where another one was before has the other's.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ListId {
    pub(super) node: i32,
    /// The address of the cgroup, or 0.
    pub(super) cgroup: usize,
}

impl ListId {
    /// Returns the list that a call of the shrinker is about.
    pub(super) fn of(control: &bindings::shrink_control) -> Self {
        Self {
            node: control.nid,
            cgroup: control.memcg.addr(),
        }
    }
}

/// How many pages of each list were asked for since one of them was idle.
///
/// Of lists that share a place, that which was asked last has its number here, and the others 0.
/// A cgroup that has another one's [`ListId`] begins with the other's number, which only makes its
/// first call end sooner.
#[derive(Default)]
pub(super) struct InVain([Asked; InVain::PLACES]);

/// How many pages of a list were asked for.
#[derive(Clone, Copy, Default)]
struct Asked {
    list: ListId,
    pages: c_ulong,
}

impl InVain {
    const PLACES: usize = 16;

    /// Returns the place of a list.
    fn place(list: ListId) -> usize {
        // CAST: Nodes are numbered from 0 on. Cgroups are objects of about 4 KiB.
        (list.node as usize ^ list.cgroup >> 12 ^ list.cgroup >> 8) % Self::PLACES
    }

    /// Returns the number of this list: 0 if another one that shares its place was asked since.
    pub(super) fn of(&self, list: ListId) -> c_ulong {
        let asked = self.0[Self::place(list)];
        if asked.list == list {
            asked.pages
        } else {
            0
        }
    }

    /// Records whether a page of this list was idle.
    pub(super) fn note(&mut self, list: ListId, is_idle: bool) {
        let pages = if is_idle {
            0
        } else {
            self.of(list).saturating_add(1)
        };
        self.0[Self::place(list)] = Asked { list, pages };
    }
}
