// SPDX-License-Identifier: GPL-2.0
//! Calls as they end, for commands that work without trace events, too.

use super::calls::{Call, Calls};
use super::event::What;
use super::source::Source;
use crate::tasks::Names;

/// Memory for trace events, for each CPU, in KiB.
const BUFFER: usize = 4096;

/// Follows the trace events.
#[derive(Debug)]
pub struct Live {
    /// Or why no calls are followed.
    pub source: Result<Source, String>,
    pub calls: Calls,
}

impl Live {
    /// Follows calls from now on, unless there is a reason not to.
    pub fn start(not: Option<&str>) -> Self {
        let source = match not {
            Some(why) => Err(why.into()),
            None => Source::start(false, BUFFER).map_err(|error| error.message),
        };
        Self { source, calls: Calls::default() }
    }

    /// The calls that have ended since the last time.
    pub fn ended(&mut self, names: &mut Names) -> Vec<Call> {
        let events = self.source.as_mut().map_or(Ok(Vec::new()), Source::read);
        let events = events.unwrap_or_else(|error| {
            self.source = Err(error.message);
            Vec::new()
        });
        let mut ended = Vec::new();
        for event in events {
            ended.extend(
                self.calls.take(&event, &mut |thread| names.process_of(thread)).into_iter().flatten(),
            );
            if event.what == What::Ended {
                names.forget(event.thread);
            }
        }
        ended
    }
}
