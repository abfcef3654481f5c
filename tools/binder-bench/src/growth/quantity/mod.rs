// SPDX-License-Identifier: GPL-2.0
//! Quantities that user space can increase: one file for each kind, and the list of all.

mod calls;
mod nesting;
mod notices;
mod objects;
mod opens;

use super::scene::Scene;
use crate::error::Result;

pub struct Quantity {
    pub name: &'static str,
    /// The smallest number that is measured; four times as many follow, and four times as many again, up to the largest.
    pub least: u64,
    pub most: u64,
    /// Goes through all phases with so many.
    pub run: fn(&mut Scene, u64) -> Result<()>,
}

pub const ALL: &[Quantity] = &[
    Quantity { name: "objects of one call", least: 64, most: 4_096, run: objects::of_one_call },
    Quantity { name: "own nodes, weak then strong", least: 64, most: 4_096, run: objects::weak_then_strong },
    Quantity { name: "handles", least: 128, most: 131_072, run: objects::held },
    Quantity { name: "handles that die", least: 64, most: 16_384, run: objects::dying },
    Quantity { name: "depth of nesting", least: 64, most: 4_096, run: nesting::killed },
    Quantity { name: "depth of nesting, undone", least: 64, most: 4_096, run: nesting::undone },
    Quantity { name: "depth of nesting, inside out", least: 64, most: 4_096, run: nesting::killed_inside },
    Quantity { name: "nested pointers", least: 64, most: 4_096, run: objects::side_by_side },
    Quantity { name: "pointers in a chain", least: 64, most: 4_096, run: objects::in_a_chain },
    Quantity { name: "threads idle", least: 16, most: 4_096, run: calls::idle },
    Quantity { name: "threads ended silently", least: 64, most: 4_096, run: calls::ended },
    Quantity { name: "threads that take leave", least: 64, most: 4_096, run: calls::leaving },
    Quantity { name: "calls", least: 8, most: 512, run: calls::answered },
    Quantity { name: "calls of who dies", least: 8, most: 512, run: calls::callers_die },
    Quantity { name: "calls to who dies", least: 8, most: 512, run: calls::server_dies },
    Quantity { name: "oneway calls of a node", least: 64, most: 16_384, run: calls::oneway_taken },
    Quantity { name: "oneway calls, both die", least: 64, most: 16_384, run: calls::oneway_dying },
    Quantity { name: "oneway calls of nodes", least: 64, most: 16_384, run: calls::oneway_of_nodes },
    Quantity { name: "oneway calls, frozen", least: 64, most: 4_096, run: calls::oneway_frozen },
    Quantity { name: "messages kept", least: 64, most: 4_096, run: calls::kept },
    Quantity { name: "pages kept", least: 256, most: 16_384, run: calls::pages_kept },
    Quantity { name: "commands of one write", least: 64, most: 4_096, run: calls::commands },
    Quantity { name: "files of one call", least: 8, most: 512, run: objects::files },
    Quantity { name: "files of an array", least: 8, most: 512, run: objects::file_array },
    Quantity { name: "references on a node", least: 16, most: 1_024, run: notices::references },
    Quantity { name: "death links on a node", least: 16, most: 16_384, run: notices::deaths },
    Quantity { name: "freeze links on a node", least: 16, most: 1_024, run: notices::freezes },
    Quantity { name: "freeze links of a process", least: 64, most: 4_096, run: notices::freezes_of_one },
    Quantity { name: "processes", least: 32, most: 2_048, run: opens::processes },
    Quantity { name: "devices", least: 16, most: 1_024, run: opens::devices },
    Quantity { name: "pollers", least: 16, most: 1_024, run: opens::pollers },
    Quantity { name: "listeners to reports", least: 16, most: 1_024, run: opens::listeners },
    Quantity { name: "unread deaths", least: 64, most: 16_384, run: notices::unread_deaths },
    Quantity { name: "cancelled deaths", least: 64, most: 4_096, run: notices::cancelled_deaths },
    Quantity { name: "cancelled freezes", least: 64, most: 4_096, run: notices::cancelled_freezes },
    Quantity { name: "deaths of closed handles", least: 64, most: 4_096, run: notices::closed_handles },
];
