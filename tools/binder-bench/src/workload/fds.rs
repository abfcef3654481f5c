// SPDX-License-Identifier: GPL-2.0
//! Files sent along: each call carries some, the server closes them and answers with nothing.

use std::os::fd::AsRawFd;

use binder_sys::{BinderFdObject, ObjectType};
use clap::Args;
use nix::unistd::close;

use super::{Sender, Workload};
use crate::prelude::*;

const NAME: &str = "fds";

const OBJECT: u32 = size_of::<BinderFdObject>() as u32;

#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Files in a call.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8], value_parser = clap::value_parser!(u32).range(1..=200))]
    pub files: Vec<u32>,
}

impl Workload for Options {
    fn set_up(&self, stage: &mut Stage) -> Result<()> {
        let client = stage.pair(("fds {}", 0), NAME, serve, |talker, handle| {
            let file = std::fs::File::open("/dev/null").context("/dev/null")?;
            Ok(FilesSender { sender: Sender::new(talker, handle), file, parcel: Parcel::new() })
        })?;
        for &files in &self.files {
            let label = Label::new(NAME, "").with("files", files);
            stage.add(Label { size: files * OBJECT, ..label }, files, &[client]);
        }
        Ok(())
    }
}

struct FilesSender {
    sender: Sender,
    file: std::fs::File,
    parcel: Parcel,
}

impl Caller for FilesSender {
    /// The variant is the number of files.
    fn set(&mut self, setting: Setting) -> Result<()> {
        self.parcel = Parcel::new();
        for _ in 0..setting.variant {
            let fd = self.file.as_raw_fd() as u64;
            self.parcel.object(&BinderFdObject { kind: ObjectType::FD, pad_flags: 0, fd, cookie: 0 });
        }
        Ok(())
    }

    fn call(&mut self) -> Result<()> {
        self.sender.send(&self.parcel, 1, TransactionFlags::ACCEPT_FDS)
    }
}

fn serve(mut talker: Talker) -> Result<()> {
    loop {
        let call = talker.next_call()?;
        for file in 0..call.data_size / u64::from(OBJECT) {
            // A file descriptor lies where the handle of another object would.
            let fd = talker.port().object(&call, file * u64::from(OBJECT))?.handle();
            close(fd as i32).context("closing a received file")?;
        }
        talker.finish(&call);
    }
}
