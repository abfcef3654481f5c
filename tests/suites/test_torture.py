# SPDX-License-Identifier: GPL-2.0
"""`make torture`: the long runs outside `make test`. ONLY= chooses by name."""

import dataclasses
import os
import re

import oracle
import pytest
from lab import aosp, bench, cache, contract, coverage, deb_test, guest, host_tests, inversion, kernel, load, modules, mutant_module, mutants, patch_suite, proc
from lab import programs, say, schedules, source, stock, syzkaller
from lab.run import run
from stages import stage

UM, DEBIAN, KCSAN = "um", stock.NAMES[0], "x86_64-kcsan"
OTHERS = (*stock.NAMES, *kernel.FOREIGN)


def option(name, usual):
    """NAME=VALUE of `make torture`."""
    return int(os.environ.get(f"TORTURE_{name}") or usual)


@stage(torture=True)
def test_mutants(tally):
    mutants.run(tally, option("SEED", 1), option("COUNT", 300), bool(os.environ.get("LAB_DOCS")))


@stage(torture=True)
def test_load(tally):
    load.run_load(tally, UM, "rust", option("SECONDS", 600), "--kill", "--freeze", "--pressure", "--read-logs", "--tolerate",
                  "--seed", str(option("SEED", 1)))


@pytest.mark.parametrize("name, cpus", [(DEBIAN, 1), (DEBIAN, 8), ("x86_64-rt", 2), (KCSAN, 2)])
@stage(torture=True)
def test_configuration(tally, name, cpus):
    """Contract and load with one CPU and with eight, where spinlocks sleep, and where the kernel looks for races."""
    contract.suite(tally, name, "rust", f"contract {name} rust, {cpus} CPUs", cpus=cpus)
    load.run_load(tally, name, "rust", 120, "--kill", "--freeze", "--pressure", "--read-logs", "--tolerate", cpus=cpus)
    for what in kernel.GUESTS[name].watched:
        modules.watched(tally, name, what)
    if name == KCSAN:
        for words in (_PAIRS, ("run", "--placement", "other", "--workloads", "oneway,fds,objects,fanin,nested,freeze,death")):
            title = " ".join([name, "binder-bench", *words])
            tally.one(title, run(title, name, unpaused(words)).good)


# Two pairs of processes, each on its CPU.
_PAIRS = ("throughput", "--pairs", "2", "--sizes", "0", "--seconds", "20")


@stage(torture=True)
def test_kcsan_notices_a_race(tally):
    """The driver with a race that each call runs."""
    fault, = mutants.read("kcsan")
    made, _ = mutant_module.build(kernel.build(KCSAN), mutant_module.Copy("kcsan", apart=fault))
    with say.Step("a race in the driver") as step:
        result = guest.run(kernel.build(KCSAN), unpaused(_PAIRS, made), step.hear)
    say.lines(*result.problems)
    tally.one("KCSAN notices a race", any(line.startswith("BUG: KCSAN") for line in result.problems))


def unpaused(words, made=None):
    """Processes that do nothing but call: KCSAN looks at one access of many, and for a short time."""
    argv = ["/lab/binder-bench", *words, "--driver", "rust"]
    return guest.Job(argv=argv, files={"/lab/binder-bench": programs.build_for(KCSAN, bench.CRATE)}, module=made, timeout=900)


@stage(torture=True)
def test_fuzz(tally):
    """Without sanitizers, which take three times as long; `make test` has a slice with them."""
    load.fuzz(tally, bench.TIMED, option("SEED", 1), option("COUNT", 2000))


@pytest.mark.parametrize("driver", ["rust", "c", "upstream"])
@stage(torture=True)
def test_syzkaller(tally, driver):
    """Programs that syzkaller makes. Complaints about the other drivers are shown, and are no failure."""
    complaints = syzkaller.run(tally, driver, option("SECONDS", 36000), os.environ.get("TORTURE_SYZKALLER"))
    say.lines(*complaints)
    tally.one(f"syzkaller {driver}", driver != "rust" or not complaints)


@stage(torture=True)
def test_syzkaller_notices_a_fault(tally):
    """The driver with CVE-2019-2215, an access to freed memory, which the manager has to find by itself."""
    fault = next(fault for fault in mutants.read("apart") if fault["lesson"] == "C01")
    module, _ = mutant_module.build(kernel.build(syzkaller.GUEST), mutant_module.Copy("syzkaller", apart=fault))
    complaints = syzkaller.run(tally, "rust", option("SECONDS", 10800), os.environ.get("TORTURE_SYZKALLER"), module)
    say.lines(*complaints)
    tally.one("syzkaller notices an access to freed memory", any("KASAN" in complaint for complaint in complaints))


@stage(torture=True)
def test_schedules(tally):
    first = option("SEED", 1)
    runs = [contract.suite(tally, UM, "rust", f"schedules, contract {UM} rust, seed {seed}", cpus=1, seed=seed)
            for seed in range(first, first + option("COUNT", 20))]
    tally.tried = schedules.tried([run.output for run in runs])


@stage(torture=True)
def test_inversion(tally):
    tally.one("inversion", not inversion.run(seed=option("SEED", 1)))


@stage(torture=True)
def test_orders(tally, monkeypatch):
    """The tests under loom, without a limit of preemptions."""
    monkeypatch.setenv("LOOM_MAX_PREEMPTIONS", "100")
    host_tests.of_crates(tally, "tests/loom", "--nocapture")


@stage(torture=True)
def test_model(tally):
    host_tests.of_crates(tally, "tests/model", "--ignored", "--nocapture")


@stage(torture=True)
def test_coverage(tally):
    coverage.measure(tally, into_docs=bool(os.environ.get("LAB_DOCS")))


@stage(torture=True)
def test_32_bit(tally):
    for driver in ("rust", "c"):
        contract.suite(tally, DEBIAN, driver, width=32)


@stage(torture=True)
def test_kernel_without_c(tally):
    """A kernel as Linux 7.4 has it, and Debian's. The C driver is built apart from their trees."""
    built = kernel_without_c()
    for driver in ("c", "rust"):
        contract.suite(tally, built, driver, f"contract {built.guest.name} {driver}")
    contract.suite(tally, oracle.without_c(kernel.build(DEBIAN)), "c", f"contract {DEBIAN} c, built apart", only=("sync::", "binderfs::"))


class WithoutC(kernel.Kernel):
    """A kernel that is made of the objects of `um`: its tree and its folder are mounted over those of that kernel, also for modules."""

    def module_command(self, sources, out, *arguments, target="modules"):
        like = kernel.build(UM)
        argv = like.module_command(sources, out, *arguments, target=target)
        return proc.with_mounts({self.tree: like.tree, self.folder: like.folder}, argv)


def kernel_without_c():
    """The kernel of `um` from a tree without the C driver and its options."""
    like = kernel.build(UM)

    def make_tree(part):
        proc.output("cp", "-al", like.tree, part)
        for name in source.C_FILES:
            if not name.endswith("/Makefile"):
                (part / name).unlink()
        path = part / "drivers/android/Kconfig"
        text, count = re.subn(r"config ANDROID_BINDER(?:_IPC|FS)\n(?:\t.*\n|\n(?=\t))+", "", path.read_text())
        assert count == 2, f"{path} has {count} of the C driver's two options"
        path.unlink()
        path.write_text(text)

    tree = cache.entry(f"source/without-c-{cache.key(like.tree.name, source.C_FILES)}", make_tree)
    guest = dataclasses.replace(like.guest, name="um-without-c")
    lines = [line for name in guest.fragments for line in kernel.fragment(name)
             if not line.startswith(("CONFIG_ANDROID_BINDER_IPC=", "CONFIG_ANDROID_BINDERFS="))]

    def make(folder):
        kernel.copy_objects(like.folder, folder)
        kernel._build(WithoutC(guest, tree, folder), lines, like)

    built = WithoutC(guest, tree, cache.in_place(f"kernel/{guest.name}-{cache.key(tree.name, lines, like.folder.name)}", make))
    assert not built.has_c
    return built


@pytest.mark.parametrize("name", OTHERS)
@stage(torture=True)
def test_guest(tally, name):
    """Contract, layouts, the watch over the log, loads and unloads on other kernels and architectures."""
    for driver in ("rust", "c") if kernel.build(name).has_c else ("rust",):
        contract.suite(tally, name, driver)
    modules.layouts(tally, name)
    for what in ("pages", *kernel.GUESTS[name].watched):
        modules.watched(tally, name, what)
    modules.cycles(tally, name, 25)
    modules.alone(tally, "unload", name, "")


@stage(torture=True)
def test_aosp(tally):
    tally.one("aosp", not aosp.run(os.environ.get("TORTURE_GUEST") or UM, "rust"))


@stage(torture=True)
def test_packages(tally):
    tally.one("packages on Debian machines", not deb_test.run())


@stage(torture=True)
def test_patches_built(tally):
    patch_suite.built(tally)


@stage(torture=True)
def test_linux_6_18(tally):
    patch_suite.linux_6_18(tally)
