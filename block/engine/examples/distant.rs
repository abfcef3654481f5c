// SPDX-License-Identifier: GPL-2.0
//! A disk whose data are far away: each access takes 20 ms, while others go on.

use block_engine::{AsyncStorage, Disk, Durability, Error};
use smol::Timer;
use std::cell::RefCell;
use std::io::Result;
use std::time::Duration;

const WAY: Duration = Duration::from_millis(20);

struct Distant(RefCell<Vec<u8>>);

impl AsyncStorage for Distant {
    fn size(&self) -> u64 {
        self.0.borrow().len() as u64
    }

    async fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        Timer::after(WAY).await;
        into.copy_from_slice(&self.0.borrow()[at as usize..][..into.len()]);
        Ok(())
    }

    async fn write(&self, at: u64, from: &[u8], _: Durability) -> Result<()> {
        Timer::after(WAY).await;
        self.0.borrow_mut()[at as usize..][..from.len()].copy_from_slice(from);
        Ok(())
    }
}

fn main() -> std::result::Result<(), Error> {
    let distant = Distant(RefCell::new(vec![0; 64 << 20]));
    Disk::default().serve_async(distant, |path| println!("{}", path.display()))
}
