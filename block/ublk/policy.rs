// SPDX-License-Identifier: GPL-2.0

//! The treatment of requests for which there is no server.

use crate::edge::{Request, Status};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc, SpinLock,
    },
};

/// The treatment of a device whose server is gone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// The disk is removed.
    None,
    /// Requests wait for the next server. Those that this one had fail.
    Wait,
    /// Requests wait, also those that this one had.
    Reissue,
    /// Requests fail until there is a server.
    Fail,
}

/// Whether all slots have a server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// They have not, yet.
    Before,
    Serving,
    /// Some command of the server was ended. It stays so until there is another server.
    Ended,
}

struct Stage {
    phase: Phase,
    /// The disk is being removed.
    is_stopping: bool,
}

/// The rules of all queues of a device.
#[pin_data]
pub(crate) struct Policy {
    pub(crate) recovery: Recovery,
    is_unprivileged: bool,
    /// Requests are put back under this lock, so that those who change the stage find them.
    #[pin]
    stage: SpinLock<Stage>,
    /// The server has to end: it gets no more requests for those that it gives back. Changed with the
    /// lock of the device's server, until that is gone.
    pub(crate) is_leaving: Atomic<bool>,
}

impl Policy {
    pub(crate) fn new(recovery: Recovery, is_unprivileged: bool) -> Result<Arc<Self>> {
        let stage = Stage {
            phase: Phase::Before,
            is_stopping: false,
        };
        let init = pin_init!(Self {
            recovery,
            is_unprivileged,
            stage <- new_spinlock!(stage, "ublk stage"),
            is_leaving: Atomic::new(false),
        });
        Arc::pin_init(init, GFP_KERNEL)
    }

    /// There is a server for the disk. Requests that were put back have to be let go on.
    pub(crate) fn serve(&self) {
        let mut stage = self.stage.lock();
        stage.is_stopping = false;
        if stage.phase == Phase::Before {
            stage.phase = Phase::Serving;
        }
    }

    /// A command of the server is ended.
    pub(crate) fn end_serving(&self) {
        self.stage.lock().phase = Phase::Ended;
    }

    /// There may be another server.
    pub(crate) fn begin_again(&self) {
        self.is_leaving.store(false, Relaxed);
        self.stage.lock().phase = Phase::Before;
    }

    /// No request waits from now on. Those that were put back have to be let go on.
    pub(crate) fn stop(&self) {
        self.stage.lock().is_stopping = true;
    }

    /// Puts a request back until there is a server, or lets it fail.
    pub(crate) fn without_server(&self, request: Request) {
        let stage = self.stage.lock();
        let may_wait = matches!(self.recovery, Recovery::Wait | Recovery::Reissue);
        if may_wait && !stage.is_stopping {
            return request.put_back(stage.phase == Phase::Serving);
        }
        drop(stage);
        request.end(Status::IO_ERROR);
    }

    /// Puts a request back whose data did not reach the server's memory, unless the server could do
    /// that on purpose, for ever.
    pub(crate) fn try_again(&self, request: Request) {
        let is_stopping = self.stage.lock().is_stopping;
        match self.is_unprivileged || is_stopping {
            true => request.end(Status::IO_ERROR),
            false => request.put_back_for_a_while(),
        }
    }
}
