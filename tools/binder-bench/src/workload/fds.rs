// SPDX-License-Identifier: GPL-2.0
//! Files sent along: each call carries some, the server closes them and answers with nothing.
//!
//! SEQPACKET does the same by `SCM_RIGHTS`, with one byte to and fro.

use clap::Args;

use binder_sys::BinderFdObject;
use binder_sys::ObjectType;
use binder_sys::Parcel;
use binder_sys::TransactionFlags;
use nix::unistd::close;

use super::Workload;
use crate::caller::Caller;
use crate::cli::Carriers;
use crate::error::Context;
use crate::error::Result;
use crate::order::Setting;
use crate::result::Carrier;
use crate::result::Label;
use crate::stage::Point;
use crate::stage::Stage;
use crate::talk::Talker;
use crate::yardstick;

/// The subcommand.
pub const NAME: &str = "fds";

const OBJECT: u32 = size_of::<BinderFdObject>() as u32;

/// How many files.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Files in a call.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8], value_parser = clap::value_parser!(u32).range(1..=200))]
    pub files: Vec<u32>,
}

impl Workload for Options {
    fn name(&self) -> &'static str {
        NAME
    }

    fn add_yardsticks(&self, carriers: &Carriers, stage: &mut Stage) -> Result<()> {
        yardstick::add_to(NAME, carriers, stage)?;
        if carriers.iter().any(|carrier| carrier == Carrier::Seqpacket) {
            let (client, server) = yardstick::start_files(stage)?;
            for &files in &self.files {
                let label = Label { carrier: Carrier::Seqpacket, ..label(files) };
                stage.add(Point::new(label).variant(files).clients(&[client]).servers(&[server]));
            }
        }
        Ok(())
    }

    fn add_binder(&self, stage: &mut Stage) -> Result<()> {
        let seat = stage.seat(0);
        let server = stage.server("fds server".into(), seat.server, NAME.into(), serve)?;
        let client = stage.client("fds client".into(), seat.client, NAME.into(), |talker, handle| {
            let file = std::fs::File::open("/dev/null").context("/dev/null")?;
            Ok(Sender { talker, handle, file, parcel: Parcel::new(), previous: None })
        })?;
        for &files in &self.files {
            stage.add(Point::new(label(files)).variant(files).clients(&[client]).servers(&[server]));
        }
        Ok(())
    }
}

fn label(files: u32) -> Label {
    Label { size: files * OBJECT, ..Label::new(NAME, "").with("files", files) }
}

struct Sender {
    talker: Talker,
    handle: u32,
    file: std::fs::File,
    parcel: Parcel,
    previous: Option<u64>,
}

impl Caller for Sender {
    /// The variant is the number of files.
    fn set(&mut self, setting: Setting) -> Result<()> {
        use std::os::fd::AsRawFd;
        self.parcel = Parcel::new();
        for _ in 0..setting.variant {
            let fd = self.file.as_raw_fd() as u64;
            self.parcel.object(&BinderFdObject { kind: ObjectType::FD, pad_flags: 0, fd, cookie: 0 });
        }
        Ok(())
    }

    fn call(&mut self) -> Result<()> {
        if let Some(buffer) = self.previous.take() {
            self.talker.out.free_buffer(buffer);
        }
        let call = self.parcel.to_handle(self.handle, 1, TransactionFlags::ACCEPT_FDS);
        self.previous = Some(self.talker.call(&call)?.buffer);
        Ok(())
    }
}

fn serve(mut talker: Talker) -> Result<()> {
    let nothing = Parcel::new();
    loop {
        let call = talker.next_call()?;
        for file in 0..call.data_size / u64::from(OBJECT) {
            // A file descriptor lies where the handle of another object would.
            let fd = talker.port().object(&call, file * u64::from(OBJECT))?.handle();
            close(fd as i32).context("closing a received file")?;
        }
        talker.out.free_buffer(call.buffer).reply(&nothing.to_caller(TransactionFlags::empty()));
    }
}
