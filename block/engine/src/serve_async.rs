// SPDX-License-Identifier: GPL-2.0
//! Serves the requests of a ublk device from a storage that waits: a task for each request, and a thread for all of them.

use crate::serve::{result_of, unknown, AbortOnPanic, Disk, Error, Request, LARGEST};
use crate::storage::AsyncStorage;
use libublk::helpers::IoBuf;
use libublk::io::{with_task_io_ring, with_task_io_ring_mut, UblkDev, UblkQueue};
use libublk::uring_async::{run_uring_tasks, ublk_reap_io_events_with_update_queue, ublk_wake_task};
use libublk::{sys, BufDesc, UblkError};
use nix::sys::eventfd::{EfdFlags, EventFd};
use smol::future::or;
use smol::{Async, LocalExecutor};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// The result of a command that has a request.
const OK: i32 = sys::UBLK_IO_RES_OK as i32;
/// How often tasks run before the ring has its turn.
const TURNS: u32 = 256;

impl Disk {
    /// As [`serve`](Self::serve), for a storage that waits. Its futures are polled by one thread, in smol's
    /// [`block_on`](smol::block_on); what wakes them may be of any runtime.
    pub fn serve_async<S: AsyncStorage>(
        self,
        storage: S,
        ready: impl FnOnce(&Path) + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.run(storage.size(), storage.features(), storage, serve_queue, ready)
    }
}

fn serve_queue<S: AsyncStorage>(number: u16, device: &UblkDev, storage: &mut S) {
    let queue = UblkQueue::new(number, device).expect("the queue can be served");
    let executor = LocalExecutor::new();
    let tasks: Vec<_> = (0..device.dev_info.queue_depth)
        .map(|tag| executor.spawn(serve_tag(&queue, tag, &*storage)))
        .collect();
    let is_done = || tasks.iter().all(|task| task.is_finished());
    smol::block_on(serve_ring(&queue, &executor, is_done)).expect("the ring of the queue");
}

/// Lets the tasks of a queue run whenever its ring or something else has woken one, and submits what they then pass to
/// the ring.
async fn serve_ring(
    queue: &UblkQueue<'_>,
    executor: &LocalExecutor<'_>,
    is_done: impl Fn() -> bool,
) -> Result<(), UblkError> {
    let event = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC);
    let event = Async::new(event.map_err(io::Error::from)?)?;
    let number = event.as_raw_fd();
    with_task_io_ring(|ring| ring.submitter().register_eventfd(number))?;
    let wait = || async {
        with_task_io_ring_mut(|ring| ring.submit())?;
        let of_ring = async { event.read_with(|event| Ok(event.read()?)).await.map(|_| ()) };
        let of_others = async {
            executor.tick().await;
            Ok(())
        };
        or(of_ring, of_others).await?;
        Ok(false)
    };
    // A task that is always ready must not keep the others from the ring.
    let run = || (0..TURNS).take_while(|_| executor.try_tick()).for_each(drop);
    let reap = |_| {
        ublk_reap_io_events_with_update_queue(queue, false, None, |entry| {
            ublk_wake_task(entry.user_data(), entry);
        })
    };
    run_uring_tasks(wait, reap, run, is_done).await
}

/// Serves the requests that have a tag, one after the other, until the disk ends.
async fn serve_tag(queue: &UblkQueue<'_>, tag: u16, storage: &impl AsyncStorage) {
    // The executor catches the panic of a task.
    let _guard = AbortOnPanic;
    let mut buffer = IoBuf::new(LARGEST as usize);
    let prepared = BufDesc::Slice(buffer.as_slice());
    let mut came = queue.submit_io_prep_cmd(tag, prepared, 0, Some(&buffer)).await;
    while let Ok(OK) = came {
        let request = Request::of(queue, tag);
        let result = result_of(carry_out(&request, storage, buffer.as_mut_slice()).await);
        came = queue.submit_io_commit_cmd(tag, BufDesc::Slice(buffer.as_slice()), result).await;
    }
    if !matches!(came, Err(UblkError::QueueIsDown)) {
        panic!("request {tag} cannot be served: {came:?}");
    }
}

/// As [`Request::carry_out`].
async fn carry_out(request: &Request, storage: &impl AsyncStorage, buffer: &mut [u8]) -> io::Result<i32> {
    let Request { at, length, durability, .. } = *request;
    let data = request.part(buffer);
    match request.operation {
        sys::UBLK_IO_OP_READ => storage.read(at, data?).await.map(|()| length as i32),
        sys::UBLK_IO_OP_WRITE => storage.write(at, data?, durability).await.map(|()| length as i32),
        sys::UBLK_IO_OP_FLUSH => storage.flush().await.map(|()| 0),
        sys::UBLK_IO_OP_DISCARD => storage.discard(at, length).await.map(|()| 0),
        _ => Err(unknown()),
    }
}
