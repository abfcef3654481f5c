# SPDX-License-Identifier: GPL-2.0
"""What one operation is made of, exactly: a boot under `-icount` in which binder-bench counts, and a plugin of QEMU
(callchains.c, or another one) sees what the kernel executes in the windows of each thing that is measured.

The plugin knows windows by marks that binder-bench executes. A long window less a short one, divided by the calls that it
has more, is what a call costs: so a boot tells instructions, locked operations and call chains of everything that is
measured in it.
"""

import collections
import dataclasses
import json
import pathlib
import subprocess
import tempfile
import typing

from lab import guest, say

HERE = pathlib.Path(__file__).resolve().parent
KINDS = ("short", "long")
# How far what the plugin counted may lie from what binder-bench did by the guest's clock.
AGREED = 0.01
# Addresses stay where System.map and the next boot have them, in kernels that move themselves, too.
_BOOT = ("nokaslr",)
# A CPU that is idle halts, and is woken by an interrupt. QEMU's MWAIT would let it turn round instead, and time would pass.
_BOOT_SEVERAL = (*_BOOT, "idle=halt")
# Seconds, of the guest, for what a kernel has put off at boot, such as Debian's checks of its algorithms and certificates by
# threads of their own: they would run in between. While a guest is idle its clock jumps.
_SETTLE = 60
# Text symbols alone, and packed, for they leave through a serial port.
_SCRIPT = """
device=$1; shift
sleep $settle
for words in "$@"; do
	/lab/binder-bench $words $device --count --quiet --carriers $carrier --output - || exit
done
grep -i ' [tw] ' /proc/kallsyms | gzip -1 >/out/kallsyms.gz
"""

# What a plugin counted: {chain: (caller, place)}, {(chain, address): (executions, instructions, locked)}.
Counts = collections.namedtuple("Counts", "chains blocks user")
# All windows of one thing: [(kind, instructions, locked)], and the counts of those of a kind together.
Windows = collections.namedtuple("Windows", "each short long")


@dataclasses.dataclass
class Operation:
    """One thing that was measured: the fields that binder-bench gave its cell, and what the plugin saw."""

    cell: dict
    windows: typing.Any

    @property
    def title(self):
        return " ".join(filter(None, (self.cell["workload"], self.cell["case"])))

    @property
    def calls(self):
        """How many calls all long windows have more than all short ones."""
        count = self.cell["measured"]["count"]
        return (count["n2"] - count["n1"]) * len(count["t1"]) * self.cell["pairs"]

    @property
    def instructions(self):
        """Of a unit."""
        return self._of_a_unit(1)

    @property
    def locked(self):
        """Locked operations of the kernel in a unit."""
        return self._of_a_unit(2)

    def check(self):
        """What binder-bench has read off the guest's clock must be the same."""
        read = self.cell["measured"]["count"]["instructions"]
        if abs(self.instructions / read - 1) > AGREED:
            raise say.LabError(f"the plugin counts {self.instructions:.0f} instructions, and binder-bench {read:.0f} for "
                               f"{self.cell['workload']} {self.cell['case']}: one of them is wrong")

    def replace_clock(self):
        """Have the cell say what the plugin has counted."""
        count = self.cell["measured"]["count"]
        count["t1"], count["t2"] = ([window[1] for window in self.windows.each if window[0] == kind] for kind in KINDS)
        count["instructions"] = self.instructions

    def _of_a_unit(self, index):
        count = self.cell["measured"]["count"]
        short, long = (undisturbed_mean([window[index] for window in self.windows.each if window[0] == kind])
                       for kind in KINDS)
        return (long - short) / (count["n2"] - count["n1"]) / self.cell["batch"]


@dataclasses.dataclass
class Boot:
    """What a boot has told: a result file as binder-bench makes it of all workloads, and what the plugin saw."""

    driver: str
    result: dict
    operations: list
    kallsyms: bytes

    def locked(self):
        """For a file next to the result's: [(fields of a cell, locked operations of a unit)]."""
        names = ("workload", "case", "size", "reply", "pairs", "parameters")
        return [[{name: operation.cell[name] for name in names}, operation.locked] for operation in self.operations]


def undisturbed_mean(values):
    """The mean of all but the highest quarter, as binder-bench takes it: what comes in between now and then hardly counts."""
    lower = sorted(values)[:len(values) - len(values) // 4]
    return sum(lower) / len(lower)


def run(built, driver, program, workloads, carrier="binder", on_operation=None):
    """Boot `built` with `driver`, and have binder-bench measure `workloads`, words for its command line. `on_operation` hears of
    each thing that is measured when it is."""
    boot = boot_with(Plugin("callchains.c", read_windows), built, driver, program, workloads, carrier, on_operation)
    for operation in boot.operations:
        operation.check()
        operation.replace_clock()
    return boot


@dataclasses.dataclass(frozen=True)
class Plugin:
    """A plugin of QEMU: its source here, what makes something of each thing's part of the file that it writes, and what else it is
    told."""

    source: str
    read: typing.Callable
    words: tuple = ()


def boot_with(plugin, built, driver, program, workloads, carrier="binder", on_operation=None, cpus=1):
    """The same with any plugin, whose counts stay what its file was read as, and with several CPUs."""
    with tempfile.TemporaryDirectory() as folder:
        made, seen = pathlib.Path(folder) / "plugin.so", pathlib.Path(folder) / "seen"
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-fvisibility=hidden", "-o", made, HERE / plugin.source], check=True)
        device = "--device /dev/binder" if built.guest.stock and driver == "c" else ""
        words = [f"{words} --driver {driver}" for words in workloads]
        job = guest.Job(argv=["/bin/sh", "-c", f"carrier={carrier} settle={_SETTLE}\n{_SCRIPT}", "sh", device, *words], driver=driver,
                        icount=True, timeout=900, boot=_BOOT if cpus == 1 else _BOOT_SEVERAL,
                        qemu=("-plugin", ",".join([str(made), f"out={seen}", *plugin.words]), "-smp", str(cpus)),
                        files={"/lab/binder-bench": program})
        with say.Step(f"counting on {driver}, {built.guest.name}, {cpus} CPUs") as step:
            listener = Listener(seen, on_operation or (lambda operation: None), step, plugin.read)
            result = guest.run(built, job, listener.hear)
        if not result.good or not listener.operations:
            why = "; ".join(result.problems) or f"status {result.status}: {result.output[-300:]}"
            raise say.LabError(f"counting failed on {driver}: {why}")
    return Boot(driver, listener.result, listener.operations, result.files["kallsyms.gz"])


class Listener:
    """Takes what the guest prints, a result file in each line, and what the plugin has written by then."""

    def __init__(self, seen, on_operation, step=None, read=None):
        self._seen, self._on_operation, self._step, self._read_windows = seen, on_operation, step, read or read_windows
        self._read, self._rest, self._unclaimed = 0, "", []
        self.result, self.operations = None, []

    def hear(self, text):
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            if line.startswith("{"):
                self._take(json.loads(line))
            elif self._step:
                self._step.hear(line + "\n")

    def _take(self, result):
        # The guest has not waited: what it has measured since may be there already.
        self._unclaimed += self._windows()
        count = len(result["cells"])
        windows, self._unclaimed = self._unclaimed[:count], self._unclaimed[count:]
        if len(windows) < count:
            raise say.LabError(f"binder-bench measured {count} things, and the plugin saw {len(windows)}")
        if self.result:
            self.result["cells"] += result["cells"]
        else:
            self.result = result
        for cell, each in zip(result["cells"], windows):
            self.operations.append(Operation(cell, each))
            self._on_operation(self.operations[-1])

    def _windows(self):
        """What the plugin has written since this was asked last, as far as it is whole."""
        with open(self._seen, "rb") as seen:
            seen.seek(self._read)
            whole, end, _ = seen.read().rpartition(b"end\n")
        self._read += len(whole) + len(end)
        return self._read_windows((whole + end).decode().splitlines())


def read_windows(lines):
    """The plugin's file. An address may have been translated several times, in different lengths."""
    return read_parts(lines, _Fresh)


def read_parts(lines, fresh):
    """What a plugin's file has of each thing, up to a line `end`: `fresh()` makes what takes its lines, and gives its `windows()`."""
    found, part = [], None
    for line in lines:
        part = part or fresh()
        kind, *words = line.split()
        if kind == "end":
            found.append(part.windows())
            part = None
        else:
            part.add(kind, words)
    return found


class _Fresh:
    """Windows of one thing, while they are read."""

    def __init__(self):
        self._each, self._chains, self._user = [], {0: None}, dict.fromkeys(KINDS, 0)
        self._blocks = {kind: collections.defaultdict(lambda: [0, 0, 0]) for kind in KINDS}

    def add(self, what, words):
        if what == "window":
            self._each.append((words[0], int(words[1]), int(words[2])))
        elif what == "chain":
            self._chains[int(words[0])] = int(words[1]), int(words[2], 16)
        elif what == "block":
            block = self._blocks[words[0]][int(words[1]), int(words[2], 16)]
            for index, word in enumerate(words[3:]):
                block[index] += int(word)
        elif what == "user":
            self._user[words[0]] = int(words[1])

    def windows(self):
        counts = (Counts(self._chains, dict(self._blocks[kind]), self._user[kind]) for kind in KINDS)
        return Windows(self._each, *counts)
