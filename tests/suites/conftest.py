# SPDX-License-Identifier: GPL-2.0
"""Selection, order, counts and summary of the stages of `make test`."""

import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import textwrap
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from lab import bench, proc, reports, say  # noqa: E402
from lab.run import Tally  # noqa: E402
from lab.versions import BUILD  # noqa: E402
from report import page  # noqa: E402
from stages import affected  # noqa: E402

TIMES = ROOT / "build/log/times.json"
HEARTBEAT = 30.0
SHOWN = 12


def pytest_addoption(parser):
    group = parser.getgroup("lab")
    group.addoption("--since", metavar="REF", help="run the stages that the difference to this commit can affect")
    group.addoption("--torture", action="store_true", help="run the long stages, which `make test` leaves out")


def pytest_configure(config):
    config.addinivalue_line("markers", "stage(inputs, takes, both_cpus, torture): a stage of `make test`, see stages.py")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Reporter(config), "lab-reporter")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Leave out what is not wanted; the longest stages come first, tests of the tools last."""
    torture, since = config.getoption("torture"), config.getoption("since")
    changed = changed_since(since) if since else None
    kept, left_out = [], []
    for item in items:
        mark = item.get_closest_marker("stage")
        if mark and (gone := [name for name in mark.kwargs["inputs"] if not (ROOT / name).exists()]):
            raise pytest.UsageError(f"{item.name} names inputs that are not there: {', '.join(gone)}")
        wanted = mark.kwargs["torture"] == torture if mark else not torture
        if wanted and changed is not None:
            wanted = affected(mark.kwargs["inputs"] if mark else (str(item.path.parent.relative_to(ROOT)) + "/",), changed)
        (kept if wanted else left_out).append(item)
        if mark and mark.kwargs["both_cpus"]:
            item.add_marker(pytest.mark.xdist_group("both CPUs"))
    config.hook.pytest_deselected(items=left_out)
    if since and hasattr(config, "workeroutput"):
        skipped = sorted(short(item.nodeid) for item in left_out if item.get_closest_marker("stage")
                         and item.get_closest_marker("stage").kwargs["torture"] == torture)
        config.workeroutput["skipped"] = (f"{len(changed)} files differ from {since}; {len(skipped)} stages were skipped, for they do not "
                                          f"depend on them: {', '.join(skipped)}")
    items[:] = sorted(kept, key=lambda item: -takes(item))


def takes(item):
    mark = item.get_closest_marker("stage")
    return mark.kwargs["takes"] if mark else -1


def changed_since(ref):
    """The files that differ between a commit and the working tree, untracked ones included."""
    def git(*words):
        return subprocess.run(["git", "-C", str(ROOT), *words], text=True, capture_output=True, check=True).stdout.split("\0")

    return sorted({path for path in git("diff", "--name-only", "-z", ref, "--") + git("ls-files", "-z", "-o", "--exclude-standard")
                   if path})


@pytest.fixture
def tally():
    return Tally()


@pytest.hookimpl(hookwrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    """A stage fails if one of its rows does."""
    outcome = yield
    outcome.get_result()
    if "tally" in pyfuncitem.funcargs:
        pyfuncitem.funcargs["tally"].conclude()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    """The counts and the CPU time of a stage travel with its report."""
    before = cpu_seconds()
    yield
    item.user_properties.append(("cpu", cpu_seconds() - before))
    counted = item.funcargs.get("tally") if hasattr(item, "funcargs") else None
    if counted is not None:
        item.user_properties += [("rows", counted.rows), ("tried", counted.tried)]


def cpu_seconds():
    return sum(used.ru_utime + used.ru_stime
               for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


class Reporter:
    """One line for each stage that ends, a line now and then of those that run, and the sums."""

    def __init__(self, config):
        self.config = config
        self.rows, self.spans, self.running, self.skipped = [], [], {}, ""
        self.over = threading.Event()
        threading.Thread(target=self.heartbeat, daemon=True).start()

    def heartbeat(self):
        while not self.over.wait(HEARTBEAT):
            now = time.monotonic()
            told = [f"{name} ({now - began:.0f} s)" for name, began in list(self.running.items()) if now - began > HEARTBEAT]
            if told:
                say.note(f"running: {', '.join(told)}")

    def pytest_runtest_logstart(self, nodeid):
        self.running[short(nodeid)] = time.monotonic()

    def pytest_runtest_logreport(self, report):
        name = short(report.nodeid)
        if report.when == "teardown":
            self.running.pop(name, None)
        if report.when != "call" and report.passed or report.skipped:
            return
        said = dict(report.user_properties)
        rows = said.get("rows") or [(report.nodeid, int(report.passed), 0)]
        if report.failed and not any(row[2] for row in rows):
            rows = [*rows, (name, 0, 1)]
        self.rows += rows
        passed, failed = (sum(row[number] for row in rows) for number in (1, 2))
        if "rows" in said or failed:
            self.spans.append({"stage": name, "cpu": said.get("cpu", 0.0), "wall": report.duration, "passed": passed, "failed": failed,
                               "tried": said.get("tried", "")})
            say.note(f"{name}: {passed} passed, {failed} failed ({report.duration:.0f} s)")

    def pytest_testnodedown(self, node):
        """Takes the output of a process that ran stages; all choose alike."""
        self.skipped = getattr(node, "workeroutput", {}).get("skipped", self.skipped)

    def pytest_report_teststatus(self, report):
        return report.outcome if report.when == "call" or report.failed else "", "", ""

    def pytest_unconfigure(self):
        self.over.set()
        if self.config.getoption("collectonly") or not self.rows:
            return
        proc.write(TIMES, json.dumps(self.spans, indent=1) + "\n")
        if self.skipped:
            print("\n" + textwrap.fill(self.skipped, 100, initial_indent="  ", subsequent_indent="  "))
        print("\n  what took most: CPU and wall-clock seconds")
        for span in sorted(self.spans, key=lambda span: -span["cpu"])[:SHOWN]:
            print(f"  {span['cpu']:7.1f} {span['wall']:7.1f}  {span['stage']}")
        spent = float(os.environ.get("LAB_CPU", 0)) + sum(span["cpu"] for span in self.spans)
        print(f"  {(time.monotonic() - say.START) / 60:.1f} minutes, {spent / 60:.1f} CPU minutes")
        for name, _, failed in self.rows:
            if failed:
                print(f"  failed: {name}")
        if os.environ.get("LAB_DOCS") and self.config.option.torture:
            record_torture(self.spans)
        if os.environ.get("LAB_DOCS") and not any(row[2] for row in self.rows):
            record(self.rows, self.config.option)
        print(f"\n{sum(row[1] for row in self.rows)} passed, {sum(row[2] for row in self.rows)} failed", flush=True)


# Suites whose rows are added up in documents; any other row is a suite.
_ADDED = re.compile(r"block|check|cargo test|clippy|client|contract|KUnit|patches|tests/suites|tools/lab|tools/report|trace events|worked example")
_GUESTS = re.compile(r"um|um-[\w-]+|debian-\S+|x86_64\S*|arm64\S*|riscv64|android")
_DRIVERS = ("rust", "c", "upstream", "")


def suites(rows):
    """{(suite, guest): [passed on this driver, on C, on upstream's, without one in the title]} of rows by their titles."""
    found = {}
    for title, passed, _ in rows:
        words = re.split(r"\.py|[:,]| \d| --| \w+=", title)[0].split()
        guest = next(filter(_GUESTS.fullmatch, words), "")
        driver = next((word for word in words if word in _DRIVERS), "")
        name = " ".join(word for word in words if word not in (guest, driver))
        added = _ADDED.match(name)
        counts = found.setdefault((added[0] if added else name, guest), [0] * len(_DRIVERS))
        counts[_DRIVERS.index(driver)] += passed
    return found


def record(rows, option):
    """Write reports/runs.tsv: a run of `make test` replaces the last one, a run of `make torture` the suites that it has run."""
    if not option.torture and (option.keyword or option.since or option.lf):
        return say.note("reports/ stays as it is: DOCS=1 needs a run of all stages")
    run, old = "torture" if option.torture else "test", reports.read("runs").rows
    new = [[run, suite, guest, *(str(count or "") for count in counts)] for (suite, guest), counts in sorted(suites(rows).items())]
    ran = [row[1:3] for row in new]
    kept = [row for row in old if row[0] != run or option.torture and row[1:3] not in ran]
    heads = ("make", "suite", "guest", "this driver", "C driver", "upstream's", "no driver named")
    reports.put("runs", "Tests that passed", origin(), page.Table(heads, sorted(kept + new)))


def origin():
    return f"{bench.now()[:10]}, driver {bench.commit()}, {bench.processor()}, {os.cpu_count()} CPUs"


def record_torture(spans):
    """Write reports/torture.tsv, in which a stage has the row of its newest run, failed or not, and the page of that and of the coverage."""
    options = ", ".join(f"{name.removeprefix('TORTURE_')}={value}" for name, value in sorted(os.environ.items()) if value and name.startswith("TORTURE_"))
    rows = {row[0]: row for row in reports.read("torture").rows}
    rows |= {span["stage"]: [span["stage"], bench.now()[:10], bench.commit(), options, *(f"{span[which] / 60:.1f}" for which in ("wall", "cpu")),
                             span["tried"], str(span["passed"]), str(span["failed"])] for span in spans}
    heads = ("stage of make torture", "date", "driver", "options", "minutes", "CPU minutes", "tried", "passed", "failed")
    reports.put("torture", "Long runs", origin(), page.Table(heads, sorted(rows.values())))
    sections = [page.Section(name, found.title, found.about, [], page.Table(found.headers, found.rows, (0, 1, 2, 3)))
                for name in ("torture", "coverage") for found in [reports.read(name)]]
    path = BUILD / "report/torture.html"
    proc.write(path, page.render(sections, [], [], "Long runs"))
    say.note(f"the page is {path}")


def short(nodeid):
    """A stage by its name: test_contract.py::test_contract[um rust] is contract[um rust]."""
    return nodeid.rpartition("::")[2].removeprefix("test_").partition("@")[0] or nodeid
