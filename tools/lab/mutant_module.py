# SPDX-License-Identifier: GPL-2.0
"""The driver with faults: as a module, and as the host's tests.

`tools/mutants` writes a copy of the driver with each fault beside what it replaces. Not every fault of an operator
compiles: the next copy lacks the faults that the compiler's errors point at, until there are no errors.
"""

import dataclasses
import json
import os
import re
import subprocess

from . import module, programs, say, toolchain
from .versions import BUILD, ROOT

HOME = BUILD / "mutants"
BY_HAND = "by hand"
# Folders whose tests need no guest, and their packages.
HOST_PROGRAMS = {"tests/host": "rooms", "tests/loom": "orders", "tests/model": "model"}
_ROUNDS = 40
_C_ERROR = re.compile(r"^(?P<file>\S+\.c):(?P<line>\d+):(?P<column>\d+): error: ", re.M)


@dataclasses.dataclass
class Copy:
    """A copy of the driver under build/mutants: of the faults made by the machine it has all (None) or those with the keys
    in `only`, and those made by hand that are `switched` or, without a switch, `apart`."""

    name: str
    only: list | None = dataclasses.field(default_factory=list)
    switched: list = dataclasses.field(default_factory=list)
    apart: dict | None = None

    @property
    def folder(self):
        return HOME / self.name

    def write(self, without):
        """Lay the copy out; its faults, and for each file which bytes belong to which of them."""
        self.folder.mkdir(parents=True, exist_ok=True)
        by_hand = [{"name": fault["name"], "edits": fault["edits"]} for fault in self.switched]
        wanted = json.dumps({"only": self.only, "without": without, "by_hand": by_hand})
        done = subprocess.run([programs.build("tools/mutants"), ROOT, self.folder], input=wanted, text=True, capture_output=True)
        if done.returncode:
            raise say.LabError(done.stderr.split("\n\nStack")[0].strip())
        for file, old, new in self.apart["edits"] if self.apart else ():
            path = self.folder / file
            path.write_text(path.read_text().replace(old, new))
        manifest = json.loads((self.folder / "mutants.json").read_text())
        return manifest["sites"], manifest["regions"]


def build(kernel, copy, *arguments):
    """A module with KUnit's suites and numbers near their ends, and the faults in it by their keys. `arguments`: for kbuild."""
    out = module.folder(kernel, f"mutants-{copy.name}")
    command = module.command(kernel, out, *module.CHECKED, *arguments, sources=copy.folder / "drivers/android")

    def attempt():
        done = subprocess.run([str(word) for word in command], text=True, capture_output=True,
                              env=toolchain.kernel_environment())
        (HOME / f"{copy.name}.log").write_text(done.stdout + done.stderr)
        return done.returncode == 0, done.stdout + done.stderr

    sites = _refined(f"building {copy.name} mutants for {kernel.guest.name}", copy, attempt)
    return out / "binder_rust.ko", sites


@dataclasses.dataclass
class Host:
    """The programs of HOST_PROGRAMS, by their packages, and the faults in them: fewer, as they have fewer files."""

    programs: dict
    sites: dict


def build_host(copy):
    """Build them."""
    programs_of = {}
    # Without lints, which take faults out: a comparison that has become useless is an error of clippy.
    environment = programs.environment() | {"RUSTC_WORKSPACE_WRAPPER": ""}

    def attempt():
        good, said = True, ""
        for folder, package in HOST_PROGRAMS.items():
            argv = [programs.CARGO, "test", "--no-run", "--package", package, "--message-format=json"]
            done = subprocess.run(argv, cwd=copy.folder / folder, env=environment, text=True, capture_output=True)
            messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
            programs_of[package] = next((m["executable"] for m in messages if m.get("executable")), "")
            good = good and done.returncode == 0
            said += "\n".join(json.dumps(m["message"]) for m in messages if "message" in m) + "\n"
        return good, said

    return Host(programs_of, _refined("building the host's tests with mutants", copy, attempt))


def _refined(title, copy, attempt):
    """Write and build copies, each without what did not compile in those before; the faults of the last."""
    kept = HOME / f"{copy.name}.without"
    without = kept.read_text().split() if kept.exists() else []
    with say.Step(title) as step:
        for _ in range(_ROUNDS):
            sites, regions = copy.write(without)
            good, said = attempt()
            if good:
                return {site["key"]: site for site in sites}
            blamed = _blamed(said, copy.folder, sites, regions)
            wrong = blamed & {site["key"] for site in sites if site["operator"] == BY_HAND}
            if wrong or not blamed:
                raise say.LabError(f"{title}: does not compile: {'; '.join(wrong)}\n{said[-2000:]}")
            without = sorted(blamed.union(without))
            kept.write_text("\n".join(without) + "\n")
            step.progress(f"{len(without)} do not compile")
    raise say.LabError(f"{title}: errors still, after {_ROUNDS} rounds")


def _blamed(said, folder, sites, regions):
    """The keys of the faults that errors of the compiler point at."""
    numbers = set()
    keys = {site["number"]: site["key"] for site in sites}
    moving = {s["number"] for s in sites if s["operator"] in ("drop statement", "swap statements", "return at once")}
    by_hand = {site["number"] for site in sites if site["operator"] == BY_HAND}
    for file, spans in _errors(said, folder):
        found = [_narrowest(regions.get(file, []), *span) for span in spans]
        near = [region for region in found if region and not region["is_function"]]
        whole = [region for region in found if region]
        if near:
            numbers.update(near[0]["numbers"])
        elif whole:
            # Somewhere in the function: first suspect faults that move statements, last those that are written by hand.
            inside = set(whole[0]["numbers"]) & keys.keys()
            numbers |= inside & moving or inside - by_hand or inside
    return {keys[number] for number in numbers if number in keys}


def _errors(said, folder):
    """For each error its file and its places, first the compiler's own."""
    for line in said.splitlines():
        if not line.startswith("{"):
            continue
        message = json.loads(line)
        if message.get("level") != "error" or not message.get("spans"):
            continue
        spans = sorted(message["spans"], key=lambda span: not span["is_primary"])
        file = _inside(spans[0]["file_name"])
        yield file, [(s["byte_start"], s["byte_end"]) for s in spans if _inside(s["file_name"]) == file]
    for match in _C_ERROR.finditer(said):
        file = _inside(match["file"])
        lines = (folder / file).read_bytes().splitlines(keepends=True)
        at = sum(map(len, lines[:int(match["line"]) - 1])) + int(match["column"]) - 1
        yield file, [(at, at)]


def _inside(name):
    """A file's path from the root of the copy, whatever the compiler was called with."""
    match = re.search(r"(drivers/android|rust/kernel(_ext)?)/[^:]*$", os.path.normpath(name))
    return match[0] if match else f"drivers/android/{name}"


def _narrowest(regions, start, end):
    fitting = [r for r in regions if r["start"] <= start and end <= r["end"]]
    return min(fitting, key=lambda r: r["end"] - r["start"], default=None)
