// SPDX-License-Identifier: GPL-2.0
//! The tests, one module a group. Each prints its results, without times or ids.

pub mod callbacks;
mod calls;
mod deaths;
mod files;
mod freezing;
mod load;
mod manager;
mod objects;
mod oneway;

use crate::runner::Test;

macro_rules! tests {
    ($($group:ident: $($name:ident),+;)*) => {
        /// All tests by name.
        pub const ALL: &[(&str, Test)] =
            &[$($((concat!(stringify!($group), "::", stringify!($name)), $group::$name)),+),*];
    };
}

tests! {
    calls: sizes, a_parcelable_with_everything, errors, the_caller_is_named, the_caller_has_a_context;
    objects: come_back_as_themselves, many_at_once;
    callbacks: answer_while_the_caller_waits, run_on_the_calling_thread, nest_between_processes, without_waiting;
    oneway: in_order, full_space, does_not_wait;
    files: in_replies_and_arguments, many_in_one_parcel, share_their_position, none_is_left_open;
    deaths: of_a_service, no_longer_wanted, in_the_middle_of_a_call, of_a_client, of_many_clients;
    freezing: a_frozen_service, is_reported;
    manager: knows_who_is_there, tells_who_waits, forgets_the_dead, there_is_one_for_each_device, passes_a_dump_on;
    load: clients_and_threads;
}
