// SPDX-License-Identifier: GPL-2.0
//! Common imports of workloads and processes of a measurement.

pub use binder_sys::{BinderTransactionData, Device, FlatBinderObject, Parcel, Return, TransactionFlags};

pub use crate::caller::Caller;
pub use crate::error::{Context, Error, Kind, Result};
pub use crate::result::Label;
pub use crate::stage::Stage;
pub(crate) use crate::talk::awaited;
pub use crate::talk::{plain, unexpected, Port, Talker, LARGEST_SPACE, SPACE};
pub use crate::workers::{Control, Setting, Worker};
