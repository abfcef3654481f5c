// SPDX-License-Identifier: GPL-2.0
//! File descriptors in parcels.

use crate::stage::{eventually, Service};
use crate::workshop::open_files;
use crate::workshop_aidl::IWorkshop::IWorkshop;
use anyhow::{ensure, Result};
use rsbinder::ParcelFileDescriptor;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

fn filled_pipe(text: &str) -> Result<ParcelFileDescriptor> {
    let (read, mut write) = ParcelFileDescriptor::pipe()?;
    write.write_all(text.as_bytes())?;
    Ok(read)
}

fn text_in(mut file: ParcelFileDescriptor) -> Result<String> {
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

pub fn in_replies_and_arguments() -> Result<String> {
    let service = Service::start("pipes", 1)?;
    let reply = text_in(service.workshop.pipeWith("from there")?)?;
    let argument = service.workshop.slurp(&filled_pipe("from here")?)?;
    ensure!((reply.as_str(), argument.as_str()) == ("from there", "from here"));
    Ok(format!("{reply}, {argument}"))
}

pub fn many_in_one_parcel() -> Result<String> {
    let service = Service::start("arrays", 1)?;
    let theirs: Vec<_> = service.workshop.pipes(20)?.into_iter().map(text_in).collect::<Result<_>>()?;
    ensure!(theirs.iter().enumerate().all(|(n, text)| *text == format!("pipe {n}")), "{theirs:?}");
    let ours: Vec<_> = (0..20).map(|n| filled_pipe(&n.to_string())).collect::<Result<_>>()?;
    let read = service.workshop.slurpAll(&ours)?;
    ensure!(read.split(' ').map(str::parse::<i32>).eq((0..20).map(Ok)), "{read}");
    Ok("20 in a reply, 20 in an argument".into())
}

pub fn share_their_position() -> Result<String> {
    let service = Service::start("positions", 1)?;
    let mut file = File::options().read(true).write(true).create_new(true).open("/tmp/position")?;
    file.write_all(b"0123456789")?;
    file.seek(SeekFrom::Start(4))?;
    let sent = ParcelFileDescriptor::from(file.try_clone()?);
    let read = service.workshop.slurp(&sent)?;
    let position = file.stream_position()?;
    std::fs::remove_file("/tmp/position")?;
    ensure!(read == "456789" && position == 10, "{read}, {position}");
    Ok(format!("read there: {read}; position here: {position}"))
}

pub fn none_is_left_open() -> Result<String> {
    let service = Service::start("leaks", 1)?;
    text_in(service.workshop.pipeWith("first")?)?;
    let before = (open_files()?, service.workshop.openFiles()?);
    for _ in 0..100 {
        text_in(service.workshop.pipeWith("again")?)?;
        service.workshop.slurp(&filled_pipe("again")?)?;
        drop(service.workshop.pipes(10)?);
    }
    // A descriptor is closed when its buffer is freed, which may be after the answer. This holds
    // for the first call, too, so there may be fewer than before.
    let mut after = (0, 0);
    eventually("all descriptors are closed", || {
        after = (open_files()?, service.workshop.openFiles()?);
        Ok(after.0 <= before.0 && after.1 <= before.1)
    })
    .map_err(|error| error.context(format!("before {before:?}, after {after:?}")))?;
    Ok("1200 descriptors, no more open than before on either side".into())
}
