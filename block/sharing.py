# SPDX-License-Identifier: GPL-2.0
"""What threads cost each other that read from one device, and how long interrupts are disabled: the last tables of `make -C block bench`.

Cache lines that move and turns of loops that wait are counted in a model of caches, as for Binder. With a server, threads share one CPU with it, and
instructions are counted.
"""

import functools

import costs
import parts
from lab import growth, reports
from report import charts, lines, plugins

_CPUS, _THREADS = (2, 8), (1, 2, 4, 8, 16, 32)
_SIZE, _LARGE = 4 << 10, 1 << 20
# Devices by the number of queues; brd has none.
_DEVICES = (functools.partial(costs.null_blk, _SIZE), functools.partial(costs.nullb, _SIZE), lambda _queues: costs.BRD)

# Each read writes to a line of the disk, whoever its driver is, if the kernel may throttle writes. brd has no queue to throttle.
_WITHOUT_THROTTLING = "[ ! -e /sys/block/{0}/queue/wbt_lat_usec ] || echo 0 >/sys/block/{0}/queue/wbt_lat_usec"


def run():
    """Measure, and show the tables in README.md."""
    parts.install()
    show("sharing", ["device", *(f"{cpus} CPUs: {what}" for cpus in _CPUS for what in ("lines", "turns")), "interrupts disabled"],
         [row(made) for made in _DEVICES])
    servers = [device for device in costs.DEVICES if device.server in ("engine", "nbdkit")]
    show("threads", ["device", *map(str, _THREADS)], [[device.title, *(charts.number(at_once(device, threads)) for threads in _THREADS)] for device in servers])


def show(name, heads, rows):
    """Put a table into README.md."""
    text = "".join(f"| {' | '.join(cells)} |\n" for cells in (heads, ["---", *["--:"] * (len(heads) - 1)], *rows))
    print(text)
    readme = parts.HERE / "README.md"
    readme.write_text(reports.replaced(readme.read_text(), name, text))


def row(made):
    """The cells of a device."""
    found = [f"{max(0, value):.1f}" for cpus in _CPUS for value in moves(made(cpus), cpus)]
    return [made(1).title, *found, charts.number(disabled(made(1)))]


def moves(device, cpus):
    """Cache lines that move for an access, and turns of loops that wait."""
    watcher = ("lines.c", f"turn={lines.TURN}", f"seed={lines.SEED}")
    output, (seen,), functions = costs.boot(device, [f"read {_SIZE} {cpus}"], [watcher], cpus, _WITHOUT_THROTTLING.format(device.name))
    (operation,) = plugins.operations(costs.cells(output, cpus), seen)
    summary = lines.summary(operation, functions)
    return lines.moved(summary), summary["unit"][lines.PAUSE]


def disabled(device):
    """The most instructions with interrupts disabled in a large access, for the driver."""
    _, (seen,), _ = costs.boot(device, [f"read {_LARGE}"], [("stretches.c", *growth.addresses(parts.GUEST))])
    return max(int(line.split()[3]) for line in seen.splitlines())


def at_once(device, threads):
    """Instructions of an access, of which so many are under way."""
    output, (seen,), _ = costs.boot(device, [f"read {_SIZE} {threads}"], [("locked.c",)])
    (operation,) = plugins.operations(costs.cells(output, threads), seen)
    return round(operation.of_a_unit(1) / threads)


if __name__ == "__main__":
    run()
