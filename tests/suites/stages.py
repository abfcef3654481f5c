# SPDX-License-Identifier: GPL-2.0
"""A stage of `make test`: a pytest function that takes a `tally`, with its inputs and its length.

`@stage(*inputs)` names what the result depends on, as paths from the root of the tree; `make test SINCE=REF` runs the
stages with an input that has changed since. A stage that boots guests counts many tests, so it adds them to its tally.
"""

import pytest

# The driver as a whole. A stage about one part of it names that part's folder.
DRIVER = ("drivers/", "rust/", "include/")
CONTRACT = ("tests/contract/", "tools/binder-sys/", "tools/binder-logs/")
# The recorded answers of the C driver.
ORACLE = ("tests/oracle/", "tests/suites/oracle.py")
# The files on which every stage depends.
EVERYWHERE = ("versions.toml", "configs/", ".ci/", "tests/suites/conftest.py", "tests/suites/stages.py",
              *(f"tools/lab/{name}" for name in ("cache.py", "contract.py", "emulator.py", "guest.py", "guest/init", "kernel.py",
                                                 "kmsg.py", "module.py", "proc.py", "programs.py", "run.py", "toolchain.py")))


def stage(*inputs, takes=0, both_cpus=False, torture=False):
    """The mark of a stage. `takes`: about how many seconds, since the longest stages start first. `both_cpus`: it keeps two
    CPUs busy, so only one such stage runs at a time. `torture`: a long run outside `make test`."""
    return pytest.mark.stage(inputs=inputs, takes=takes, both_cpus=both_cpus, torture=torture)


def affected(inputs, changed):
    """Returns whether a change of these files can change the result of a stage with these inputs. A folder ends with a slash; "" is the whole tree."""
    wanted = (*inputs, *EVERYWHERE)
    return any(path == name or (name.endswith("/") or not name) and path.startswith(name) for path in changed for name in wanted)
