# SPDX-License-Identifier: GPL-2.0
"""The driver as a module: layouts, loads and unloads, the watch over the kernel's log, stack frames."""

import pytest
from lab import frames, kernel, module, modules, stock
from stages import CONTRACT, DRIVER, stage

UM, DEBIAN = "um", stock.NAMES[0]
GUESTS = (UM, DEBIAN)
# The number of times that the driver is loaded and unloaded there; `unload::loaded_without_memory` does more on the other.
CYCLES = 50


@pytest.mark.parametrize("name", GUESTS)
@stage("tests/layouts/", "rust/", takes=10)
def test_layouts(tally, name):
    modules.layouts(tally, name)


@pytest.mark.parametrize("name", GUESTS)
@stage("tests/watch/", takes=10)
def test_watch_over_the_kernels_log(tally, name):
    for what in ("pages", *kernel.GUESTS[name].watched):
        modules.watched(tally, name, what)


@stage("drivers/android/rust_binder.rs", "drivers/android/entry/", "drivers/android/rust_binderfs.c", "rust/", "tools/lab/guest/cycle", takes=20)
def test_load_and_unload(tally):
    modules.cycles(tally, DEBIAN, CYCLES)


@stage("drivers/android/entry/", "drivers/android/ffi/", "drivers/android/rust_binderfs.c", "drivers/android/logs/", "rust/", *CONTRACT,
       takes=25, both_cpus=True)
def test_unload_while_in_use(tally):
    modules.alone(tally, "unload", UM, "after", "lesson", "while")


@stage("drivers/android/rust_binder.rs", "drivers/android/binderfs/", "drivers/android/rust_binderfs.c", "drivers/android/entry/",
       "drivers/android/ffi/", "rust/", *CONTRACT, takes=60)
def test_load_without_memory(tally):
    modules.alone(tally, "load without memory", UM, "loaded")


@stage(*DRIVER, takes=5)
def test_stack_frames(tally):
    tally.nothing_wrong(f"stack frames {DEBIAN}", frames.too_large(module.build(kernel.build(DEBIAN))))


@stage("drivers/android/entry/", "tools/lab/guest/devices", takes=5)
def test_module_parameters(tally):
    for driver in ("c", "rust"):
        modules.parameters(tally, driver)
