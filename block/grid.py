# SPDX-License-Identifier: GPL-2.0
"""nullb next to null_blk in sizes and ways of access, those in which null_blk's first version in Rust was presented: a table of `make -C block bench`."""

import itertools
import statistics

import costs
import parts
import sharing
from report import plugins

_WAYS = ("read", "randread", "write", "randwrite", "readwrite", "randreadwrite")
_SIZES = [4096 << shift for shift in range(12)]


def run():
    """Measure, and show the table in README.md."""
    parts.install()
    c, ours = (counted(made(4096)) for made in (costs.null_blk, costs.nullb))
    ratios = {access: ours[access] / c[access] for access in c}
    rows = [[f"{size >> 10} KiB", *(f"{ratios[way, size]:.3f}" for way in _WAYS)] for size in _SIZES]
    means = [f"{statistics.mean(ratios[way, size] for size in _SIZES):.3f}" for way in _WAYS]
    sharing.show("grid", ["nullb ÷ null_blk", *_WAYS], [*rows, [f"mean, of all {statistics.mean(ratios.values()):.3f}", *means]])


def counted(device):
    """{(way, bytes): instructions of an access} of a device."""
    accesses = list(itertools.product(_WAYS, _SIZES))
    output, (seen,), _ = costs.boot(device, [f"{way} {size}" for way, size in accesses], [("locked.c",)])
    return {access: operation.of_a_unit(1) for access, operation in zip(accesses, plugins.operations(costs.cells(output), seen), strict=True)}


if __name__ == "__main__":
    run()
