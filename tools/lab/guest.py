# SPDX-License-Identifier: GPL-2.0
"""Boot a guest, run one program in it, and judge the run: its exit status and the kernel's own log.

The guest prints on a terminal of its own (UML's second console, QEMU's second serial port). Its own lines start with a random token for
this boot; the lines between `start` and `exit` are the program's output. The kernel's console is separate, so that an oops is seen even
after the guest's last line.
"""

import base64
import codecs
import contextlib
import dataclasses
import os
import pathlib
import secrets
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time
import tty

from . import emulator, foreign, initramfs, kmsg, module, say
from .versions import PINNED

SCRIPTS = pathlib.Path(__file__).parent / "guest"
# Seconds for turning the machine off. User Mode Linux hangs there about once in 700 boots, after its report is complete.
_LAST_BREATH = 5
MODULES = {"rust": "binder_rust", "c": "binder_linux", "upstream": "rust_binder"}


@dataclasses.dataclass
class Job:
    """A program to run: `argv` in the guest, with host files laid at guest paths. `module` is loaded instead of
    the driver as it is."""

    argv: list
    driver: str = "rust"
    files: dict = dataclasses.field(default_factory=dict)
    load: bool = True
    # True if the guest mounts binderfs and links its devices in /dev; otherwise the program does that itself.
    mount: bool = True
    module: pathlib.Path | None = None
    interactive: bool = False
    icount: bool = False
    pin: int | None = None
    timeout: float = 120.0
    # A guest without output for so long counts as hung, too.
    silence: float = float("inf")
    # One where nothing depends on a second one: two of User Mode Linux spin for each other, and take three times the host's time.
    cpus: int = 2
    # True if kmemleak searches for leaks at the end; for some seconds, and in kernels that have it.
    leaks: bool = False
    # Megabytes; half of it holds the first filesystem, if that is as large.
    memory: int = 512
    # More words for the kernel's command line, and for QEMU's.
    boot: tuple = ()
    qemu: tuple = ()
    # Open files that the guest's process inherits.
    descriptors: tuple = ()
    # The guest is killed when it is set.
    stop: threading.Event = dataclasses.field(default_factory=threading.Event)


@dataclasses.dataclass
class Result:
    """The end of a run. It is good when the program's status is 0 and nothing else went wrong."""

    status: int | None = None
    output: str = ""
    files: dict = dataclasses.field(default_factory=dict)
    kernel_log: list = dataclasses.field(default_factory=list)
    problems: list = dataclasses.field(default_factory=list)

    @property
    def good(self):
        return self.status == 0 and not self.problems


def run(kernel, job, on_output=None):
    """Boot `kernel`, run `job`; `on_output(text)` sees the program's output as it comes."""
    with tempfile.TemporaryDirectory(prefix="lab-") as folder:
        folder = pathlib.Path(folder)
        token = secrets.token_hex(4)
        initrd = folder / "initrd"
        initrd.write_bytes(first_filesystem(kernel, job, token))
        console = folder / "console"
        speech = _Speech(token, on_output)
        with open(console, "wb") as sink, _raw_terminal(job.interactive):
            ended = _boot(_command(kernel, job, initrd, console), sink, speech, job)
        return _judge(speech, ended, console.read_text(errors="replace").splitlines(), job)


def succeed(title, kernel, job):
    """The result of a job that has to succeed, as a step."""
    with say.Step(title) as step:
        result = run(kernel, job, step.hear)
    if not result.good:
        raise say.LabError(f"{title}: {'; '.join(result.problems) or f'status {result.status}: {result.output[-300:]}'}")
    return result


def _command(kernel, job, initrd, console):
    if kernel.guest.arch == "um":
        argv = [kernel.image, f"mem={job.memory}M", f"ncpus={job.cpus}", "seccomp=on", f"initrd={initrd}",
                "con=null", "con1=fd:0,fd:1", "stderr=1", "loglevel=5", *job.boot]
    else:
        argv = emulator.command(kernel, job, initrd, console)
    # The guest dies with us, however we die.
    front = ["setpriv", "--pdeathsig", "KILL"]
    if job.pin is not None:
        front += ["taskset", "-c", str(job.pin)]
    return [str(word) for word in [*front, *argv]]


def _boot(argv, console, speech, job):
    """Run the guest until it ends or its time is over; returns true if it ended by itself."""
    deadline = time.monotonic() + job.timeout
    heard = time.monotonic()
    # Input from a pipe or a file waits until the guest reads: User Mode Linux would die of it.
    typed = job.interactive and not os.isatty(0)
    child = subprocess.Popen(
        argv, stdin=None if job.interactive and not typed else subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=console, pass_fds=job.descriptors,
    )
    try:
        with selectors.DefaultSelector() as ready:
            ready.register(child.stdout, selectors.EVENT_READ)
            while (job.interactive or time.monotonic() < min(deadline, heard + job.silence)) and not job.stop.is_set():
                if not ready.select(timeout=1.0):
                    continue
                heard = time.monotonic()
                data = os.read(child.stdout.fileno(), 65536)
                if not data:
                    child.wait(10)
                    return True
                speech.hear(data)
                if speech.ended:
                    deadline = min(deadline, heard + _LAST_BREATH)
                if typed and speech.running:
                    typed = False
                    threading.Thread(target=_type, args=(child.stdin.fileno(),), daemon=True).start()
        return speech.ended
    except subprocess.TimeoutExpired:
        return speech.ended
    finally:
        _kill(child)


def _type(into):
    """Pass on to a guest's terminal what this process is given, and then what ends a shell there."""
    with contextlib.suppress(OSError):
        while data := os.read(0, 65536):
            os.write(into, data)
        os.write(into, b"exit\n")


def _kill(child):
    """End a guest, if it has not ended. User Mode Linux has several processes, in a group of their own: one that spins in
    the kernel does not notice that the first has gone."""
    with contextlib.suppress(ProcessLookupError):
        if os.getpgid(child.pid) == child.pid:
            os.killpg(child.pid, signal.SIGKILL)
    child.kill()
    child.wait()


def _judge(speech, ended, console, job):
    result = Result(speech.status, speech.output.decode(errors="replace"), speech.files, speech.dmesg)
    result.problems += speech.failures
    for line in [*kmsg.complaints(speech.dmesg), *kmsg.complaints(console)]:
        if line not in result.problems:
            result.problems.append(line)
    if not ended:
        result.problems.append(f"the guest hung: killed after {job.timeout:.0f} s")
    elif not speech.ended:
        last = " | ".join(console[-3:]) or "no word on its console"
        result.problems.append(f"the guest died before it reported: {last}")
    elif speech.status is None and not result.problems:
        result.problems.append("the program did not start")
    if not speech.ended:
        result.kernel_log = console
    return result


def first_filesystem(kernel, job, token):
    """The first filesystem of a guest, as one archive; `token` begins its lines of protocol."""
    archive = initramfs.Archive()
    for folder in ("proc", "sys", "dev", "tmp", "lab", "out", "bin"):
        archive.folder(folder)
    archive.character_device("dev/console", 5, 1)
    archive.character_device("dev/null", 1, 3)
    archive.file("bin/busybox", _busybox(kernel.guest.arch).read_bytes(), 0o755)
    for applet in _applets():
        archive.link(f"bin/{applet}", "busybox")
    for script in sorted(SCRIPTS.iterdir()):
        archive.file("init" if script.name == "init" else f"lab/{script.name}", script.read_bytes(), 0o755)
    for driver, path in _modules(kernel, job).items():
        archive.file(f"lab/{MODULES[driver]}.ko", path.read_bytes())
    for where, path in job.files.items():
        archive.file(where.lstrip("/"), pathlib.Path(path).read_bytes(), 0o755)
    archive.file("lab/job", _settings(kernel, job, token).encode())
    archive.file("lab/command", f"#!/bin/sh\nexec {shlex.join(job.argv)}\n".encode(), 0o755)
    return archive.bytes()


def _modules(kernel, job):
    if job.driver == "none" or kernel.guest.builtin:
        if job.driver not in ("none", "rust", *(["c"] if kernel.guest.builtin_c else [])):
            raise say.LabError(f"guest {kernel.guest.name} has our driver built in: no DRIVER={job.driver}")
        return {}
    return {job.driver: job.module or (module.build(kernel) if job.driver == "rust" else kernel.module(job.driver))}


def _settings(kernel, job, token):
    load = job.load and job.driver != "none"
    loadable = load and not kernel.guest.builtin
    bare = kernel.guest.stock and job.driver == "c"
    size = shutil.get_terminal_size()
    words = {
        "token": token,
        "tty": "tty1" if kernel.guest.arch == "um" else emulator.MACHINES[kernel.guest.arch].tty,
        "module": MODULES[job.driver] if loadable else "",
        # Debian's C driver makes one device alone, and has no binderfs.
        "devices": "devices=binder,hwbinder,vndbinder" if bare else "",
        "mount": "yes" if load and job.mount and not (bare and kernel.has_c) else "no",
        # Neither incumbent can be unloaded: C has no exit, upstream's oopses.
        "unload": "yes" if loadable and job.driver == "rust" else "no",
        "leaks": "yes" if job.leaks else "no",
        "interactive": "yes" if job.interactive else "no",
        "columns": size.columns if job.interactive else "",
        "rows": size.lines,
        "driver": job.driver,
    }
    return "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in words.items())


def _busybox(arch):
    """The program that is most of a guest's commands, of the same Debian release for all architectures that it has."""
    section = PINNED["busybox"].get(arch)
    root = foreign.root(section) if section else pathlib.Path("/")
    # Of later releases all programs are in /usr.
    return next(path for path in (root / "bin/busybox", root / "usr/bin/busybox") if path.exists())


def _applets():
    out = subprocess.run(["/bin/busybox", "--list"], text=True, capture_output=True, check=True)
    return [name for name in out.stdout.split() if name not in ("busybox", "init")]


@contextlib.contextmanager
def _raw_terminal(wanted):
    """Hand the user's keys to the guest untouched, and the terminal back whatever happens."""
    if not (wanted and sys.stdin.isatty()):
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setraw(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


class _Speech:
    """Take the guest's stream apart as it comes."""

    def __init__(self, token, on_output):
        self._mark = f"\n@@{token} ".encode()
        self._rest = b""
        self.running = False
        self._on_output = on_output
        # A character of several bytes may come in two pieces.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._file = None
        self._log = False
        self.status = None
        self.ended = False
        self.output = b""
        self.files = {}
        self.dmesg = []
        self.failures = []

    def hear(self, data):
        self._rest += data
        while True:
            before, mark, after = self._rest.partition(self._mark)
            if mark and b"\n" in after:
                self._between(before)
                line, _, self._rest = after.partition(b"\n")
                self._order(line.decode(errors="replace").split(" ", 1))
                continue
            if not mark and self.running:
                # Pass on all but what may be the beginning of a mark.
                keep = next(n for n in range(len(self._mark), -1, -1)
                            if self._rest.endswith(self._mark[:n]))
                cut = len(self._rest) - keep
                self._between(self._rest[:cut])
                self._rest = self._rest[cut:]
            return

    def _between(self, data):
        if self.running:
            self.output += data
            self._pass_on(self._decoder.decode(data))
        elif self._file:
            with contextlib.suppress(ValueError):
                self.files[self._file] = base64.b64decode(data)
        elif self._log:
            self.dmesg += data.decode(errors="replace").splitlines()

    def _pass_on(self, text):
        if self._on_output and text:
            self._on_output(text)

    def _order(self, words):
        order, argument = words[0].strip(), words[1].strip() if len(words) > 1 else ""
        self.running, self._log = order == "start", order == "dmesg"
        self._file = argument if order == "file" else None
        if order == "exit":
            self.status = int(argument)
            self._pass_on(self._decoder.decode(b"", final=True))
        elif order == "failed":
            self.failures.append(f"the guest failed at {argument}")
        elif order == "end":
            self.ended = True
