// SPDX-License-Identifier: GPL-2.0
//! Plain calls: what goes in comes out.

use crate::stage::{Process, Service};
use crate::workshop_aidl::{IWorkshop::IWorkshop, Item::Item};
use anyhow::{ensure, Result};
use rsbinder::{ExceptionCode, StatusCode};

/// Up to what a call may carry: an argument and its answer share the megabyte with nobody here.
const SIZES: [usize; 8] = [0, 1, 3, 4095, 4096, 65_536, 262_144, 800_000];

pub fn sizes() -> Result<String> {
    let service = Service::start("sizes", 1)?;
    for size in SIZES {
        let text = "a".repeat(size / 4) + &"ß".repeat(size / 8);
        ensure!(service.workshop.echo(&text)? == text, "text of {size}");
        let data: Vec<u8> = (0..size).map(|n| (n % 251).to_le_bytes()[0]).collect();
        let mut answer = service.workshop.reverse(&data)?;
        answer.reverse();
        ensure!(answer == data, "{size} bytes");
    }
    let too_much = service.workshop.reverse(&vec![0; 2_000_000]);
    let error = too_much.err().map(|status| status.transaction_error());
    ensure!(service.workshop.echo("still there")? == "still there");
    Ok(format!("texts and bytes of {SIZES:?}; 2000000 bytes: {error:?}"))
}

pub fn a_parcelable_with_everything() -> Result<String> {
    let service = Service::start("items", 1)?;
    let mut item = Item {
        name: "anvil".into(),
        number: 41,
        big: 1 << 40,
        ratio: 0.5,
        flag: true,
        bytes: vec![1, 2, 3],
        note: None,
        words: vec!["left".into(), "right".into()],
    };
    let first = service.workshop.improve(&item)?;
    item = service.workshop.improve(&first)?;
    ensure!((item.number, item.big, item.flag) == (43, 1 << 40, true));
    Ok(format!("{first:?}\n{item:?}"))
}

pub fn errors() -> Result<String> {
    let service = Service::start("errors", 1)?;
    let Err(wish) = service.workshop.fail(17) else { anyhow::bail!("it did not fail") };
    ensure!(wish.exception_code() == ExceptionCode::ServiceSpecific && wish.service_specific_error() == 17);
    let token = service.workshop.token()?;
    let unknown = token.as_proxy().map(|proxy| {
        let parcel = proxy.prepare_transact(true)?;
        proxy.submit_transact(77, &parcel, 0)
    });
    let unknown = unknown.and_then(std::result::Result::err);
    ensure!(unknown == Some(StatusCode::UnknownTransaction), "unknown code: {unknown:?}");
    Ok(format!("{wish}; an unknown code: {unknown:?}"))
}

pub fn the_caller_has_a_context() -> Result<String> {
    let service = Service::start("contexts", 1)?;
    // rsbinder requests contexts where there is SELinux.
    let own = match std::path::Path::new("/sys/fs/selinux/enforce").exists() {
        true => std::fs::read_to_string("/proc/self/attr/current")?,
        false => String::new(),
    };
    let own = own.trim_end_matches('\0').trim_end();
    for _ in 0..10 {
        let seen = service.workshop.callerContext()?;
        ensure!(seen == own, "the caller is {own:?}, the service sees {seen:?}");
    }
    Ok(format!("{own:?}"))
}

pub fn the_caller_is_named() -> Result<String> {
    let service = Service::start("callers", 1)?;
    let own = service.workshop.caller()?;
    ensure!(own == [std::process::id().cast_signed(), 0], "as root: {own:?}");
    for uid in [1000, 4242] {
        let mut other = Process::play(&["ask-caller", "callers", &uid.to_string()])?;
        let said = other.line()?;
        ensure!(said == format!("{} [{}, {uid}]", other.pid(), other.pid()), "uid {uid}: {said}");
    }
    Ok("pid and uid of 0, 1000 and 4242".into())
}
