// SPDX-License-Identifier: GPL-2.0
//! The owner's side of counts: reads the notifications of its nodes, and confirms them.

use crate::port::Port;
use binder_sys::{BinderPtrCookie, Commands, Return};

impl Port {
    /// Answers the owner's pending count requests; nothing else may be there to read.
    #[track_caller]
    pub fn settle_counts(&self) {
        let items = self.answer_counts();
        let is_request = |item: &Return| {
            matches!(item, Return::Increfs(_) | Return::Acquire(_) | Return::TransactionComplete)
        };
        assert!(items.iter().all(is_request), "{items:?}");
    }

    /// Answers counts, which may have gone up or down; nothing else may be there to read.
    #[track_caller]
    pub fn hear_counts(&self) {
        let items = self.answer_counts();
        let is_update = |item: &Return| {
            let is_up = matches!(item, Return::Increfs(_) | Return::Acquire(_));
            is_up || matches!(item, Return::Release(_) | Return::Decrefs(_) | Return::TransactionComplete)
        };
        assert!(items.iter().all(is_update), "{items:?}");
    }

    /// Answers counts until the process has no node left that anybody needs; nothing else may come.
    #[track_caller]
    pub fn expect_forgotten(&self) {
        let deadline = std::time::Instant::now() + crate::actor::patience();
        loop {
            self.hear_counts();
            let first = self.node_debug_info(0);
            if first.ptr == 0 {
                return;
            }
            assert!(std::time::Instant::now() < deadline, "still there: {first:?}");
        }
    }

    /// Confirms both counts of a node, whatever was read.
    #[track_caller]
    pub fn confirm(&self, BinderPtrCookie { ptr, cookie }: BinderPtrCookie) {
        self.send(|c| c.increfs_done(ptr, cookie).acquire_done(ptr, cookie));
    }

    /// Answers the owner's pending count requests, and returns all that came.
    #[must_use]
    pub fn answer_counts(&self) -> Vec<Return> {
        self.answer_counts_by(self)
    }

    /// Answers the owner's pending count requests by another thread of the process.
    #[must_use]
    pub fn answer_counts_by(&self, answering: &Port) -> Vec<Return> {
        let mut items = self.passed();
        items.extend(self.drain());
        let mut commands = Commands::new();
        for item in &items {
            match item {
                Return::Increfs(node) => commands.increfs_done(node.ptr, node.cookie),
                Return::Acquire(node) => commands.acquire_done(node.ptr, node.cookie),
                _ => &mut commands,
            };
        }
        answering.write(&commands);
        items
    }
}
