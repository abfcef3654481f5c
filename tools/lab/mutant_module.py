# SPDX-License-Identifier: GPL-2.0
"""A module that has all faults in it that compile, each behind a number.

`tools/mutants` writes a copy of the driver with every fault beside what it replaces. Not all that an
operator makes of a text is Rust or C: what the compiler complains about is left out of the next copy, until
nothing is left to complain about.
"""

import dataclasses
import functools
import json
import os
import pathlib
import re
import subprocess

from . import cache, module, programs, proc, say, toolchain
from .versions import BUILD, ROOT

HOME = BUILD / "mutants"
_ROUNDS = 25
_C_ERROR = re.compile(r"^(?P<file>\S+\.c):(?P<line>\d+):(?P<column>\d+): error: ", re.M)


@dataclasses.dataclass
class Mutants:
    """The module, and the faults in it."""

    module: pathlib.Path
    folder: pathlib.Path
    sites: list

    def by_key(self):
        return {site["key"]: site for site in self.sites}


@functools.cache
def _generator():
    return programs.build("tools/mutants")


def listed():
    """All faults that the operators make, whether or not they compile."""
    out = proc.output(_generator(), ROOT, "list")
    return [json.loads(line) for line in out.splitlines()]


def build(kernel, name, only=None, arguments=()):
    """A module of the driver with faults, all or those whose keys are in `only`; built with further arguments."""
    folder, out = HOME / name, module.folder(kernel, f"mutants-{name}")
    made, stamp, content = out / "binder_rust.ko", out / ".content", _content(only)
    if made.exists() and stamp.exists() and stamp.read_text() == content:
        return Mutants(made, folder, json.loads((folder / "mutants.json").read_text())["sites"])
    folder.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    command = module.command(kernel, out, *arguments, sources=folder / "drivers/android")

    def attempt():
        done = subprocess.run([str(word) for word in command], text=True, capture_output=True,
                              env=toolchain.kernel_environment())
        (HOME / f"{name}.log").write_text(done.stdout + done.stderr)
        return done.returncode == 0, done.stdout + done.stderr

    sites = _refine(f"building {name} mutants for {kernel.guest.name}", folder, attempt, only)
    stamp.write_text(content)
    return Mutants(made, folder, sites)


def _content(only):
    """A number that changes with whatever a module of these faults is made of."""
    return cache.key(sorted(only or ()), cache.content(pathlib.Path(_generator())), cache.content_below(*module.SOURCES))


def build_host(folder):
    """The host's tests with the faults of a folder that was built before: the program, and the faults in it."""
    program = []

    def attempt():
        argv = [programs.CARGO, "test", "--no-run", "--package", "rooms", "--message-format=json"]
        done = subprocess.run(argv, cwd=copy / "tests/host", env=programs.environment(), text=True, capture_output=True)
        messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        program[:] = [m["executable"] for m in messages if m.get("executable")]
        return done.returncode == 0, "\n".join(json.dumps(m["message"]) for m in messages if "message" in m)

    # The host knows less than the kernel, so fewer faults compile.
    copy = folder.with_name(folder.name + "-host")
    copy.mkdir(parents=True, exist_ok=True)
    known = _keys(folder / "without")
    if not (copy / "without").exists():
        (copy / "without").write_text("\n".join(known) + "\n")
    sites = _refine("building the host's tests with mutants", copy, attempt, None)
    return program[0], sites


def _keys(path):
    return set(path.read_text().split()) if path.exists() else set()


def _refine(title, folder, attempt, only):
    """Write and build copies, each without what did not compile in those before; the faults of the last."""
    without = _keys(folder / "without")
    with say.Step(title) as step:
        for _ in range(_ROUNDS):
            sites, regions = _write(folder, only, without)
            good, said = attempt()
            if good:
                return sites
            blamed = _blamed(said, folder, sites, regions)
            if not blamed:
                raise say.LabError(f"{title}: the compiler's errors are at no fault's place:\n{said[-2000:]}")
            without |= blamed
            (folder / "without").write_text("\n".join(sorted(without)) + "\n")
            step.progress(f"{len(without)} do not compile")
    raise say.LabError(f"{title}: errors still, after {_ROUNDS} rounds")


def _write(folder, only, without):
    argv = [_generator(), ROOT, "write", folder]
    (folder / "without").write_text("\n".join(sorted(without)) + "\n")
    argv += ["--without", folder / "without"]
    if only is not None:
        (folder / "only").write_text("\n".join(sorted(only)) + "\n")
        argv += ["--only", folder / "only"]
    proc.output(*argv)
    manifest = json.loads((folder / "mutants.json").read_text())
    return manifest["sites"], manifest["regions"]


def _blamed(said, folder, sites, regions):
    """The keys of the faults that errors of the compiler point at."""
    numbers = set()
    keys = {site["number"]: site["key"] for site in sites}
    statements = {s["number"] for s in sites if s["operator"] in ("drop statement", "swap statements", "return at once")}
    for file, spans in _errors(said, folder):
        found = [_narrowest(regions.get(file, []), *span) for span in spans]
        near = [region for region in found if region and not region["is_function"]]
        whole = [region for region in found if region]
        if near:
            numbers.update(near[0]["numbers"])
        elif whole:
            # Somewhere in the function; what moves statements is the first suspect.
            inside = set(whole[0]["numbers"]) & keys.keys()
            numbers |= inside & statements or inside
    return {keys[number] for number in numbers if number in keys}


def _errors(said, folder):
    """Of each error the file and the places in it, the first the one where the compiler says that it is."""
    for line in said.splitlines():
        if not line.startswith("{"):
            continue
        message = json.loads(line)
        if message.get("level") != "error" or not message.get("spans"):
            continue
        spans = sorted(message["spans"], key=lambda span: not span["is_primary"])
        file = _inside(spans[0]["file_name"], folder)
        yield file, [(s["byte_start"], s["byte_end"]) for s in spans if _inside(s["file_name"], folder) == file]
    for match in _C_ERROR.finditer(said):
        file = _inside(match["file"], folder)
        lines = (folder / file).read_bytes().splitlines(keepends=True)
        at = sum(map(len, lines[:int(match["line"]) - 1])) + int(match["column"]) - 1
        yield file, [(at, at)]


def _inside(name, folder):
    """A file's path from the root of the copy, whatever the compiler was called with."""
    match = re.search(r"(drivers/android|rust/kernel(_ext)?)/[^:]*$", os.path.normpath(name))
    return match[0] if match else f"drivers/android/{name}"


def _narrowest(regions, start, end):
    fitting = [r for r in regions if r["start"] <= start and end <= r["end"]]
    return min(fitting, key=lambda r: r["end"] - r["start"], default=None)
