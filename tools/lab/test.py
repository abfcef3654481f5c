# SPDX-License-Identifier: GPL-2.0
"""`make test` and `make torture`: everything is built first, by two threads, then pytest runs the stages of tests/suites in parallel."""

import concurrent.futures
import os
import sys
import time

from . import kernel, module, packages, programs, say, stock
from .versions import BUILD, ROOT

# The last ones are of folders that the rest does not need.
SUITES = ("tests/suites", "tools/lab", "tools/report", *(str(path.relative_to(ROOT)) for path in ROOT.glob("*/test_*.py")))
# One more than there are CPUs: tests wait a good part of their time.
WORKERS = (os.cpu_count() or 2) + 1
_PACKAGES = ("base", "check", "kernel", "patches", "policy", "report", "rust", "test", "um", "x86_64")


def run(only="", since="", torture=False, resume=False, into_docs=False):
    """Build, test, print the summary; the exit status."""
    packages.ensure(*_PACKAGES)
    say.note(f"this host takes {_fixed_computation():.2f} s for a fixed computation")
    if not (only or since or torture or resume):
        _prepare()
    (BUILD / "log").mkdir(parents=True, exist_ok=True)
    argv = ["/usr/bin/python3", "-B", "-m", "pytest", "-q", "-q", "--no-header", "-p", "no:randomly", "--dist", "loadgroup", "-n", str(WORKERS),
            "-o", f"cache_dir={BUILD / 'pytest'}", "-o", "console_output_style=none", f"--junitxml={BUILD / 'log/junit.xml'}"]
    argv += ["-k", only] if only else []
    argv += ["--since", since] if since else []
    argv += ["--torture"] if torture else []
    argv += ["--last-failed"] if resume else []
    sys.stdout.flush()
    os.chdir(ROOT)
    os.environ |= {"PYTHONPATH": str(ROOT / "tools"), "LAB_DOCS": "1" if into_docs else ""}
    # The summary adds what was built before.
    os.environ["LAB_CPU"] = str(sum(os.times()[:4]))
    return os.spawnv(os.P_WAIT, argv[0], [*argv, *SUITES])


def _prepare():
    """Compile the kernel in one thread and all else in another, so that both CPUs have work while a linker has one."""
    def with_kernel():
        built = kernel.build("um")
        module.build_checked(built)
        module.build(built)

    def without():
        programs.build("tests/contract")
        module.build(kernel.build(stock.NAMES[0]))
        for crate in ("tools/binder-bench", "tools/binderctl"):
            programs.build(crate)

    with concurrent.futures.ThreadPoolExecutor() as pool:
        for done in [pool.submit(with_kernel), pool.submit(without)]:
            done.result()


def _fixed_computation():
    """Seconds of CPU for the same arithmetic on every host."""
    began, total = time.process_time(), 0
    for number in range(3_000_000):
        total = (total * 31 + number) % 1_000_003
    return time.process_time() - began
