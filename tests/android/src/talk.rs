// SPDX-License-Identifier: GPL-2.0
//! A thread that calls and serves through an opened device, as libbinder's do.

use binder_sys::*;
use std::sync::Arc;
use zerocopy::FromBytes;

/// An opened device with its space.
pub struct Port {
    device: Device,
    space: Mapping,
}

/// What libbinder maps: a megabyte without two pages.
const SPACE: usize = (1 << 20) - 2 * 4096;

impl Port {
    /// Opens a device.
    pub fn open(path: &str) -> Arc<Self> {
        let device = Device::open(path).unwrap_or_else(|why| panic!("{path}: {why}"));
        device.set_max_threads(0).expect("set the number of threads");
        let space = device.map(SPACE).expect("map the device");
        Arc::new(Self { device, space })
    }

    /// The device itself.
    pub fn device(&self) -> &Device {
        &self.device
    }
}

/// Another process's object, held strongly until dropped.
pub struct Remote {
    port: Arc<Port>,
    /// Its handle here.
    pub handle: u32,
}

impl Drop for Remote {
    fn drop(&mut self) {
        let mut out = Commands::new();
        out.release(self.handle);
        self.port.device.write_all(out.as_bytes()).expect("release a handle");
    }
}

/// A call or an answer that arrived, with the objects in it.
pub struct Message {
    /// What is to be done.
    pub code: u32,
    /// Of whom the call is.
    pub euid: u32,
    /// The caller's security context, if the node asks for it.
    pub context: String,
    /// The bytes.
    pub data: Vec<u8>,
    /// Objects of others, in the order in which they are in the bytes.
    pub objects: Vec<Arc<Remote>>,
}

/// An answer, and what must live until it has been sent.
#[derive(Default)]
pub struct Answer {
    /// The bytes, with the handles of `keeps`.
    pub parcel: Parcel,
    /// Whose handles are in the parcel.
    pub keeps: Option<Arc<Remote>>,
}

/// How a call ended.
pub enum Outcome {
    /// Answered.
    Reply(Message),
    /// A oneway call is on its way.
    Accepted,
    /// A oneway call waits until its callee runs again.
    Pending,
    /// The callee is dead.
    Dead,
    /// It could not be carried out, by the error of that number.
    Failed(i32),
    /// The callee is frozen.
    Frozen,
}

impl Outcome {
    /// In words, for who did not expect it.
    pub fn shown(&self) -> String {
        match self {
            Self::Reply(_) => "answered".into(),
            Self::Accepted | Self::Pending => "taken as a oneway call".into(),
            Self::Dead => "the callee is dead".into(),
            Self::Failed(error) => format!("error {error}"),
            Self::Frozen => "the callee is frozen".into(),
        }
    }
}

/// What a process does with what comes to it.
pub trait Serve: Sync + Send {
    /// Serves a call.
    fn serve(&self, thread: &mut Thread, call: &Message) -> Answer;
    /// Serves a call that nobody waits for.
    fn oneway(&self, _call: &Message) {}
    /// Is told of a death.
    fn died(&self, _thread: &mut Thread, _cookie: u64) {}
    /// Is told that no word of freezing comes any more.
    fn left(&self, _cookie: u64) {}
    /// Is told that a process is frozen, or no longer.
    fn frozen(&self, _cookie: u64, _is_frozen: bool) {}
}

/// Who serves nothing.
pub struct Nothing;

impl Serve for Nothing {
    fn serve(&self, _: &mut Thread, _: &Message) -> Answer {
        Answer::default()
    }
}

/// One thread of a process.
pub struct Thread {
    /// The device.
    pub port: Arc<Port>,
    server: Arc<dyn Serve>,
    out: Commands,
    /// Answers of which the driver has not said that it took them.
    answers: usize,
}

impl Thread {
    /// The calling thread as one of a device.
    pub fn new(port: &Arc<Port>, server: &Arc<dyn Serve>) -> Self {
        Self { port: port.clone(), server: server.clone(), out: Commands::new(), answers: 0 }
    }

    /// Calls, and serves meanwhile what comes to this very thread.
    pub fn call(&mut self, handle: u32, code: u32, parcel: &Parcel) -> Outcome {
        self.out.transaction(&parcel.to_handle(handle, code, TransactionFlags::ACCEPT_FDS));
        loop {
            match self.exchange() {
                Some(Outcome::Accepted | Outcome::Pending) | None => {}
                Some(end) => return end,
            }
        }
    }

    /// Calls without waiting for an answer.
    pub fn oneway(&mut self, handle: u32, code: u32, parcel: &Parcel) -> Outcome {
        self.out.transaction(&parcel.to_handle(handle, code, TransactionFlags::ONE_WAY));
        loop {
            if let Some(end) = self.exchange() {
                return end;
            }
        }
    }

    /// Asks to be told of the death and of the freezing of a process.
    pub fn watch(&mut self, remote: &Remote, cookie: u64) {
        self.out.request_death(remote.handle, cookie).request_freeze(remote.handle, cookie);
        self.flush();
    }

    /// No longer asks to be told of freezing. A handle that is given back sooner takes away what another thread of the process
    /// is about to confirm, which is an error then.
    pub fn leave(&mut self, remote: &Remote, cookie: u64) {
        self.out.clear_freeze(remote.handle, cookie);
        self.flush();
    }

    /// Serves for ever.
    pub fn serve(&mut self) -> ! {
        self.out.enter_looper();
        loop {
            self.exchange();
        }
    }

    fn flush(&mut self) {
        self.port.device.write_all(self.out.as_bytes()).expect("write commands");
        self.out.clear();
    }

    /// Writes and reads once; how the call ended that this thread makes, if it has.
    fn exchange(&mut self) -> Option<Outcome> {
        let mut returns = [0; 512];
        let out = std::mem::take(&mut self.out);
        let length = self.port.device.write_read_whole(out.as_bytes(), &mut returns).expect("write and read");
        let mut end = None;
        for item in Returns::new(&returns[..length]) {
            end = self.take(item.expect("a whole return")).or(end);
        }
        end
    }

    fn take(&mut self, item: Return) -> Option<Outcome> {
        match item {
            Return::Transaction(call) => self.serve_one(&call, String::new()),
            Return::TransactionSecctx(call) => {
                let context = self.context(call.secctx);
                self.serve_one(&call.data, context);
            }
            Return::Reply(answer) => {
                let message = self.receive(&answer, String::new());
                self.out.free_buffer(answer.buffer);
                self.flush();
                return Some(Outcome::Reply(message));
            }
            // They come in the order of what was sent.
            Return::TransactionComplete if self.answers > 0 => self.answers -= 1,
            Return::TransactionComplete | Return::OnewaySpamSuspect => return Some(Outcome::Accepted),
            Return::TransactionPendingFrozen => return Some(Outcome::Pending),
            Return::DeadReply => return Some(Outcome::Dead),
            Return::FrozenReply => return Some(Outcome::Frozen),
            Return::FailedReply => {
                return Some(Outcome::Failed(
                    self.port.device.extended_error().map_or(0, |error| error.param),
                ))
            }
            Return::Increfs(node) => drop(self.out.increfs_done(node.ptr, node.cookie)),
            Return::Acquire(node) => drop(self.out.acquire_done(node.ptr, node.cookie)),
            Return::DeadBinder(cookie) => {
                // Whoever is told may give the handle back, for which the driver is to be done with it.
                self.out.dead_binder_done(cookie);
                self.flush();
                self.server.clone().died(self, cookie);
            }
            Return::FrozenBinder(state) => {
                self.server.clone().frozen(state.cookie, state.is_frozen != 0);
                self.out.freeze_done(state.cookie);
            }
            Return::Noop | Return::SpawnLooper | Return::Release(_) | Return::Decrefs(_) => {}
            Return::ClearFreezeNotificationDone(cookie) => self.server.clone().left(cookie),
            other => panic!("nobody asked for {other:?}"),
        }
        None
    }

    fn serve_one(&mut self, call: &BinderTransactionData, context: String) {
        let message = self.receive(call, context);
        let server = self.server.clone();
        if TransactionFlags::from_bits_retain(call.flags).contains(TransactionFlags::ONE_WAY) {
            server.oneway(&message);
            // The next oneway call of the node comes after this.
            self.out.free_buffer(call.buffer);
            return;
        }
        let answer = server.serve(self, &message);
        self.out.free_buffer(call.buffer).reply(&answer.parcel.to_caller(TransactionFlags::empty()));
        self.answers += 1;
        self.flush();
        drop(answer.keeps);
    }

    /// Copies a message out and takes hold of the objects in it, whose counts go with the buffer.
    fn receive(&mut self, from: &BinderTransactionData, context: String) -> Message {
        let data = self.port.space.read(from.buffer, from.data_size as usize);
        let offsets = self.port.space.read(from.offsets, from.offsets_size as usize);
        let mut objects = Vec::new();
        for place in offsets.chunks_exact(8) {
            let at = u64::from_ne_bytes(place.try_into().expect("eight bytes")) as usize;
            let (object, _) = FlatBinderObject::read_from_prefix(&data[at..]).expect("a whole object");
            if object.kind == ObjectType::HANDLE {
                self.out.acquire(object.handle());
                self.flush();
                objects.push(Arc::new(Remote { port: self.port.clone(), handle: object.handle() }));
            }
        }
        Message { code: from.code, euid: from.sender_euid, context, data, objects }
    }

    fn context(&self, address: u64) -> String {
        // It lies behind data and offsets, in the same buffer.
        let longest =
            256.min((self.port.space.address() + self.port.space.length() as u64 - address) as usize);
        let mut text = Vec::new();
        for at in 0..longest {
            match self.port.space.read(address + at as u64, 1)[0] {
                0 => break,
                letter => text.push(letter),
            }
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}
