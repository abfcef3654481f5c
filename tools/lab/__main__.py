# SPDX-License-Identifier: GPL-2.0
"""The commands behind the Makefile's targets."""

import argparse
import errno
import shutil
import signal
import sys

from . import android, aosp, aosp_bench, aosp_beside, bench, bench_boots, bench_free, bench_full, bench_many, bench_paired, bench_quick, cache, clean_machine, clients, deb, deb_test, doc, fuzz, gate, goals, growth, guest, kernel, kunit, litmus, module, mutants, mutations, observed, patch_list, patch_suite, patches, placement, proc, programs, prune, quick_suite, say, screens, stock, suite, times, wrap
from .tally import Tally
from .versions import BUILD, PINNED


def main():
    arguments = _parser().parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return arguments.run(arguments) or 0
    except say.LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        if error.errno == errno.ENOSPC:
            print(f"error: free some of what {cache.root()} or {BUILD} is on, then run this again: it goes on", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; finished steps are kept", file=sys.stderr)
        return 130


def _parser():
    parser = argparse.ArgumentParser(prog="lab", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name, run, text):
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(run=run)
        return sub

    def guest_option(sub, usual="um"):
        sub.add_argument("--guest", default=usual, choices=list(kernel.GUESTS), type=_guest)
        return sub

    guest_option(command("kernel", _kernel, "build a guest's kernel"))
    guest_option(command("module", _module, "build our driver as a module"))
    for name, run, text in (("boot", _boot, "an interactive shell in a guest"),
                            ("exec", _exec, "run a program in a guest")):
        sub = guest_option(command(name, run, text))
        sub.add_argument("--driver", default="rust", choices=[*guest.MODULES, "none"])
        if name == "exec":
            sub.add_argument("--timeout", type=float, default=120.0)
            sub.add_argument("--icount", action="store_true")
            sub.add_argument("--boot", action="append", default=[], metavar="WORD",
                             help="for the kernel's command line: --boot lsm=selinux")
            sub.add_argument("--pin", type=int, help="the host CPU to stay on")
            sub.add_argument("--crate", help="build this crate first and lay its program in the guest")
            sub.add_argument("argv", nargs=argparse.REMAINDER, metavar="PROGRAM [ARGUMENT...]")
    sub = command("test", _test, "everything that must hold")
    sub.add_argument("--quick", choices=list(quick_suite.GUESTS), metavar="GUEST", type=_guest,
                     help="contract, clients and layouts on this kernel of Debian's, or on arm64, instead")
    sub.add_argument("--guest", help="is refused: all of it is in all guests")
    sub.add_argument("--afresh", action="store_true",
                     help="the contract suite on the C driver as well where the same guest passed it before")
    timed = command("times", lambda a: times.show(a.docs), "where the time of the last `make test` went")
    timed.add_argument("--docs", action="store_true", help="the table goes into docs, and the order of stages is that of now")
    command("kunit", _kunit, "the suites that KUnit runs in the kernel").add_argument(
        "--guest", default=kunit.GUEST, choices=kunit.GUESTS)
    command("check", _check, "format, clippy, checkpatch, docs")
    command("litmus", lambda _: litmus.command(), "the litmus tests of the driver's orderings, under the kernel's memory model")
    command("doc", lambda _: doc.run(), "the documentation of the driver, as rustdoc makes it")
    one = guest_option(command("contract", _contract, "the contract suite in one guest"))
    one.add_argument("--driver", default="rust", choices=list(guest.MODULES))
    one.add_argument("--only", default="", metavar="PART,...", help="tests whose names contain one of these")
    one.add_argument("--near-limits", action="store_true", help="with our driver's numbers near their ends")
    narrow = guest_option(command("contract-32", _contract_32, "the same for 32-bit tasks"), "x86_64")
    narrow.add_argument("--driver", default="rust", choices=list(guest.MODULES))
    guest_option(command("layouts", _layouts, "whether Rust sees a kernel's structs as C does"))
    guest_option(command("unload", _unload, "the driver taken away at the worst moments"))
    guest_option(command("contract-table", _contract_table, "all drivers, and the tables in the docs"))
    androids = command("aosp-bench", _aosp_bench, "Android's own benchmarks on all drivers")
    androids.add_argument("--only", default="", metavar="SCENE,...",
                          help=f"{', '.join(aosp_bench.SCENES)}, or {aosp_beside.NAME}: C and ours in one kernel, in turns")
    androids.add_argument("--rounds", type=_count, default=aosp_bench.ROUNDS, help="boots of each driver for times, or of both")
    androids.add_argument("--docs", action="store_true", help="the tables go into docs")
    androids.add_argument("--again", action="store_true", help="measure what was measured already, too")
    real = guest_option(command("clients", _clients, "Binder clients that others wrote, in one guest"))
    real.add_argument("--driver", choices=list(guest.MODULES), help="one driver, not C next to ours")
    real.add_argument("names", nargs="*", metavar="NAME", help=", ".join(clients.NAMES))
    fuzzer = guest_option(command("fuzz", lambda a: fuzz.run(a.guest, a.seed, a.count),
                                  "random commands on C and on ours"))
    fuzzer.add_argument("--seed", type=int, default=1, help="the first seed")
    fuzzer.add_argument("--count", type=_count, default=300, help="how many")
    faults = command("mutants", _mutants, "faults made by a machine, and whether the tests see them")
    faults.add_argument("--seed", default="1", help="by which the sample is drawn")
    faults.add_argument("--count", type=_count, default=300, help="how many")
    faults.add_argument("--most", type=_count, help="try no more than so many now")
    faults.add_argument("--key", action="append", default=[], help="this one, instead of a sample")
    faults.add_argument("--slice", type=_count, help="so many that the record calls killed, by the day's date")
    faults.add_argument("--record", action="store_true", help="take the sample's results as the record, into the docs")
    broken = command("mutations", lambda a: mutations.run(a.only, a.resume), "the driver broken on purpose")
    broken.add_argument("--only", default="", metavar="WORD,...", help="those whose lesson or name contains one of these")
    broken.add_argument("--resume", action="store_true", help="leave out what an earlier run killed on the same sources")
    soak = guest_option(command("soak", _soak, "random kill -9 under load"))
    soak.add_argument("--seconds", type=_count, default=600)
    mesh = guest_option(command("mesh", _mesh, "many processes that call each other"))
    mesh.add_argument("--driver", default="rust", choices=list(guest.MODULES))
    mesh.add_argument("--seconds", type=_count, default=25)
    mesh.add_argument("--tolerate", action="store_true", help="count refused calls, and do not fail for them")
    mesh.add_argument("--read-logs", action="store_true", help="eight pairs, and in a second half all log files are read")
    mesh.add_argument("--icount", action="store_true", help="the guest's time is its instructions (x86_64)")
    mesh.add_argument("--cpus", type=_count, default=1, help="with --icount: so many CPUs, which take turns")
    shots = guest_option(command("screens", lambda a: screens.pictures(a.guest, a.driver), "pictures of binderctl in terminals"))
    shots.add_argument("--driver", default="rust", choices=list(guest.MODULES))
    command("examples", _examples, "the worked examples of the docs, and the logs of C next to ours").add_argument(
        "--driver", choices=list(guest.MODULES), help="the examples on one driver alone")
    clean = command("clean-machine", _clean_machine, "the documents' commands on a machine that has nothing")
    clean.add_argument("--only", default="", metavar="COMMAND;...", help="these commands, as they stand in the documents")
    clean.add_argument("--everything", action="store_true", help="those that take long, too")
    clean.add_argument("--with-cache", action="store_true", help="the machine has this one's cache")
    clean.add_argument("--docs", action="store_true", help="the times go into docs")
    guest_option(command("aosp", _aosp, "AOSP 14's libbinder tests in one guest")).add_argument(
        "--driver", default="rust", choices=list(guest.MODULES))
    shaped = guest_option(command("android", _android, "a user space in Android's shape, on C and ours"), android.GUESTS[0])
    shaped.add_argument("--driver", choices=list(guest.MODULES), help="one driver, not C next to ours")
    shaped.add_argument("--seconds", type=_count, default=60)
    shaped.add_argument("--seed", type=int, default=1, help="what the random choices start from")
    measured = guest_option(command("bench", _bench, "our driver next to others, and a page of it"), None)
    measured.add_argument("--full", action="store_true", help="all drivers, times, memory, pressure: about an hour")
    measured.add_argument("--only", metavar="STAGE,...",
                          help=f"of the full measurement: {', '.join(bench_full.STAGES)}; the others keep their last results")
    measured.add_argument("--again", action="store_true", help="measure what was measured already, too")
    measured.add_argument("--rounds", type=_count, default=3, help="boots of each driver for times")
    measured.add_argument("--docs", action="store_true", help="figures and tables go into docs")
    measured.add_argument("extra", nargs="*", help="more options of binder-bench run, for times")
    command("traced", _traced, "trace events next to the C driver's, and a tracer that stays while the driver goes")
    paired = _scenes(guest_option(command("paired", _paired, "round trips through C and ours in one kernel, in turns")))
    paired.add_argument("--boots", type=_count, default=5, help="of each scene")
    paired.add_argument("--seconds", type=_count, default=10, help="for each size and driver, in a boot")
    paired.add_argument("--docs", action="store_true", help="the table goes into docs")
    placed = _scenes(guest_option(command("placement", _placement, "where the two of a call run, and who moves them")))
    placed.add_argument("--boots", type=_count, default=3, help="of each scene")
    placed.add_argument("--seconds", type=_count, default=2, help="for which calls are traced, in a boot")
    placed.add_argument("--docs", action="store_true", help="the table goes into docs")
    many = guest_option(command("many", lambda a: bench_many.run(a.guest, a.cpus, a.boots, a.seconds),
                                "calls a second of many clients at once, through C and ours in one kernel"))
    many.add_argument("--cpus", type=int, choices=range(1, 9), default=2, help="of the guest; 4 at most in User Mode Linux")
    many.add_argument("--boots", type=_count, default=3)
    many.add_argument("--seconds", type=float, default=0.3, help="for each case and round, in a boot")
    boots = command("boots", lambda a: bench_boots.run(a.boots, a.seconds, a.docs), "how far boots of one driver lie apart, in User Mode Linux")
    boots.add_argument("--boots", type=_count, default=20, help="of each driver")
    boots.add_argument("--seconds", type=float, default=3, help="of null calls in each")
    boots.add_argument("--docs", action="store_true", help="the table goes into docs")
    command("retention", lambda _: bench.retention(), "what stays of what has ended, next to the C driver's")
    gate_options = guest_option(command("bench-gate", lambda a: gate.run(a.update, a.guest),
                                        "instructions, memory ... next to C's, against the record"), gate.GUEST)
    gate_options.add_argument("--update", metavar="WHY", help="record what is measured, with the reason")
    reached = command("goals", lambda a: goals.run(a.docs, a.again), "what ours is to reach next to C, and where it is")
    reached.add_argument("--docs", action="store_true", help="tables and figure go into docs")
    reached.add_argument("--again", action="store_true", help="measure what was measured already, too")
    grow = command("growth", _growth, "how costs grow with how many there are")
    grow.add_argument("--only", default="", metavar="WORD,...", help="quantities whose names contain one of these")
    grow.add_argument("--driver", choices=list(guest.MODULES), help="one driver, not all three")
    grow.add_argument("--docs", action="store_true", help="the table and the figure go into docs")
    grow.add_argument("--steps", type=int, choices=range(1, 7), help="how far: N, 4 N, 16 N ...; all if not said")
    exact = command("bench-exact", lambda a: gate.exact(a.rounds), "whether runs count the same")
    exact.add_argument("--rounds", type=_count, default=3)
    command("clean", _clean, "remove what was built in this tree")
    command("cache", lambda _: prune.show(), "what is in the cache, how large it is, and when it was used")
    purge = command("purge", _purge, "remove the cache, shared by all checkouts")
    purge.add_argument("--unused", type=float, metavar="DAYS", help="only what none has used for so many days")
    command("deb", lambda _: deb.build() and None, "Debian packages of the driver and the tools")
    sub = command("deb-test", lambda args: deb_test.run(args.only or deb_test.MACHINES), "their life on Debian machines")
    sub.add_argument("--only", action="append", choices=deb_test.MACHINES, help="this machine")
    command("binderctl", lambda _: print(programs.build("tools/binderctl", profile="release")), "build the tool that looks at Binder")
    series = command("patches", lambda a: patches.run(a.sender, a.flavour, a.tree, a.docs), "the driver as patches for a kernel tree, for git am")
    series.add_argument("--from", dest="sender", metavar="'NAME <ADDRESS>'", help="who sends them; what git knows, if not said")
    series.add_argument("--flavour", choices=patch_list.FLAVOURS, default=patch_list.FLAVOURS[0])
    series.add_argument("--tree", help="the tree that they are for; Debian's source, if not said")
    series.add_argument("--docs", action="store_true", help="the table goes into docs")
    tried = command("patches-test", _patches_test, "a kernel built after each patch, and the contract suite on the last")
    tried.add_argument("--flavour", choices=patch_list.FLAVOURS, help="this one; both, if not said")
    tried.add_argument("--since", metavar="PATCH", help="build no kernel before this patch, by its name in packaging/patches/series.toml")
    tried.add_argument("--quick", action="store_true", help="git am, checkpatch, get_maintainer and the tree that comes out, alone")
    command("wrap", lambda _: wrap.run(), "wrap comments of the driver that are too long for checkpatch")
    install = command("install", _install, "lay the driver into a kernel tree")
    install.add_argument("tree")
    return parser


def _kernel(arguments):
    print(kernel.build(arguments.guest).image)


def _module(arguments):
    print(module.build(kernel.build(arguments.guest)))


def _boot(arguments):
    built = kernel.build(arguments.guest)
    job = guest.Job(argv=["sh"], driver=arguments.driver, interactive=True)
    say.note(f"guest {arguments.guest}, driver {arguments.driver}; `exit` ends it")
    result = guest.run(built, job, lambda text: (sys.stdout.write(text), sys.stdout.flush()))
    return _report(result, quiet_status=True)


def _exec(arguments):
    built = kernel.build(arguments.guest)
    argv, files = list(arguments.argv), {}
    if argv[:1] == ["--"]:
        argv.pop(0)
    if arguments.crate:
        program = programs.build_for(arguments.guest, arguments.crate)
        files["/bin/" + program.name] = program
        argv.insert(0, program.name)
    elif argv and "/" in argv[0] and shutil.which(argv[0]):
        files["/lab/program"] = argv[0]
        argv[0] = "/lab/program"
    if not argv:
        raise say.LabError("name a program to run in the guest")
    job = guest.Job(argv=argv, driver=arguments.driver, files=files, timeout=arguments.timeout,
                    icount=arguments.icount, pin=arguments.pin, boot=tuple(arguments.boot))
    result = guest.run(built, job, lambda text: (sys.stdout.write(text), sys.stdout.flush()))
    for name, content in result.files.items():
        path = BUILD / "out" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        say.note(f"from the guest: {path}")
    return _report(result)


def _report(result, quiet_status=False):
    log = BUILD / "log" / "guest-kernel.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("\n".join(result.kernel_log) + "\n")
    for problem in result.problems:
        print(f"error: {problem}", file=sys.stderr)
    if result.problems:
        print(f"error: the kernel's log is {log}", file=sys.stderr)
        return 1
    return 0 if quiet_status else result.status


def _count(text):
    """A number of things of which there is at least one."""
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is none: 1 or more")
    return int(text)


def _guest(name):
    return stock.NAMES[0] if name == "debian" else name


def _test(arguments):
    if arguments.guest:
        raise say.LabError("make test is in all guests: GUEST= goes with QUICK=1, or try make contract GUEST=" + arguments.guest)
    return quick_suite.test(arguments.quick) if arguments.quick else suite.test(arguments.afresh)


def _clean_machine(arguments):
    only = tuple(command.strip() for command in arguments.only.split(";")) if arguments.only else ()
    return clean_machine.run(only, arguments.everything, arguments.with_cache, arguments.docs)


def _kunit(arguments):
    tally = Tally()
    suite.kunit_suites(tally, arguments.guest)
    return tally.finish()


def _check(_arguments):
    tally = Tally()
    suite.checks(tally)
    return tally.finish()


def _contract(arguments):
    tally = Tally()
    title = f"contract {arguments.guest} {arguments.driver}"
    only = tuple(arguments.only.split(",")) if arguments.only else ()
    _must_be_tests(only)
    suite.contract(tally, title, arguments.guest, arguments.driver, only=only, near_limits=arguments.near_limits)
    if not only and not arguments.near_limits:
        suite.print_rules(arguments.guest)
    return tally.finish()


def _must_be_tests(parts):
    """Complain of parts that are in no name of a test of the contract: nothing would be run for them, and nothing fail."""
    program = programs.build("tests/contract") if parts else None
    none = [part for part in parts if not proc.output(program, "list", "--filter", part)]
    if none:
        raise say.LabError(f"no test of the contract has {', '.join(none)} in its name: `{program} list` shows all")


def _contract_32(arguments):
    tally = Tally()
    title = f"contract {arguments.guest} {arguments.driver} 32-bit"
    suite.contract(tally, title, arguments.guest, arguments.driver, width=32)
    return tally.finish()


def _layouts(arguments):
    tally = Tally()
    suite.layouts(tally, arguments.guest)
    return tally.finish()


def _unload(arguments):
    tally = Tally()
    suite.unloading(tally, arguments.guest)
    return tally.finish()


def _contract_table(arguments):
    return suite.contract_table(arguments.guest)


def _aosp_bench(args):
    if args.only == aosp_beside.NAME:
        return aosp_beside.run(args.rounds, args.docs)
    return aosp_bench.run(args.only, args.rounds, args.docs, args.again)


def _clients(arguments):
    unknown = set(arguments.names) - set(clients.NAMES)
    if unknown:
        raise say.LabError(f"no client {', '.join(unknown)}: there are {', '.join(clients.NAMES)}")
    tally = Tally()
    drivers = (arguments.driver,) if arguments.driver else ("c", "rust")
    suite.real_clients(tally, arguments.names or clients.NAMES, arguments.guest, drivers)
    return tally.finish()


def _mutants(arguments):
    if arguments.record:
        return mutants.record(arguments.seed)
    if arguments.slice:
        return len(mutants.slice_of_killed(arguments.slice)[1]) + len(mutants.unjudged())
    return mutants.run(arguments.seed, arguments.count, arguments.most, arguments.key)


def _traced(_arguments):
    tally = Tally()
    observed.traced_next_to_c(tally)
    observed.read_by_trace_cmd(tally)
    observed.traced_and_reloaded(tally)
    return tally.finish()


def _soak(arguments):
    tally = Tally()
    suite.soak(tally, arguments.guest, arguments.seconds)
    return tally.finish()


def _mesh(arguments):
    tally = Tally()
    suite.mesh(tally, arguments.guest, arguments.seconds, arguments.driver, arguments.tolerate,
               arguments.icount, suite.PAIRS_READ if arguments.read_logs else (), arguments.cpus)
    return tally.finish()


def _examples(arguments):
    tally = Tally()
    if not arguments.driver:
        observed.logs_alike(tally)
    observed.worked_examples(tally, [arguments.driver] if arguments.driver else suite.examples.DRIVERS)
    return tally.finish()


def _aosp(arguments):
    return aosp.run(arguments.guest, arguments.driver)


def _android(arguments):
    drivers = (arguments.driver,) if arguments.driver else android.DRIVERS
    return android.run(arguments.guest, drivers, arguments.seconds, arguments.seed)


def _bench(arguments):
    if not (arguments.full or arguments.only is not None):
        return bench_quick.run(arguments.guest or stock.NAMES[0], arguments.again, arguments.docs)
    if arguments.guest:
        raise say.LabError("the full measurement has guests of its own: GUEST= goes without FULL=1 and ONLY=")
    stages = bench_full.STAGES if arguments.only is None else arguments.only.split(",")
    unknown = set(stages) - set(bench_full.STAGES)
    if unknown:
        raise say.LabError(f"no stage {', '.join(map(repr, sorted(unknown)))}: there are {', '.join(bench_full.STAGES)}")
    return bench_full.run(stages, arguments.rounds, arguments.extra, arguments.docs, arguments.again)


def _scenes(sub):
    """Options of what runs where the scheduler puts it."""
    sub.add_argument("--cpus", type=bench_free.chosen(*bench_free.CPUS), metavar="N,...", help="of guests: some of 1, 2, 4")
    sub.add_argument("--busy", type=bench_free.chosen(*bench_free.BUSY), metavar="N,...", help="1: beside a process that computes; 0: alone")
    sub.add_argument("--handoff", type=bench_free.chosen(*bench_free.HANDOFF), metavar="N,...", help="our driver's parameter: some of 0, 1, 2")
    return sub


def _paired(arguments):
    cpus, busy, handoff = arguments.cpus, arguments.busy, arguments.handoff
    if not (cpus or busy or handoff):
        return bench_paired.run(arguments.guest, arguments.boots, arguments.seconds, arguments.docs)
    if arguments.docs:
        bench_free.must_be_all(cpus, busy)
    return bench_free.run(arguments.guest, bench_free.scenes(cpus, busy, handoff), arguments.boots, arguments.seconds, arguments.docs)


def _placement(arguments):
    if arguments.docs:
        bench_free.must_be_all(arguments.cpus, arguments.busy)
    asked = bench_free.scenes(arguments.cpus, arguments.busy, arguments.handoff)
    return placement.run(arguments.guest, asked, arguments.boots, arguments.seconds, arguments.docs)


def _growth(arguments):
    drivers = (arguments.driver,) if arguments.driver else growth.DRIVERS
    return growth.run(arguments.only, drivers, arguments.steps, arguments.docs)


def _clean(_arguments):
    shutil.rmtree(BUILD, ignore_errors=True)


def _purge(arguments):
    if arguments.unused is not None:
        return prune.unused(arguments.unused)
    print(f"removing {cache.root()}")
    cache.purge()


def _patches_test(arguments):
    tally = Tally()
    for flavour in [arguments.flavour] if arguments.flavour else patch_list.FLAVOURS:
        patch_suite.quick_suite(tally, flavour)
        if not arguments.quick:
            patch_suite.built(flavour, tally, arguments.since)
    return tally.finish()


def _install(arguments):
    from . import install

    changed = install.lay_into(arguments.tree)
    print("\n".join(f"  {name}" for name in changed) or "  nothing to change")
    print(f"{arguments.tree}: set CONFIG_ANDROID_BINDER_IPC_RUST=y or =m (Linux {PINNED['kernel']['series']})")


if __name__ == "__main__":
    sys.exit(main())
