// SPDX-License-Identifier: GPL-2.0
//! Calls nested thousands deep: the cost of a step does not grow with the depth.
//!
//! Two processes call each other in turn. The test compares costs at eight times [`DEPTH`] with
//! those at [`DEPTH`]. Absolute costs depend on the machine's other load.

use super::*;
use crate::arena::Arena;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

/// The depth that costs are compared with those at so many times of.
const DEPTH: u64 = 1000;
const TIMES: u64 = 8;

/// Requests to the context manager.
const CODE_NOTHING: u32 = 0;
const CODE_GIVE: u32 = 1 << 30;
const CODE_ASK: u32 = 1 << 31;

/// The costs so far, in nanoseconds; 0 where a step has not been reached.
struct Seen {
    nested: &'static AtomicU64,
    call: &'static AtomicU64,
    unwound: &'static AtomicU64,
}

/// One of the processes.
struct Party {
    device: Device,
    space: Mapping,
    out: Commands,
}

impl Party {
    fn open(path: &Path) -> Self {
        let device = Device::open(path).expect("open the device");
        let space = device.map(1 << 16).expect("map the space");
        Self { device, space, out: Commands::new() }
    }

    /// Writes the pending commands, and reads once.
    fn turn(&mut self) -> Vec<Return> {
        let mut buffer = [0; 512];
        let io = self.device.write_read(self.out.as_bytes(), &mut buffer).expect("write and read");
        assert_eq!(io.write_consumed as usize, self.out.len(), "stopped early");
        self.out.clear();
        Returns::new(&buffer[..io.read_consumed as usize]).map(|item| item.expect("whole items")).collect()
    }

    /// The handle that came first in a transaction. The process gets a strong count of its own.
    fn take_handle(&mut self, from: &BinderTransactionData) -> u32 {
        let handle = u32::from_ne_bytes(self.space.read(from.buffer + 8, 4).try_into().expect("four bytes"));
        self.out.acquire(handle);
        handle
    }

    /// A call of the context manager.
    fn ask(&mut self, code: u32, parcel: &Parcel) -> BinderTransactionData {
        self.out.transaction(&parcel.to_handle(0, code, TransactionFlags::empty()));
        loop {
            let reply = self.turn().into_iter().find_map(|item| match item {
                Return::Reply(reply) => Some(reply),
                _ => None,
            });
            if let Some(reply) = reply {
                return reply;
            }
        }
    }

    /// Serves calls, as the context manager, that leave a handle with it or fetch the one left.
    fn manage(mut self, ready: impl FnOnce()) {
        super::manage(&self.device);
        self.out.enter_looper();
        let mut kept = 0;
        ready();
        loop {
            for item in self.turn() {
                let Return::Transaction(call) = item else { continue };
                let mut parcel = Parcel::new();
                match call.code {
                    CODE_GIVE => kept = self.take_handle(&call),
                    CODE_ASK => drop(parcel.object(&FlatBinderObject::strong_handle(kept))),
                    _ => (),
                }
                self.out.free_buffer(call.buffer);
                self.out.reply(&parcel.to_caller(TransactionFlags::empty()));
                // The driver reads the parcel, so it has to be there still.
                self.device.write_all(self.out.as_bytes()).expect("reply");
                self.out.clear();
            }
        }
    }
}

/// One of two that call each other, the code of each call being its depth.
struct Partner<'a> {
    party: Party,
    other: u32,
    served: u64,
    depth: u64,
    seen: &'a Seen,
}

impl Partner<'_> {
    /// Answers one return. Returns whether it was the reply to the first call of all.
    fn answer(&mut self, item: Return) -> bool {
        let out = &mut self.party.out;
        match item {
            Return::Transaction(call) => {
                self.served += 1;
                if call.offsets_size != 0 {
                    self.other = self.party.take_handle(&call);
                }
                self.party.out.free_buffer(call.buffer);
                if u64::from(call.code) < self.depth {
                    let next = Parcel::new().to_handle(self.other, call.code + 1, TransactionFlags::empty());
                    self.party.out.transaction(&next);
                } else {
                    self.measure();
                    self.reply();
                }
            }
            Return::Reply(reply) => {
                out.free_buffer(reply.buffer);
                if self.served == 0 {
                    return true;
                }
                self.reply();
            }
            Return::DeadReply if self.served == 0 => return true,
            Return::DeadReply => self.reply(),
            Return::FailedReply => panic!("refused: {:?}", self.party.device.extended_error()),
            _ => (),
        }
        false
    }

    fn reply(&mut self) {
        self.served -= 1;
        self.party.out.reply(&Parcel::new().to_caller(TransactionFlags::empty()));
    }

    /// At full depth, measures the time of a call to a third process, inside the ioctl that makes
    /// it. Then waits for the order to unwind.
    fn measure(&mut self) {
        let call = Parcel::new().to_handle(0, CODE_NOTHING, TransactionFlags::empty());
        let commands = stream(|c| c.transaction(&call));
        self.party.turn_if_any();
        let best = (0..5).map(|_| {
            let start = Instant::now();
            self.party.device.write_all(commands.as_bytes()).expect("call");
            let took = start.elapsed();
            while !self.party.turn().iter().any(|item| matches!(item, Return::Reply(_))) {}
            took
        });
        let best = best.min().expect("five calls");
        self.seen.call.store(best.as_nanos() as u64, SeqCst);
        while self.seen.nested.load(SeqCst) != u64::MAX {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Party {
    fn turn_if_any(&mut self) {
        if !self.out.is_empty() {
            self.device.write_all(self.out.as_bytes()).expect("write");
            self.out.clear();
        }
    }
}

const MS: u64 = 1_000_000;

/// The compared steps, each with a margin for the scheduler.
const STEPS: [(&str, u64); 3] =
    [("nesting", 20 * MS), ("a call to a third process", MS / 2), ("unwinding", 20 * MS)];

/// Their costs, in nanoseconds.
type Costs = [u64; 3];

fn best(one: Costs, other: Costs) -> Costs {
    std::array::from_fn(|step| one[step].min(other[step]))
}

/// Two processes that have called each other so often, and the context manager.
struct Nest {
    manager: Pid,
    first: Pid,
    second: Pid,
    seen: Seen,
    took: Duration,
}

/// The time in which the deepest call must be reached.
const LIMIT: Duration = Duration::from_secs(100);

fn wait_for(what: &str, cell: &AtomicU64) -> u64 {
    let deadline = Instant::now() + LIMIT;
    loop {
        match cell.load(SeqCst) {
            0 => assert!(Instant::now() < deadline, "{what}: not in time"),
            value => return value,
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn nest(t: &Stage, arena: &Arena, depth: u64) -> Nest {
    let path = t.device("binder");
    let seen = Seen { nested: arena.counter(), call: arena.counter(), unwound: arena.counter() };
    let manager = child::ready(|ready| Party::open(&path).manage(ready));
    let second = child::ready(|ready| {
        let mut party = Party::open(&path);
        party.ask(CODE_GIVE, &object(FlatBinderObject::binder(0xb0, 0)));
        party.out.enter_looper();
        let mut partner = Partner { party, other: 0, served: 0, depth, seen: &seen };
        ready();
        loop {
            for item in partner.party.turn() {
                partner.answer(item);
            }
        }
    });
    let start = Instant::now();
    let first = child::spawn(|| {
        let mut party = Party::open(&path);
        let reply = party.ask(CODE_ASK, &Parcel::new());
        let other = party.take_handle(&reply);
        party.out.free_buffer(reply.buffer);
        let parcel = object(FlatBinderObject::binder(0xa0, 0));
        party.out.transaction(&parcel.to_handle(other, 1, TransactionFlags::empty()));
        let mut partner = Partner { party, other, served: 0, depth, seen: &seen };
        loop {
            for item in partner.party.turn() {
                if partner.answer(item) {
                    seen.unwound.store(1, SeqCst);
                }
            }
        }
    });
    wait_for("nesting", seen.call);
    Nest { manager, first, second, seen, took: start.elapsed() }
}

impl Nest {
    /// Makes the deepest party reply, and so all others. Returns the time of that.
    fn unwind(&self) -> Duration {
        let start = Instant::now();
        self.seen.nested.store(u64::MAX, SeqCst);
        wait_for("unwinding", self.seen.unwound);
        start.elapsed()
    }
}

fn costs_at(t: &Stage, arena: &Arena, depth: u64) -> Costs {
    let nested = nest(t, arena, depth);
    let unwind = nested.unwind();
    for pid in [nested.first, nested.second, nested.manager] {
        end(pid);
    }
    let ns = |time: Duration| time.as_nanos() as u64;
    [ns(nested.took), nested.seen.call.load(SeqCst), ns(unwind)]
}

/// The first step whose cost has grown as if with the square of the depth, if there is one.
fn grown_too_fast(once: Costs, deep: Costs) -> Option<String> {
    // Linear costs grow eight times, quadratic ones 64 times. At the larger depth cache misses add
    // a factor of up to two and a half.
    let is_wrong = |step: &usize| deep[*step] > 30 * once[*step] + STEPS[*step].1;
    let wrong = (0..STEPS.len()).find(is_wrong)?;
    let (what, once, deep) = (STEPS[wrong].0, once[wrong], deep[wrong]);
    Some(format!("{what}: {once} ns at {DEPTH}, {deep} ns at {TIMES} times that"))
}

case!(lesson_s06_costs_grow_no_faster_than_the_depth, ["TXN-11", "TREL-1"], |t| {
    // `make growth` counts what the ends of processes cost.
    t.needs_no_kasan();
    let arena = Arena::new();
    let (mut once, mut deep) = (costs_at(t, &arena, DEPTH), costs_at(t, &arena, TIMES * DEPTH));
    // A disturbed measurement is repeated.
    for _ in 0..5 {
        if let Some(wrong) = grown_too_fast(once, deep) {
            eprintln!("{wrong}");
            deep = best(deep, costs_at(t, &arena, TIMES * DEPTH));
            once = best(once, costs_at(t, &arena, DEPTH));
        }
    }
    if let Some(wrong) = grown_too_fast(once, deep) {
        panic!("{wrong}");
    }
});
