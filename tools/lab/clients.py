# SPDX-License-Identifier: GPL-2.0
"""Clients of Binder that others wrote, run in a guest against whichever driver.

Each reports in TAP, or as Rust's test programs do. Remarks (`# ...`) do not depend on times or ids,
so what one client prints on two drivers can be compared line by line; lines that start with `##`
may differ.
"""

import dataclasses
import json
import pathlib
import re
import shutil
import subprocess

from . import cache, foreign, guest, kernel, packages, proc, programs, say, toolchain
from .versions import PINNED, ROOT

HOME = ROOT / "tests/clients"
_PINS = PINNED["clients"]
_SELFTEST = "filesystems/binderfs/binderfs_test.c"
_STRESS_SECONDS = 5
# Crates that use rsbinder are built in one place.
_KIND = "clients"
_TARGET = "x86_64-unknown-linux-gnu"
# Static, and without the vDSO: that of User Mode Linux lacks a function that the crate rustix calls. The crate's own .cargo/config.toml
# sets these flags, too.
_FLAGS = "-C target-feature=+crt-static --cfg rustix_use_libc"

# A security module makes security contexts, and needs no policy for that.
_SELINUX = ("lsm=selinux",)
# They measure how fast memory is shared, without Binder, which a busy machine spoils.
_UNITS_SKIPPED = ("--skip", "stream::ring")

_TAP = re.compile(r"^(not )?ok \d+ - |^(not )?ok \d+ [a-z]", re.M)
_RUST = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed", re.M)


@dataclasses.dataclass
class Part:
    """One program of a client, and how many tests it must at least pass: fewer are tests gone missing."""

    name: str
    argv: list
    files: dict
    least: int
    timeout: float = 120.0
    boot: tuple = ()
    cpus: int = 1


def parts(name):
    """The jobs of client `name` in User Mode Linux, built or fetched if need be."""
    return {"selftest": _selftest, "stress": _stress, "rsbinder": _rsbinder, "rsbinder-units": _units, "gbinder": _gbinder}[name]()


NAMES = ("selftest", "stress", "rsbinder", "rsbinder-units", "gbinder")


def job(part, driver):
    """A part as something to run in a guest."""
    return guest.Job(argv=part.argv, driver=driver, files=part.files, timeout=part.timeout,
                     boot=part.boot, cpus=part.cpus)


def counts(output):
    """Passed and failed, from the output of a client."""
    wrong = [bool(first or second) for first, second in _TAP.findall(output)]
    rust = [tuple(map(int, found)) for found in _RUST.findall(output)]
    return (wrong.count(False) + sum(p for p, _ in rust), wrong.count(True) + sum(f for _, f in rust))


def failures(output):
    """The lines of an output that name failures."""
    return [line for line in output.splitlines()
            if line.startswith("not ok") or re.match(r"test .* \.\.\. FAILED$", line)]


def comparable(output):
    """An output without what may differ from run to run."""
    lines = (re.sub(r"minor \d+", "minor ...", line.rstrip()) for line in output.splitlines())
    return [line for line in lines if line.startswith(("ok ", "not ok ", "# "))]


def _selftest():
    """The kernel's own test of binderfs, from the source that the guest's kernel is made of."""
    packages.ensure("rust")
    folder = kernel.build("um").selftests
    text, patience = folder / _SELFTEST, HOME / "selftest/patient.h"

    def make(part):
        part.mkdir(parents=True)
        proc.output("gcc", "-static", "-O2", "-pthread", "-D_GNU_SOURCE=",
                    "-I", folder, "-include", patience, "-o", part / "binderfs_test", text)

    key = cache.key("gcc", *(path.read_text() for path in (*sorted(folder.glob("*.h")), text, patience)))
    program = cache.entry(f"clients/selftest-{key}", make) / "binderfs_test"
    return [Part("binderfs_test", ["/lab/binderfs_test"], {"/lab/binderfs_test": program}, 3, 400, cpus=2)]


def _stress():
    """Lesson C10: stress-ng's stressor for binderfs, for a few seconds."""
    files = foreign.files(foreign.root(_PINS["stress"]), "stress-ng")
    files["/lab/stress"] = HOME / "stress/run"
    return [Part("stress-ng", ["/lab/stress", str(_STRESS_SECONDS)], files, 1, _STRESS_SECONDS + 240, cpus=2)]


def _rsbinder():
    """Our service and clients on rsbinder."""
    files = _rsbinder_tools() | {"/bin/rsbinder-clients": _workshop()}
    return [Part("workshop", ["rsbinder-clients", "run"], files, 31, 1200, _SELINUX)]


def _units():
    """The unit tests of rsbinder itself, of which some use the driver."""
    files = _rsbinder_tools() | {"/lab/units": _rsbinder_units(), "/lab/with-hub": HOME / "rsbinder/with-hub"}
    return [Part("unit tests", ["/lab/with-hub", "/lab/units", "--test-threads", "8", *_UNITS_SKIPPED], files, 416, 600, _SELINUX)]


def _gbinder():
    """libgbinder's tools, written in C by others, with rsbinder's service manager and our service."""
    files = foreign.files(foreign.root(_PINS["gbinder"]), "binder-list", "binder-ping", "binder-call")
    files |= _rsbinder_tools() | {
        "/bin/rsbinder-clients": _workshop(), "/etc/gbinder.conf": HOME / "gbinder/gbinder.conf",
        "/lab/gbinder": HOME / "gbinder/run",
    }
    return [Part("libgbinder-tools", ["/lab/gbinder"], files, 9)]


def _environment():
    """Cargo's options for static programs and a quick build; dependencies are shared with our crate's own build."""
    return programs.environment() | {"CARGO_BUILD_TARGET": _TARGET, "CARGO_PROFILE_DEV_DEBUG": "0", "CARGO_INCREMENTAL": "0", "RUSTFLAGS": _FLAGS}


def _workshop():
    return programs.build("tests/clients/rsbinder", profile="dev", kind=_KIND, flags=_FLAGS)


def _rsbinder_tools():
    """rsbinder's service manager and its tool for questions, as the guest's files."""
    version = _PINS["rsbinder"]["version"]
    key = cache.key(version, toolchain.rustc(), _FLAGS)

    def make(part):
        with programs.workshop(_KIND) as (_, target):
            argv = [programs.CARGO, "install", "rsbinder-tools", "--locked", "--version", version, "--profile", "dev",
                    "--root", part, "--no-track", "--target-dir", target]
            proc.logged(f"building rsbinder-tools {version}", "rsbinder-tools", argv, env=_environment())

    folder = cache.entry(f"clients/rsbinder-tools-{key}", make)
    return {f"/bin/{name}": folder / "bin" / name for name in ("rsb_hub", "rsb_service")}


def _rsbinder_units():
    """The unit tests of the rsbinder that our crate uses, as one program."""
    version, env = _PINS["rsbinder"]["version"], _environment()
    key = cache.key(version, toolchain.rustc(), _FLAGS)

    def make(part):
        argv = [programs.CARGO, "metadata", "--locked", "--format-version", "1", "--filter-platform", _TARGET]
        asked = subprocess.run(argv, cwd=HOME / "rsbinder", env=env, text=True, capture_output=True)
        found = re.search(rf'"manifest_path":"([^"]*/rsbinder-{re.escape(version)}/Cargo.toml)"',
                          asked.stdout)
        if not found:
            raise say.LabError(f"cargo does not report the path of rsbinder {version}: {asked.stderr.strip()}")
        # Cargo must not write beside a crate of the registry.
        own = part.with_name(part.name + ".source")
        shutil.rmtree(own, ignore_errors=True)
        shutil.copytree(pathlib.Path(found.group(1)).parent, own)
        with programs.workshop(_KIND) as (_, target):
            argv = [programs.CARGO, "test", "--no-run", "--lib", "--locked", "--target-dir", target,
                    "--message-format=json-render-diagnostics"]
            log = proc.logged(f"building the unit tests of rsbinder {version}", "rsbinder-units", argv,
                              env=env, cwd=own)
            messages = (json.loads(line) for line in log.read_text().splitlines() if line.startswith("{"))
            made = [message["executable"] for message in messages if message.get("executable")]
            part.mkdir(parents=True)
            shutil.copy2(made[-1], part / "units")
        shutil.rmtree(own)

    return cache.entry(f"clients/rsbinder-units-{key}", make) / "units"
