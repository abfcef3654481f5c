# SPDX-License-Identifier: GPL-2.0
"""Which tests reach a fault, and whether one of them fails when it is there."""

import collections
import dataclasses
import hashlib
import json
import os
import subprocess
import tempfile

from . import guest, mutant_module, proc, say, suite
from .versions import PINNED, ROOT

# What a step of a test and a test may take; a guest without a word for longer hangs.
_PATIENCE = 4
_LIMIT = 15
_SILENCE = 40
# A failure after so many milliseconds may be the machine's, and is looked at twice.
_SLOW = 3500
# Expected milliseconds of the tests that are tried first.
_QUICK = 3_000
LOADED = "(load)"
# The host's tests, by the room that they are about where they are not called like it.
_HOST_HOME = "tests/host/rooms/src/tests"
_HOST_TESTS = {"range_alloc": "range_", "defs": "wire"}
_HOST_LIMIT = 300


@dataclasses.dataclass(frozen=True)
class Stage:
    """One way in which `make test` runs the contract suite."""

    name: str
    groups: tuple = ()
    lsm: bool = False
    policy: bool = False
    near_limits: bool = False
    parameters: tuple = ()

    def boot(self, *numbers):
        words = " ".join([*self.parameters, f"mutant={','.join(map(str, numbers)) or 0}"])
        return (*(suite.LSM if self.lsm else ()), f'parameters="{words}"')


STAGES = (
    Stage("contract"),
    Stage("security", suite.GROUPS_LSM, lsm=True),
    Stage("policy", ("policy::",), lsm=True, policy=True),
    Stage("charging", ("charging::", "reclaim::"), parameters=("charge_buffers=1",)),
    Stage("handoff", ("placement::",), parameters=("handoff=2",)),
)


@dataclasses.dataclass
class End:
    """What became of a fault."""

    killed: bool
    by: str = ""
    why: str = ""


class _Enough(Exception):
    """A test has failed: what the guest does from here on matters no more."""


class Runs:
    """Runs of one module with faults in one guest."""

    def __init__(self, kernel, mutants, program):
        self.kernel, self.mutants = kernel, mutants
        # Each guest is given a copy.
        self.program = mutants.folder.with_name("contract")
        proc.output(f"{PINNED['llvm']['bin']}/llvm-strip", "-o", self.program, program)
        self.reach = {}
        self.ms = {}
        # Tests of the whole suite that need another guest.
        self.skipped = []
        self._host = None

    def learn(self):
        """Find out which tests reach which faults."""
        for stage in STAGES:
            tests = self.learn_in(stage, self.kernel, self.mutants, self._all(stage))
            if stage is STAGES[0]:
                self.skipped = [name for name, _, result, _ in tests if result == "skipped"]

    def learn_in(self, stage, kernel, mutants, names):
        """The same for these tests in a guest, or remember it if this very module was run before."""
        made_of = [(mutants.folder / "mutants.json").read_bytes(), self.program.read_bytes(), " ".join(names).encode()]
        stamp = hashlib.sha256(b"".join(made_of)).hexdigest()
        kept = mutants.folder / f"reached-{stage.name}.json"
        known = json.loads(kept.read_text()) if kept.exists() else {}
        if known.get("stamp") != stamp:
            known = {"stamp": stamp, "tests": self._record(stage, kernel, mutants, names)}
            kept.write_text(json.dumps(known))
        self.reach[stage.name] = {name: _numbers(bits) for name, _, _, bits in known["tests"]}
        self.ms.update({(stage.name, name): ms for name, ms, _, _ in known["tests"]})
        return known["tests"]

    def reaching(self, stage, number):
        """The tests that reach a fault, those first that tell most: of each group in turn the one that
        reaches least else."""
        reach = self.reach[stage.name]
        groups = collections.defaultdict(list)
        for name in sorted((n for n, found in reach.items() if number in found and n != LOADED),
                           key=lambda name: (len(reach[name]), name)):
            groups[name.split("::")[0]].append(name)
        turns = sorted(groups.values(), key=lambda tests: len(reach[tests[0]]))
        return [tests[i] for i in range(max(map(len, turns), default=0)) for tests in turns if i < len(tests)]

    def quick(self, number):
        """Try some of the tests that reach it, of the first stage that has any."""
        for stage in STAGES:
            tests = self._first(stage, self.reaching(stage, number))
            if tests:
                return self._run(stage, number, tests)
        # What only loading and unloading reaches, and perhaps not even that.
        end = self._run(STAGES[0], number, ["ioctl::version_is_eight", "sync::every_size"])
        return end if end.killed else self._devices(number)

    def together(self, numbers):
        """Try all tests that reach any of these on a driver that has all of these faults; whoever is suspected of
        a failure then has to cause it alone. The end of each."""
        ends = {}
        for stage in STAGES:
            alive = [number for number in numbers if number not in ends]
            tests = [name for name, reached in self.reach[stage.name].items()
                     if name != LOADED and not reached.isdisjoint(alive)]
            self._sift(stage, tests, alive, ends)
        for number in numbers:
            if number not in ends:
                ends[number] = self._on_host(number)
        return ends

    def _sift(self, stage, tests, alive, ends):
        """Run tests on all faults that are alive, again and again, each time without the one that was found to
        make one fail."""
        while alive and tests:
            end, _, passed = self._once(stage, alive, tests)
            if not end.killed:
                return
            reach = self.reach[stage.name]
            suspects = [number for number in alive if not end.by or number in reach[end.by]]
            culprit = self._culprit(stage, suspects, end.by)
            if culprit:
                alive.remove(culprit[0])
                ends[culprit[0]] = culprit[1]
            elif not end.by:
                return
            # A failure that no fault causes alone is not seen again.
            tests = [name for name in tests if name not in passed and (culprit or name != end.by)]

    def _culprit(self, stage, suspects, by):
        """Who of the suspects makes a test fail, or the kernel complain, alone; found by halves."""
        def tests(numbers):
            own = {name for number in numbers for name in self.reaching(stage, number)[:5]}
            return [by] if by else sorted(own)

        while len(suspects) > 1:
            half = suspects[:len(suspects) // 2]
            is_here = self._once(stage, half, tests(half))[0].killed
            suspects = half if is_here else suspects[len(half):]
        for number in suspects:
            own = tests([number])
            end = self._run(stage, number, own) if own else End(False)
            if end.killed:
                return number, end
        return None

    def again(self, number, by):
        """Try the test that has killed it before, and if it lives, all there are."""
        for stage in STAGES:
            if by in self._all(stage):
                end = self._run(stage, number, [by])
                if end.killed:
                    return end
        for stage in STAGES:
            end = self._run(stage, number, self._all(stage))
            if end.killed:
                return end
        return self._devices(number)

    def _all(self, stage):
        names = subprocess.run([self.program, "list"], text=True, capture_output=True, check=True).stdout
        names = [line.split()[0] for line in names.splitlines()]
        return [name for name in names if not stage.groups or name.startswith(stage.groups)]

    def _first(self, stage, tests):
        taken, time = [], 0
        for name in tests:
            time += self.ms.get((stage.name, name), 0) + 20
            if time > _QUICK and len(taken) >= 5:
                break
            taken.append(name)
        return taken

    def _run(self, stage, number, tests):
        """Run tests until one fails. What may be due to a busy machine must not happen without the fault."""
        rest = list(tests)
        while rest:
            end, slow, _ = self._once(stage, [number], rest)
            if not end.killed or not slow:
                return end
            again = [end.by] if end.by else rest
            if not self._once(stage, [], again)[0].killed:
                return end
            if end.by not in rest:
                return End(False)
            rest = rest[rest.index(end.by) + 1:]
        return End(False)

    def _once(self, stage, numbers, tests):
        """One guest with these faults: how the tests ended, whether time played a part, and which passed."""
        seen, current = [], ""

        def hear(text):
            nonlocal current
            current += text
            *lines, current = current.split("\n")
            for line in lines:
                if not line.startswith('{"test"'):
                    continue
                record = json.loads(line)
                seen.append(record)
                if record["result"] == "failed":
                    raise _Enough

        with tempfile.NamedTemporaryFile("w", suffix=".tests") as names:
            names.write("\n".join(tests) + "\n")
            names.flush()
            argv = self.argv(stage) + ["--named", "/lab/tests", "--json", "--stop-at-first-failure",
                                        "--patience", str(_PATIENCE), "--timeout", str(_LIMIT)]
            job = guest.Job(argv=argv, module=self.mutants.module, boot=stage.boot(*numbers), silence=_SILENCE,
                            timeout=1200, files=self._files(stage) | {"/lab/tests": names.name})
            try:
                result = guest.run(self.kernel, job, hear)
            except _Enough:
                last = seen[-1]
                passed = {record["test"] for record in seen[:-1]}
                return End(True, last["test"], last["why"]), last["ms"] >= _SLOW, passed
        passed = {record["test"] for record in seen}
        if result.good:
            return End(False), False, passed
        why = (result.problems or ["a bad exit status"])[0]
        by = tests[len(seen)] if len(seen) < len(tests) and not why.startswith("the guest failed at") else ""
        return End(True, by, why), "hung" in why, passed

    def _on_host(self, number):
        """The tests of the pure rooms, if it is in one of them."""
        site = next(site for site in self.mutants.sites if site["number"] == number)
        room = site["file"].removeprefix("drivers/android/").removeprefix("rust/kernel/")
        room = next((part for part in room.removesuffix(".rs").split("/") if part != "pure"), "")
        if not any(path.name.startswith(_HOST_TESTS.get(room, room)) for path in (ROOT / _HOST_HOME).iterdir()):
            return End(False)
        if self._host is None:
            self._host = mutant_module.build_host(self.mutants.folder)
        program, sites = self._host
        # The host's copy may have been made of other sources, and have other numbers.
        number = next((there["number"] for there in sites if there["key"] == site["key"]), None)
        if number is None:
            return End(False)
        with subprocess.Popen([program, f"tests::{_HOST_TESTS.get(room, room)}"], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env={**os.environ, "MUTANT": str(number)}) as child:
            try:
                said, _ = child.communicate(timeout=_HOST_LIMIT)
            except subprocess.TimeoutExpired:
                child.kill()
                return End(True, "host", f"no end within {_HOST_LIMIT} s")
        failed = [line for line in said.splitlines() if line.endswith("FAILED")]
        return End(bool(child.returncode), *(["host", failed[0]] if failed else []))

    def _devices(self, number):
        """The parameter `devices` of the module, which is looked at while it is loaded."""
        folder = self.mutants.folder
        script = (guest.SCRIPTS / "devices").read_text()
        changed = folder / "devices"
        # What it does a hundred times it does without a fault, and the module is large.
        script = script.replace('[ "$1" = binder_rust ] && refused_meanwhile\n', "")
        changed.write_text(script.replace('"devices=', f'mutant={number} "devices='))
        job = guest.Job(argv=["/lab/devices-mutant", "binder_rust"], load=False, module=self.mutants.module,
                        silence=_SILENCE, files={"/lab/devices-mutant": changed})
        result = guest.run(self.kernel, job)
        if result.good:
            return End(False)
        said = result.output.strip().splitlines()
        return End(True, "parameter devices", (result.problems or said[-1:] or ["a bad exit status"])[0])

    def argv(self, stage):
        argv = ["/lab/contract", "run", "--driver", "rust"]
        argv += ["--policy", "/lab/policy"] if stage.policy else []
        return argv + (["--near-limits"] if stage.near_limits else [])

    def _files(self, stage):
        files = {"/lab/contract": self.program}
        if stage.policy:
            files["/lab/policy"] = suite.compiled_policy()
        return files

    def _record(self, stage, kernel, mutants, names):
        """Of each test its name, its time, its result, and the places that it reaches, as the module's parameter has them."""
        with tempfile.NamedTemporaryFile("w", suffix=".tests") as file:
            file.write("\n".join(names) + "\n")
            file.flush()
            job = guest.Job(argv=["/lab/reached", "/lab/tests", *self.argv(stage)], module=mutants.module,
                            boot=stage.boot(), files=self._files(stage) | {"/lab/tests": file.name}, timeout=2400)
            with say.Step(f"what each test reaches: {stage.name}") as step:
                result = guest.run(kernel, job, step.hear)
        if not result.good:
            raise say.LabError(f"the driver with its faults off: {(result.problems or ['a bad status'])[0]}")
        lines = result.files["reached"].decode().splitlines()
        tests = []
        for head, bits in zip(lines[::2], lines[1::2]):
            name, ms, result = head.split()
            if result == "failed":
                say.note(f"  {name} fails with all faults off: it kills none")
                continue
            tests.append((name, int(ms), result, bits))
        return tests


def _numbers(bits):
    """The numbers of the places in a row of digits with four bits each."""
    return {4 * index + bit for index, digit in enumerate(bits) if digit != "0"
            for bit in range(4) if int(digit, 16) >> bit & 1}
