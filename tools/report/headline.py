# SPDX-License-Identifier: GPL-2.0
"""The figure of README: what the main operations cost, next to the C driver."""

from lab.versions import ROOT
from . import figures

PATH = ROOT / "docs/figures/headline.svg"
_DRIVERS = ("c", "rust")
_TITLES = ("Instructions, C = 100", "Locked operations, C = 100")


def write(ours, base):
    """Put it in place of the last one. Both are {operation: (instructions, locked operations)}."""
    PATH.write_text(figures.svg(panels(ours, base), alone=True, drivers=_DRIVERS))


def panels(ours, base):
    """One for each of the two counts."""
    return [figures.Panel(title, figures.bars(_shares(ours, base, index), "lower is better", limit=130), 0.75 + 0.29 * len(ours))
            for index, title in enumerate(_TITLES)]


def _shares(ours, base, index):
    return [(name, [("c", 100), ("rust", 100 * ours[name][index] / base[name][index])])
            for name in ours if name in base and base[name][index]]
