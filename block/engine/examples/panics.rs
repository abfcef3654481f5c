// SPDX-License-Identifier: GPL-2.0
//! A disk whose storage panics when it is written; with a word, one that waits.

use block_engine::{AsyncStorage, Disk, Durability, Error, Storage};
use std::io::Result;
use std::path::Path;

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

impl AsyncStorage for Broken {
    fn size(&self) -> u64 {
        1 << 20
    }

    async fn read(&self, _: u64, into: &mut [u8]) -> Result<()> {
        into.fill(0);
        Ok(())
    }

    async fn write(&self, at: u64, _: &[u8], _: Durability) -> Result<()> {
        panic!("a write at {at}")
    }
}

fn main() -> std::result::Result<(), Error> {
    let ready = |path: &Path| println!("{}", path.display());
    match std::env::args().len() {
        1 => Disk::default().serve(Broken, ready),
        _ => Disk::default().serve_async(Broken, ready),
    }
}
