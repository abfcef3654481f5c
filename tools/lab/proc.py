# SPDX-License-Identifier: GPL-2.0
"""Run host commands: a clean environment, the output in a log, the last of it shown on failure."""

import os
import subprocess

from . import say
from .versions import BUILD, PINNED

# Variables of an outer make or a developer's shell that would change a kernel build or cargo.
_FOREIGN = (
    "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "RUSTFLAGS", "RUSTC", "RUSTUP_TOOLCHAIN",
    "CARGO_BUILD_TARGET", "CARGO_TARGET_DIR", "LLVM", "CC", "CFLAGS", "LDFLAGS", "KCFLAGS",
    "ARCH", "CROSS_COMPILE", "KBUILD_OUTPUT", "PYTHONPATH", "GUEST", "DRIVER",
)
SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"


def environment(*path_front, **extra):
    """The caller's environment without what could bend the build, Debian's tools first on PATH."""
    env = {k: v for k, v in os.environ.items() if k not in _FOREIGN}
    env["PATH"] = ":".join([*map(str, path_front), PINNED["llvm"]["bin"], SYSTEM_PATH])
    env["LC_ALL"] = "C.UTF-8"
    env.update(extra)
    return env


def with_mounts(seen, argv):
    """The command line that runs `argv` where folders are seen at the paths of others, in a namespace that ends with it."""
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    pairs = [path for pair in seen.items() for path in pair]
    mount = 'while [ "$1" != -- ]; do mount --rbind "$1" "$2"; shift 2; done; shift; exec "$@"'
    return ["unshare", "--mount", *user, "sh", "-ec", mount, "sh", *pairs, "--", *argv]


def output(*argv, env=None):
    """The standard output of a short command."""
    done = subprocess.run(
        [str(a) for a in argv], env=env or environment(), text=True, capture_output=True
    )
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no message"]
        raise say.LabError(f"{argv[0]} failed: {last[0]}")
    return done.stdout


def logged(title, log_name, argv, env=None, cwd=None):
    """Run a long command with progress; on failure show the end of its log and where it is."""
    log = BUILD / "log" / f"{log_name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    lines = 0
    with say.Step(title) as step, open(log, "w") as sink:
        child = subprocess.Popen(
            [str(a) for a in argv], env=env or environment(), cwd=cwd, text=True,
            errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        try:
            for line in child.stdout:
                sink.write(line)
                lines += 1
                step.progress(f"{line.strip()[:70]} ({lines} lines)")
        except BaseException:
            child.terminate()
            raise
        if child.wait():
            sink.flush()
            raise say.LabError(f"{title} failed; the end of {log}:\n{_tail(log)}")
    return log


def write(path, content):
    """Write a file of text or of bytes, and make its folder; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.write_bytes if isinstance(content, bytes) else path.write_text)(content)
    return path


def _tail(log, count=25):
    lines = log.read_text(errors="replace").splitlines()
    wrong = [l for l in lines if l.startswith("error") or " error: " in l or "Error " in l]
    shown = lines[-count:]
    return "\n".join([*(l for l in wrong[:5] if l not in shown), *shown])
