# SPDX-License-Identifier: GPL-2.0
"""What a stage of `make test` is: a pytest function that takes a `tally`, with its inputs and its length.

`@stage(*inputs)` names what the result depends on, as paths from the root of the tree; `make test SINCE=REF` runs the
stages with an input that has changed since. A stage that boots guests counts many tests, so it adds them to its tally.
"""

import functools

import pytest

# The driver as a whole. A stage about one part of it names that part's folder.
DRIVER = ("drivers/", "rust/", "include/")
CONTRACT = ("tests/contract/", "tools/binder-sys/", "tools/binder-logs/")
# What every stage depends on.
EVERYWHERE = ("versions.toml", "configs/", "Makefile", ".ci/", "tests/suites/conftest.py", "tests/suites/stages.py",
              *(f"tools/lab/{name}" for name in ("cache.py", "emulator.py", "guest.py", "guest/init", "kernel.py", "kmsg.py",
                                                 "module.py", "proc.py", "programs.py", "run.py", "toolchain.py")))


def stage(*inputs, takes=0, both_cpus=False, torture=False):
    """Make a test function a stage. `takes`: about how many seconds, since the longest stages start first. `both_cpus`:
    it keeps two CPUs busy, so only one such stage runs at a time. `torture`: a long run outside `make test`."""

    def decorate(function):
        @functools.wraps(function)
        def run(*arguments, tally, **named):
            function(*arguments, tally=tally, **named)
            tally.conclude()

        made = pytest.mark.stage(inputs=inputs, takes=takes, torture=torture)(run)
        return pytest.mark.xdist_group("both CPUs")(made) if both_cpus else made

    return decorate


def affected(inputs, changed):
    """Whether a change of these files can change the result of a stage with these inputs."""
    wanted = (*inputs, *EVERYWHERE)
    return any(path == name or (name.endswith("/") and path.startswith(name)) or path.startswith(f"{name}/")
               for path in changed for name in wanted)
