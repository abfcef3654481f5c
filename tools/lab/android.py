# SPDX-License-Identifier: GPL-2.0
"""`make android`: a user space in Android's shape in a guest configured as Android's kernels are, on C and ours, side by side.

The program is tests/android; docs/android.md says what it does, and what else was tried for Android's trees.
"""

import re

from . import aosp, guest, kernel, packages, proc, programs, say
from .tally import last_words, run as run_in_guest
from .versions import BUILD, ROOT

GUESTS = ("android", "x86_64-android", "arm64-android")
DRIVERS = ("c", "rust")
# A security module, as Android boots with; and pressure, which Android's kernels count from their start.
BOOT = ("lsm=selinux", "psi=1")
_FIGURE = re.compile(r"^figure (.+): (\d+)$", re.M)
# How long a guest may take longer than it was told, for what is still to be tried, and to start and to end.
_AROUND = 600
# It says each half minute that it goes on; in the end it waits for some things in turn.
_SILENCE = 240


def run(name, drivers, seconds, seed=1):
    """Boot guest `name` on each driver and print what came of it; a status."""
    if name not in GUESTS:
        raise say.LabError(f"guest {name} is not configured as Android's kernels are: there are {', '.join(GUESTS)}")
    found, wrong = {}, []
    for driver in drivers:
        result = _boot(name, driver, seconds, seed)
        found[driver] = figures(result.output)
        if not result.good:
            wrong.append(driver)
    print("\n" + "\n".join(table(found, f"{name}, {seconds} s")))
    for driver in wrong:
        print(f"\nerror: not as it must be on {driver}, see above")
    return 1 if wrong else 0


def _boot(name, driver, seconds, seed):
    program = programs.build_for(name, "tests/android")
    files = _manager(kernel.GUESTS[name].arch) | {"/lab/android": program, "/lab/policy": policy()}
    argv = ["/lab/android", "--seconds", str(seconds), "--seed", str(seed), "--policy", "/lab/policy"]
    if driver == "c":
        argv.append("--leaves-nodes")
    job = guest.Job(argv=argv, driver=driver, files=files, timeout=seconds + _AROUND, silence=_SILENCE,
                    boot=BOOT, mount=False)
    title = f"Android's user space {name} {driver} {seconds} s"
    result = run_in_guest(title, name, job)
    if not result.good:
        say.lines(*last_words(result.output))
    return result


def _manager(arch):
    """Android's service manager and what it needs, as the guest's files."""
    built = aosp.files(aosp.build(arch))
    return {path: where for path, where in built.items() if path == "/aosp/servicemanager" or "/lib" in path}


def policy():
    """The policy of this user space, compiled."""
    packages.ensure("policy")
    made = BUILD / "android-policy"
    made.parent.mkdir(parents=True, exist_ok=True)
    proc.output("checkpolicy", "-U", "allow", "-c", "33", "-o", made, ROOT / "tests/android/policy.conf")
    return made


def figures(output):
    """What a run has counted, by its names, in their order."""
    return {name: int(value) for name, value in _FIGURE.findall(output)}


def table(found, title):
    """Lines of a table: a figure a line, a driver a column."""
    names = list(dict.fromkeys(name for counted in found.values() for name in counted))
    width = max(map(len, [title, *names]))
    lines = [f"  {title:<{width}}" + "".join(f" {driver:>12}" for driver in found)]
    for name in names:
        cells = "".join(f" {_cell(counted.get(name)):>12}" for counted in found.values())
        lines.append(f"  {name:<{width}}{cells}")
    return lines


def _cell(value):
    return "–" if value is None else f"{value:,}".replace(",", " ")
