// SPDX-License-Identifier: GPL-2.0
//! What `binderctl doctor` looks for. A check takes what it looks at as arguments, so tests can give it anything.

use crate::checks::finding::Check;
use crate::driver::Driver;
use crate::error::Result;
use crate::instances;
use crate::options::Options;

pub mod finding;
mod places;

/// Makes all checks, each of which says so if it cannot be made.
pub fn all(driver: Option<&Driver>, options: &Options) -> Result<Vec<Check>> {
    let instances = match options.binderfs {
        Some(_) => vec![instances::chosen(options)?],
        None => instances::mounted()?,
    };
    let devices = instances.iter().map(|instance| (instance, instance.devices())).collect::<Vec<_>>();
    Ok(vec![
        Check { name: "the kernel has a Binder driver", state: places::driver(driver) },
        Check { name: "binderfs is mounted", state: places::mounted(&instances) },
        Check {
            name: "devices can be used by others than root",
            state: places::modes(&devices, options.device_name()),
        },
    ])
}
