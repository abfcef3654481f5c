// SPDX-License-Identifier: GPL-2.0
//! The service: carries out each call, and records what the tests read afterwards.

use crate::workshop_aidl::{IObserver::IObserver, IWorkshop::BnWorkshop, IWorkshop::IWorkshop, Item::Item};
use rsbinder::{
    BinderFeatures, BinderResult, DeathRecipient, ExceptionCode, Interface, ParcelFileDescriptor, Remotable,
    SIBinder, Status, StatusCode, Strong, WIBinder,
};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// A service of which one object is made for each process.
pub struct Workshop {
    /// Handed out and asked back: is an object the same after it went around?
    token: OnceLock<SIBinder>,
    posted: Mutex<Vec<i32>>,
    busy: AtomicI32,
    watched: Mutex<Vec<Watched>>,
    mourned: Arc<Mutex<Vec<String>>>,
}

/// A client's object, and the recipient of its death: a link to death keeps neither alive.
struct Watched {
    _object: SIBinder,
    _mourner: Arc<Mourner>,
}

struct Mourner {
    name: String,
    list: Arc<Mutex<Vec<String>>>,
}

impl DeathRecipient for Mourner {
    fn binder_died(&self, _who: &WIBinder) {
        lock(&self.list).push(self.name.clone());
    }
}

/// An object that does nothing but be itself.
pub struct Token;

impl Interface for Token {}

impl Remotable for Token {
    fn descriptor() -> &'static str {
        "workshop.Token"
    }

    fn on_transact(
        &self,
        _code: rsbinder::TransactionCode,
        _reader: &mut rsbinder::Parcel,
        _reply: &mut rsbinder::Parcel,
    ) -> rsbinder::Result<()> {
        Err(StatusCode::UnknownTransaction)
    }

    fn on_dump(&self, _writer: &mut dyn Write, _args: &[String]) -> rsbinder::Result<()> {
        Ok(())
    }
}

/// A new token of this process.
pub fn token() -> SIBinder {
    Interface::as_binder(&rsbinder::Binder::new(Token))
}

impl Workshop {
    /// The object that others can call. It requests the security context of each caller.
    pub fn object() -> Strong<dyn IWorkshop> {
        let mut features = BinderFeatures::default();
        features.set_requesting_sid = true;
        let workshop = Workshop {
            token: OnceLock::new(),
            posted: Mutex::default(),
            busy: AtomicI32::new(0),
            watched: Mutex::default(),
            mourned: Arc::default(),
        };
        BnWorkshop::new_binder_with_features(workshop, features)
    }
}

/// A poisoned lock means that another call has failed already, and that its caller got the error.
pub fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn failed(what: &str) -> impl FnOnce(std::io::Error) -> Status + '_ {
    move |error| Status::from((ExceptionCode::IllegalState, format!("{what}: {error}").as_str()))
}

fn pipe_with(text: &str) -> BinderResult<ParcelFileDescriptor> {
    let (read, mut write) = ParcelFileDescriptor::pipe()?;
    write.write_all(text.as_bytes()).map_err(failed("writing into a pipe"))?;
    Ok(read)
}

fn read_to_end(file: &ParcelFileDescriptor) -> BinderResult<String> {
    let mut text = String::new();
    let mut reader = file;
    reader.read_to_string(&mut text).map_err(failed("reading a descriptor"))?;
    Ok(text)
}

/// The number of open descriptors of this process.
pub fn open_files() -> std::io::Result<usize> {
    Ok(std::fs::read_dir("/proc/self/fd")?.count())
}

impl Interface for Workshop {
    fn dump(&self, writer: &mut dyn Write, args: &[String]) -> rsbinder::Result<()> {
        writeln!(writer, "workshop dumped with [{}]", args.join(", ")).map_err(|_| StatusCode::Unknown)
    }
}

#[allow(non_snake_case, reason = "the names of the AIDL file")]
impl IWorkshop for Workshop {
    fn echo(&self, text: &str) -> BinderResult<String> {
        Ok(text.to_owned())
    }

    fn reverse(&self, data: &[u8]) -> BinderResult<Vec<u8>> {
        Ok(data.iter().rev().copied().collect())
    }

    fn improve(&self, item: &Item) -> BinderResult<Item> {
        Ok(Item {
            name: item.name.to_uppercase(),
            number: item.number + 1,
            big: -item.big,
            ratio: item.ratio / 2.0,
            flag: !item.flag,
            bytes: item.bytes.iter().rev().copied().collect(),
            note: item.note.as_ref().map_or_else(|| Some("none".into()), |_| None),
            words: item.words.iter().rev().cloned().collect(),
        })
    }

    fn pid(&self) -> BinderResult<i32> {
        Ok(std::process::id().cast_signed())
    }

    fn caller(&self) -> BinderResult<Vec<i32>> {
        Ok(vec![rsbinder::get_calling_pid(), rsbinder::get_calling_uid().cast_signed()])
    }

    fn fail(&self, error: i32) -> BinderResult<()> {
        Err(Status::new_service_specific_error(error, Some("as you wish".into())))
    }

    fn token(&self) -> BinderResult<SIBinder> {
        Ok(self.token.get_or_init(token).clone())
    }

    fn isToken(&self, object: &SIBinder) -> BinderResult<bool> {
        Ok(self.token.get() == Some(object))
    }

    fn pass(&self, object: &SIBinder) -> BinderResult<SIBinder> {
        Ok(object.clone())
    }

    fn askBack(&self, observer: &Strong<dyn IObserver>, number: i32) -> BinderResult<i32> {
        observer.ask(number)
    }

    fn askThread(&self, observer: &Strong<dyn IObserver>) -> BinderResult<i32> {
        observer.thread()
    }

    fn tellBack(&self, observer: &Strong<dyn IObserver>, count: i32) -> BinderResult<()> {
        (0..count).try_for_each(|number| observer.tell(number))
    }

    fn descend(
        &self,
        peer: &Strong<dyn IWorkshop>,
        this: &Strong<dyn IWorkshop>,
        levels: i32,
    ) -> BinderResult<i32> {
        match levels {
            0 => Ok(0),
            _ => Ok(1 + peer.descend(this, peer, levels - 1)?),
        }
    }

    fn post(&self, number: i32) -> BinderResult<()> {
        lock(&self.posted).push(number);
        Ok(())
    }

    fn pour(&self, data: &[u8]) -> BinderResult<()> {
        lock(&self.posted).push(data.len().try_into().unwrap_or(i32::MAX));
        Ok(())
    }

    fn posted(&self) -> BinderResult<Vec<i32>> {
        Ok(std::mem::take(&mut *lock(&self.posted)))
    }

    fn pipeWith(&self, text: &str) -> BinderResult<ParcelFileDescriptor> {
        pipe_with(text)
    }

    fn slurp(&self, file: &ParcelFileDescriptor) -> BinderResult<String> {
        read_to_end(file)
    }

    fn pipes(&self, count: i32) -> BinderResult<Vec<ParcelFileDescriptor>> {
        (0..count).map(|number| pipe_with(&format!("pipe {number}"))).collect()
    }

    fn slurpAll(&self, files: &[ParcelFileDescriptor]) -> BinderResult<String> {
        Ok(files.iter().map(read_to_end).collect::<BinderResult<Vec<_>>>()?.join(" "))
    }

    fn openFiles(&self) -> BinderResult<i32> {
        let count = open_files().map_err(failed("counting descriptors"))?;
        Ok(count.try_into().unwrap_or(i32::MAX))
    }

    fn busy(&self, milliseconds: i32) -> BinderResult<i32> {
        let together = self.busy.fetch_add(1, Ordering::SeqCst) + 1;
        std::thread::sleep(Duration::from_millis(milliseconds.unsigned_abs().into()));
        self.busy.fetch_sub(1, Ordering::SeqCst);
        Ok(together)
    }

    fn sum(&self, numbers: &[i64]) -> BinderResult<i64> {
        Ok(numbers.iter().sum())
    }

    fn watch(&self, object: &SIBinder, name: &str) -> BinderResult<()> {
        let mourner = Arc::new(Mourner { name: name.to_owned(), list: self.mourned.clone() });
        object.link_to_death_arc(&mourner)?;
        lock(&self.watched).push(Watched { _object: object.clone(), _mourner: mourner });
        Ok(())
    }

    fn mourned(&self) -> BinderResult<Vec<String>> {
        let mut names = lock(&self.mourned).clone();
        names.sort();
        Ok(names)
    }

    fn callerContext(&self) -> BinderResult<String> {
        Ok(rsbinder::get_calling_sid().map_or_else(String::new, |sid| sid.to_string_lossy().into_owned()))
    }

    fn die(&self) -> BinderResult<()> {
        std::process::abort()
    }
}
