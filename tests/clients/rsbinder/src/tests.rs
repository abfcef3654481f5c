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
    ($($group:ident::$name:ident),* $(,)?) => {
        /// All tests by name.
        pub const ALL: &[(&str, Test)] =
            &[$((concat!(stringify!($group), "::", stringify!($name)), $group::$name)),*];
    };
}

tests! {
    calls::sizes,
    calls::a_parcelable_with_everything,
    calls::errors,
    calls::the_caller_is_named,
    calls::the_caller_has_a_context,
    objects::come_back_as_themselves,
    objects::many_at_once,
    callbacks::answer_while_the_caller_waits,
    callbacks::run_on_the_calling_thread,
    callbacks::nest_between_processes,
    callbacks::without_waiting,
    oneway::in_order,
    oneway::full_space,
    oneway::does_not_wait,
    files::in_replies_and_arguments,
    files::many_in_one_parcel,
    files::share_their_position,
    files::none_is_left_open,
    deaths::of_a_service,
    deaths::no_longer_wanted,
    deaths::in_the_middle_of_a_call,
    deaths::of_a_client,
    deaths::of_many_clients,
    freezing::a_frozen_service,
    freezing::is_reported,
    manager::knows_who_is_there,
    manager::tells_who_waits,
    manager::forgets_the_dead,
    manager::there_is_one_for_each_device,
    manager::passes_a_dump_on,
    load::clients_and_threads,
}
