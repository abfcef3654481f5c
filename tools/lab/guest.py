# SPDX-License-Identifier: GPL-2.0
"""Boot a guest, run one program in it, and judge the run: its exit status and the kernel's own log.

The guest speaks on a terminal of its own (UML's second console, QEMU's second serial port) in lines
that start with a token made up for this boot; what lies between `start` and `exit` is the program's
output. The kernel's console is separate, so that an oops is seen even when the guest says no more.
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

from . import initramfs, kmsg, lanes, module, say

SCRIPTS = pathlib.Path(__file__).parent / "guest"
MODULES = {"rust": "binder_rust", "c": "binder_linux", "upstream": "rust_binder"}

# QEMU carries these two out byte by byte; a kernel that is told that they are slow clears and copies by words instead.
_CPU = "max,-erms,-fsrm"
# Instructions as time: the guest's clock counts them, and two runs are the same to the byte.
ICOUNT = ["-accel", "tcg", "-icount", "shift=0,sleep=off,align=off", "-cpu", _CPU,
          "-smp", "1", "-seed", "1", "-rtc", "base=2026-01-01,clock=vm"]
# With a thread for each CPU, QEMU 7.2 may go on with what it has translated of text that another CPU rewrites
# meanwhile. The debugging kernel rewrites none while both run; the others take turns.
_AT_ONCE = ["-accel", "tcg,thread=multi", "-cpu", _CPU]
_IN_TURN = ["-accel", "tcg,thread=single", "-cpu", _CPU]


@dataclasses.dataclass
class Job:
    """What to run: `argv` in the guest, with host files laid at guest paths. `module` is loaded instead of
    our driver as it is."""

    argv: list
    driver: str = "rust"
    files: dict = dataclasses.field(default_factory=dict)
    load: bool = True
    module: pathlib.Path | None = None
    interactive: bool = False
    icount: bool = False
    # CPUs take turns in the debugging guest, too; or have a thread each in the others, too.
    in_turn: bool = False
    at_once: bool = False
    pin: int | None = None
    timeout: float = 120.0
    # After so long without a word it counts as hung, too.
    silence: float = float("inf")
    # One where nothing depends on a second one: two of User Mode Linux spin for each other on a busy host.
    cpus: int = 2
    # Megabytes; half of it holds the first filesystem, if that is as large.
    memory: int = 512
    # More words for the kernel's command line, and for QEMU's.
    boot: tuple = ()
    qemu: tuple = ()


@dataclasses.dataclass
class Result:
    """How a run ended. It is good when the program said 0 and nothing else went wrong."""

    status: int | None = None
    output: str = ""
    files: dict = dataclasses.field(default_factory=dict)
    kernel_log: list = dataclasses.field(default_factory=list)
    problems: list = dataclasses.field(default_factory=list)
    seconds: float = 0.0

    @property
    def good(self):
        return self.status == 0 and not self.problems


def run(kernel, job, on_output=None):
    """Boot `kernel`, run `job`; `on_output(text)` sees the program's output as it comes."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lab-") as folder:
        folder = pathlib.Path(folder)
        token = secrets.token_hex(4)
        initrd = folder / "initrd"
        initrd.write_bytes(first_filesystem(kernel, job, token))
        console = folder / "console"
        speech = _Speech(token, on_output)
        with open(console, "wb") as sink, _raw_terminal(job.interactive):
            ended = _boot(_command(kernel, job, initrd, console), sink, speech, job)
        result = _judge(speech, ended, console.read_text(errors="replace").splitlines(), job)
    result.seconds = time.monotonic() - began
    return result


def _command(kernel, job, initrd, console):
    if kernel.guest.arch == "um":
        argv = [kernel.image, f"mem={job.memory}M", f"ncpus={job.cpus}", "seccomp=on", f"initrd={initrd}",
                "con=null", "con1=fd:0,fd:1", "stderr=1", "loglevel=5", *job.boot]
    else:
        # On a busy host the timer ticks too late for the kernel's test of it at boot, which then panics.
        extra = ["norandmaps", "tsc=reliable"] if job.icount else ["no_timer_check"]
        # KASAN once reported a wild address in an interrupt at boot, outside of the driver. Probably it does not
        # know of how many levels page tables are while a CPU's features are read anew; with four it matters not.
        # Without ACPI it would not find the timer that it measures its clock by. QEMU's sockets have one clock, which AMD's need not.
        extra += ["no5lvl", "pmtmr=0x608", "tsc=reliable"] if kernel.guest.debug else []
        argv = ["qemu-system-x86_64", *machine(kernel, job), *job.qemu, "-m", job.memory, "-display", "none", "-no-reboot",
                "-nodefaults", "-serial", f"file:{console}", "-chardev", "stdio,id=talk,signal=off",
                "-serial", "chardev:talk", "-kernel", kernel.image, "-initrd", initrd,
                "-append", " ".join(["console=ttyS0 panic=-1 loglevel=5", *extra, *job.boot])]
    # The guest dies with us, however we die.
    front = ["setpriv", "--pdeathsig", "KILL"]
    if job.pin is not None:
        front += ["taskset", "-c", str(job.pin)]
    return [str(word) for word in [*front, *argv]]


def machine(kernel, job):
    """The words that tell QEMU what to emulate."""
    if job.icount:
        return ICOUNT
    at_once = job.at_once or kernel.guest.debug and not job.in_turn
    # The firmware's table of processors, which a kernel without ACPI reads, has one for each socket.
    return [*(_AT_ONCE if at_once else _IN_TURN), "-smp", f"{job.cpus},sockets={job.cpus}" if kernel.guest.debug else str(job.cpus)]


def _boot(argv, console, speech, job):
    """Run the guest until it ends or its time is over; whether it ended by itself."""
    deadline = time.monotonic() + job.timeout
    heard = time.monotonic()
    # What a pipe or a file has at once waits until the guest listens: User Mode Linux would die of it.
    typed = job.interactive and not os.isatty(0)
    child = subprocess.Popen(
        argv, stdin=None if job.interactive and not typed else subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=console,
    )
    try:
        with selectors.DefaultSelector() as ready:
            ready.register(child.stdout, selectors.EVENT_READ)
            while job.interactive or time.monotonic() < min(deadline, heard + job.silence):
                lanes.go_on()
                if not ready.select(timeout=1.0):
                    continue
                heard = time.monotonic()
                data = os.read(child.stdout.fileno(), 65536)
                if not data:
                    child.wait(10)
                    return True
                speech.hear(data)
                if typed and speech.running:
                    typed = False
                    threading.Thread(target=_type, args=(child.stdin.fileno(),), daemon=True).start()
        return False
    except subprocess.TimeoutExpired:
        return False
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
    """All that a guest finds when it starts, as one archive; `token` begins what it says to us."""
    archive = initramfs.Archive()
    for folder in ("proc", "sys", "dev", "tmp", "lab", "out", "bin"):
        archive.folder(folder)
    archive.character_device("dev/console", 5, 1)
    archive.character_device("dev/null", 1, 3)
    archive.file("bin/busybox", pathlib.Path("/bin/busybox").read_bytes(), 0o755)
    for applet in _applets():
        archive.link(f"bin/{applet}", "busybox")
    archive.file("init", (SCRIPTS / "init").read_bytes(), 0o755)
    for script in ("cycle", "devices", "counted", "reached", "faults", "traced", "retraced", "recorded",
                   "recorded_by_perfetto", "listen", "taken", "unnamed"):
        archive.file(f"lab/{script}", (SCRIPTS / script).read_bytes(), 0o755)
    for driver, path in _modules(kernel, job).items():
        archive.file(f"lab/{MODULES[driver]}.ko", path.read_bytes())
    for where, path in job.files.items():
        archive.file(where.lstrip("/"), pathlib.Path(path).read_bytes(), 0o755)
    archive.file("lab/job", _settings(kernel, job, token).encode())
    archive.file("lab/command", f"#!/bin/sh\nexec {shlex.join(job.argv)}\n".encode(), 0o755)
    return archive.bytes()


def _modules(kernel, job):
    if job.driver == "none" or kernel.guest.builtin:
        if job.driver not in ("none", "rust"):
            raise say.LabError(f"guest {kernel.guest.name} has our driver built in: no DRIVER={job.driver}")
        return {}
    if job.driver == "rust":
        return {"rust": job.module or module.build(kernel)}
    return {job.driver: kernel.module(job.driver)}


def _settings(kernel, job, token):
    load = job.load and job.driver != "none"
    loadable = load and not kernel.guest.builtin
    size = shutil.get_terminal_size()
    words = {
        "token": token,
        "tty": "tty1" if kernel.guest.arch == "um" else "ttyS1",
        "module": MODULES[job.driver] if loadable else "",
        # Debian's C driver has no binderfs.
        # Debian configures one device alone.
        "devices": "devices=binder,hwbinder,vndbinder" if kernel.guest.stock else "",
        "mount": "yes" if load and not (kernel.guest.stock and job.driver == "c") else "no",
        # Neither incumbent can be unloaded: C has no exit, upstream's oopses.
        "unload": "yes" if loadable and job.driver == "rust" else "no",
        "interactive": "yes" if job.interactive else "no",
        # QEMU ends at either; without ACPI there is nothing to power off with.
        "stop": "reboot" if kernel.guest.debug else "poweroff",
        "columns": size.columns if job.interactive else "",
        "rows": size.lines,
        "driver": job.driver,
    }
    return "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in words.items())


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
