# SPDX-License-Identifier: GPL-2.0
"""The contract suite in a guest, on one of the drivers."""

import re
import threading

from . import emulator, guest, kernel, module, packages, proc, programs, say, schedules
from .run import Tally, counts_of, run
from .versions import BUILD, ROOT

CRATE = "tests/contract"
# Numbers of tasks wrap around soon as well where those of the driver do: the words in front of a command line.
_FEW_PIDS = ("/bin/sh", "-c", 'echo 1024 >/proc/sys/kernel/pid_max && exec "$@"', "sh")
# Upstream's driver fails many tests, and each failure takes as long as the test is patient.
_IMPATIENCE = ("--patience", "1", "--timeout", "8")

# With a security module all calls pass its hooks, and nodes get their callers' security contexts.
LSM = ("lsm=selinux",)
SECURED = ("security::", "sync::", "nested::", "objects::", "fds::", "fd_arrays::", "context::", "binderfs::")
# The whole suite: tests of one CPU, half by half, and those of two.
PARTS = {"one CPU, half 1": {"part": 1, "half": 1}, "one CPU, half 2": {"part": 1, "half": 2}, "two CPUs": {"part": 2}}


def suite(tally, name, driver, title="", only=(), cpus=2, part=None, half=None, boot=(), width=64, near_limits=False, kunit=False, policy=False,
          seed=0, attempt=run):
    """Run the suite in guest `name` and add its counts; the guest's result.

    `only`: the tests whose names contain one of these. `part`: those that need so many CPUs. `half`: every second of them, from the
    first or the second one on. `boot`: words for the guest's command line. `width`: of tasks, in bits. `near_limits`: the driver's
    numbers start near their ends. `kunit`: so they do, and the driver runs its KUnit suites when it is loaded. `policy`: the security
    module gets that of the tests. `seed`: of a random schedule. `attempt`: runs the job.
    """
    built, program = kernel.build(name), programs.build_for(name, CRATE, width)
    title = title or " ".join(["contract", built.guest.name, driver, *boot])
    argv = ["/lab/contract", "run", "--driver", driver, *(_IMPATIENCE if driver == "upstream" else ())]
    argv += [word for part_of_name in only for word in ("--filter", part_of_name)]
    argv += ["--cpus", str(part)] if part else []
    argv += ["--half", str(half)] if half else []
    files = {"/lab/contract": program}
    if policy:
        files["/lab/policy"] = compiled_policy()
        argv += ["--policy", "/lab/policy"]
    if driver == "rust" and (near_limits or kunit):
        argv = [*_FEW_PIDS, *argv, "--near-limits"]
    checked = driver == "rust" and (near_limits or kunit)
    if seed:
        argv, boot = [*schedules.COUNTED, *argv], (*boot, f"parameters=seed={seed}")
    job = guest.Job(argv=argv, driver=driver, files=files, timeout=2400, cpus=part or cpus, leaks=checked,
                    boot=boot if kunit or not checked else (*boot, "kunit.enable=0"),
                    module=module.build_checked(built) if checked else schedules.build(built) if seed else None,
                    # Debian's kernels support NUMA.
                    qemu=emulator.two_nodes(guest.Job.memory) if built.guest.stock and cpus == 2 else ())
    result = attempt(title, name, job)
    say.lines(*(f"    {line}" for line in result.output.splitlines() if " FAILED " in line or re.match(r"\d+ skipped: ", line)))
    tally.add(title, *counts_of(result))
    return result


def command(name, driver, only, near_limits, width, seed):
    """`make contract`: the exit status."""
    tally = Tally()
    suite(tally, name, driver, only=only, near_limits=near_limits, width=width, seed=seed)
    return tally.finish()


def compiled_policy():
    """The tests' policy of SELinux, compiled."""
    packages.ensure("policy")
    part = BUILD / f"policy.{threading.get_ident()}"
    part.parent.mkdir(parents=True, exist_ok=True)
    # The policy allows everything that it does not name. The compiler and the kernel support this version.
    proc.output("checkpolicy", "-U", "allow", "-c", "33", "-o", part, ROOT / CRATE / "policy.conf")
    return part.rename(BUILD / "policy")
