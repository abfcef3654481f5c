# SPDX-License-Identifier: GPL-2.0
"""Programs of syzkaller in guests: `make torture ONLY=syzkaller SYZKALLER=PATH`.

The manager of syzkaller runs on the host. It makes programs from tests/syzkaller, keeps those with new coverage, and boots guests by JSON-RPC,
as its machine type `proxyapp`. The executor in a guest has a terminal of its own, which is the connection to the manager.
"""

import contextlib
import itertools
import json
import pathlib
import queue
import re
import signal
import socket
import socketserver
import subprocess
import tempfile
import threading
import time

from . import cache, contract, guest, kernel, kmsg, proc, programs, say
from .versions import BUILD, PINNED, ROOT

GUEST = "um-kcov"
DESCRIPTIONS = ROOT / "tests/syzkaller/rust_binder.txt"
# Calls of syzkaller's own descriptions, beside ours.
_OTHERS = ("eventfd2", "getpid", "memfd_create", "sendmsg$unix", "socketpair$unix")
# Seconds after which a guest is replaced: its log is searched for complaints, and the driver unloaded, where it can be.
_LIFE = 300
# Beside the executor, a manager serves a device of all programs. In User Mode Linux two symbols that syzkaller reads are local ones. Its own
# search for leaks takes most of the time, and cannot write where it would switch itself on.
_EXECUTOR = """
grep -E ' _[es]text$' /proc/kallsyms | sed 's/ t / T /' >/tmp/symbols
mount --bind /tmp/symbols /proc/kallsyms
mount --bind /tmp/symbols /sys/kernel/debug/kmemleak && mount -o remount,bind,ro /sys/kernel/debug/kmemleak
mkdir /dev/rb && mount -t binder binder /dev/rb || exit 1
while :; do /lab/contract directory /dev/rb/binder; sleep 0.1; done &
cat /dev/kmsg &
exec 3<>/dev/tty2
stty raw -echo <&3
printf x >&3
timeout -s INT {life} {program} runner 0 stdin stdin 0<&3
umount /sys/kernel/debug/kmemleak
"""
# What the kernel prints about the programs' own requests.
_NO_COMPLAINT = "The mand mount option has been deprecated"
_RECORD = re.compile(r"^\d+,\d+,\d+,[^;]*;", re.M)
_STATISTIC = re.compile(r"([a-z][a-z ]*)=(\d+)")


def run(tally, driver, seconds, path, module=None):
    """Let syzkaller try a driver, or a module instead of ours, for so many seconds. Returns the kernels' complaints."""
    home, title = _programs(path), f"syzkaller {GUEST} {driver}" + (" with a fault" if module else "")
    machine = _Machine(title, kernel.build(GUEST), driver, module)
    # In the cache, for a later run goes on with the programs that were kept.
    work = BUILD / "syzkaller" / module.parent.name if module else cache.root() / "syzkaller" / driver
    begun = time.monotonic()
    with say.Step(title) as step, machine.serving() as address:
        said = _manage(step, home, work, address, seconds, machine)
    last = dict(_STATISTIC.findall(said.rpartition("candidates=")[2]))
    count = int(last.get("exec total", 0))
    total = _added(work / "total.json", runs=1, minutes=(time.monotonic() - begun) / 60, programs=count, guests=machine.boots,
                   complaints=len(machine.complaints))
    tally.tried = (f"{total['programs']} programs in {total['minutes']:.0f} minutes of {total['runs']} runs, {last.get('coverage', 0)} places of the driver, "
                   f"{last.get('corpus', 0)} programs kept, {total['guests']} guests, {total['complaints']} complaints")
    say.note(f"  {tally.tried}; see {work}")
    if not machine.complaints and (not count or last.get("coverage", "0") == "0"):
        raise say.LabError(f"{title}: nothing was executed, see {work}/manager.log")
    return machine.complaints


def _added(path, **run):
    """The sums of this run and those before it, which a file keeps."""
    before = json.loads(path.read_text()) if path.exists() else {}
    total = {name: figure + before.get(name, 0) for name, figure in run.items()}
    path.write_text(json.dumps(total) + "\n")
    return total


def _programs(path):
    """The folder of syzkaller's programs, which have to contain our descriptions."""
    home = pathlib.Path(path or "").absolute()
    if not path or not (home / "bin/syz-manager").exists() or not (home / "bin/linux_amd64/syz-executor").exists():
        raise say.LabError("SYZKALLER= names the folder of a syzkaller built with tests/syzkaller: it has bin/syz-manager and bin/linux_amd64")
    for name in (DESCRIPTIONS.name, f"{DESCRIPTIONS.name}.const"):
        there = home / "sys/linux" / name
        if not there.exists() or there.read_bytes() != DESCRIPTIONS.with_name(name).read_bytes():
            raise say.LabError(f"{there} is not tests/syzkaller/{name}: copy that, and make syzkaller's programs again")
    revision = proc.output("git", "-C", home, "rev-parse", "HEAD").strip()
    if revision != PINNED["syzkaller"]["revision"]:
        say.note(f"syzkaller is at {revision[:12]}, tested is {PINNED['syzkaller']['revision'][:12]}")
    return home


def _manage(step, home, work, address, seconds, machine):
    """Run the manager; returns what it has printed."""
    work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="lab-") as folder:
        config = pathlib.Path(folder) / "config"
        config.write_text(json.dumps(_config(home, pathlib.Path(folder), work, address)))
        with open(work / "manager.log", "wb") as sink:
            child = subprocess.Popen([home / "bin/syz-manager", "-config", config], stdout=sink, stderr=subprocess.STDOUT)
            try:
                ends = time.monotonic() + seconds
                while time.monotonic() < ends and child.poll() is None and not machine.is_enough():
                    time.sleep(1)
                    step.hear((work / "manager.log").read_text(errors="replace")[-1000:])
            finally:
                machine.stop()
                child.send_signal(signal.SIGINT)
                child.wait(60)
    return (work / "manager.log").read_text(errors="replace")


def _config(home, folder, work, address):
    """The manager's settings, and the folder that it takes for syzkaller's, with our programs to start from."""
    for name in ("linux_amd64", "linux_riscv64"):
        (folder / "bin").mkdir(exist_ok=True)
        (folder / "bin" / name).symlink_to(home / "bin/linux_amd64")
    (folder / "sys/linux").mkdir(parents=True)
    (folder / "sys/linux/test").symlink_to(DESCRIPTIONS.with_name("seeds"))
    ours = re.findall(r"^(\w+\$rb\w*)\(", DESCRIPTIONS.read_text(), re.M)
    return {
        # On a kernel of x86-64, syzkaller drops coverage at addresses of User Mode Linux. On one of riscv64 it takes all.
        "target": "linux/riscv64/amd64",
        "type": "proxyapp", "vm": {"rpc_server_uri": address, "security": "none"}, "rpc": "127.0.0.1:0",
        "workdir": str(work), "syzkaller": str(folder), "enable_syscalls": [*ours, *_OTHERS],
        "procs": 4, "sandbox": "none", "reproduce": False, "suppressions": ["lost connection to test machine"],
        "experimental": {"remote_cover": False},
    }


class _Machine:
    """The machine of a manager: a guest at a time. Public methods with a capital letter are those of the protocol."""

    def __init__(self, title, built, driver, module):
        self._title, self._built, self._driver, self._module = title, built, driver, module
        self._output, self._files = queue.Queue(), {}
        self._thread = self._stop = self._port = None
        self._over = threading.Event()
        self.boots, self.complaints = 0, []

    def is_enough(self):
        """True if a fault that was put in is found."""
        return self._module and any("KASAN" in complaint for complaint in self.complaints)

    def serving(self):
        """A context in which the protocol is served at an address."""
        return _Server(self)

    def stop(self):
        """End the guest, and all answers that wait."""
        self._over.set()
        self.Close({})

    def CreatePool(self, _):
        return {"Count": 1}

    def CreateInstance(self, _):
        self._output = queue.Queue()
        return {"ID": "guest"}

    def Copy(self, asked):
        name = f"/lab/{pathlib.Path(asked['HostSrc']).name}"
        self._files[name] = asked["HostSrc"]
        return {"VMFileName": name}

    def Forward(self, asked):
        self._port = asked["Port"]
        return {"ManagerAddress": f"127.0.0.1:{self._port}"}

    def RunStart(self, asked):
        if self._over.is_set():
            raise say.LabError("the run is over")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._boot, args=(asked["Command"].split()[0], self._output, self._stop))
        self._thread.start()
        return {"RunID": "run"}

    def _boot(self, program, output, stop):
        self.boots += 1
        ours, theirs = socket.socketpair()
        threading.Thread(target=self._connect, args=(ours,), daemon=True).start()
        with theirs:
            terminal = theirs.fileno()
            job = guest.Job(argv=["/bin/sh", "-c", _EXECUTOR.format(life=_LIFE, program=program)], driver=self._driver, module=self._module,
                            mount=False, files=self._files | {"/lab/contract": programs.build(contract.CRATE)}, memory=1024, timeout=_LIFE + 200,
                            boot=(f"con2=fd:{terminal}",), descriptors=(terminal,), stop=stop, leaks=True)
            result = guest.run(self._built, job, lambda text: output.put(_RECORD.sub("", text)))
        log = BUILD / "log" / (re.sub(r"\W+", "-", self._title) + f"-{self.boots}.log")
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(result.output + "\n--- kernel\n" + "\n".join(result.kernel_log) + "\n")
        # Objects that no task has allocated are not a driver's.
        others = [line for line, after in itertools.pairwise(result.kernel_log) if 'comm "hardirq"' in after]
        # A guest that is killed has not printed its log at the end, but its messages one by one.
        heard = kmsg.complaints(_RECORD.sub("", line) for line in result.output.splitlines() if _RECORD.match(line))
        problems = [problem for problem in [*heard, *result.problems] if not (stop.is_set() and problem.startswith("the guest "))
                    and not any(problem in line for line in others) and _NO_COMPLAINT not in problem]
        if problems:
            self.complaints.append(f"{problems[0]} ({log})")
        output.put("\n".join(["", *result.kernel_log, ""]))
        output.put(None)

    def _connect(self, terminal):
        """Connect a guest's terminal to the manager when the guest has made it raw. The manager is the first to send."""
        with terminal:
            if terminal.recv(1):
                with socket.create_connection(("127.0.0.1", self._port)) as manager:
                    threading.Thread(target=_pass_on, args=(manager, terminal), daemon=True).start()
                    _pass_on(terminal, manager)

    def RunReadProgress(self, _):
        text = self._output.get()
        return {"ConsoleOutChunk": text or "", "Finished": text is None}

    def RunStop(self, _):
        if self._stop:
            self._stop.set()
        return {}

    def Close(self, _):
        self.RunStop({})
        if self._thread:
            self._thread.join()
        return {}

    def Diagnose(self, _):
        return {"Diagnosis": ""}

    def PoolLogs(self, _):
        self._over.wait()
        return {"Log": "", "Verbosity": 9}


def _pass_on(source, sink):
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)


class _Server(socketserver.ThreadingTCPServer):
    """JSON-RPC on an address of this host. Some answers wait, so each call has a thread."""

    daemon_threads = True

    def __init__(self, machine):
        super().__init__(("127.0.0.1", 0), _Calls)
        self.machine = machine

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return "{}:{}".format(*self.server_address)

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class _Calls(socketserver.StreamRequestHandler):
    def handle(self):
        self._lock = threading.Lock()
        for line in self.rfile:
            threading.Thread(target=self._answer, args=(json.loads(line),), daemon=True).start()

    def _answer(self, call):
        answer = {"id": call["id"], "result": None, "error": None}
        try:
            answer["result"] = getattr(self.server.machine, call["method"].removeprefix("ProxyVM."))(call["params"][0])
        except (OSError, say.LabError) as error:
            answer["error"] = str(error)
        with self._lock, contextlib.suppress(OSError):
            self.wfile.write(json.dumps(answer).encode() + b"\n")
