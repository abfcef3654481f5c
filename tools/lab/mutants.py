# SPDX-License-Identifier: GPL-2.0
"""Faults put into the driver, and whether tests see them.

A sample of the faults that `tools/mutants` makes is drawn by a seed. `tests/mutants.toml` has those made by hand, each
with the tests that have to fail. All are tried in the guest that checks memory and locks: one guest loads the driver with
one fault after the other, until the kernel complains.
"""

import collections
import dataclasses
import difflib
import functools
import hashlib
import json
import os
import re
import subprocess
import tempfile
import tomllib
from concurrent import futures

from report import page

from . import bench, cache, contract, frames, guest, kernel, kmsg, mutant_module, programs, reports, say, schedules, tracing
from .mutant_module import BY_HAND, Copy
from .versions import ROOT

TABLE = ROOT / "tests/mutants.toml"
# The guest that checks memory and locks; faults that survive there are tried without these checks, which keep freed memory.
GUEST, _PLAIN_GUEST = "um", "um-plain"
# The share of a sample that must be killed, of the faults that are not equal to the driver.
LEAST = 0.95
# In place of tests of the contract suite: KUnit's suites, the parameter of that name, the size of stack frames.
KUNIT, DEVICES, FRAMES = "KUnit", "devices", "stack frames"
# The limits of a step of a test and of a test, in seconds; a guest without output for longer hangs.
_PATIENCE, _LIMIT, _SILENCE = 8, 30, 60
# A failure after so many milliseconds may be the machine's, and is looked at twice.
_SLOW = 7000
# The host's tests, by the room that they are about where they are not called like it.
_HOST_HOME = ROOT / "tests/host/rooms/src/tests"
_ORDERS = ROOT / "tests/loom/src/lib.rs"
_HOST_TESTS = {"range_alloc": "range_"}
# Seconds, and bytes: a fault may make a model endless.
_HOST_LIMIT, _HOST_MEMORY = 120, 4 << 30
_TRIES = 3
# The tests of a way that a fault runs at first, and the faults that one thread tries at a time.
_TESTS, _FAULTS = 40, 5
# Of a fault that no test has killed, in the report.
_ALIVE = "–"
# One pair for so many faults of a sample.
_PAIRS = 3
_NOT_OK = re.compile(r"^(?:<\d+>)?\s*not ok \d+ (?P<name>\S+)")


@dataclasses.dataclass(frozen=True)
class Way:
    """One way to run the contract suite, for tests whose names begin with one of `groups`, or all."""

    name: str
    groups: tuple = ("",)
    boot: tuple = ()
    policy: bool = False
    parameters: str = "-"


PLAIN = Way("contract")
_OWN_WAYS = {
    "security": Way("security", contract.SECURED, contract.LSM),
    "policy": Way("policy", ("policy::",), contract.LSM, policy=True),
    "charging": Way("charging", ("charging::", "reclaim::"), parameters="charge_buffers=1"),
}
WAYS = (PLAIN, *_OWN_WAYS.values(), Way("handoff", ("placement::",), parameters="handoff=0"), Way(KUNIT, (KUNIT,)))
# The driver's start without memory, for faults that no test reaches.
LOAD = Way("load", ("load",))
# Scenes whose trace events and logs have to be those of the C driver on record.
SCENES = tuple(Way(name, (name,)) for name in ("trace", "logs"))
# For a module apart whose fault shows by a random schedule.
SCHEDULED = Way("schedule", parameters="seed=1")


@dataclasses.dataclass
class End:
    """The end of a fault: the test that killed it, if one did, and why. A test that took long is in doubt."""

    killed: bool
    by: str = ""
    why: str = ""
    is_doubtful: bool = False


class _Complained(Exception):
    """The kernel has complained: later results of the guest do not count."""


def run(tally, seed, count, into_docs):
    """Try a sample of the faults made by the machine, and those made by hand. `into_docs`: write reports/mutants.tsv."""
    switched, apart = read("switched"), read("apart")
    faults = switched + apart
    ends = _switched(switched) | {fault["name"]: _apart(fault) for fault in apart}
    alive = [_title(fault) for fault in faults if not ends[fault["name"]].killed]
    tally.nothing_wrong(f"mutants made by hand, {len(faults)}", alive)
    sample = _Sample(seed, count)
    sample.tried()
    if into_docs:
        sample.report()
    pairs, alive = sample.pairs(count // _PAIRS)
    tally.tried = (f"{count} mutants, {len(sample.killed)} killed, {len(sample.equal)} equal; "
                   f"{pairs} pairs, {pairs - len(alive)} killed")
    tally.one(f"mutants, {LEAST:.0%} killed", len(sample.killed) >= LEAST * (count - len(sample.equal)))
    tally.nothing_wrong(f"pairs of killed mutants, {pairs}", alive)


def misplaced():
    """Faults made by hand that do not fit the sources: an edited text has to stand there once, and the test has to exist."""
    tests = (ROOT / "tests/oracle/contract.tsv").read_text() + KUNIT + FRAMES
    faults = read("switched", "apart", "kcsan")
    return [f"{_title(fault)}: {file} has {count} times {old[:60]!r}"
            for fault in faults for file, old, _ in fault["edits"]
            if (count := (ROOT / file).read_text().count(old)) != 1] + [
                f"{_title(fault)}: there is no test {fault['test']}" for fault in faults if fault.get("test", KUNIT) not in tests]


def read(*tables):
    """The rows of these tables of tests/mutants.toml."""
    content = tomllib.loads(TABLE.read_text())
    return [fault for name in tables for fault in content[name]]


def _title(fault):
    return f"{fault['lesson']}: {fault['name']}"


class _Record:
    """The ends of faults in a file, by their keys: a run of the same sources that was interrupted continues behind them."""

    def __init__(self, name):
        self.path = mutant_module.HOME / f"ends-{name}-{_content()}.jsonl"
        rows = map(json.loads, self.path.read_text().splitlines() if self.path.exists() else ())
        self.ends = {row["key"]: End(row["killed"], row["by"], row["why"]) for row in rows}

    def add(self, key, title, end, **more):
        say.note(f"  {title}: {'killed by' if end.killed else 'SURVIVED'} {end.by} {end.why[:100]}")
        self.ends[key] = end
        with open(self.path, "a") as file:
            file.write(json.dumps({"key": key, "killed": end.killed, "by": end.by, "why": end.why[:200], **more}) + "\n")


@functools.cache
def _content():
    """A hash of the driver, its tests, and the program that makes faults."""
    files = (path for folder in ("drivers", "rust", "tests/contract", "tools/mutants") for path in (ROOT / folder).rglob("*") if path.is_file())
    return cache.key(cache.content(*sorted(files)), read("switched", "apart"))[:12]


def _switched(faults):
    """The ends of faults made by hand that stand behind the switch, by their names."""
    on_host = [fault for fault in faults if "host" in fault]
    host = mutant_module.build_host(Copy("by-hand-host", switched=on_host))
    orders = "".join(path.read_text() for path in _ORDERS.with_name("tests").iterdir())
    ends = {fault["name"]: _on_host(host, fault["name"], {"orders" if f"fn {fault['host']}" in orders else "rooms": fault["host"]})
            for fault in on_host}
    in_guests = [fault for fault in faults if fault not in on_host]
    # Which allocation a test has fail is a matter of chance, as slabs are full at different times: the last guest is a second chance.
    for name in (GUEST, _PLAIN_GUEST, GUEST):
        left = {fault["name"]: fault for fault in in_guests if fault["name"] not in ends or not ends[fault["name"]].killed}
        if left:
            ends |= _in_guests(Runs(Copy("by-hand", switched=in_guests), name), left, name)
    return ends


def _in_guests(runs, faults, name):
    record = _Record(f"by-hand-{name}")
    names = {runs.sites[fault]["number"]: fault for fault in faults if fault not in record.ends or not record.ends[fault].killed}
    for number, end in runs.tried({number: runs.ways_of(faults[fault]["test"]) for number, fault in names.items()}):
        record.add(names[number], _title(faults[names[number]]), end)
    return {fault: record.ends[fault] for fault in faults}


def _apart(fault):
    """The end of a fault that has a module for itself."""
    record = _Record("apart")
    if fault["name"] in record.ends:
        return record.ends[fault["name"]]
    by_seed = [schedules.linked(kernel.build(GUEST))] if "schedule" in fault else []
    runs = Runs(Copy("apart", apart=fault), GUEST, *by_seed)
    if fault["test"] == FRAMES:
        complaints = frames.too_large(runs.module)
        end = End(bool(complaints), FRAMES, "; ".join(complaints[:1]))
    else:
        ways = runs.ways_of(fault["test"])
        end = next(end for _, end in runs.tried({0: {SCHEDULED: ways[PLAIN]} if by_seed else ways}))
    record.add(fault["name"], _title(fault), end)
    return end


class _Sample:
    """Faults that a machine made, drawn by a seed. What an earlier run has killed, by its report, is not tried again; nor what is known to be equal
    to the driver."""

    def __init__(self, seed, count):
        self._copy = Copy("all", only=None, switched=[fault for fault in read("switched") if "host" not in fault])
        self._host = mutant_module.build_host(Copy("all-host", only=None))
        self._runs = Runs(self._copy)
        keys = [key for key, site in self._runs.sites.items() if site["operator"] != BY_HAND]
        self.drawn = sorted(keys, key=lambda key: hashlib.sha256(f"{seed} {key}".encode()).digest())[:count]
        equal = {fault["key"] for fault in read("equal")}
        if unknown := equal - set(keys):
            raise say.LabError(f"{TABLE.name}: no fault has the key {' or '.join(sorted(unknown))}")
        self.equal = [key for key in self.drawn if key in equal]
        # Rows of the report, of all others that were tried.
        self._rows = {row[-1]: row for row in reports.read("mutants").rows if row[-1] in self.drawn and row[-1] not in self.equal}
        self.killed = [key for key in self._rows if self._rows[key][-3] != _ALIVE]

    def tried(self):
        """Try the faults that are left. Those that survive the most specific tests run all of them, in the guest that is faster, and the scenes."""
        self._try(self._runs, GUEST, lambda number: self._runs.all(number, _TESTS))
        # That guest has no KUnit.
        plain = Runs(self._copy, _PLAIN_GUEST, learned=self._runs)
        self._try(plain, _PLAIN_GUEST, lambda number: plain.reaching(number) | plain.scenes())
        say.lines(f"{len(self.killed)} of {len(self.drawn)} killed, of {len(self._runs.sites)} faults")

    def _try(self, runs, name, ways):
        record = _Record(f"all-{name}")
        wanted = [key for key in self.drawn if key not in self.killed and key not in self.equal]
        left = {runs.sites[key]["number"]: runs.sites[key] for key in wanted if key not in record.ends}
        for number, end in runs.tried({number: ways(number) for number in left}):
            site = left[number]
            if not end.killed and (tests := _host_tests(site["file"])):
                end = self._on_host(site["key"], tests)
            record.add(site["key"], f"{site['key']} {site['file']}:{site['line']} {site['operator']}: {site['original'][:60]!r} -> "
                       f"{site['mutated'][:60]!r}", end, **{name: site[name] for name in ("file", "line", "function", "operator", "original", "mutated")})
        self._rows |= {key: _row(runs.sites[key], record.ends[key]) for key in wanted}
        self.killed += [key for key in wanted if record.ends[key].killed]

    def _on_host(self, key, tests):
        """The same for the host. The compiler's errors may have taken the fault out of the copy with all of them."""
        host = self._host if key in self._host.sites else mutant_module.build_host(Copy("alone-host", only=[key]))
        return _on_host(host, key, tests) if key in host.sites else End(False)

    def pairs(self, count):
        """Try pairs of killed faults with the tests that have killed them alone."""
        killers = {key: self._rows[key][-3] for key in self.drawn if key in self.killed}
        return _pairs(self._runs, {key: test for key, test in killers.items() if self._runs.has(test)}, count)

    def report(self):
        """Write reports/mutants.tsv."""
        heads = ("file", "line", "change", "of", "to", "killed by", "driver", "key")
        table = page.Table(heads, sorted(self._rows.values(), key=lambda row: (row[0], int(row[1]), row[-1])))
        reports.put("mutants", "Faults made by a program", f"{bench.now()[:10]}, driver {bench.commit()}", table)


def _pairs(runs, killers, count):
    """Try pairs of faults with the contract tests that have killed them alone: one fault may hide the other. Returns the number of pairs, and those
    that survive."""
    record, keys, pairs = _Record("pairs"), list(killers), {}
    for pair in list(zip(keys[::2], keys[1::2]))[:count]:
        sites = [runs.sites[key] for key in pair]
        pairs[",".join(str(site["number"]) for site in sites)] = (" and ".join(f"{site['file']}:{site['line']}" for site in sites), pair)
    plan = {numbers: runs.ways_of_all(killers[key] for key in pair) for numbers, (title, pair) in pairs.items() if title not in record.ends}
    for numbers, end in runs.tried(plan):
        record.add(pairs[numbers][0], pairs[numbers][0], end)
    return len(pairs), [title for title, _ in pairs.values() if not record.ends[title].killed]


def _host_tests(file):
    """The programs for the host that have tests of a file, and what the names of these tests contain."""
    room = file.removeprefix("drivers/android/").removeprefix("rust/kernel/").removesuffix(".rs")
    room = next((part for part in room.split("/") if part != "pure"), "")
    room = _HOST_TESTS.get(room, room)
    rooms = {"rooms": f"tests::{room}"} if any(path.name.startswith(room) for path in _HOST_HOME.iterdir()) else {}
    orders = {"orders": "tests::"} if f'/{file}"' in _ORDERS.read_text() else {}
    return rooms | orders | ({"model": "rules_hold"} if "/pure/" in file else {})


def _on_host(host, key, tests):
    """The end of a fault in programs for the host, of which each runs the tests whose names contain a text."""
    for package, wanted in tests.items():
        argv = ["prlimit", f"--as={_HOST_MEMORY}", host.programs[package], wanted]
        number = str(host.sites[key]["number"])
        with subprocess.Popen(argv, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "MUTANT": number}) as child:
            try:
                said, _ = child.communicate(timeout=_HOST_LIMIT)
            except subprocess.TimeoutExpired:
                child.kill()
                return End(True, package, f"no end within {_HOST_LIMIT} s")
        if "running 0 tests" in said:
            raise say.LabError(f"{package} has no test {wanted}")
        if child.returncode:
            return End(True, package, next((line for line in said.splitlines() if line.endswith("FAILED")), f"status {child.returncode}"))
    return End(False)


class Runs:
    """Runs of one module with faults in a guest."""

    def __init__(self, copy, name=GUEST, *arguments, learned=None):
        self._kernel = kernel.build(name)
        self.module, self.sites = mutant_module.build(self._kernel, copy, *arguments)
        self._home = copy.folder
        self._program = programs.build("tests/contract")
        names = subprocess.run([self._program, "list"], text=True, capture_output=True, check=True).stdout
        self._names = [line.split()[0] for line in names.splitlines()]
        self._learned = learned

    def ways_of(self, wanted):
        """The ways to run the tests whose names contain `wanted`."""
        if wanted in (KUNIT, DEVICES):
            return {WAYS[-1] if wanted == KUNIT else PLAIN: [wanted]}
        ways = collections.defaultdict(list)
        for name in self._names:
            if wanted in name:
                ways[_OWN_WAYS.get(name.split("::")[0], PLAIN)].append(name)
        if not ways:
            raise say.LabError(f"there is no test {wanted}")
        return ways

    @functools.cached_property
    def _reach(self):
        """Of each way the places that each test reaches; of a test that the guest of `learned` has not skipped, those that it reaches there."""
        reach = {}
        for way in WAYS[:-1]:
            known = self._learned._reach[way] if self._learned else {}
            names = [name for name in self._names if name.startswith(way.groups) and name not in known]
            kept = self._home / f"reached-{way.name}-{self._kernel.guest.name}-{_content()}.json"
            if not kept.exists():
                kept.write_text(json.dumps(self._recorded(way, names) if names else {}))
            reach[way] = known | {name: _numbers(bits) for name, bits in json.loads(kept.read_text()).items()}
        return reach

    def _recorded(self, way, names):
        """Of each test that passes the places that it reaches, as a parameter shows them."""
        with tempfile.NamedTemporaryFile("w", suffix=".tests") as file:
            file.write("\n".join(names) + "\n")
            file.flush()
            job = self._job(way, ["/lab/reached", "/lab/tests"], {"/lab/tests": file.name}, timeout=3600)
            job.load = True
            result = guest.succeed(f"what each test reaches with all faults off: {way.name}", self._kernel, job)
        lines = result.files["reached"].decode().splitlines()
        tests = [(*head.split(), bits) for head, bits in zip(lines[::2], lines[1::2])]
        failed = [name for name, end, _ in tests if end == "failed"]
        say.lines(*(f"  {name} fails with all faults off: it kills none" for name in failed))
        return {name: bits for name, end, bits in tests if end not in ("failed", "skipped") and name != "(load)"}

    def all(self, number, most):
        """What may kill a fault, at most so many tests of a way. If no test reaches it, loading and unloading."""
        return (self.reaching(number, most) or self.ways_of(DEVICES) | {LOAD: list(LOAD.groups)}) | self.ways_of(KUNIT)

    def scenes(self):
        return {way: list(way.groups) for way in SCENES}

    def reaching(self, number, most=None):
        """The tests that reach a fault, the most specific first: of each group in turn the one that reaches the fewest other faults."""
        return {way: tests[:most] for way in WAYS[:-1] if (tests := self._reaching(way, number))}

    def has(self, test):
        return test in self._names

    def ways_of_all(self, tests):
        ways = collections.defaultdict(list)
        for way, names in (item for test in tests for item in self.ways_of(test).items()):
            ways[way] += names
        return ways

    def _reaching(self, way, number):
        reach, groups = self._reach[way], collections.defaultdict(list)
        for name in sorted((n for n, found in reach.items() if number in found), key=lambda name: (len(reach[name]), name)):
            groups[name.split("::")[0]].append(name)
        turns = sorted(groups.values(), key=lambda tests: len(reach[tests[0]]))
        return [tests[i] for i in range(max(map(len, turns), default=0)) for tests in turns if i < len(tests)]

    def tried(self, plan):
        """Try each fault in its ways until it is killed: its number and its end, a few at a time. Each CPU has a guest."""
        numbers = list(plan)
        parts = [{number: plan[number] for number in numbers[at:at + _FAULTS]} for at in range(0, len(numbers), _FAULTS)]
        with futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for done in futures.as_completed([pool.submit(self._tried, part) for part in parts]):
                yield from done.result().items()

    def _tried(self, plan):
        ends = {}
        for way in (*WAYS, LOAD, *SCENES, SCHEDULED):
            tests = {number: ways[way] for number, ways in plan.items() if way in ways and number not in ends}
            ends |= {number: end for number, end in self._each(way, tests) if end.killed}
        return {number: End(False) for number in plan} | ends

    def _each(self, way, left):
        while left:
            with say.Step(f"{way.name}: {len(left)} faults") as step:
                # A busy machine may end a guest before it loads a module.
                tries = (self._guest(way, left, step.progress) for _ in range(_TRIES))
                ended = next(filter(None, tries), None)
            if not ended:
                raise say.LabError(f"{_TRIES} guests ended before they loaded a module with a fault")
            for number, end in ended.items():
                names = left.pop(number)
                # A failure that the machine's load may have caused has to be a pass without the fault.
                if end.is_doubtful and number and self._guest(way, {0: [end.by] if end.by else names})[0].killed:
                    rest = names[names.index(end.by) + 1:] if end.by in names else []
                    end = End(False)
                    if rest:
                        left[number] = rest
                        continue
                yield number, end

    def _guest(self, way, tests, progress=lambda text: None):
        """One guest: the ends of the faults that it tried, up to the first complaint of the kernel."""
        ends, current, rest, shown, numbers = {}, None, "", [], {str(number): number for number in tests}

        def hear(text):
            nonlocal current, rest
            *lines, rest = (rest + text).split("\n")
            for line in lines:
                if line.startswith("fault "):
                    current = numbers[line.split()[1]]
                    shown.clear()
                elif line.startswith("end "):
                    ends.setdefault(current, _compared(way, shown))
                    current = None
                    progress(f"{len(ends)} tried")
                elif end := _judged(line):
                    ends.setdefault(current, end)
                    if not end.by:
                        raise _Complained
                elif not line.startswith("<"):
                    shown.append(line)

        with tempfile.NamedTemporaryFile("w", suffix=".faults") as faults:
            faults.writelines(f"{number} {way.parameters} {' '.join(names)}\n" for number, names in tests.items())
            faults.flush()
            job = self._job(way, ["/lab/faults"], {"/lab/faults-list": faults.name}, timeout=120 + 600 * len(tests))
            job.argv += ["--json", "--stop-at-first-failure"]
            try:
                result = guest.run(self._kernel, job, hear)
                hear("\n")
            except _Complained:
                return ends
        if not result.good and current is not None:
            why = (result.problems or ["a bad exit status"])[0]
            is_silent = "hung" in why
            ends.setdefault(current, End(True, "", "the guest hung" if is_silent else why, is_silent))
        return ends

    def _job(self, way, argv, files, timeout):
        files |= {"/lab/contract": self._program}
        argv = [*argv, "/lab/contract", "run", "--driver", "rust", "--near-limits", "--patience", str(_PATIENCE),
                "--timeout", str(_LIMIT)]
        if way.policy:
            files["/lab/policy"] = contract.compiled_policy()
            argv += ["--policy", "/lab/policy"]
        return guest.Job(argv=argv, module=self.module, load=False, files=files, boot=(*way.boot, "kunit.filter_glob=none", f"parameters={way.parameters.strip('-')}"),
                         silence=_SILENCE, timeout=timeout, memory=1024)


def _judged(line):
    """The end of the fault that a line of a guest's reports, if it does."""
    if line.startswith('{"test"'):
        record = json.loads(line)
        if record["result"] != "failed":
            return None
        return End(True, record["test"], record["why"], record["ms"] >= _SLOW)
    if failure := _NOT_OK.match(line):
        return End(True, f"{KUNIT} {failure['name']}" if line.startswith("<") else failure["name"], line.strip())
    complaints = kmsg.complaints([line]) if line.startswith("<") else []
    return End(True, "", complaints[0]) if complaints else None


def _compared(way, shown):
    """The end of a fault by what a scene showed: killed if that differs from the record of the C driver."""
    if way not in SCENES:
        return End(False)
    record = (ROOT / f"tests/oracle/{way.name}.txt").read_text().splitlines()[1:]
    if way.name == "trace":
        _, wrong = tracing.judge("\n".join(record), "\n".join(shown))
    else:
        wrong = list(difflib.unified_diff(record, shown, lineterm="", n=0))[2:]
    return End(True, way.name, "; ".join(wrong[:2]), is_doubtful=True) if wrong else End(False)


def _row(site, end):
    """The row of a fault in the report."""
    short = lambda text: " ".join(text.split())[:60]
    return [site["file"], str(site["line"]), site["operator"], short(site["original"]), short(site["mutated"]),
            short(end.by or end.why) if end.killed else _ALIVE, bench.commit(), site["key"]]


def _numbers(bits):
    """The numbers of the places in a row of digits with four bits each."""
    return {4 * index + bit for index, digit in enumerate(bits) if digit != "0"
            for bit in range(4) if int(digit, 16) >> bit & 1}
