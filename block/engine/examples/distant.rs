// SPDX-License-Identifier: GPL-2.0
//! A disk whose data are far away: each access takes 20 ms, or as many as are given, while others go on. Prints how many are
//! under way.

use block_engine::{AsyncStorage, Disk, Durability, Error};
use smol::Timer;
use std::cell::{Cell, RefCell};
use std::io::Result;
use std::time::Duration;

struct Distant {
    data: RefCell<Vec<u8>>,
    way: Duration,
    under_way: Cell<usize>,
}

impl Distant {
    async fn travel(&self) {
        self.under_way.set(self.under_way.get() + 1);
        eprintln!("{}", self.under_way.get());
        Timer::after(self.way).await;
        self.under_way.set(self.under_way.get() - 1);
    }
}

impl AsyncStorage for Distant {
    fn size(&self) -> u64 {
        self.data.borrow().len() as u64
    }

    async fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.travel().await;
        into.copy_from_slice(&self.data.borrow()[at as usize..][..into.len()]);
        Ok(())
    }

    async fn write(&self, at: u64, from: &[u8], _: Durability) -> Result<()> {
        self.travel().await;
        self.data.borrow_mut()[at as usize..][..from.len()].copy_from_slice(from);
        Ok(())
    }
}

fn main() -> std::result::Result<(), Error> {
    let way = std::env::args().nth(1).map_or(20, |way| way.parse().expect("milliseconds"));
    let distant = Distant {
        data: RefCell::new(vec![0; 64 << 20]),
        way: Duration::from_millis(way),
        under_way: Cell::new(0),
    };
    Disk::default().serve_async(distant, |path| println!("{}", path.display()))
}
