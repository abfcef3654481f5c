// SPDX-License-Identifier: GPL-2.0
//! The load: five processes whose calls are known.
//!
//! `player` calls `media` a hundred times a second, which calls `codec` each time before it answers; every tenth time
//! `player` makes a oneway call as well. `waiter` has made a call that `media` never answers. `unlucky` calls a handle that
//! it does not have.

use std::collections::VecDeque;
use std::ffi::CString;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use anyhow::bail;
use anyhow::Context;
use anyhow::Result;
use binder_sys::BinderTransactionData;
use binder_sys::Commands;
use binder_sys::Device;
use binder_sys::FlatBinderObject;
use binder_sys::Mapping;
use binder_sys::Parcel;
use binder_sys::Return;
use binder_sys::Returns;
use binder_sys::TransactionFlags;
use clap::ValueEnum;
use zerocopy::FromBytes;

/// Asks `media` to use the codec that is sent along.
const REGISTER: u32 = 1;
/// Asks `media` for what it asks `codec` for.
pub const PLAY: u32 = 2;
/// Asks `codec`.
pub const DECODE: u32 = 3;
/// Tells `media` something.
pub const STATUS: u32 = 4;
/// Asks `media` for what it never does.
pub const WAIT: u32 = 5;

/// How long `codec` takes for a call.
const WORK: Duration = Duration::from_millis(2);

/// The processes, in the order in which they are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    Media,
    Codec,
    Player,
    Waiter,
    Unlucky,
}

impl Part {
    pub fn name(self) -> &'static str {
        match self {
            Self::Media => "media",
            Self::Codec => "codec",
            Self::Player => "player",
            Self::Waiter => "waiter",
            Self::Unlucky => "unlucky",
        }
    }
}

/// Plays a part, until it is killed. It prints a line when it is ready.
pub fn play(part: Part, device: &Path) -> Result<()> {
    nix::sys::prctl::set_name(&CString::new(part.name())?)?;
    let mut peer = Peer::open(device)?;
    match part {
        Part::Media => media(peer),
        Part::Codec => {
            let mut parcel = Parcel::new();
            parcel.object(&FlatBinderObject::binder(0x10, 0x10));
            peer.call(&parcel.to_handle(0, REGISTER, TransactionFlags::empty()))?;
            ready()?;
            peer.serve(|_, _| {
                thread::sleep(WORK);
                Ok(Parcel::new())
            })
        }
        Part::Player => {
            ready()?;
            for nth in 0u64.. {
                let mut parcel = Parcel::new();
                parcel.bytes(&nth.to_ne_bytes());
                peer.call(&parcel.to_handle(0, PLAY, TransactionFlags::empty()))?;
                if nth % 10 == 0 {
                    peer.send(&parcel.to_handle(0, STATUS, TransactionFlags::ONE_WAY))?;
                }
                thread::sleep(Duration::from_millis(10));
            }
            Ok(())
        }
        Part::Waiter => {
            ready()?;
            peer.call(&Parcel::new().to_handle(0, WAIT, TransactionFlags::empty())).map(drop)
        }
        Part::Unlucky => {
            ready()?;
            loop {
                let refused = peer.call(&Parcel::new().to_handle(77, PLAY, TransactionFlags::empty()));
                anyhow::ensure!(refused.is_err(), "a handle that is not there was called");
                thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

fn ready() -> Result<()> {
    writeln!(std::io::stdout(), "ready").context("standard output")
}

/// Two threads that serve; one of them is kept for ever by [`WAIT`].
fn media(peer: Peer) -> Result<()> {
    peer.device.set_context_manager()?;
    let codec = Arc::new(OnceLock::new());
    let serve = move |mut peer: Peer, codec: Arc<OnceLock<u32>>| {
        peer.serve(|peer, call| match call.code {
            REGISTER => {
                let bytes = peer.space.read(call.buffer, call.data_size as usize);
                let object =
                    FlatBinderObject::read_from_bytes(&bytes).map_err(|_| anyhow::anyhow!("no object"))?;
                peer.out.acquire(object.handle());
                codec.set(object.handle()).ok().context("there is a codec already")?;
                Ok(Parcel::new())
            }
            PLAY => {
                let codec = *codec.get().context("there is no codec")?;
                peer.call(&Parcel::new().to_handle(codec, DECODE, TransactionFlags::empty()))?;
                let mut answer = Parcel::new();
                answer.bytes(&[0; 16]);
                Ok(answer)
            }
            WAIT => loop {
                thread::park();
            },
            _ => Ok(Parcel::new()),
        })
    };
    let other = Peer { out: Commands::new(), arrived: VecDeque::new(), ..peer.clone() };
    let (here, there) = (codec.clone(), codec);
    let second = thread::spawn(move || serve(other, there));
    ready()?;
    serve(peer, here)?;
    second.join().expect("it returns what went wrong")
}

/// A thread that speaks to the driver.
#[derive(Clone)]
struct Peer {
    device: Arc<Device>,
    space: Arc<Mapping>,
    out: Commands,
    arrived: VecDeque<Return>,
}

impl Peer {
    fn open(path: &Path) -> Result<Self> {
        let device = Device::open(path).with_context(|| path.display().to_string())?;
        let space = Arc::new(device.map(1 << 20)?);
        Ok(Self { device: Arc::new(device), space, out: Commands::new(), arrived: VecDeque::new() })
    }

    /// Answers calls for ever.
    fn serve(
        &mut self,
        mut answer: impl FnMut(&mut Self, &BinderTransactionData) -> Result<Parcel>,
    ) -> Result<()> {
        self.out.enter_looper();
        loop {
            let Return::Transaction(call) = self.next()? else { bail!("a call was expected") };
            let parcel = answer(self, &call)?;
            self.out.free_buffer(call.buffer);
            if call.flags & TransactionFlags::ONE_WAY.bits() == 0 {
                self.out.reply(&parcel.to_caller(TransactionFlags::empty()));
            }
        }
    }

    /// Calls, and gives the reply's buffer back.
    fn call(&mut self, data: &BinderTransactionData) -> Result<()> {
        self.out.transaction(data);
        match self.next()? {
            Return::Reply(reply) => {
                self.out.free_buffer(reply.buffer);
                self.flush()
            }
            other => bail!("a reply was expected, and {other:?} came"),
        }
    }

    /// Makes a oneway call.
    fn send(&mut self, data: &BinderTransactionData) -> Result<()> {
        self.out.transaction(data);
        self.flush()
    }

    fn flush(&mut self) -> Result<()> {
        self.device.write_all(self.out.as_bytes())?;
        self.out.clear();
        Ok(())
    }

    /// The next thing that is about a call.
    fn next(&mut self) -> Result<Return> {
        loop {
            match self.arrived.pop_front() {
                None => self.exchange()?,
                Some(Return::Noop | Return::TransactionComplete | Return::SpawnLooper) => {}
                Some(Return::Release(_) | Return::Decrefs(_)) => {}
                Some(Return::Increfs(node)) => drop(self.out.increfs_done(node.ptr, node.cookie)),
                Some(Return::Acquire(node)) => drop(self.out.acquire_done(node.ptr, node.cookie)),
                Some(other) => return Ok(other),
            }
        }
    }

    fn exchange(&mut self) -> Result<()> {
        let mut room = [0; 512];
        let done = self.device.write_read(self.out.as_bytes(), &mut room)?;
        self.out.clear();
        for item in Returns::new(&room[..done.read_consumed as usize]) {
            self.arrived.push_back(item?);
        }
        Ok(())
    }
}
