# SPDX-License-Identifier: GPL-2.0
"""`make test`: every suite in its place, and one line at the end that sums them up."""

import collections
import difflib
import functools
import re
import subprocess
import threading
import time

from . import bench, bpftrace, callbacks, check, clients, examples, frames, gate, growth, guest, host_tests, kernel, kunit, lanes, module, packages, perfetto, proc, programs, recall, say, screens, stock, times, tracing, unload, ynl
from .versions import BUILD, ROOT

_COUNTS = re.compile(r"^(\d+) passed, (\d+) failed$", re.M)
_SKIPPED = re.compile(r"^\d+ skipped: ")

# Where the contract must hold. The C driver is the oracle. Upstream's Rust driver is compared by
# `make contract-table`: each test that it fails takes seconds to do so.
CONTRACT = (("um", "c", True), ("um", "rust", True), ("x86_64", "c", True), ("x86_64", "rust", True),
            ("x86_64-debug", "rust", True))
# What a kernel does otherwise with a driver that is part of it: it starts it, and lets it use what modules cannot.
BUILTIN = "x86_64-builtin"
GROUPS_BUILTIN = ("sync::", "binderfs::", "ioctl::", "mmap::", "security::", "nice::", "realtime::", "reclaim::",
                  "quota::")
# Debian's newest kernel, as it is: other compilers, another configuration. `make contract GUEST=debian` runs all tests.
STOCK = stock.NAMES[0]
GROUPS_STOCK = ("sync::", "binderfs::", "ioctl::", "mmap::", "fds::", "reclaim::")
CONTRACT_STOCK = ((STOCK, "c", ("sync::", "ioctl::", "binderfs::")), (STOCK, "rust", GROUPS_STOCK))
# With a security module all calls pass its hooks, and nodes are told who calls them.
LSM = ("lsm=selinux",)
GROUPS_LSM = ("security::", "sync::", "nested::", "objects::", "fds::", "fd_arrays::", "context::", "binderfs::")
CONTRACT_LSM = (("um", "c", GROUPS_LSM), ("um", "rust", GROUPS_LSM), ("x86_64-debug", "rust", ("security::",)),
                (STOCK, "rust", ("security::",)))
# The module can refuse things only if it has a policy, and cannot be rid of it again.
CONTRACT_POLICY = (("um", "c"), ("um", "rust"))
# Whom pages of buffers are charged to is a parameter of our driver.
CHARGING = ("parameters=charge_buffers=1",)
CONTRACT_CHARGING = ("um", "x86_64-debug")
# Whether a caller who waits gives its CPU away is another one.
NO_HANDOFF = ("parameters=handoff=0",)
# What is told to the driver by numbers, sizes and addresses is what a task's width could change; the
# rest runs with `make contract-32`, on a kernel of its own that knows the other system calls of such tasks.
GROUPS_32 = ("ioctl::", "binderfs::", "mmap::", "write_read::", "sync::", "replies::", "failures::", "buffers::",
             "objects::", "handles::", "fds::", "fd_arrays::", "pointers::", "freeze::")
CONTRACT_32 = (("x86_64", "c"), ("x86_64", "rust"))
# Numbers of tasks come round as well: the words in front of a command line.
FEW_PIDS = ("/bin/sh", "-c", 'echo 1024 >/proc/sys/kernel/pid_max && exec "$@"', "sh")
# Where the compiler inlines most.
FRAMES = "x86_64"
# One guest for each configuration of the kernel: whether structs are the same in both languages, and the log watched.
LAYOUTS = ("um", "x86_64", "x86_64-debug", STOCK)
# How often the driver is loaded and unloaded. The debug kernel takes three times as long, and looks closer.
CYCLES = {"um": 100, "x86_64": 100, STOCK: 100, "x86_64-debug": 25}
# How long processes call each other. Whether a space is filled before its process is let run, the host's load decides, too,
# unless the guest's clock counts instructions.
MESH_SECONDS = 10
# Twice: before all log files are read again and again by another process, and meanwhile.
MESH_READ_SECONDS = 3
PAIRS_READ = ("--pairs", "--processes", "16", "--callers", "1", "--oneway", "0", "--read-logs")
MESH_COUNTED_SECONDS = 2
# Microseconds from one call of a thread to its next then: three quarters of what C serves, and the same on any driver.
MESH_PACE = 5000
# What the kernel's netlink tool prints of a call that is slow, without numbers.
SLOW_CALL = {"context": "binder",
             "chain": "slow call, N ms: N:N waits for call N to N; N:N serves it and sleeps outside of Binder",
             "numbers": ["from-pid", "from-tid", "to-pid", "debug-id", "waited-ms"]}
# How many recorded mutants are tried again, drawn by the day's date.
MUTANTS = 20
RECORD = "results.jsonl"


class Tally:
    """Passed and failed, for each suite and in all."""

    def __init__(self):
        self.rows = []
        # What was said of each row that failed.
        self.reasons = []
        # How often the kernel called what it calls of our driver, in the debugging guest.
        self.calls = collections.Counter()

    def add(self, name, passed, failed, counts=True):
        self.rows.append((name, passed, failed, counts))
        reasons = say.take_recent()
        if failed and counts:
            self.reasons.append((name, reasons))
        extra = "" if counts else " (for comparison, not counted)"
        say.note(f"  {name}: {passed} passed, {failed} failed{extra}")

    def take(self, other):
        """What another one has counted comes after what this one has."""
        self.rows += other.rows
        self.reasons += other.reasons
        self.calls.update(other.calls)

    def finish(self):
        """Print the table, what failed and the sum; the exit status."""
        width = max((len(row[0]) for row in self.rows), default=0)
        print()
        for name, passed, failed, counts in self.rows:
            extra = "" if counts else "   for comparison, not counted"
            print(f"  {name:<{width}} {passed:>5} passed {failed:>5} failed{extra}")
        for name, reasons in self.reasons:
            print(f"\n  {name} failed:")
            for line in reasons:
                print(f"    {line.strip()}")
        passed = sum(row[1] for row in self.rows if row[3])
        failed = sum(row[2] for row in self.rows if row[3])
        print(f"\n{passed} passed, {failed} failed")
        return 1 if failed or not passed else 0


def test(afresh=False):
    """Everything; goes on after a failure, so that one run tells all. `afresh`: also what passed before in the same guest."""
    tally = Tally()
    with times.counted():
        tallies, spans = lanes.run(stages(afresh), Tally, lanes.names())
    for part in tallies:
        tally.take(part)
    callbacks_called(tally)
    status = tally.finish()
    print("\n".join(times.summary(times.record(spans, time.monotonic() - say.START))))
    return status


def stages(afresh=False):
    """All that must hold, in the order of the table."""
    found, takes = [], times.takes()

    def stage(title, run, counts=True):
        found.append(lanes.Stage(title, run, counts, takes.get(title, 0)))

    def of_contract(name, driver, *words, counts=True, **options):
        title = " ".join(["contract", name, driver, *words])
        stage(title, lambda tally: contract(tally, title, name, driver, counts, recalled=not afresh, **options), counts)

    stage("check", checks)
    stage("host tests", host_tests.of_crates)
    stage("tests of the tools", host_tests.of_tools)
    stage(f"KUnit {kunit.GUEST}", kunit_suites)
    for name, driver, counts in CONTRACT:
        of_contract(name, driver, counts=counts)
    of_contract("um", "rust", "with numbers near their ends", near_limits=True)
    of_contract(BUILTIN, "rust", only=GROUPS_BUILTIN)
    for name, driver, only in CONTRACT_LSM:
        of_contract(name, driver, *LSM, boot=LSM, only=only)
    for name, driver in CONTRACT_POLICY:
        of_contract(name, driver, "with a policy", boot=LSM, only=("policy::",), policy=True)
    for name in CONTRACT_CHARGING:
        of_contract(name, "rust", "charge_buffers=1", boot=CHARGING, only=("charging::", "reclaim::"))
    of_contract("um", "rust", "handoff=0", boot=NO_HANDOFF, only=("placement::",))
    for name, driver in CONTRACT_32:
        of_contract(name, driver, "32-bit", only=GROUPS_32, width=32)
    for name, driver, only in CONTRACT_STOCK:
        of_contract(name, driver, "some groups", only=only)
    stage(f"stack frames {FRAMES}", _frames)
    for name in LAYOUTS:
        stage(f"layouts {name}", functools.partial(layouts, name=name))
        stage(f"the watch over the kernel's log, {name}", functools.partial(watched, name=name))
    for name in clients.NAMES:
        stage(f"client {name}",
              functools.partial(real_clients, names=(name,), guest_name="um", drivers=("c", "rust")))
    stage("client stress x86_64-debug",
          functools.partial(real_clients, names=("stress",), guest_name="x86_64-debug", drivers=("rust",)))
    for name, count in CYCLES.items():
        stage(f"load and unload {name}", functools.partial(cycles, name=name, count=count))
    for name in unload.GUESTS:
        stage(f"unload {name}", functools.partial(unloading, name=name))
    stage("trace events next to C's", traced_next_to_c)
    stage("trace events read by trace-cmd", read_by_trace_cmd)
    stage("trace events recorded by Perfetto", recorded_by_perfetto)
    stage("one-liners for bpftrace", read_by_bpftrace)
    stage(f"trace events of a driver that comes and goes {tracing.WATCHED}", traced_and_reloaded)
    stage("logs alike", logs_alike)
    stage("worked examples", worked_examples)
    stage("module parameters", _parameters)
    stage("reports in the kernel's netlink tool", netlink_tool)
    stage("a netlink family that is taken", netlink_family_taken)
    stage("names of log files that are taken", log_names_taken)
    stage("binder-bench's errors", _bench_errors)
    for driver in ("c", "rust"):
        stage(f"binderctl in terminals um {driver}", functools.partial(_terminals, driver=driver))
    for driver in ("c", "upstream", "rust"):
        stage(f"binderctl um {driver}", functools.partial(_binderctl, driver=driver))
    stage("instructions next to C's", _gate)
    stage("traced calls next to C's",
          functools.partial(_next_to_c, title="instructions of a traced call next to C's", judge=tracing.cost_next_to_c))
    stage("growth next to C's", functools.partial(_next_to_c, title="growth next to C's", judge=growth.short))
    stage("memory kept", functools.partial(_next_to_c, title="memory kept", judge=bench.retention_of_few))
    for driver in ("c", "rust"):
        stage(f"mesh um {driver}",
              functools.partial(mesh, name="um", seconds=MESH_SECONDS, driver=driver, tolerate=True))
        stage(f"mesh um {driver}, logs read",
              functools.partial(mesh, name="um", seconds=MESH_READ_SECONDS, driver=driver, words=PAIRS_READ))
        stage(f"mesh x86_64 {driver}, counted",
              functools.partial(mesh, name="x86_64", seconds=MESH_COUNTED_SECONDS, driver=driver, icount=True))
    stage("mutants", _mutants)
    stage("soak", functools.partial(soak, name="um", seconds=30))
    return found


def checks(tally):
    """The static checks, each one of which is a test."""

    def report(name, complaints):
        for line in complaints[:40]:
            say.lines(f"    {line}")
        tally.add(f"check {name}", int(not complaints), int(bool(complaints)))

    check.run(report)


def contract(tally, title, name, driver, counts=True, boot=(), only=(), width=64,
             policy=False, module_file=None, near_limits=False, recalled=False):
    """The contract suite in one guest against one driver, for tasks of a width. Gives the guest's result.

    `boot`: more words for the guest's command line. `only`: not all tests, but those whose names
    contain one of these. `policy`: whether the security module gets that of the tests. `module_file`: is
    loaded instead of our driver as it is. `near_limits`: our driver's numbers start near their ends. `recalled`: a run
    that passed on the C driver is not made again.
    """
    where = "-".join([name, *boot, *(["32"] if width == 32 else [])])
    program = programs.build_32bit("tests/contract") if width == 32 else programs.build("tests/contract")
    argv = ["/lab/contract", "run", "--driver", driver, "--guest", where, "--record", f"/out/{RECORD}"]
    argv += [word for part in only for word in ("--filter", part)]
    if near_limits:
        module_file = module.build_near_limits(kernel.build(name))
        argv = [*FEW_PIDS, *argv, "--near-limits"]
    files = {"/lab/contract": program}
    if driver == "upstream":
        # It fails many, and each failure takes as long as the test is patient.
        argv += ["--patience", "1", "--timeout", "8"]
    if name == callbacks.GUEST or name in stock.NAMES:
        # A step of many thousand objects takes seconds there, and longer while other lanes are busy.
        argv += ["--patience", "15", "--timeout", "90"]
    if policy:
        argv += ["--policy", "/lab/policy"]
        files["/lab/policy"] = compiled_policy()
    if (name, driver) == (callbacks.GUEST, "rust"):
        argv = callbacks.watched(argv)
    job = guest.Job(argv=argv, driver=driver, files=files, timeout=2400, boot=boot,
                    module=module_file)
    if recalled and driver == "c":
        result = recall.run(kernel.build(name), job, lambda: _run(title, name, job))
    else:
        result = _run(title, name, job)
    tally.calls.update(callbacks.read(result.files))
    found = _COUNTS.search(result.output)
    passed, failed = map(int, found.groups()) if found else (0, 1)
    for line in result.output.splitlines():
        if " FAILED " in line or _SKIPPED.match(line):
            say.lines(f"    {line}")
    if not result.good and not failed:
        failed = 1
    if RECORD in result.files and not only and not near_limits:
        record = _record(where, driver)
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_bytes(result.files[RECORD])
    tally.add(title, passed, failed, counts)
    return result


def kunit_suites(tally):
    """What KUnit runs in the kernel when a driver is loaded that has its suites.

    As a guest is there, 32-bit tasks use the driver in it: the debugging guest sees no others.
    """
    result = contract(tally, f"contract {kunit.GUEST} rust 32-bit, with KUnit", kunit.GUEST, "rust", only=("ioctl::",),
                      width=32, module_file=kunit.module_with_suites())
    for name, (passed, failures) in kunit.judge(result.kernel_log).items():
        for failure in failures:
            say.lines(f"    {name}: {failure}")
        tally.add(f"KUnit {name}", passed, len(failures))


def callbacks_called(tally):
    """Whether the runs in the debugging guest had the kernel call all that it calls of our driver."""
    missing = callbacks.judge(tally.calls)
    for name in missing:
        say.lines(f"    {name} was never called")
    tally.add("callbacks called under lockdep and KASAN", len(callbacks.CALLBACKS) - len(missing), len(missing))


def compiled_policy():
    """The tests' policy of SELinux, compiled."""
    packages.ensure("policy")
    made = BUILD / "policy"
    # Another lane may read it.
    part = made.with_suffix(f".{threading.get_ident()}")
    # Whatever the policy does not name is allowed. The version is one that the compiler and the kernel know.
    proc.output("checkpolicy", "-U", "allow", "-c", "33", "-o", part, ROOT / "tests/contract/policy.conf")
    part.rename(made)
    return made


def layouts(tally, name):
    """Whether Rust sees the structs of a guest's kernel as C does: then the module that compares them loads."""
    made = "layouts_test.ko"
    path = module.build(kernel.build(name), ROOT / "tests/layouts", "layouts", made)
    job = guest.Job(argv=["insmod", f"/lab/{made}"], driver="none", files={f"/lab/{made}": path})
    title = f"layouts {name}"
    result = _run(title, name, job)
    for line in result.kernel_log if not result.good else ():
        if "layouts_test" in line:
            say.lines(f"    {line}")
    tally.add(title, int(result.good), int(not result.good))


def watched(tally, name):
    """Whether a run fails in which the page allocator was asked for more than it ever has in one piece."""
    made = "watch_test.ko"
    path = module.build(kernel.build(name), ROOT / "tests/watch", "watch", made)
    job = guest.Job(argv=["insmod", f"/lab/{made}"], driver="none", files={f"/lab/{made}": path})
    title = f"the watch over the kernel's log, {name}"
    with say.Step(title):
        result = guest.run(kernel.build(name), job)
    # Kernels without CONFIG_DEBUG_BUGVERBOSE name the function, not the file.
    complaint = re.compile(r"WARNING: .*(mm/page_alloc\.c|alloc\w*_pages)")
    seen = result.status == 0 and any(map(complaint.search, result.problems))
    if not seen:
        say.lines(f"    status {result.status}, {result.problems}")
    tally.add(title, int(seen), int(not seen))


def _record(name, driver):
    """Where it is kept how each test ended in a guest's last run against a driver."""
    return BUILD / "results" / f"{name}-{driver}.jsonl"


def _rules(name, *extra):
    """Call the suite's `rules` with the records of the last runs in a guest."""
    records = [r for r in (_record(name, driver) for driver in guest.MODULES) if r.exists()]
    words = [word for record in records for word in ("--results", record)]
    argv = [BUILD / "programs/contract", "rules", *words, *extra]
    # It reads which tests the host has.
    subprocess.run([str(word) for word in argv], cwd=ROOT / "tests/contract", check=True)


def print_rules(name):
    """Print the table of rules, tests, and how they ended on the drivers that were run."""
    print()
    _rules(name)


def contract_table(name):
    """Run the suite against all drivers, and write the tables of `docs/contract.md` anew."""
    tally = Tally()
    for driver in guest.MODULES:
        contract(tally, f"contract {name} {driver}", name, driver, counts=driver != "upstream")
    _rules(name, "--update", ROOT / "docs/contract.md")
    print_rules(name)
    return tally.finish()


def traced_next_to_c(tally):
    """Whether the trace events have the C driver's formats, and say of the same scenes what the C driver's say."""
    title = f"trace events next to C's {tracing.GUEST}"
    results = [_run(f"{title}, {driver}", tracing.GUEST, tracing.job(driver)) for driver in ("c", "rust")]
    judged, wrong = tracing.judge(*(result.output for result in results))
    for line in wrong:
        say.lines(f"    {line}")
    failed = sum(not line.startswith(" ") for line in wrong) + sum(not result.good for result in results)
    tally.add(title, max(judged - failed, 0), failed)


def read_by_trace_cmd(tally):
    """Whether trace-cmd reads a recorded run, whichever driver's."""
    for driver in ("c", "rust"):
        title = f"trace events read by trace-cmd {tracing.GUEST} {driver}"
        result = _run(title, tracing.GUEST, tracing.read_by_trace_cmd(driver))
        count, wrong = tracing.judge_report(result.output)
        for line in wrong:
            say.lines(f"    {line}")
        say.note(f"    {count} events")
        tally.add(title, int(result.good and not wrong), int(not result.good or bool(wrong)))


def recorded_by_perfetto(tally):
    """Whether Perfetto records a run, and what it wrote says of each event all that its schema has, whichever driver's."""
    for driver in ("c", "rust"):
        title = f"trace events recorded by Perfetto {perfetto.GUEST} {driver}"
        result = _run(title, perfetto.GUEST, perfetto.job(driver))
        wrong = ["there is no trace"]
        if perfetto.TRACE in result.files:
            count, wrong = perfetto.judge(perfetto.decoded(result.files[perfetto.TRACE]))
            say.note(f"    {count} calls and replies")
        for line in wrong:
            say.lines(f"    {line}")
        tally.add(title, int(result.good and not wrong), int(not result.good or bool(wrong)))


def read_by_bpftrace(tally):
    """Whether the documents' one-liners for bpftrace print what they are to, whichever driver is loaded."""
    for driver in ("c", "rust"):
        title = f"one-liners for bpftrace {bpftrace.GUEST} {driver}"
        result = _run(title, bpftrace.GUEST, bpftrace.job(driver))
        judged, wrong = bpftrace.judge(result.output)
        for line in wrong:
            say.lines(f"    {line}")
        failed = len(wrong) or int(not result.good)
        tally.add(title, judged - failed, failed)


def traced_and_reloaded(tally):
    """Whether a tracer can stay while the driver is taken away and comes back."""
    title = f"trace events of a driver that comes and goes {tracing.WATCHED}"
    result = _run(title, tracing.WATCHED, tracing.reloading())
    if not result.good:
        say.lines(result.output)
    tally.add(title, int(result.good), int(not result.good))


def unloading(tally, name):
    """The driver taken away at the moments at which its code might still be needed."""
    title = f"unload {name}"
    result = _run(title, name, unload.job(timeout=300))
    found = _COUNTS.search(result.output)
    passed, failed = map(int, found.groups()) if found else (0, 1)
    for line in result.output.splitlines():
        if " FAILED " in line or " skipped " in line:
            say.lines(f"    {line}")
    tally.add(title, passed, failed or int(not result.good))


def _frames(tally):
    """Whether a function of our driver takes too much stack. The static checks have looked at User Mode Linux."""
    complaints = frames.too_large(module.build(kernel.build(FRAMES)))
    for line in complaints:
        say.lines(f"    {line}")
    tally.add(f"stack frames {FRAMES}", int(not complaints), int(bool(complaints)))


def real_clients(tally, names, guest_name, drivers):
    """Clients that others wrote; on two drivers they must also print the same."""
    for name in names:
        said = {}
        for driver in drivers:
            lanes.attempt(tally, f"client {name} {driver}",
                          lambda tally: said.update({driver: _client(tally, name, guest_name, driver)}))
        if len(said) > 1:
            _compare_clients(tally, name, said)


def _client(tally, name, guest_name, driver):
    """Run all parts of one client; what they printed."""
    said = []
    for part in clients.parts(name, guest_name):
        title = f"client {name} {guest_name} {driver}: {part.name}"
        result = _run(title, guest_name, clients.job(part, driver))
        passed, failed = clients.counts(result.output)
        for line in clients.failures(result.output):
            say.lines(f"    {line}")
        if passed + failed < part.least:
            say.lines(f"    {passed + failed} tests were run, at least {part.least} are there")
        if not failed and (not result.good or passed < part.least):
            failed = 1
        tally.add(title, passed, failed)
        said += clients.comparable(result.output)
    return said


def _compare_clients(tally, name, said):
    (first, one), (second, other) = said.items()
    different = [line for line in difflib.unified_diff(one, other, first, second, lineterm="", n=0)]
    for line in different[:20]:
        say.lines(f"    {line}")
    tally.add(f"client {name}: {first} and {second} alike", int(not different), int(bool(different)))


def logs_alike(tally):
    """Whether all logs of one scene say the same on the C driver and on ours, but for what differs from run to run."""
    said = {}
    for driver in ("c", "rust"):
        title = f"logs of a scene um {driver}"
        job = guest.Job(argv=["/lab/contract", "example", "logs"], driver=driver,
                        files={"/lab/contract": programs.build("tests/contract")})
        result = _run(title, "um", job)
        said[driver] = result.output.replace("\r\n", "\n").splitlines()
        if not result.good or len(said[driver]) < 100:
            say.lines(*_last_words(result.output))
            tally.add(title, 0, 1)
            return
    one, other = said.values()
    different = list(difflib.unified_diff(one, other, *said, lineterm="", n=0))
    say.lines(*(f"    {line}" for line in different[:40]))
    tally.add("logs of a scene: c and rust alike", int(not different), int(bool(different)))


def worked_examples(tally, drivers=examples.DRIVERS):
    """Whether the worked examples of the docs print what the docs say."""
    files = examples.tools()
    for driver in drivers:
        for name, scene in examples.blocks(examples.text(), driver).items():
            title = f"worked example {name} um {driver}"
            result = _run(title, "um", examples.job(name, scene, driver, files))
            wrong = examples.judge(scene, result.output)
            say.lines(*(f"    {line}" for line in wrong))
            tally.add(title, int(result.good and not wrong), int(not result.good or bool(wrong)))


def soak(tally, name, seconds, driver="rust"):
    """Kill clients and servers at random under load, then see that nothing was leaked."""
    program = programs.build("tests/contract")
    argv = ["/lab/contract", "soak", "--seconds", str(seconds)]
    job = guest.Job(argv=argv, driver=driver, files={"/lab/contract": program},
                    timeout=seconds * 2 + 120)
    title = f"soak {name} {driver} {seconds} s"
    result = _run(title, name, job)
    say.lines(*_last_words(result.output))
    tally.add(title, int(result.good), int(not result.good))


def mesh(tally, name, seconds, driver="rust", tolerate=False, icount=False, words=(), cpus=1):
    """Many processes call each other: nothing may be lost, and nothing be refused unless that is tolerated. With
    `icount` on `cpus` CPUs, whose time is their instructions, and at a pace: each run is like the last, however busy the host."""
    program = programs.build("tests/contract")
    argv = ["/lab/contract", "mesh", "--seconds", str(seconds), *(["--tolerate"] if tolerate else []), *words]
    argv += ["--pace", str(MESH_PACE)] if icount else []
    job = guest.Job(argv=argv, driver=driver, files={"/lab/contract": program}, icount=icount,
                    qemu=("-smp", cpus) if icount else (), timeout=seconds * (100 if icount else 1) + 150)
    title = f"mesh {name} {driver} {seconds} s" + (", counted" if icount else "") + (", logs read" if words else "")
    result = _run(title, name, job)
    say.lines(*_last_words(result.output))
    tally.add(title, int(result.good), int(not result.good))


def _last_words(output):
    """The end of a load's output, after what the first of its processes said that failed: the others fail of that."""
    lines = output.strip().splitlines()
    first = [line for line in lines if " fails: " in line][:2]
    return [f"    {line}" for line in [*(line for line in first if line not in lines[-5:]), *lines[-5:]]]


def cycles(tally, name, count):
    """The driver loaded, mounted and taken away so many times."""
    job = guest.Job(argv=["/lab/cycle", str(count)], load=False, timeout=300)
    title = f"load and unload {name} {count} x"
    result = _run(title, name, job)
    tally.add(title, int(result.good), int(not result.good))


def _parameters(tally):
    """What the parameter `devices` makes of its words: a driver's first load, so no driver is there before."""
    for driver in ("c", "rust"):
        argv = ["/lab/devices", guest.MODULES[driver]]
        title = f"parameter devices um {driver}"
        result = _run(title, "um", guest.Job(argv=argv, driver=driver, load=False))
        if not result.good:
            say.lines(result.output)
        tally.add(title, int(result.good), int(not result.good))


def netlink_tool(tally):
    """Whether `tools/net/ynl` of the kernel's tree prints the same report of both drivers, and ours of a slow call."""
    reports = {}
    for driver in ("c", "rust"):
        _listen(tally, "report", driver,
                lambda seen: reports.setdefault("c", seen[:1]) == seen[:1] != [])
    _listen(tally, "slow_call", "rust", lambda seen: SLOW_CALL in seen)


def _listen(tally, group, driver, is_right):
    title = f"group {group} in the kernel's netlink tool um {driver}"
    result = _run(title, "um", ynl.job(driver, group))
    seen = ynl.messages(result.output)
    good = result.good and is_right(seen)
    if not good:
        say.lines(f"    {result.output}\n    {seen}")
    tally.add(title, int(good), int(not good))


def netlink_family_taken(tally):
    """Whether our driver does without its netlink family while somebody else has it, and says so."""
    _taken(tally, "a netlink family that is taken", "netlink", "family_test.ko", ["/lab/taken"], [
        "transaction_report 0", "transaction_report 1",
        "binder_rust: no reports over netlink (-17): another driver has registered family binder; unload it to have them"])


def log_names_taken(tally):
    """Whether a device can be opened while somebody else has the names of its log files in debugfs."""
    _taken(tally, "names of log files that are taken", "logs", "names_test.ko", ["/lab/unnamed", "binder_rust"], [
        "directory taken: no log of the process", "files taken: no log of the process",
        "nothing taken: a log of the process that says context binder"])


def _taken(tally, title, folder, made, argv, wanted):
    """What a script prints that loads our driver beside a module of tests/`folder`, which has what the driver wants."""
    path = module.build(kernel.build("um"), ROOT / "tests" / folder, folder, made)
    result = _run(f"{title} um", "um", guest.Job(argv=argv, load=False, files={f"/lab/{made}": path}))
    good = result.good and result.output.splitlines() == wanted
    if not good:
        say.lines(result.output)
    tally.add(title, int(good), int(not good))


def _terminals(tally, driver):
    passed, failed, _ = screens.run("um", driver)
    tally.add(f"binderctl in terminals um {driver}", passed, failed)


def _bench_errors(tally):
    """Whether binder-bench's workloads run with a driver loaded, and what it says when something is wrong."""
    files = {"/lab/binder-bench": programs.build("tools/binder-bench"),
             "/lab/guest.sh": ROOT / "tools/binder-bench/tests/guest.sh"}
    for driver in ("c", "rust"):
        title = f"binder-bench's errors um {driver}"
        job = guest.Job(argv=["/bin/sh", "/lab/guest.sh", "/lab/binder-bench"], driver=driver, files=files,
                        timeout=300)
        result = _run(title, "um", job)
        tally.add(title, int(result.good), int(not result.good))


def _binderctl(tally, driver):
    """What each command of binderctl says, and how it exits, with a driver loaded and processes that are in trouble."""
    files = {"/lab/binderctl": programs.build("tools/binderctl"), "/lab/contract": programs.build("tests/contract"),
             "/lab/guest.sh": ROOT / "tools/binderctl/tests/guest.sh"}
    argv = ["/bin/sh", "/lab/guest.sh", "/lab/binderctl", "/lab/contract", driver]
    title = f"binderctl um {driver}"
    result = _run(title, "um", guest.Job(argv=argv, driver=driver, files=files, timeout=300))
    found = _COUNTS.search(result.output)
    passed, failed = map(int, found.groups()) if found else (0, 1)
    if not result.good:
        say.lines(*(f"    {line}" for line in result.output.splitlines()))
    tally.add(title, passed, failed or int(not result.good))


def _gate(tally):
    """Our instructions next to the C driver's, operation by operation."""
    title = "instructions next to C's"
    rows, failures = gate.judge(gate.read()["ratios"], gate.measure())
    for line in [*rows, *(f"error: {failure}" for failure in failures)]:
        say.lines(f"    {line}")
    tally.add(title, len(rows) - 1 - len(failures), len(failures))


def _mutants(tally):
    """Whether the tests still see some of the faults that they saw, and each survivor was judged."""
    from . import mutants  # it runs this module's suites

    tried, alive = mutants.slice_of_killed(MUTANTS)
    unjudged = mutants.unjudged()
    for title in [*alive, *unjudged]:
        say.lines(f"    {title}")
    tally.add("mutants that the tests killed once", len(tried) - len(alive), len(alive))
    tally.add("mutants' survivors judged", int(not unjudged), int(bool(unjudged)))


def _next_to_c(tally, title, judge):
    """Something of ours that may not be worse than the C driver's; `judge` gives how many there are, and what is wrong."""
    judged, failures = judge()
    for failure in failures:
        say.lines(f"    error: {failure}")
    tally.add(title, judged - len(failures), len(failures))


def _run(title, name, job):
    """Boot and run one job with its progress shown, its log kept and its problems printed."""
    built = kernel.build(name)
    with say.Step(title) as step:
        result = guest.run(built, job, step.hear)
    log = BUILD / "log" / (re.sub(r"\W+", "-", title) + ".log")
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(result.output + "\n--- kernel\n" + "\n".join(result.kernel_log) + "\n")
    for problem in result.problems[:10]:
        say.lines(f"    {problem}")
    if not result.good:
        say.lines(f"    see {log}")
    return result
