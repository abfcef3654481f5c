// SPDX-License-Identifier: GPL-2.0
//! Oneway calls to a process whose space for them is nearly full, so that the driver looks for a flood at each.
//!
//! Sender and receiver are two open files of one process and one thread, so there is no scheduling in the figures. The
//! buffers that fill the space are never freed; those of the measured calls are freed between the measurements.

use clap::Args;

use super::Workload;
use crate::prelude::*;
use crate::registry;

const NAME: &str = "spam";

/// Measured calls in a row.
const BATCH: u32 = 16;

/// The data that fill the space: oneway calls may use half of a megabyte less two pages, and the driver becomes suspicious when
/// less than a tenth of the whole is left.
const FILL: u32 = 440_000;

/// Numbers of buffers that fill the space.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Buffers that fill the receiver's space; 0 leaves it empty.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 64, 400], value_parser = clap::value_parser!(u32).range(0..=2000))]
    pub outstanding: Vec<u32>,
}

impl Workload for Options {
    fn set_up(&self, stage: &mut Stage) -> Result<()> {
        stage.need_manager()?;
        for &outstanding in &self.outstanding {
            let (seat, device) = (stage.seat(0), stage.device.clone());
            let name = format!("sender with {outstanding} calls outstanding");
            let client = stage.caller(name, seat.client, move || {
                let mut flooder = Flooder::new(&device, outstanding)?;
                flooder.fill(outstanding)?;
                Ok(flooder)
            })?;
            let label = Label::new(NAME, "").with("outstanding", outstanding);
            stage.add(Label { batch: BATCH, ..label }, 0, &[client]);
        }
        Ok(())
    }
}

struct Flooder {
    sender: Talker,
    receiver: Talker,
    /// The sender's handles on two nodes of the receiver's: for what stays, and for what is measured.
    filled: u32,
    measured: u32,
    /// Measured calls that the receiver has not taken yet.
    sent: u32,
}

impl Flooder {
    fn new(device: &std::path::Path, outstanding: u32) -> Result<Flooder> {
        let (mut sender, mut receiver) = (Talker::open(device, SPACE)?, Talker::open(device, SPACE)?);
        let names = ["filled", "measured"].map(|name| format!("spam {name} {outstanding}"));
        registry::register(&mut receiver, &names[0], 1)?;
        registry::register(&mut receiver, &names[1], 2)?;
        receiver.enter_looper()?;
        let filled = registry::look_up(&mut sender, &names[0])?;
        let measured = registry::look_up(&mut sender, &names[1])?;
        sender.port().device().enable_spam_detection(1).context("BINDER_ENABLE_ONEWAY_SPAM_DETECTION")?;
        Ok(Flooder { sender, receiver, filled, measured, sent: 0 })
    }

    /// Fills the space and makes sure that the driver notices, if it is to.
    fn fill(&mut self, outstanding: u32) -> Result<()> {
        let Some(size) = FILL.checked_div(outstanding) else { return Ok(()) };
        let mut parcel = Parcel::new();
        parcel.bytes(&vec![0; size as usize]);
        let call = parcel.to_handle(self.filled, 1, TransactionFlags::ONE_WAY);
        let mut suspected = false;
        for _ in 0..outstanding {
            suspected |= self.sender.send(&call)? == Return::OnewaySpamSuspect;
        }
        suspected |= self.send()? == Return::OnewaySpamSuspect;
        if !suspected {
            return Err(Error::failed("the driver did not suspect a flood of oneway calls"));
        }
        // The first of them stays with the receiver and keeps all others waiting behind it.
        self.receiver.next_call()?;
        Ok(())
    }

    fn send(&mut self) -> Result<Return> {
        self.sent += 1;
        self.sender.send(&Parcel::new().to_handle(self.measured, 1, TransactionFlags::ONE_WAY))
    }
}

impl Caller for Flooder {
    const PREPARES: bool = true;

    fn prepare(&mut self) -> Result<()> {
        for _ in 0..std::mem::take(&mut self.sent) {
            let call = self.receiver.next_call()?;
            self.receiver.out.free_buffer(call.buffer);
        }
        self.receiver.flush()
    }

    fn call(&mut self) -> Result<()> {
        for _ in 0..BATCH {
            match self.send()? {
                Return::TransactionComplete | Return::OnewaySpamSuspect => {}
                other => return Err(unexpected(&other)),
            }
        }
        Ok(())
    }
}
