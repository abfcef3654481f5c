// SPDX-License-Identifier: GPL-2.0

//! What can be queued: values, and references to objects that bring their places.

use super::super::link::{self, HasLink, Kind, Link, Waiting, FIRST_KIND};
use core::ptr::NonNull;
use kernel::sync::Arc;

/// A reference to an object that brings its place in a queue.
///
/// # Safety
///
/// - [`Self::into_link`] returns the link of an object, whose memory is not freed before
///   [`Self::from_link`] has been called for it, and the result of that has been dropped.
/// - If [`Self::IS_SOLE`], no other value refers to the object, so that nothing else can give the
///   link to a queue; and the link is free when `into_link` is called.
pub(crate) unsafe trait Refers: Sized {
    /// Whether the object has one owner.
    const IS_SOLE: bool;

    /// Gives the reference up for the link of its object.
    fn into_link(self) -> NonNull<Link>;

    /// Makes a reference again of what [`Self::into_link`] returned.
    ///
    /// # Safety
    ///
    /// The link comes from there, and this is done once. If the object has one owner, the link is
    /// free, or the result is not dropped and nothing but looked at.
    unsafe fn from_link(link: NonNull<Link>) -> Self;
}

// SAFETY: The link is that of the object, which the reference that is given up keeps.
unsafe impl<O: HasLink<Waiting, Room = Link>> Refers for Arc<O> {
    const IS_SOLE: bool = false;

    #[inline]
    fn into_link(self) -> NonNull<Link> {
        link::into_link::<Waiting, O>(self)
    }

    #[inline]
    unsafe fn from_link(link: NonNull<Link>) -> Self {
        // SAFETY: As the caller promises.
        unsafe { link::from_link::<Waiting, O>(link) }
    }
}

/// What can be queued; see [`queued`].
///
/// # Safety
///
/// [`Self::into_link`] returns what [`Refers::into_link`] returns for the type of a reference, and
/// the kind that stands for this type and no other, from [`FIRST_KIND`] on. The other functions do
/// what those of [`Refers`] do for that type.
pub(crate) unsafe trait Queued: Sized {
    /// Gives the value up for the link of its object, if it is a reference to one that has a link.
    fn into_link(self) -> Result<(NonNull<Link>, Kind), Self>;

    /// Makes a value again of what [`Self::into_link`] returned.
    ///
    /// # Safety
    ///
    /// Link and kind come from there; the rest is as for [`Refers::from_link`].
    unsafe fn from_link(link: NonNull<Link>, kind: Kind) -> Self;

    /// Whether objects of this kind have one owner ([`Refers::IS_SOLE`]).
    fn is_sole(kind: Kind) -> bool;
}

// SAFETY: There is one type of references, and one kind.
unsafe impl<R: Refers> Queued for R {
    fn into_link(self) -> Result<(NonNull<Link>, Kind), Self> {
        Ok((R::into_link(self), FIRST_KIND))
    }

    unsafe fn from_link(link: NonNull<Link>, _kind: Kind) -> Self {
        // SAFETY: As the caller promises.
        unsafe { R::from_link(link) }
    }

    fn is_sole(kind: Kind) -> bool {
        R::IS_SOLE && kind == FIRST_KIND
    }
}

/// Implements [`Queued`] for an enum, some of whose variants [refer](Refers) to an object that
/// brings its place, or for a type whose values need tickets.
macro_rules! queued {
    ($type:ty $(, $variant:ident($reference:ty))*) => {
        #[allow(unsafe_code)]
        const _: () = {
            use core::ptr::NonNull;
            #[allow(unused_imports)]
            use $crate::kernel_ext::{
                box_queue::{Queued, Refers},
                link::{self, Kind, Link}, //
            };

            #[repr(u64)]
            enum Number {
                $($variant,)*
                _NoOther,
            }

            // SAFETY: Each variant has a kind of its own, by which the object is found to be one of
            // that variant again.
            unsafe impl Queued for $type {
                #[inline]
                fn into_link(self) -> Result<(NonNull<Link>, Kind), Self> {
                    #[allow(unreachable_patterns)]
                    match self {
                        $(Self::$variant(reference) => Ok((
                            Refers::into_link(reference),
                            const { link::kind(Number::$variant as u64) },
                        )),)*
                        other => Err(other),
                    }
                }

                #[inline]
                unsafe fn from_link(_link: NonNull<Link>, _kind: Kind) -> Self {
                    $(if _kind == const { link::kind(Number::$variant as u64) } {
                        // SAFETY: This kind stands for references of this type; the rest is
                        // promised by the caller.
                        return Self::$variant(unsafe { <$reference as Refers>::from_link(_link) });
                    })*
                    // SAFETY: `into_link` returns no other kind.
                    unsafe { core::hint::unreachable_unchecked() }
                }

                #[inline]
                fn is_sole(_kind: Kind) -> bool {
                    false $(|| <$reference as Refers>::IS_SOLE
                        && _kind == const { link::kind(Number::$variant as u64) })*
                }
            }
        };
    };
}
pub(crate) use queued;
