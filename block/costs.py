# SPDX-License-Identifier: GPL-2.0
"""`make -C block bench`: instructions and locked operations of one access to the block devices of Debian's kernel, without time.

Plugins of QEMU count, as for Binder. The guest's clock counts instructions, and it has one CPU. Runs of drivers in the kernel repeat exactly, those with a server within
a percent.
"""

import collections
import dataclasses
import itertools
import pathlib
import re
import tempfile

import parts
from lab import bench, emulator, guest, kernel, reports, say
from report import charts, plugins, symbols

HERE = pathlib.Path(__file__).resolve().parent
WAYS, SIZES = ("read", "write"), (4 << 10, 64 << 10, 1 << 20)
_KUBLK = "/lab/kublk add -q 1 -d 32 --no_auto_part_scan"


@dataclasses.dataclass(frozen=True)
class Device:
    """A block device: the modules of its driver, of which the last one is it, and the script that makes /dev/`name`."""

    title: str
    modules: tuple
    name: str
    script: str
    # What answers in user space, by its name in parts.py.
    server: str = ""


def _null(title, module, block, queues):
    """A disk with blocks of so many bytes, in memory."""
    return Device(f"{title}, blocks of {block}", ("configfs", module), "nullb0",
                  f"insmod /lab/{module}.ko gb=1 bs={block} memory_backed=1 irqmode=0 submit_queues={queues} no_sched=1")


def null_blk(block, queues=1):
    return _null("null_blk", "null_blk", block, queues)


def nullb(block, queues=1):
    """The same in Rust."""
    return _null("nullb", "nullb_rust", block, queues)


BRD = Device("brd", ("brd",), "ram0", "insmod /lab/brd.ko rd_nr=1 rd_size=65536")


def _ublk(module, target, mode, words):
    title = "ublk" if module == "ublk_drv" else module
    return Device(f"{title}, kublk's {target}, {mode}", (module,), "ublkb0", f"insmod /lab/{module}.ko; {_KUBLK} -t {words}", "kublk")


DEVICES = (
    *(made(block) for block in (512, 4096) for made in (null_blk, nullb)),
    BRD,
    *(_ublk(module, target, mode, f"{words} {more}") for target, words in (("null", "null"), ("loop", "loop /tmp/file")) for mode, more in (
        ("copy", ""), ("user copy", "-u"), ("zero copy", "-z"), ("automatic buffers", "--auto_zc")) for module in ("ublk_drv", "ublk_rust")),
    Device("ublk, engine's memory, copy", ("ublk_drv",), "ublkb0", "insmod /lab/ublk_drv.ko; /lab/disk ram 64 &", "engine"),
    Device("nbd, nbdkit's memory", ("nbd",), "nbd0", "insmod /lab/nbd.ko nbds_max=1 max_part=0; nbdkit -U /tmp/nbd memory 64M; "
           "nbd-client -unix /tmp/nbd /dev/nbd0 -b 4096", "nbdkit"))

# Of one access: all instructions; of them those of the kernel's copies, of the driver's own functions, and of user space; the kernel's locked operations.
Cost = collections.namedtuple("Cost", "all copies driver user locked")
_COPIES = re.compile(r"memcpy(_orig)?|copy_user_generic.*|rep_movs_alternative")


def run():
    """Measure all devices, write costs.tsv, and show the reads in README.md."""
    parts.install()
    found = {device.title: measure(device) for device in DEVICES}
    about = f"# Linux {kernel.build(parts.GUEST).release}, {emulator.version('x86_64').splitlines()[0]}"
    heads = ("device", "access", "bytes", *Cost._fields)
    rows = [[title, way, str(size), *map(str, map(round, cost))] for title, costs in found.items() for (way, size), cost in costs.items()]
    (HERE / "costs.tsv").write_text("\n".join([about, *map("\t".join, [heads, *rows])]) + "\n")
    shown = table(rows)
    print("\n".join(shown))
    readme = HERE / "README.md"
    readme.write_text(reports.replaced(readme.read_text(), "costs", "\n".join(shown) + "\n"))


def measure(device):
    """{(way, bytes): Cost} of a device."""
    accesses = list(itertools.product(WAYS, SIZES))
    output, (counts, code), functions = boot(device, [f"{way} {size}" for way, size in accesses], [("locked.c",), ("code.c",)])
    found, names = cells(output), symbols.Names(functions)
    counted, executed = (plugins.operations(found, seen) for seen in (counts, code))
    return {access: cost(device.modules[-1], names, *of) for access, *of in zip(accesses, counted, executed, strict=True)}


def boot(device, loads, watchers, cpus=1, before=""):
    """What measure.rs prints for loads of a device, one line each; what plugins of QEMU have seen, by their names and words; and the functions
    of the kernel and its modules. `before` is a command."""
    lines = "\n".join(f"/lab/measure /dev/{device.name} {load} || exit" for load in loads)
    script = (f"dd if=/dev/zero of=/tmp/file bs=1M count=64 2>/dev/null\nsleep {bench.SETTLE}\n"
              + "".join(f"insmod /lab/{name}.ko\n" for name in device.modules[:-1]) +
              f'{device.script}\nuntil [ "0$(cat /sys/block/{device.name}/size)" -gt 0 ]; do sleep 0.1; done\n{before}\n{lines}\ngrep "\\[" /proc/kallsyms >/out/symbols')
    built = kernel.build(parts.GUEST)
    with tempfile.TemporaryDirectory() as folder, say.Step(f"{device.title}, CPUs: {cpus}") as step:
        counters = [plugins.compiled(name, pathlib.Path(tempfile.mkdtemp(dir=folder)), *words) for name, *words in watchers]
        options = [option for words, _ in counters for option in words]
        job = guest.Job(argv=["/bin/sh", "-c", script], driver="none", files=files(device), icount=True, timeout=1800,
                        boot=bench.BOOT, qemu=(*options, "-smp", str(cpus)), memory=1024)
        result = guest.run(built, job, step.hear)
        if not result.good:
            raise say.LabError(f"{device.title}: {'; '.join(result.problems) or result.output[-500:]}")
        output = result.output.strip().splitlines()[-len(loads):]
        functions = symbols.read(bench.kernel_symbols(parts.GUEST) + result.files["symbols"].decode())
        return output, [seen.read_text() for _, seen in counters], functions


def cells(output, threads=1):
    """What was measured, as binder-bench describes it, from lines of measure.rs with so many threads."""
    lengths = (map(int, line.split()) for line in output)
    return [{"workload": "block", "case": "", "measured": {"count": {"n1": short, "n2": long, "t1": range(repeats)}}, "batch": 1, "pairs": threads}
            for short, long, repeats in lengths]


def cost(module, names, counted, executed):
    """What one access costs, by the operations that locked.c and code.c have seen."""
    count, shares = executed.cell["measured"]["count"], collections.Counter()
    for what, *words in executed.seen:
        if what == "block":
            function = names.function(int(words[0], 16))
            share = "copies" if _COPIES.fullmatch(function.name) else "driver" if function.module == module else "kernel"
            shares[share] += int(words[2]) * int(words[3]) / count["n2"] / len(count["t1"])
    instructions, locked = counted.of_a_unit(1), counted.of_a_unit(2)
    return Cost(instructions, shares["copies"], shares["driver"], max(0, instructions - shares.total()), locked)


def table(rows):
    """Lines of Markdown about reads: a line for each device."""
    shown = {str(size): columns for size, columns in zip(SIZES, (("all", "driver", "user", "locked"), *(("all", "copies", "driver"),) * 2))}
    reads = collections.defaultdict(dict)
    for title, way, size, *numbers in rows:
        if way == "read":
            reads[title][size] = dict(zip(Cost._fields, numbers))
    heads = [f"{int(size) >> 10} KiB: {column}" if not at else column for size, columns in shown.items() for at, column in enumerate(columns)]
    lines = [[title, *(charts.number(int(of[size][column])) for size, columns in shown.items() for column in columns)] for title, of in reads.items()]
    return [f"| {' | '.join(cells)} |" for cells in (["device", *heads], ["---", *["--:"] * len(heads)], *lines)]


def files(device):
    """What the guest of a device needs: its paths, and the host's."""
    server = getattr(parts, device.server)() if device.server else {}
    return {**parts.program("measure.rs"), **parts.modules(*device.modules), **server}


if __name__ == "__main__":
    run()
