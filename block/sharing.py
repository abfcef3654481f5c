# SPDX-License-Identifier: GPL-2.0
"""`make -C block sharing`: what threads on CPUs of their own cost each other that read from one device, and how long interrupts are disabled.

Cache lines that move and turns of loops that wait are counted in a model of caches, as for Binder.
"""

import functools

import costs
import parts
from lab import growth, reports
from report import charts, lines, plugins

_CPUS = (2, 8)
_SIZE, _LARGE = 4 << 10, 1 << 20
# Devices by the number of queues; brd has none.
_DEVICES = (functools.partial(costs.null_blk, _SIZE), functools.partial(costs.nullb, _SIZE), lambda _queues: costs.BRD)

# Each read writes to a line of the disk, whoever its driver is, if the kernel may throttle writes. brd has no queue to throttle.
_WITHOUT_THROTTLING = "[ ! -e /sys/block/{0}/queue/wbt_lat_usec ] || echo 0 >/sys/block/{0}/queue/wbt_lat_usec"


def run():
    """Measure, and show the table in README.md."""
    parts.install()
    rows = [row(made) for made in _DEVICES]
    heads = ["device", *(f"{cpus} CPUs: {what}" for cpus in _CPUS for what in ("lines", "turns")), "interrupts disabled"]
    shown = [f"| {' | '.join(cells)} |" for cells in (heads, ["---", *["--:"] * (len(heads) - 1)], *rows)]
    print("\n".join(shown))
    readme = parts.HERE / "README.md"
    readme.write_text(reports.replaced(readme.read_text(), "sharing", "\n".join(shown) + "\n"))


def row(made):
    """The cells of a device."""
    found = [f"{value:.1f}" for cpus in _CPUS for value in moves(made(cpus), cpus)]
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


if __name__ == "__main__":
    run()
