# SPDX-License-Identifier: GPL-2.0
"""The commands behind the Makefile's targets."""

import argparse
import errno
import os
import shutil
import signal
import sys

from . import bench_run, cache, check, contract, deb, doc, gate, goals, growth, guest, install, inversion, kernel, module, patches, port, programs, proc, release, say, stock, test
from .versions import BUILD


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
            print(f"error: free space on the disk of {cache.root()} or {BUILD}, then run this again: it continues", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; finished steps are kept", file=sys.stderr)
        return 130


def _parser():
    parser = argparse.ArgumentParser(prog="make", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="TARGET")

    def target(name, run, text):
        """A target, and a function that adds an option to it: NAME=VALUE of make is --name=VALUE here."""
        sub = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        sub.set_defaults(run=run)

        def option(*words, **options):
            sub.add_argument(*words, **options)
            return option

        return option

    def guest_of(option, usual="um"):
        return option("--guest", default=usual, choices=list(kernel.GUESTS), type=_guest, help="guest (default: %(default)s); debian is Debian's kernel")

    def driver_of(option, *more):
        return option("--driver", default="rust", choices=[*guest.MODULES, *more])

    def tree_of(option):
        return option("--kernel-src", dest="tree", help="your Linux tree with this driver's patches: the guest's kernel is built from it, the driver in it")

    target("bench", _bench, "compare our driver with the C driver on Debian's kernel, in build/report/index.html")(
        "--full", help="1: run all parts")(
        "--only", default="", help=f"parts to run, separated by commas: {', '.join(bench_run.PARTS)}")(
        "--again", help="1: measure again what has a result")("--docs", help="1: write reports/ and figures")
    target("test", lambda a: test.run(a.only, a.since, resume=bool(a.resume), into_docs=bool(a.docs)), "run all tests")(
        "--only", default="", metavar="EXPRESSION", help="pytest's -k: stages whose names match, such as 'client or trace'")(
        "--since", default="", metavar="REF", help="run the stages that the difference to this commit can affect")(
        "--resume", help="1: run the stages that failed in the last run")("--docs", help="1: write reports/")
    target("torture", _torture, "run the long tests outside `make test`")(
        "--only", default="", metavar="EXPRESSION", help="pytest's -k: mutants, load, fuzz, aosp, packages, patches, 32_bit, arm64, ...")(
        "--seed", type=int, help="seed of random choices")("--count", type=int, help="number of mutants or programs")(
        "--seconds", type=int, help="duration of the load, or of syzkaller on a driver, in seconds")(
        "--guest", type=_guest, help="guest of aosp")("--syzkaller", metavar="PATH", help="folder of syzkaller, built with tests/syzkaller")(
        "--docs", help="1: write reports/")
    option = tree_of(driver_of(guest_of(target("contract", _contract, "run the contract suite in one guest on one driver"))))
    option("--only", default="", metavar="PART,...", help="run tests by parts of their names, or by rules such as FORK-1")(
        "--near-limits", help="1: start our driver's numbers near their ends")("--width", type=int, default=64, choices=(32, 64), help="pointer size of the tasks, in bits (default: %(default)s)")(
        "--seed", type=int, default=0, metavar="N", help="run our driver by random schedules")("--docs", help="1: with DRIVER=c, write tests/oracle/")
    target("check", lambda _: check.run(), "check format, lints, checkpatch, docs")
    tree_of(driver_of(guest_of(target("boot", _boot, "start a shell in a guest with a driver"))))
    option = tree_of(driver_of(guest_of(target("exec", _exec, "run a program in a guest")), "none"))
    option("--run", dest="command", required=True, metavar="'PROGRAM ARGUMENT...'", help="command to run: a program of the guest or of this machine")(
        "--timeout", type=float, default=120.0, help="time limit, in seconds (default: %(default)s)")(
        "--boot", action="append", default=[], metavar="WORD", help="word of the kernel's command line, such as lsm=selinux")
    guest_of(target("module", lambda a: print(module.build(kernel.build(a.guest))), "build a guest's kernel, and our driver as a module for it"))
    target("binderctl", lambda _: print(programs.build("tools/binderctl", profile="release")), "build the tool that looks at Binder drivers")
    target("deb", lambda _: deb.build() and None, "build Debian packages in build/deb: the driver for stock kernels, and the tools")
    target("patches", lambda a: patches.run(a.sender, a.flavour, a.tree), "write the driver as patches for git am, in build/patches")(
        "--from", dest="sender", metavar="'NAME <ADDRESS>'", help="the sender (default: git's author)")(
        "--flavour", choices=patches.FLAVOURS, default=patches.FLAVOURS[0])("--kernel", dest="tree", help="the kernel tree to patch")
    target("kernel", lambda a: port.run(a.tree), "list what in another kernel tree does not fit the driver, in build/kernel-report.tsv")(
        "--kernel-src", dest="tree", required=True, help="an unpacked Linux tree of any version")
    target("install", _install, "copy the driver into a kernel tree")("--kernel", dest="tree", required=True, help="an unpacked Linux tree")
    target("doc", lambda _: doc.run(), "build the site in build/doc: the documents with a search, and the driver's code")
    target("release", lambda a: release.run(a.sender), "build all files of a version, in build/release")(
        "--from", dest="sender", metavar="'NAME <ADDRESS>'", help="the sender of the patches (default: git's author)")
    target("goals", lambda a: gate.record() if a.update else goals.run(bool(a.docs), bool(a.again)), "print our driver's goals next to C, and its figures")("--docs", help="1: write reports/")(
        "--again", help="1: measure again what has a result")("--update", help="1: record the limits that `make test` checks")
    target("growth", lambda a: growth.run(a.only, a.driver, a.steps, bool(a.docs)), "measure how costs grow with the number of objects")(
        "--only", default="", metavar="WORD,...", help="measure quantities whose names contain one of these")("--driver", choices=list(guest.MODULES))(
        "--steps", type=int, choices=range(1, 7), help="number of steps: N, 4 N, 16 N ...")("--docs", help="1: write reports/")
    target("retention", lambda a: gate.retention(a.only, bool(a.docs)), "measure the memory that ended objects keep, next to C")(
        "--only", default="", metavar="ENDING,...", help="measure these endings, by their names in binder-bench")("--docs", help="1: write reports/")
    target("inversion", lambda a: inversion.run(a.only, a.attacker, a.seed, bool(a.docs)), "measure waits for a process that lost its CPU")(
        "--only", default="", metavar="'OPERATION;...'", help="measure these operations of that process")(
        "--attacker", default="", metavar=",".join(inversion.ATTACKERS), help="attackers that take its CPU")(
        "--seed", type=int, default=1, help="seed of random attackers (default: %(default)s)")(
        "--docs", help="1: write reports/")
    target("clean", lambda _: shutil.rmtree(BUILD, ignore_errors=True), "remove build/")
    target("purge", lambda _: cache.purge(), "remove the cache that all checkouts share")
    return parser


def _torture(arguments):
    for name in ("seed", "count", "seconds", "guest", "syzkaller"):
        os.environ[f"TORTURE_{name.upper()}"] = str(getattr(arguments, name) or "")
    return test.run(arguments.only, torture=True, into_docs=bool(arguments.docs))


def _guest(name):
    return stock.NAMES[0] if name == "debian" else name


def _bench(arguments):
    parts = bench_run.PARTS if arguments.full else tuple(filter(None, arguments.only.split(","))) or ("count",)
    unknown = set(parts) - set(bench_run.PARTS)
    if unknown:
        raise say.LabError(f"no part {', '.join(sorted(unknown))}: there are {', '.join(bench_run.PARTS)}")
    return bench_run.run(parts, bool(arguments.again), bool(arguments.docs))


def _contract(arguments):
    if arguments.docs:
        if (arguments.guest, arguments.driver, arguments.only) != ("um", "c", ""):
            raise say.LabError("DOCS=1 writes all answers of C into tests/oracle/: make contract DRIVER=c DOCS=1, without GUEST= and ONLY=")
        return test.run("contract_um_c_ or trace_events_next_to_c or logs_alike", into_docs=True)
    if arguments.seed and (arguments.driver, arguments.near_limits) != ("rust", None):
        raise say.LabError("SEED= chooses a schedule of our driver: leave DRIVER= and NEAR_LIMITS= out")
    only = tuple(filter(None, arguments.only.split(",")))
    program = programs.build(contract.CRATE) if only else None
    none = [part for part in only if not proc.output(program, "list", "--filter", part)]
    if none:
        raise say.LabError(f"no test of the contract has {', '.join(none)} in its name: `{program} list` shows all")
    return contract.command(_kernel(arguments), arguments.driver, only, bool(arguments.near_limits), arguments.width, arguments.seed)


def _kernel(arguments):
    return kernel.of_tree(arguments.guest, arguments.tree) if arguments.tree else kernel.build(arguments.guest)


def _boot(arguments):
    built = _kernel(arguments)
    job = guest.Job(argv=["sh"], driver=arguments.driver, interactive=True)
    say.note(f"guest {arguments.guest}, driver {arguments.driver}; `exit` ends it")
    return _report(guest.run(built, job, _echo), quiet_status=True)


def _exec(arguments):
    built, files = _kernel(arguments), {}
    argv = ["/bin/sh", "-c", arguments.command]
    first = arguments.command.split(" ", 1)[0]
    if "/" in first and shutil.which(first):
        files[first] = first
    job = guest.Job(argv=argv, driver=arguments.driver, files=files, timeout=arguments.timeout, boot=tuple(arguments.boot))
    result = guest.run(built, job, _echo)
    for name, content in result.files.items():
        path = BUILD / "out" / name
        proc.write(path, content)
        say.note(f"from the guest: {path}")
    return _report(result)


def _echo(text):
    sys.stdout.write(text)
    sys.stdout.flush()


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


def _install(arguments):
    changed = install.lay_into(arguments.tree)
    print("\n".join(f"  {name}" for name in changed) or "  nothing to change")
    print(f"{arguments.tree}: set CONFIG_ANDROID_BINDER_IPC_RUST=y or =m (Linux {install.series(arguments.tree)})")


if __name__ == "__main__":
    sys.exit(main())
