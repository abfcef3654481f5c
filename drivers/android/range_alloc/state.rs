// SPDX-License-Identifier: GPL-2.0

//! The states of a range in use, and the steps from one to the next.

/// The state of a range in use. See the figure of [`super`].
#[derive(Debug)]
pub(crate) enum State<T> {
    /// A sender is filling it.
    Reserved,
    /// The receiver may free it.
    Delivered(T),
    /// One thread is freeing it.
    Freeing,
}

impl<T> State<T> {
    pub(super) fn phase(&self) -> Phase {
        match self {
            State::Reserved => Phase::Reserved,
            State::Delivered(_) => Phase::Delivered,
            State::Freeing => Phase::Freeing,
        }
    }

    /// Changes reserved to delivered. Fails and returns the payload if the range is not reserved.
    pub(super) fn deliver(&mut self, payload: T) -> Result<(), T> {
        match self {
            State::Reserved => {
                *self = State::Delivered(payload);
                Ok(())
            }
            State::Delivered(_) | State::Freeing => Err(payload),
        }
    }

    /// Changes delivered to freeing, and returns the payload to the first caller.
    pub(super) fn take(&mut self) -> Option<T> {
        if self.phase() != Phase::Delivered {
            return None;
        }
        match core::mem::replace(self, State::Freeing) {
            State::Delivered(payload) => Some(payload),
            State::Reserved | State::Freeing => None,
        }
    }
}

/// A [`State`] without its payload.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Reserved,
    Delivered,
    Freeing,
}
