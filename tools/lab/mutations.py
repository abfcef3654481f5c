# SPDX-License-Identifier: GPL-2.0
"""`make mutations`: the driver broken on purpose, one way at a time, and whether the tests notice.

What is broken, and which test has to notice, is in `tests/mutations/mutations.toml`. While a guest tries one
mutation, the next is built.
"""

import concurrent.futures
import dataclasses
import functools
import hashlib
import json
import pathlib
import shutil
import subprocess
import time
import tomllib

from . import frames, guest, kernel, kunit, module, programs, say, tracing, unload
from .versions import BUILD, ROOT

TABLE = ROOT / "tests/mutations/mutations.toml"
# What a mutation may edit, and what its tests on the host are made of.
_SOURCES = ("drivers/android", "rust", "include", "tests/host")
_COPY = BUILD / "mutation"
# After so many seconds a guest hangs.
_TIMEOUTS = {"um": 90, "x86_64-debug": 300}
# Instead of a test of the contract suite, or of one in a guest.
FRAMES, DEVICES, KUNIT, TRACED, HOST = "stack frames", "parameter devices", "KUnit", "trace events", "host"


@dataclasses.dataclass
class Prepared:
    """A mutation's module, or how it ended if it needs no guest. `key` is of all that it was made of."""

    key: str
    module: pathlib.Path | None = None
    end: str = ""


def table():
    """All mutations, as they stand in the table."""
    return tomllib.loads(TABLE.read_text())["mutation"]


def misplaced():
    """What does not stand in the sources as the table has it, so that it could not be broken."""
    return [f"{mutation['lesson']}, {mutation['name']}: {edit['file']} has {count} times {edit['old'][:60]!r}"
            for mutation in table() for edit in mutation["edits"]
            if (count := (ROOT / edit["file"]).read_text().count(edit["old"])) != 1]


def run(wanted="", resume=False):
    """Try the mutations whose lesson or name contains one of the words of `wanted`, print a table; how many were not
    killed. With `resume`, those that an earlier run killed on the same sources and tests are not tried again."""
    began = time.monotonic()
    words = wanted.split(",")
    chosen = [mutation for mutation in table() if any(word in _title(mutation) for word in words)]
    none = [word for word in words if not any(word in _title(mutation) for mutation in chosen)]
    if none:
        raise say.LabError(f"no mutation has {', '.join(none)} in its lesson or name: see {TABLE.relative_to(ROOT)}")
    program = programs.build("tests/contract")
    ends, rows = _Ends(resume), []
    with concurrent.futures.ThreadPoolExecutor(1) as builder:
        ahead = [builder.submit(_prepare, mutation, program, ends) for mutation in chosen[:1]]
        for number, mutation in enumerate(chosen, 1):
            prepared = ahead.pop()
            concurrent.futures.wait([prepared])
            ahead += [builder.submit(_prepare, following, program, ends) for following in chosen[number:number + 1]]
            end = _end(mutation, prepared, program, ends)
            say.note(f"  {number} of {len(chosen)}, {_title(mutation)}: {end}")
            rows.append((mutation, end))
    return _print(rows, time.monotonic() - began)


def _title(mutation):
    return f"{mutation['lesson']}: {mutation['name']}"


def _print(rows, seconds):
    print("\n| lesson | the driver is broken so that | test | ends with |\n|---|---|---|---|")
    for mutation, end in rows:
        print(f"| {mutation['lesson']} | {mutation['name']} | `{mutation['test']}…` | {end} |")
    alive = [row for row in rows if not row[1].startswith("killed")]
    print()
    for mutation, end in alive:
        print(f"not killed: {_title(mutation)}: {end}")
    print(f"{len(rows) - len(alive)} of {len(rows)} mutations killed, in {seconds / 60:.0f} min")
    return len(alive)


class _Ends:
    """How mutations ended in earlier runs, by what they were made of."""

    def __init__(self, resume):
        self._path = _COPY / "ends.json"
        self._known = json.loads(self._path.read_text()) if resume and self._path.exists() else {}

    def of(self, key):
        """How it ended, or nothing if it is to be tried."""
        return self._known.get(key, "")

    def add(self, key, end):
        if end.startswith("killed"):
            self._known[key] = end
            self._path.write_text(json.dumps(self._known))


def _prepare(mutation, program, ends):
    """Lay the sources of one out, and build its module; or try it, if it needs none."""
    sources = _lay_out(mutation)
    settings = json.dumps(mutation, sort_keys=True).encode()
    key = hashlib.sha256(b"".join([sources, settings, program.read_bytes()])).hexdigest()
    if end := ends.of(key):
        return Prepared(key, end=end)
    if mutation.get("guest") == HOST:
        return Prepared(key, end=_try_on_host(mutation))
    switches = (module.NEAR_LIMITS,) if mutation.get("near_limits") else ()
    switches = kunit.SWITCHES if mutation["test"] == KUNIT else switches
    built = module.build(kernel.build(mutation.get("guest", "um")), _COPY / "drivers/android", "mutation",
                         arguments=switches)
    # The next one is built in its place.
    return Prepared(key, pathlib.Path(shutil.copy2(built, _COPY / f"{key[:12]}.ko")))


def _lay_out(mutation):
    """Make the copy of the driver one with the edits of the mutation. Written is what differs, so that all of it is
    built again, and nothing else: neither an edit of this mutation is missed, nor does one of the last stay."""
    wanted = {path.relative_to(ROOT): path.read_bytes() for folder in _SOURCES
              for path in (ROOT / folder).rglob("*") if path.is_file() and "target" not in path.parts}
    for edit in mutation["edits"]:
        name, old = pathlib.Path(edit["file"]), edit["old"].encode()
        if wanted[name].count(old) != 1:
            raise say.LabError(f"{name} has {wanted[name].count(old)} times: {edit['old'][:60]!r}")
        wanted[name] = wanted[name].replace(old, edit["new"].encode())
    for folder in _SOURCES:
        for path in (_COPY / folder).rglob("*"):
            if path.is_file() and "target" not in path.parts and path.relative_to(_COPY) not in wanted:
                path.unlink()
    for name, content in wanted.items():
        path = _COPY / name
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return b"".join(f"{name}\n".encode() + wanted[name] for name in sorted(wanted))


def _end(mutation, prepared, program, ends):
    """How a mutation ends."""
    try:
        prepared = prepared.result()
        end = prepared.end or _look(mutation, prepared.module, program)
        ends.add(prepared.key, end)
        if prepared.module:
            prepared.module.unlink()
        return end
    except say.LabError as error:
        return f"NOT TRIED: {error}"


def _look(mutation, broken, program):
    """Look at the stack frames of a module, or run the tests in a guest; how it ended."""
    if mutation["test"] == FRAMES:
        complaints = frames.too_large(broken)
        return f"killed: {complaints[0]}" if complaints else "SURVIVED"
    result = guest.run(kernel.build(mutation.get("guest", "um")), _job(mutation, broken, program))
    failed = [line for line in result.output.splitlines() if " FAILED " in line]
    if mutation["test"] == KUNIT:
        suites = kunit.judge(result.kernel_log).items()
        failed = [f"{name}: {failure}" for name, (_, failures) in suites for failure in failures]
    if mutation["test"] == TRACED:
        _, failed = tracing.judge(_traced_by_c(), result.output)
    if result.good and not failed:
        return "SURVIVED"
    why = (failed or result.problems or result.output.splitlines()[-1:] or ["a bad exit status"])[0]
    return "killed: " + why.replace("|", "/").replace(" FAILED ", " ")[:150]


def _job(mutation, broken, program):
    """What a guest has to do with a broken module."""
    name = mutation.get("guest", "um")
    options = {"module": broken, "timeout": mutation.get("timeout", _TIMEOUTS[name]), "boot": mutation.get("boot", ())}
    if mutation["test"] == DEVICES:
        return guest.Job(argv=["/lab/devices", guest.MODULES["rust"]], load=False, **options)
    if mutation["test"] == KUNIT:
        return guest.Job(argv=["true"], **options)
    if mutation["test"] == TRACED:
        return tracing.job("rust", **options)
    names = subprocess.run([program, "list", "--filter", mutation["test"]], text=True,
                           capture_output=True, check=True).stdout.splitlines()
    if not names:
        raise say.LabError(f"no test is called {mutation['test']}")
    if all(line.startswith(unload.GROUP) for line in names):
        return unload.job(name, mutation["test"], **options)
    # A mutant may hang; what a test waits for, it waits for a few seconds.
    argv = ["/lab/contract", "run", "--driver", "rust", "--filter", mutation["test"], "--timeout", "30",
            "--stop-at-first-failure"]
    argv += ["--near-limits"] if mutation.get("near_limits") else []
    return guest.Job(argv=argv, files={"/lab/contract": program}, **options)


@functools.cache
def _traced_by_c():
    """What the C driver's trace events say of the same scenes."""
    result = guest.run(kernel.build(tracing.GUEST), tracing.job("c"))
    if not result.good:
        raise say.LabError("the C driver cannot be traced: " + "; ".join(result.problems or [result.output[-300:]]))
    return result.output


def _try_on_host(mutation):
    """Build and run one with the tests that need no kernel; how it ended."""
    argv = [programs.CARGO, "test", "--quiet", "--locked", mutation["test"]]
    ran = subprocess.run(argv, cwd=_COPY / "tests/host", env=programs.environment(), text=True, capture_output=True,
                         check=False)
    if ran.returncode == 0:
        return "SURVIVED"
    failed = [line for line in ran.stdout.splitlines() if line.startswith("assertion") or "panicked at" in line]
    if not failed:
        raise say.LabError("the tests could not be run: " + ran.stderr[-300:])
    return "killed: " + failed[0].replace("|", "/")[:110]
