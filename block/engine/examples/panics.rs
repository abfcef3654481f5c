// SPDX-License-Identifier: GPL-2.0
//! A disk whose storage panics when it is written.

use block_engine::{Disk, Durability, Error, Storage};
use std::io::Result;

struct Broken;

impl Storage for Broken {
    fn size(&self) -> u64 {
        1 << 20
    }

    fn read(&mut self, _: u64, into: &mut [u8]) -> Result<()> {
        into.fill(0);
        Ok(())
    }

    fn write(&mut self, at: u64, _: &[u8], _: Durability) -> Result<()> {
        panic!("a write at {at}")
    }
}

fn main() -> std::result::Result<(), Error> {
    Disk::default().serve(Broken, |path| println!("{}", path.display()))
}
