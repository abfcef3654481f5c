# SPDX-License-Identifier: GPL-2.0
"""The contract suite: once in each kernel, and again only what a parameter, a security module or a task's width can change."""

import oracle
import pytest
from lab import contract, kernel, kunit, schedules, stock
from stages import CONTRACT, DRIVER, ORACLE, stage

UM, DEBIAN = "um", stock.NAMES[0]
# Groups that differ in a built-in driver: the kernel starts it, and it may use all functions.
BUILTIN = ("sync::", "binderfs::", "ioctl::", "mmap::", "security::", "nice::", "realtime::", "reclaim::", "quota::")
# Groups in which a machine differs from User Mode Linux: memory of users and of its nodes, tasks
# and signals, time and priorities; and measurements of memory that KASAN would falsify.
MACHINE_GROUPS = ("buffers::", "charging::", "death_races::", "depth::", "faults::", "fds::", "gaps::", "inversion::", "ioctl::", "lessons::",
                  "limits::", "many::", "mmap::", "nice::", "placement::", "pointers::", "poll::", "quota::", "realtime::", "reclaim::",
                  "retention::", "signals::", "sync::", "tags::", "tasks::", "threads::", "userfault::", "wakeups::", "write_read::")
# Debian's C driver has one device and no binderfs. None of our own kernels has asynchronous I/O.
STOCK_C = ("sync::", "ioctl::", "binderfs::", "::found_on_its_node", "::work_wakes_asynchronous_io")
# Groups in which several tasks run.
RACES = ("death_races::", "freeze::", "leaving::", "lessons::", "signals::")
# The parts of the driver that differ between architectures, or work on several CPUs at once.
MACHINE = ("rust/", "drivers/android/entry/", "drivers/android/rust_binderfs.c", *CONTRACT)


@pytest.mark.parametrize("half", (1, 2))
@stage(*DRIVER, *CONTRACT, takes=110)
def test_contract_um_rust_one_cpu(tally, half):
    """With KASAN, lockdep and kmemleak, and with the driver's numbers near their ends."""
    contract.suite(tally, UM, "rust", f"contract um rust, one CPU, half {half}", part=1, half=half, near_limits=True)


@stage(*DRIVER, *CONTRACT, takes=100, both_cpus=True)
def test_contract_um_rust_two_cpus(tally):
    contract.suite(tally, UM, "rust", "contract um rust, two CPUs", part=2, near_limits=True)


@stage(*DRIVER, *CONTRACT, "tests/schedules/", takes=25)
def test_schedules(tally):
    """A slice of `make torture ONLY=schedules`."""
    result = contract.suite(tally, UM, "rust", "schedules, contract um rust", only=RACES, cpus=1, seed=4)
    assert schedules.tried([result.output])


@stage(*DRIVER, takes=40)
def test_kunit(tally):
    result = contract.suite(tally, UM, "rust", "KUnit um", only=("ioctl::",), kunit=True, boot=kunit.UNHURRIED)
    kunit.count(tally, result.kernel_log)


@pytest.mark.parametrize("half", (1, 2))
@stage(*CONTRACT, *ORACLE, takes=105)
def test_contract_um_c_one_cpu(tally, half):
    oracle.suite(tally, f"one CPU, half {half}")


@stage(*CONTRACT, *ORACLE, takes=90, both_cpus=True)
def test_contract_um_c_two_cpus(tally):
    oracle.suite(tally, "two CPUs")


@stage(*CONTRACT, "tools/lab/source.py", takes=30)
def test_contract_c_built_apart(tally):
    """The C driver as a module that is built apart from the kernel's tree."""
    contract.suite(tally, oracle.without_c(kernel.build(UM)), "c", "contract um c, built apart", only=("sync::", "binderfs::"), cpus=1)


@stage(*MACHINE, takes=100)
def test_contract_debian_rust(tally):
    """On x86-64 with two CPUs and memory nodes."""
    contract.suite(tally, DEBIAN, "rust", only=MACHINE_GROUPS)


@stage(*CONTRACT, takes=20)
def test_contract_debian_c(tally):
    contract.suite(tally, DEBIAN, "c", only=STOCK_C, attempt=oracle.recalled)


@stage("drivers/android/Kbuild", "drivers/android/entry/", "drivers/android/rust_binder.rs",
       "tools/lab/install.py", *CONTRACT, takes=50)
def test_contract_built_in(tally):
    """Our driver as a part of the kernel, which is linked anew from the objects of the other one."""
    contract.suite(tally, "um-builtin", "rust", only=BUILTIN, cpus=1)


@pytest.mark.parametrize("driver", ("rust", "c"))
@stage("drivers/android/rust_binder.rs", "drivers/android/ffi/", "drivers/android/entry/", *CONTRACT, takes=25)
def test_contract_with_a_security_module(tally, driver):
    contract.suite(tally, UM, driver, only=contract.SECURED, boot=contract.LSM, cpus=1, attempt=oracle.recalled)
    contract.suite(tally, UM, driver, f"contract um {driver} with a policy", only=("policy::",), boot=contract.LSM, cpus=1, policy=True, attempt=oracle.recalled)


@stage("drivers/android/entry/", "rust/kernel/", *CONTRACT, takes=20)
def test_contract_with_parameters(tally):
    for words, only, cpus in (("charge_buffers=1", ("charging::", "reclaim::"), 1), ("handoff=0", ("placement::",), 2)):
        contract.suite(tally, UM, "rust", only=only, boot=(f"parameters={words}",), cpus=cpus)
