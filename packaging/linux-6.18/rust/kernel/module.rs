// SPDX-License-Identifier: GPL-2.0

//! Modules with parameters.

use crate::{bindings, ThisModule};
use core::cell::UnsafeCell;

/// The type that `module!` names.
pub trait Owner {
    /// The `struct module` of C.
    const THIS_MODULE: &'static ThisModule;
}

/// Returns the module of a type.
pub const fn this_module<M: Owner>() -> &'static ThisModule {
    M::THIS_MODULE
}

/// A value of a parameter, or what describes one. It is written only before the initialisation.
#[repr(transparent)]
pub struct Parameter<T>(pub T);

// SAFETY: C writes the value before the initialisation, and code of this crate only reads it.
unsafe impl Sync for Parameter<UnsafeCell<u8>> {}

// SAFETY: Nobody changes a description.
unsafe impl Sync for Parameter<bindings::kernel_param> {}

impl Parameter<UnsafeCell<u8>> {
    /// Returns the value.
    pub fn value(&self) -> u8 {
        // SAFETY: Nobody writes it any more.
        unsafe { self.0.get().read_volatile() }
    }
}

/// `module!` of the crate `macros`, and parameters of the type `u8`.
#[macro_export]
macro_rules! module {
    (
        type: $type:ident, name: $module:tt, authors: $authors:tt, description: $about:tt, license: $license:tt,
        params: { $($name:ident: u8 { default: $default:tt, description: $_text:tt, },)* },
    ) => {
        $crate::macros::module! {
            type: $type, name: $module, authors: $authors, description: $about, license: $license,
        }

        impl $crate::module::Owner for $type {
            const THIS_MODULE: &'static $crate::ThisModule = &THIS_MODULE;
        }

        mod module_parameters {
            use core::cell::UnsafeCell;
            use $crate::{bindings, module::Parameter};

            $(#[allow(non_upper_case_globals)]
            pub(crate) static $name: Parameter<UnsafeCell<u8>> = Parameter(UnsafeCell::new($default));

            const _: () = {
                #[link_section = "__param"]
                #[used]
                static ENTRY: Parameter<bindings::kernel_param> = Parameter(bindings::kernel_param {
                    name: if cfg!(MODULE) {
                        concat!(stringify!($name), "\0")
                    } else {
                        concat!($module, ".", stringify!($name), "\0")
                    }.as_ptr().cast(),
                    mod_: super::THIS_MODULE.as_ptr(),
                    ops: &raw const bindings::param_ops_byte,
                    perm: 0,
                    level: -1,
                    flags: 0,
                    __bindgen_anon_1: bindings::kernel_param__bindgen_ty_1 {
                        arg: $name.0.get().cast(),
                    },
                });
            };)*
        }
    };
    ($($other:tt)*) => {
        $crate::macros::module! { $($other)* }
    };
}
