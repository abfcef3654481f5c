// SPDX-License-Identifier: GPL-2.0
//! A disk in thirty lines. Its data are gone when it ends.

use block_engine::{Disk, Durability, Error, Storage};
use std::io::Result;

struct Memory(Vec<u8>);

impl Storage for Memory {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<()> {
        into.copy_from_slice(&self.0[at as usize..][..into.len()]);
        Ok(())
    }

    fn write(&mut self, at: u64, from: &[u8], _: Durability) -> Result<()> {
        self.0[at as usize..][..from.len()].copy_from_slice(from);
        Ok(())
    }
}

fn main() -> std::result::Result<(), Error> {
    Disk::default().serve(Memory(vec![0; 64 << 20]), |path| println!("{}", path.display()))
}
