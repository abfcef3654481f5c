# SPDX-License-Identifier: GPL-2.0
"""`make test`: every suite in its place, and one line at the end that sums them up."""

import difflib
import functools
import re
import subprocess
import threading
import time

from . import bench, bench_lines, callbacks, check, clients, emulator, frames, gate, gate_figures, growth, guest, host_tests, kernel, kunit, lanes, litmus, module, observed, packages, patch_list, patch_suite, proc, programs, recall, say, stock, times, tracing, turns, unload
from .tally import COUNTS, Tally, last_words, run
from .versions import BUILD, ROOT

_SKIPPED = re.compile(r"^\d+ skipped: ")

# Where the contract must hold. The C driver is the oracle. Upstream's Rust driver is compared by
# `make contract-table`: each test that it fails takes seconds to do so.
CONTRACT = (("x86_64", "c"), ("x86_64", "rust"))
# Where our driver's numbers start near their ends; as it is loaded otherwise, the other guests have it.
NEAR_LIMITS = "um"
# What a kernel does otherwise with a driver that is part of it: it starts it, and lets it use what modules cannot.
BUILTIN = "x86_64-builtin"
GROUPS_BUILTIN = ("sync::", "binderfs::", "ioctl::", "mmap::", "security::", "nice::", "realtime::", "reclaim::",
                  "quota::")
# Debian's newest kernel, as it is: other compilers, another configuration. `make contract GUEST=debian` runs all tests.
STOCK = stock.NAMES[0]
# What the kernel says of what tests/watch/ has it do. Kernels without CONFIG_DEBUG_BUGVERBOSE name the function, not the file.
COMPLAINTS = {"pages": r"WARNING: .*(mm/page_alloc\.c|alloc\w*_pages)", "memory": r"BUG: KASAN: ", "call": r"CFI failure at "}
# Of our guests' kernels none has asynchronous I/O.
IO_STOCK = "::work_wakes_asynchronous_io"
GROUPS_STOCK = ("sync::", "binderfs::", "ioctl::", "mmap::", "fds::", "reclaim::", IO_STOCK)
CONTRACT_STOCK = ((STOCK, "c", ("sync::", "ioctl::", "binderfs::", "::found_on_its_node", IO_STOCK)), (STOCK, "rust", GROUPS_STOCK))
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
# Whether a caller who waits gives its CPU away, or says nothing, is another one.
HANDOFF = ("handoff=2", "handoff=0")
# What is told to the driver by numbers, sizes and addresses is what a task's width could change; the
# rest runs with `make contract-32`.
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
# Seconds that stand for being begun before all tests.
FIRST = 10_000
# The kernels that are compiled, a name before another one that it contains, and before which stages; that of `BUILTIN` is made of the
# last one's objects.
KERNELS = {"x86_64-debug": FIRST + 2, "x86_64": 300, "um": FIRST + 1}
# How many recorded mutants are tried again, drawn by the day's date.
MUTANTS = 6
RECORD = "results.jsonl"


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

    def stage(title, run, needs=None, least=0, cpus=1):
        needs = _kernel_named(title) if needs is None else needs
        found.append(lanes.Stage(title, run, takes=max(takes.get(title, 0), least), needs=needs, cpus=cpus))

    def making(title, run, before, makes=""):
        found.append(lanes.Stage(title, lambda _tally: run(), takes=before, makes=makes))

    def of_contract(name, driver, *words, part=None, **options):
        title = " ".join(["contract", name, driver, *words])
        # One on C takes next to no time if it is recalled, and else as long as ours.
        of_ours = " ".join(["contract", name, "rust", *words])
        longest = max([took for title, took in takes.items() if title.startswith(of_ours)], default=0)
        stage(title, lambda tally: contract(tally, title, name, driver, recalled=not afresh, part=part, **options),
              least=longest if driver == "c" else 0, cpus=part.cpus if part else 1)

    # Kernels are begun before what needs them. The third is compiled while the first two are tested.
    for name, before in KERNELS.items():
        making(f"kernel {name}", functools.partial(kernel.build, name), before, makes=name)
    making("the contract's program", functools.partial(programs.build, "tests/contract"), FIRST)
    stage("check", checks)
    stage("litmus tests", litmus.run, needs="")
    for flavour in patch_list.FLAVOURS:
        stage(f"patches {flavour}", functools.partial(patch_suite.quick_suite, flavour=flavour), needs="")
    stage("host tests", host_tests.of_crates, needs="")
    stage("tests of the tools", host_tests.of_tools, needs="")
    stage(f"KUnit {kunit.GUEST}", kunit_suites)
    for name, driver in CONTRACT:
        of_contract(name, driver)
    for part in turns.PARTS["um"]:
        of_contract("um", "c", part.title, part=part)
    for part in turns.PARTS[callbacks.GUEST]:
        of_contract(callbacks.GUEST, "rust", part.title, part=part)
    for part in turns.PARTS[NEAR_LIMITS]:
        of_contract(NEAR_LIMITS, "rust", part.title, "with numbers near their ends", near_limits=True, part=part)
    of_contract(BUILTIN, "rust", only=GROUPS_BUILTIN)
    for name, driver, only in CONTRACT_LSM:
        of_contract(name, driver, *LSM, boot=LSM, only=only)
    for name, driver in CONTRACT_POLICY:
        of_contract(name, driver, "with a policy", boot=LSM, only=("policy::",), policy=True)
    for name in CONTRACT_CHARGING:
        of_contract(name, "rust", "charge_buffers=1", boot=CHARGING, only=("charging::", "reclaim::"))
    for handoff in HANDOFF:
        of_contract("um", "rust", handoff, boot=(f"parameters={handoff}",), only=("placement::",))
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
    stage("trace events next to C's", observed.traced_next_to_c)
    stage("trace events read by trace-cmd", observed.read_by_trace_cmd)
    stage("trace events recorded by Perfetto", observed.recorded_by_perfetto)
    stage("one-liners for bpftrace", observed.read_by_bpftrace, needs="x86_64")
    stage(f"trace events of a driver that comes and goes {tracing.WATCHED}", observed.traced_and_reloaded)
    stage("logs alike", observed.logs_alike)
    stage("worked examples", observed.worked_examples)
    stage("module parameters", _parameters)
    stage("reports in the kernel's netlink tool", observed.netlink_tool)
    stage("a netlink family that is taken", observed.netlink_family_taken)
    stage("names of log files that are taken", observed.log_names_taken)
    stage("beside another driver", observed.beside_another_driver)
    stage("binder-bench's errors", _bench_errors)
    for driver in ("c", "rust"):
        stage(f"binderctl in terminals um {driver}", functools.partial(observed.terminals, driver=driver))
    for driver in ("c", "upstream", "rust"):
        stage(f"binderctl um {driver}", functools.partial(observed.binderctl, driver=driver))
    for title, kinds in gate_figures.STAGES.items():
        stage(title, functools.partial(_held, kinds=kinds), needs="x86_64")
    stage("traced calls next to C's", needs="x86_64",
          run=functools.partial(_next_to_c, title="instructions of a traced call next to C's", judge=tracing.cost_next_to_c))
    stage("growth next to C's", needs="x86_64",
          run=functools.partial(_next_to_c, title="growth next to C's", judge=growth.short))
    stage("lines that move, in known cases", _lines, needs="x86_64")
    stage("memory kept", needs="x86_64",
          run=functools.partial(_next_to_c, title="memory kept", judge=bench.retention_of_few))
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


def _kernel_named(title):
    """The kernel of ours that a stage of that title needs; User Mode Linux, if it names none."""
    if STOCK in title:
        return ""
    return next((name for name in KERNELS if name in title), NEAR_LIMITS)


def checks(tally):
    """The static checks, each one of which is a test."""

    def report(name, complaints):
        tally.nothing_wrong(f"check {name}", complaints[:40])

    check.run(report)


def contract(tally, title, name, driver, counts=True, boot=(), only=(), width=64,
             policy=False, module_file=None, near_limits=False, recalled=False, part=None):
    """The contract suite in one guest against one driver, for tasks of a width. Gives the guest's result.

    `boot`: more words for the guest's command line. `only`: not all tests, but those whose names
    contain one of these. `policy`: whether the security module gets that of the tests. `module_file`: is
    loaded instead of our driver as it is. `near_limits`: our driver's numbers start near their ends. `recalled`: a run
    that passed on the C driver is not made again. `part`: of all tests, and how CPUs run it (turns.py).
    """
    where = "-".join([name, *boot, *(["32"] if width == 32 else [])])
    program = programs.build_for(name, "tests/contract", width)
    argv = ["/lab/contract", "run", "--driver", driver, "--guest", where, "--record", f"/out/{RECORD}"]
    argv += [word for part in only for word in ("--filter", part)]
    if near_limits:
        module_file = module.build_near_limits(kernel.build(name))
        argv = [*FEW_PIDS, *argv, "--near-limits"]
    files = {"/lab/contract": program}
    if part:
        files["/lab/named"] = turns.named(program, part)
        argv += ["--named", "/lab/named"]
    if driver == "upstream":
        # It fails many, and each failure takes as long as the test is patient.
        argv += ["--patience", "1", "--timeout", "8"]
    if name == callbacks.GUEST or name in stock.NAMES:
        # A step of many thousand objects takes seconds there, and longer while other lanes are busy.
        argv += ["--patience", "15", "--timeout", "90"]
    elif driver != "upstream":
        # A test takes ten seconds at most, unless other lanes are busy with the slowest of all.
        argv += ["--timeout", "90"]
        # A step of one that keeps both CPUs busy took over four seconds once, on an otherwise busy machine.
        argv += ["--patience", "15"] if (part.cpus if part else 2) > 1 else []
    if policy:
        argv += ["--policy", "/lab/policy"]
        files["/lab/policy"] = compiled_policy()
    if (name, driver) == (callbacks.GUEST, "rust"):
        argv = callbacks.watched(argv)
    # Debian's kernels are those that know of memory nodes.
    nodes = emulator.two_nodes(guest.Job.memory) if name in stock.NAMES else ()
    job = guest.Job(argv=argv, driver=driver, files=files, timeout=2400, boot=boot, module=module_file, qemu=nodes,
                    **(part.options if part else {}))
    if recalled and driver == "c":
        result = recall.run(kernel.build(name), job, lambda: run(title, name, job))
    else:
        result = run(title, name, job)
    tally.calls.update(callbacks.read(result.files))
    found = COUNTS.search(result.output)
    passed, failed = map(int, found.groups()) if found else (0, 1)
    for line in result.output.splitlines():
        if " FAILED " in line or _SKIPPED.match(line):
            say.lines(f"    {line}")
    if not result.good and not failed:
        failed = 1
    if RECORD in result.files and not only and not near_limits and not part:
        record = _record(where, driver)
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_bytes(result.files[RECORD])
    tally.add(title, passed, failed, counts)
    return result


def kunit_suites(tally, name=kunit.GUEST):
    """What KUnit runs in the kernel when a driver is loaded that has its suites.

    As a guest is there, 32-bit tasks use the driver in it, if it has any: the debugging guest sees no others.
    """
    width = 32 if programs.has_width(name, 32) else 64
    result = contract(tally, f"contract {name} rust {width}-bit, with KUnit", name, "rust", only=("ioctl::",),
                      width=width, module_file=kunit.module_with_suites(name), boot=kunit.UNHURRIED)
    for suite, (passed, failures) in kunit.judge(result.kernel_log).items():
        for failure in failures:
            say.lines(f"    {suite}: {failure}")
        tally.add(f"KUnit {suite}", passed, len(failures))


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
    result = run(title, name, job)
    for line in result.kernel_log if not result.good else ():
        if "layouts_test" in line:
            say.lines(f"    {line}")
    tally.one(title, result.good)


def watched(tally, name, what="pages"):
    """Whether a run fails in which the kernel had to complain, of what tests/watch/ has it do."""
    made = "watch_test.ko"
    path = module.build(kernel.build(name), ROOT / "tests/watch", "watch", made)
    job = guest.Job(argv=["insmod", f"/lab/{made}", f"what={what}"], driver="none", files={f"/lab/{made}": path})
    title = f"the watch over the kernel's log, {name}" + ("" if what == "pages" else f" {what}")
    with say.Step(title):
        result = guest.run(kernel.build(name), job)
    complaint = re.compile(COMPLAINTS[what])
    # The kernel ends who makes a call by another type.
    seen = (result.status == 0) == (what != "call") and any(map(complaint.search, result.problems))
    if not seen:
        say.lines(f"    status {result.status}, {result.problems}")
    tally.one(title, seen)


def _record(name, driver):
    """Where it is kept how each test ended in a guest's last run against a driver."""
    return BUILD / "results" / f"{name}-{driver}.jsonl"


def _rules(name, *extra):
    """Call the suite's `rules` with the records of the last runs in a guest."""
    records = [r for r in (_record(name, driver) for driver in guest.MODULES) if r.exists()]
    words = [word for record in records for word in ("--results", record)]
    argv = [programs.build("tests/contract"), "rules", *words, *extra]
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


def unloading(tally, name):
    """The driver taken away at the moments at which its code might still be needed."""
    title = f"unload {name}"
    result = run(title, name, unload.job(name, timeout=300))
    found = COUNTS.search(result.output)
    passed, failed = map(int, found.groups()) if found else (0, 1)
    for line in result.output.splitlines():
        if " FAILED " in line or " skipped " in line:
            say.lines(f"    {line}")
    tally.add(title, passed, failed or int(not result.good))


def _frames(tally):
    """Whether a function of our driver takes too much stack. The static checks have looked at User Mode Linux."""
    complaints = frames.too_large(module.build(kernel.build(FRAMES)))
    tally.nothing_wrong(f"stack frames {FRAMES}", complaints)


def real_clients(tally, names, guest_name, drivers):
    """Clients that others wrote; on two drivers they must also print the same."""
    for name in names:
        if lacking := clients.lacks(name, guest_name):
            say.note(f"client {name} is left out: {guest_name} has no {lacking}")
            continue
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
        result = run(title, guest_name, clients.job(part, driver))
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
    tally.nothing_wrong(f"client {name}: {first} and {second} alike", different[:20])


def soak(tally, name, seconds, driver="rust"):
    """Kill clients and servers at random under load, then see that nothing was leaked."""
    program = programs.build_for(name, "tests/contract")
    argv = ["/lab/contract", "soak", "--seconds", str(seconds)]
    job = guest.Job(argv=argv, driver=driver, files={"/lab/contract": program},
                    timeout=seconds * 2 + 120)
    title = f"soak {name} {driver} {seconds} s"
    result = run(title, name, job)
    say.lines(*last_words(result.output))
    tally.one(title, result.good)


def mesh(tally, name, seconds, driver="rust", tolerate=False, icount=False, words=(), cpus=1):
    """Many processes call each other: nothing may be lost, and nothing be refused unless that is tolerated. With
    `icount` on `cpus` CPUs, whose time is their instructions, and at a pace: each run is like the last, however busy the host."""
    program = programs.build_for(name, "tests/contract")
    argv = ["/lab/contract", "mesh", "--seconds", str(seconds), *(["--tolerate"] if tolerate else []), *words]
    argv += ["--pace", str(MESH_PACE)] if icount else []
    job = guest.Job(argv=argv, driver=driver, files={"/lab/contract": program}, icount=icount,
                    qemu=("-smp", cpus) if icount else (), timeout=seconds * (100 if icount else 1) + 150)
    title = f"mesh {name} {driver} {seconds} s" + (", counted" if icount else "") + (", logs read" if words else "")
    result = run(title, name, job)
    say.lines(*last_words(result.output))
    tally.one(title, result.good)


def cycles(tally, name, count):
    """The driver loaded, mounted and taken away so many times."""
    job = guest.Job(argv=["/lab/cycle", str(count)], load=False, timeout=300)
    title = f"load and unload {name} {count} x"
    result = run(title, name, job)
    tally.one(title, result.good)


def _parameters(tally):
    """What the parameters make of their words: a driver's first load, so no driver is there before."""
    for driver in ("c", "rust"):
        argv = ["/lab/devices", guest.MODULES[driver]]
        title = f"parameter devices um {driver}"
        result = run(title, "um", guest.Job(argv=argv, driver=driver, load=False, cpus=1))
        if not result.good:
            say.lines(result.output)
        tally.one(title, result.good)


def _bench_errors(tally):
    """Whether binder-bench's workloads run with a driver loaded, and what it says when something is wrong."""
    files = {"/lab/binder-bench": programs.build("tools/binder-bench"),
             "/lab/guest.sh": ROOT / "tools/binder-bench/tests/guest.sh"}
    for driver in ("c", "rust"):
        title = f"binder-bench's errors um {driver}"
        job = guest.Job(argv=["/bin/sh", "/lab/guest.sh", "/lab/binder-bench"], driver=driver, files=files, cpus=1,
                        timeout=300)
        result = run(title, "um", job)
        tally.one(title, result.good)


def _held(tally, kinds):
    """Our figures of some kinds that the gate holds, row by row."""
    for kind in kinds:
        rows, failures = gate.judge(kind, gate.read()[kind.table], kind.measure())
        say.lines(*(f"    {line}" for line in [*rows, *(f"error: {failure}" for failure in failures)]))
        tally.add(kind.title, len(rows) - 1 - len(failures), len(failures))


def _lines(tally):
    """Lines that move: of what is known beforehand, and what the gate holds of them. One boot tells both."""
    _next_to_c(tally, title="lines that move, in known cases", judge=bench_lines.known_cases)
    _held(tally, (gate_figures.LINES,))


def _mutants(tally):
    """Whether the tests still see some of the faults that they saw, and each survivor was judged."""
    from . import mutants  # it runs this module's suites

    tried, alive = mutants.slice_of_killed(MUTANTS)
    unjudged = mutants.unjudged()
    for title in [*alive, *unjudged]:
        say.lines(f"    {title}")
    tally.add("mutants that the tests killed once", len(tried) - len(alive), len(alive))
    tally.one("mutants' survivors judged", not unjudged)


def _next_to_c(tally, title, judge):
    """Something of ours that may not be worse than the C driver's, or than what is known; `judge` gives how many there are, and what
    is wrong."""
    judged, failures = judge()
    for failure in failures:
        say.lines(f"    error: {failure}")
    tally.add(title, judged - len(failures), len(failures))
