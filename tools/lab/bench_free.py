# SPDX-License-Identifier: GPL-2.0
"""`make paired CPUS=1,2,4 BUSY=0,1`: the same while client and server run where the scheduler puts them, on so many CPUs, alone or
beside a process that computes all the time. Where that is, and who moves them, is in placement.py.
"""

import argparse
import dataclasses
import itertools

from . import bench_beside, bench_paired, kernel, marked, say

# What there is to choose from: CPUs of the guest; how many processes compute beside the two; what our driver is told.
CPUS, BUSY, HANDOFF = (1, 2, 4), (0, 1), (0, 1, 2)
SIZES = (0, 4096)
# The marks of the table in the document.
_TITLE = "free placement"
# An empty call has two more series, of what nobody can save.
_SERIES = 2 * len(SIZES) + 2


@dataclasses.dataclass(frozen=True)
class Scene:
    """A guest, what is busy in it, and where our driver wakes a target: `handoff`, the driver's own choice if there is none."""

    cpus: int
    busy: int
    handoff: int | None = None

    @property
    def title(self):
        words = [f"{self.cpus} CPU{'s' if self.cpus > 1 else ''}", "beside a busy process" if self.busy else "alone"]
        return ", ".join(words + ([f"`{self.parameters}`"] if self.parameters else []))

    def pin(self, arch):
        """The CPU of the host for all of the guest, if one is enough: of User Mode Linux's processes, of which each of the guest's has
        one, a CPU of the guest runs one at a time, and to be moved between CPUs of the host can take longer than a call."""
        return 0 if arch == "um" and self.cpus == 1 else None

    @property
    def parameters(self):
        return "" if self.handoff is None else f"handoff={self.handoff}"

    def script(self, words):
        """What runs `words` in it."""
        return bench_beside.beside_busy(words) if self.busy else words

    def output(self, built, there, title, script, **options):
        """What `script` prints in such a guest. CPUs run at the same time: where they take turns, one that computes lets the others
        wait for its whole turn, 100 ms in QEMU."""
        return bench_beside.output(built, there, f"{title} {built.guest.name}, {self.title}", script, self.parameters, cpus=self.cpus,
                                   at_once=True, pin=self.pin(built.guest.arch), **options)


def scenes(cpus, busy, handoffs):
    """All that these can be combined to; two CPUs, alone, and the driver's own choice where nothing is said."""
    return [Scene(*words) for words in itertools.product(cpus or (2,), busy or (0,), handoffs or (None,))]


def chosen(*there):
    """For a parser of options: some of these numbers, with commas between them."""
    def read(text):
        words = text.split(",")
        unknown = [word for word in words if word not in map(str, there)]
        if unknown:
            raise argparse.ArgumentTypeError(f"{unknown[0] or 'nothing'} is none of {', '.join(map(str, there))}")
        return tuple(sorted({int(word) for word in words}))

    return read


def must_be_all(cpus, busy):
    """The documents have tables of all guests."""
    if (cpus, busy) != (CPUS, BUSY):
        raise say.LabError("the table in docs has all guests: DOCS=1 CPUS=1,2,4 BUSY=0,1")


def run(name, asked, boots, seconds, into_docs=False):
    """Some boots of each scene in turns, `seconds` for each size and driver, and a table."""
    if into_docs:
        must_have_place(_TITLE, name)
    bench_beside.say_if_too_many(max(scene.cpus for scene in asked))
    built = kernel.build(name)
    there = bench_beside.files(built)
    found = {(scene.title, size): [] for scene in asked for size in SIZES}
    say.note(f"{boots} boots of each of {len(asked)} scenes: {boots * len(asked) * (_SERIES * seconds + 3) / 60:.0f} min")
    for boot in range(1, boots + 1):
        for scene in asked:
            script = scene.script(bench_paired.script("free", SIZES, seconds))
            said = scene.output(built, there, f"paired, boot {boot},", script, timeout=3 * _SERIES * seconds + 60)
            for row in bench_paired.rows_of(said):
                found[scene.title, row["size"]].append(row)
    text = "\n".join(bench_paired.ratios(found)) + "\n"
    print("\n" + text)
    if into_docs:
        put_into_docs(_TITLE, name, text)
    return 0


def put_into_docs(title, name, table):
    """Lay a table into the place that the document has for one of this title in this guest."""
    marked.put(bench_paired.DOCUMENT, _place(title, name), table)


def must_have_place(title, name):
    """Fail if the document has no such place."""
    marked.must_have(bench_paired.DOCUMENT, _place(title, name))


def _place(title, name):
    return title if name == "um" else f"{title} {name}"
