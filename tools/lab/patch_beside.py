# SPDX-License-Identifier: GPL-2.0
"""What is other in a series with which the C driver and ours are both built in, and `binder.impl=c|rust` chooses one at boot.

The symbols of a kernel are one space of names, and the trace events of both drivers are symbols of the same names. Ours have the
prefix `rust_` here. All else is told apart by one of the two registering nothing.
"""

import re

from . import patch_list, say

_EVENTS, _TRACEPOINTS = "drivers/android/trace/events.h", "drivers/android/ffi/tracepoints.rs"
_KCONFIG, _ROOT, _FFI = "drivers/android/Kconfig.rust_binder", "drivers/android/rust_binder.rs", "drivers/android/entry/ffi.rs"
C_DRIVER, ADDED = "drivers/android/binder.c", ("drivers/android/binder_impl.c", "drivers/android/binder_impl.h")
_EVENT = re.compile(r"^(?:EVENT\(\w+, |\w*EVENT\()(binder_\w+)", re.M)

PARAMETERS = "Documentation/admin-guide/kernel-parameters.txt"
_PARAMETER = """\
\tbinder.impl=\t[KNL]
\t\t\tWhich of two drivers of Binder is used, if both are built in.
\t\t\tFormat: { "c" | "rust" }
\t\t\tSee Documentation/admin-guide/rust_binder.rst

"""
# What the C driver is changed by: a line, and what comes before it.
_IN_C = (('#include "binder_internal.h"\n', '#include "binder_impl.h"\n'),
         ("\tret = binder_alloc_shrinker_init();\n", "\tif (!binder_impl_is_c())\n\t\treturn 0;\n\n"))
_DEPENDS = ("\t# Both have trace events of the same names.\n\tdepends on m || ANDROID_BINDER_IPC != y\n",
            "\t# Both register the same names.\n\tdepends on m || ANDROID_BINDER_IPC != y || ANDROID_BINDER_IMPL\n")
_IN_ROOT = (("    _devices: Devices,\n", "    _devices: Option<Devices>,\n"),
            ("    fn init(_module: &'static ThisModule) -> Result<Self> {\n",
             "    fn init(_module: &'static ThisModule) -> Result<Self> {\n        if !is_chosen() {\n"
             "            return Ok(Self { _devices: None });\n        }\n"),
            ("            _devices: Devices::make(value_of(module_parameters::charge_buffers.value()) != 0)?,\n",
             "            _devices: Some(Devices::make(\n                value_of(module_parameters::charge_buffers.value()) != 0,\n            )?),\n"),
            ("use entry::{ffi::Devices, ioctls::set_handoff};\n",
             "use entry::{\n    ffi::{is_chosen, Devices},\n    ioctls::set_handoff, //\n};\n"))
_IN_FFI = (("/// The devices. They can be opened as long as this value exists.\n",
            "#[cfg(all(CONFIG_ANDROID_BINDER_IMPL, not(MODULE)))]\nextern \"C\" {\n    fn binder_impl_is_rust() -> bool;\n}\n\n"
            "/// Whether this driver is to be used, if there is another one in the kernel.\npub(crate) fn is_chosen() -> bool {\n"
            "    #[cfg(all(CONFIG_ANDROID_BINDER_IMPL, not(MODULE)))]\n"
            "    // SAFETY: Reads a variable that is not written any more when drivers are initialised.\n"
            "    return unsafe { binder_impl_is_rust() };\n    #[cfg(not(all(CONFIG_ANDROID_BINDER_IMPL, not(MODULE))))]\n    true\n}\n\n"
            "/// The devices. They can be opened as long as this value exists.\n"),)


def ours(name, text):
    """One of our files as this flavour has it."""
    if name == _EVENTS:
        names = "|".join(sorted(set(_EVENT.findall(text)), key=len, reverse=True))
        return re.sub(rf"\b(?=(?:{names})\b)", "rust_", text) if names else _refuse(name, "trace events")
    if name == _TRACEPOINTS:
        return _replaced(_replaced(text, name, "[<__tracepoint_ $name>]", "[<__tracepoint_rust_ $name>]", 2),
                         name, "[<rust_do_trace_ $name>]", "[<rust_do_trace_rust_ $name>]", 2)
    edits = {_KCONFIG: (_DEPENDS,), _ROOT: _IN_ROOT, _FFI: _IN_FFI}.get(name, ())
    for old, new in edits:
        text = _replaced(text, name, old, new)
    return text


def c_driver(text):
    """The C driver, which registers nothing unless it is chosen."""
    for line, before in _IN_C:
        text = _replaced(text, C_DRIVER, line, before + line)
    return text


def documented(text):
    """The list of the kernel's parameters with the one that chooses, at its place."""
    return _replaced(text, PARAMETERS, "\tblkdevparts=\t", _PARAMETER + "\tblkdevparts=\t")


def added():
    """{name: text} of the files that choose."""
    return {name: (patch_list.FOLDER / "beside" / name.rpartition("/")[2]).read_text() for name in ADDED}


def kconfig(text):
    """Kconfig with the symbols that choose, before those of our driver."""
    symbols = (patch_list.FOLDER / "beside/Kconfig").read_text()
    return re.sub(r'^(?=source "drivers/android/Kconfig\.rust_binder)', lambda _: symbols, text, count=1, flags=re.M)


def makefile(text):
    """The Makefile with the object that chooses."""
    return text.rstrip("\n") + "\nobj-$(CONFIG_ANDROID_BINDER_IMPL)\t+= binder_impl.o\n"


def _replaced(text, name, old, new, times=1):
    if text.count(old) != times:
        _refuse(name, f"`{old.strip().splitlines()[0]}`")
    return text.replace(old, new)


def _refuse(name, what):
    raise say.LabError(f"{name} has no {what} where FLAVOUR=beside changes it: tools/lab/patch_beside.py has to follow")
