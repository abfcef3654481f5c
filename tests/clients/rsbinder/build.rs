// SPDX-License-Identifier: GPL-2.0
//! Turn the AIDL files into Rust.

use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-changed=aidl");
    let generated = rsbinder_aidl::Builder::new()
        .source(PathBuf::from("aidl/workshop"))
        .include_dir(PathBuf::from("aidl"))
        .output(PathBuf::from("workshop.rs"))
        .generate();
    if let Err(error) = generated {
        eprintln!("{:?}", miette::Report::new(error));
        std::process::exit(1);
    }
}
