# SPDX-License-Identifier: GPL-2.0
"""`make bench`: our driver next to C on Debian's own kernel, in minutes and exactly; no kernel is compiled.

What can be done at once is: tools are built while packages are downloaded, and C is measured while our module is built.
"""

import concurrent.futures
import contextlib
import functools
import json
import threading

from . import bench, bench_kernels, bench_series, bench_summary, kernel, lanes, module, operations, packages, programs, say, stock, toolchain
from .versions import BUILD, PINNED

DRIVERS = ("c", "rust")
NEXT = ("make bench FULL=1       times, memory, pressure, and upstream's driver: about an hour",
        "make test QUICK=1       what has to hold, on the same kernel",
        "make boot GUEST=debian  a shell on that kernel with our driver, or DRIVER=c")


def run(name=stock.NAMES[0], again=False, to_docs=False):
    """Measure what was not measured yet on kernel `name`, print and draw it, in the docs, too; the exit status."""
    if name != "x86_64" and not kernel.GUESTS[name].stock:
        raise say.LabError(f"instructions are counted on Debian's kernels (GUEST=debian) and on GUEST=x86_64, not on {name}")
    packages.ensure("base", "rust", "x86_64", "report")
    say.note(f"our driver next to the C driver on {_what(name)}: instructions and locked operations, exactly")
    table = Table()
    paths = side_by_side(Work(name, table, again).lanes())
    found = {driver: operations.load(paths[driver]) for driver in DRIVERS}
    profiles = [found[driver]["profile"] for driver in ("rust", "c")]
    print()
    bench_summary.show(bench_summary.breakdown(*profiles))
    page = write_page(paths["program"], name, found)
    ours, base = (operations.rows(found[driver]) for driver in ("rust", "c"))
    if to_docs:
        from report import headline

        # The figure of README is of what people have.
        if kernel.GUESTS[name].stock:
            headline.write(ours, base)
        bench_kernels.into_docs()
    print()
    bench_summary.show(bench_summary.end(bench_summary.headline(ours, base, profiles), page, NEXT))
    return 0


def _what(name):
    return f"Debian's own kernel ({name})" if kernel.GUESTS[name].stock else f"our kernel ({name})"


class Table:
    """Prints an operation's line when both drivers were measured."""

    def __init__(self):
        self._lock = threading.Lock()
        self._found = {driver: {} for driver in DRIVERS}
        self._begun = False

    def add(self, driver, title, figures):
        with self._lock:
            self._found[driver][title] = figures
            ours, base = (self._found[who].get(title) for who in ("rust", "c"))
            if not (ours and base):
                say.note(bench_summary.alone(driver, title, figures))
                return
            head = [] if self._begun else bench_summary.head()
            self._begun = True
            bench_summary.show([*head, bench_summary.row(title, ours, base)])


class Work:
    """What has to be done, and who waits for whom."""

    def __init__(self, name, table, again):
        self._name, self._table, self._again = name, table, again
        self._program, self._kernel = (concurrent.futures.Future() for _ in range(2))

    def lanes(self):
        return {"tools": self._tools, "compilers": self._compilers, "kernel": self._ours, "C": self._c}

    def _compilers(self):
        # While the kernel's packages are downloaded and unpacked.
        if kernel.GUESTS[self._name].stock:
            stock.compilers(stock.STOCK["kernels"][self._name]["compilers"])
        return {}

    def _tools(self):
        with handing_over(self._program):
            program = programs.build(bench.CRATE)
            self._program.set_result(program)
        toolchain.inferno()
        return {"program": program}

    def _ours(self):
        with handing_over(self._kernel):
            built = kernel.build(self._name)
            self._kernel.set_result(built)
        module.build(built)
        return {"rust": self._measured(built, "rust", awaited(self._program))}

    def _c(self):
        return {"c": self._measured(awaited(self._kernel), "c", awaited(self._program))}

    def _measured(self, built, driver, program):
        """The result's path; what is there already is told at once."""
        def tell(operation):
            self._table.add(driver, operations.title(operation.cell), (operation.instructions, operation.locked))

        step = operations.step(built, driver, program, tell)
        if step.kept() and not self._again:
            say.note(f"{driver} was measured already, and nothing has changed since")
            for title, figures in operations.rows(operations.load(step.path)).items():
                self._table.add(driver, title, figures)
        else:
            bench_series.keep(step)
        return step.path


@contextlib.contextmanager
def handing_over(future):
    """Who waits for `future` hears of it, too, if what makes it fails."""
    try:
        yield
    except BaseException:
        future.set_exception(Elsewhere())
        raise


class Elsewhere(Exception):
    """Another lane has failed, and says why."""


def awaited(future):
    """What another lane makes; an interrupt of the whole ends the wait."""
    while True:
        lanes.go_on()
        try:
            return future.result(timeout=0.5)
        except concurrent.futures.TimeoutError:
            continue


def side_by_side(jobs):
    """Do all jobs, {name of a lane: function}, and give what they give, in one dictionary. If one fails the others go on to
    their ends, for what they make is kept; then the errors are raised as one."""
    found, failed = {}, []

    def lane(name, job):
        try:
            with say.lane(name):
                found.update(job())
        except Elsewhere:
            pass
        except BaseException as error:
            failed.append(error)
            if isinstance(error, say.LabError):
                say.note(f"failed in {name}; what else is being made is finished first, and kept")

    lanes.together([functools.partial(lane, name, job) for name, job in jobs.items()])
    for error in failed:
        if not isinstance(error, say.LabError):
            raise error
    if failed:
        # One may be the reason of another, and which one that is, is not known here.
        raise say.LabError("\nerror: ".join(map(str, failed)))
    return found


def write_page(program, name, found):
    """Draw the page; where it is."""
    from report import write

    folder = operations.HOME / name / "results"
    folder.mkdir(parents=True, exist_ok=True)
    paths, profiles = [], []
    for driver, content in found.items():
        for kind, made, data in (("count", paths, content["result"]), ("profile", profiles, content["profile"])):
            path = folder / f"{kind}-{driver}-1.json"
            path.write_text(json.dumps(data))
            made.append(path)
    locked = {driver: content["locked"] for driver, content in found.items()}
    known = [bench_series.known(operations.HOME / name / f"{driver}.json") for driver in found]
    facts = {"count": {"began": min(one["began"] for one in known), "commit": bench.commit()}}
    with say.Step("drawing the page"):
        return write.report(program, {"time": [], "count": paths, "memory": [], "growth": []}, profiles, facts,
                            BUILD / "report", locked, compilers(name))


def compilers(name):
    """What kernel and module were compiled with, if that is not what this project compiles with."""
    if not kernel.GUESTS[name].stock:
        return ""
    section = PINNED["stock"]["compilers"][PINNED["stock"]["kernels"][name]["compilers"]]
    return f"those of Debian's kernel: {', '.join(section['suites'])}, rustc {section['tested']}"
