// SPDX-License-Identifier: GPL-2.0

//! What can be queued: values, and references to objects that bring their places.

use super::super::link::{self, HasLink, Kind, Link, Waiting, FIRST_KIND};
use core::ptr::NonNull;
use kernel::sync::Arc;

/// What can be queued; see [`queued`].
///
/// # Safety
///
/// [`Self::into_link`] returns what [`link::into_link`] returns for the type of an object, and the kind
/// that stands for this type and no other, from [`FIRST_KIND`] on. [`Self::from_link`] and
/// [`Self::share`] return a value of the same type of object.
pub(crate) unsafe trait Queued: Sized {
    /// Gives the value up for the link of its object, if it is a reference to one that has a link.
    fn into_link(self) -> Result<(NonNull<Link>, Kind), Self>;

    /// Makes a value again of what [`Self::into_link`] returned.
    ///
    /// # Safety
    ///
    /// Link and kind come from there, and this is done once.
    unsafe fn from_link(link: NonNull<Link>, kind: Kind) -> Self;

    /// Makes another value that refers to the same object.
    ///
    /// # Safety
    ///
    /// Link and kind come from [`Self::into_link`], and [`Self::from_link`] is not called meanwhile.
    unsafe fn share(link: NonNull<Link>, kind: Kind) -> Self;

    /// Returns the link of the object, if it has one.
    fn link(&self) -> Option<&Link>;
}

// SAFETY: There is one type of objects, and one kind.
unsafe impl<O: HasLink<Waiting>> Queued for Arc<O> {
    fn into_link(self) -> Result<(NonNull<Link>, Kind), Self> {
        Ok((link::into_link::<Waiting, O>(self), FIRST_KIND))
    }

    unsafe fn from_link(link: NonNull<Link>, _kind: Kind) -> Self {
        // SAFETY: As the caller promises.
        unsafe { link::from_link::<Waiting, O>(link) }
    }

    unsafe fn share(link: NonNull<Link>, _kind: Kind) -> Self {
        // SAFETY: As the caller promises.
        unsafe { link::share_link::<Waiting, O>(link) }
    }

    fn link(&self) -> Option<&Link> {
        Some((**self).link())
    }
}

/// Implements [`Queued`] for an enum, some of whose variants are an `Arc` of an object that has a link,
/// or for a type whose values need tickets.
macro_rules! queued {
    ($type:ty) => {
        // SAFETY: No value is ever taken for an object.
        #[allow(unsafe_code)]
        unsafe impl $crate::kernel_ext::box_queue::Queued for $type {
            fn into_link(
                self,
            ) -> Result<
                (
                    core::ptr::NonNull<$crate::kernel_ext::link::Link>,
                    $crate::kernel_ext::link::Kind,
                ),
                Self,
            > {
                Err(self)
            }

            unsafe fn from_link(
                _link: core::ptr::NonNull<$crate::kernel_ext::link::Link>,
                _kind: $crate::kernel_ext::link::Kind,
            ) -> Self {
                unreachable!("`into_link` never succeeds")
            }

            unsafe fn share(
                _link: core::ptr::NonNull<$crate::kernel_ext::link::Link>,
                _kind: $crate::kernel_ext::link::Kind,
            ) -> Self {
                unreachable!("`into_link` never succeeds")
            }

            fn link(&self) -> Option<&$crate::kernel_ext::link::Link> {
                None
            }
        }
    };
    ($type:ty, $($variant:ident($object:ty)),+) => {
        #[allow(unsafe_code)]
        const _: () = {
            use $crate::kernel_ext::link::{
                self, HasLink, Kind, Link, Waiting,
            };

            #[repr(u64)]
            enum Number {
                $($variant),+
            }

            // SAFETY: Each variant has a kind of its own, by which the object is found to be one of that
            // variant again.
            unsafe impl $crate::kernel_ext::box_queue::Queued for $type {
                #[inline]
                fn into_link(self) -> Result<(core::ptr::NonNull<Link>, Kind), Self> {
                    match self {
                        $(Self::$variant(object) => Ok((
                            link::into_link::<Waiting, $object>(object),
                            const { link::kind(Number::$variant as u64) },
                        )),)+
                        other => Err(other),
                    }
                }

                #[inline]
                unsafe fn from_link(link: core::ptr::NonNull<Link>, kind: Kind) -> Self {
                    $(if kind == const { link::kind(Number::$variant as u64) } {
                        // SAFETY: This kind stands for objects of this type; the rest is promised by
                        // the caller.
                        return Self::$variant(unsafe { link::from_link::<Waiting, $object>(link) });
                    })+
                    // SAFETY: `into_link` returns no other kind.
                    unsafe { core::hint::unreachable_unchecked() }
                }

                unsafe fn share(link: core::ptr::NonNull<Link>, kind: Kind) -> Self {
                    $(if kind == const { link::kind(Number::$variant as u64) } {
                        // SAFETY: As in `from_link`.
                        return Self::$variant(unsafe { link::share_link::<Waiting, $object>(link) });
                    })+
                    // SAFETY: `into_link` returns no other kind.
                    unsafe { core::hint::unreachable_unchecked() }
                }

                fn link(&self) -> Option<&Link> {
                    match self {
                        $(Self::$variant(object) => Some(<$object as HasLink<Waiting>>::link(object)),)+
                        _ => None,
                    }
                }
            }
        };
    };
}
pub(crate) use queued;
