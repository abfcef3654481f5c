# SPDX-License-Identifier: GPL-2.0
"""Boots in which binder-bench measures, and their results, each kept with everything that it depends on.

Instructions, memory and cache lines are counted on Debian's kernel, in a machine whose clock counts instructions; they are the same in
every run of one build. Times are measured in User Mode Linux.
"""

import dataclasses
import gzip
import json
import os
import pathlib
import platform
import tempfile
import time
import typing

from . import cache, emulator, guest, kernel, module, proc, programs, say, stock
from .versions import BUILD, ROOT
from report import plugins, symbols

CRATE = "tools/binder-bench"
HOME = BUILD / "bench"
# The guests of counts and of times.
COUNTED, TIMED = stock.NAMES[0], "um-plain"
DRIVERS = ("c", "rust", "upstream")
# Those that `make test` compares.
HELD = ("c", "rust")
# Addresses stay where the next boot has them. A CPU that is idle halts, and is woken by an interrupt: QEMU's MWAIT would turn round instead.
BOOT = ("nokaslr", "idle=halt")
# Seconds of the guest for what Debian's kernel puts off at boot, such as checks of its algorithms: the guest's clock jumps over them.
SETTLE = 60


@dataclasses.dataclass(frozen=True)
class Boot:
    """A guest in which `driver` is counted: `script` runs there, with the words of binder-bench for this driver as `$words`, and leaves
    files in /out. `plugin` is one of QEMU, and words for it."""

    title: str
    driver: str
    script: str
    plugin: tuple = ()
    cpus: int = 1
    timeout: int = 900
    # More words for the kernel's command line.
    boot: tuple = ()

    @property
    def inputs(self):
        """All that the result depends on."""
        made_of = cache.content(*plugins.sources(self.plugin[0])) if self.plugin else ""
        return [self.script, self.plugin, made_of, self.cpus, *self.boot, *identity(COUNTED, self.driver)]

    def run(self):
        """{name of a file: content} of what came out, `seen` being the plugin's, `symbols` the driver's own; and what was wrong."""
        built, program = kernel.build(COUNTED), programs.build_for(COUNTED, CRATE)
        device = "--device /dev/binder" if self.driver == "c" else ""
        script = (f"sleep {SETTLE}; b=/lab/binder-bench; words='--driver {self.driver} --quiet {device}'\n{self.script}\nstatus=$?\n"
                  "grep '\\[' /proc/kallsyms >/out/symbols\nexit $status")
        with tempfile.TemporaryDirectory() as folder, say.Step(self.title) as step:
            options, seen = plugins.compiled(self.plugin[0], pathlib.Path(folder), *self.plugin[1:]) if self.plugin else ((), None)
            job = guest.Job(argv=["/bin/sh", "-c", script], driver=self.driver, icount=True, timeout=self.timeout, boot=(*BOOT, *self.boot),
                            qemu=(*options, "-smp", str(self.cpus)), files={"/lab/binder-bench": program})
            result = guest.run(built, job, step.hear)
            files = {name: content.decode() for name, content in result.files.items()}
            if seen and seen.exists():
                files["seen"] = seen.read_text()
        if "symbols" not in files or result.status:
            why = "; ".join(result.problems) or f"status {result.status}: {result.output[-300:]}"
            raise Unfinished(f"{self.title}: {why}")
        return files, result.problems


class Unfinished(say.LabError):
    """A guest that did not come to its end."""


def good(found):
    """The files of a boot of which nothing was wrong."""
    files, problems = found
    if problems:
        raise say.LabError("; ".join(problems))
    return files


@dataclasses.dataclass(frozen=True)
class Step:
    """A result that is kept in file `path`, made by `make()`; `inputs` is all that it depends on."""

    title: str
    path: pathlib.Path
    inputs: typing.Any
    make: typing.Callable

    def kept(self):
        """When and of what it was made, if there is a result of the same inputs."""
        about = known(self.path)
        return about if about.get("key") == cache.key(self.inputs) and self.path.exists() else None

    def result(self, again=False):
        """The path of the result, which is made unless it is kept."""
        if self.kept() and not again:
            return self.path
        # Two at once would measure each other, and the same: the second waits, and finds what the first has left.
        with cache.lock(f"measurements in {ROOT}"):
            if again or not self.kept():
                put(self.path, self.make(), key=cache.key(self.inputs))
        return self.path


def step(kind, boot, make, *more):
    """The step whose result is made of a boot, and of what else it depends on. Other drivers change seldom: theirs are in the cache of all
    checkouts."""
    folder = (HOME if boot.driver == "rust" else cache.root()) / kind
    return Step(boot.title, folder / f"{boot.driver}-{cache.key(*more, boot.inputs)}.json", boot.inputs, make)


def put(path, content, **facts):
    """Lay down a result, and beside it when and of what it was made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    about = _about(path)
    # The file that marks a result as complete is removed first and written last.
    about.unlink(missing_ok=True)
    for into, text in ((path, content), (about, json.dumps(facts | {"began": now(), "commit": commit()}))):
        part = into.with_name(into.name + ".part")
        part.write_text(text)
        part.rename(into)


def known(path):
    """When and of what a result was made; nothing where there is none."""
    return json.loads(_about(path).read_text()) if _about(path).exists() else {}


def _about(path):
    return path.with_name(f".{path.name}.about")


def counted(kind, boot, make, again=False):
    """The plain data of `make(files of the boot)`, kept: other drivers' in the cache of all checkouts, for they change with the kernel,
    binder-bench and the plugin only."""
    def text():
        return json.dumps(make(good(boot.run())))

    if boot.driver != "rust":
        name = f"bench/{kind}-{boot.driver}-{cache.key(boot.inputs)}.json"
        return json.loads(cache.entry(name, lambda part: part.write_text(text())).read_text())
    step = Step(boot.title, result_of(kind, boot.driver), boot.inputs, text)
    return json.loads(step.result(again).read_text())


def result_of(kind, driver):
    return HOME / kind / f"{driver}.json"


def kernel_symbols(name):
    """Lines of /proc/kallsyms of the kernel of guest `name` without modules, data included: from its build, or else as a boot has
    shown. A kernel of ours has no data in /proc/kallsyms (CONFIG_KALLSYMS_ALL)."""
    built = kernel.build(name)
    map_of_build = built.folder / "System.map"
    if map_of_build.exists():
        return map_of_build.read_text()

    def make(part):
        job = guest.Job(argv=["/bin/sh", "-c", "gzip -1 </proc/kallsyms >/out/symbols.gz"], driver="none", icount=True, boot=BOOT)
        with say.Step(f"the symbols of {name}'s kernel"):
            result = guest.run(built, job)
        if not result.good:
            raise say.LabError(f"the symbols of {name}'s kernel: {'; '.join(result.problems) or result.output[-300:]}")
        part.write_bytes(result.files["symbols.gz"])

    place = f"bench/symbols-{name}-{cache.key(str(built.folder), BOOT)}.gz"
    return gzip.decompress(cache.entry(place, make).read_bytes()).decode()


def functions(name, of_driver):
    """The functions of that kernel and of the driver that a boot had loaded."""
    return symbols.read(kernel_symbols(name) + of_driver)


def identity(name, driver, timed=False):
    """All that a measurement in guest `name` depends on besides its options; times depend on the machine, too."""
    built = kernel.build(name)
    ours = cache.content(module.build(built)) if driver == "rust" else ""
    machine = [processor(), platform.node()] if timed else []
    qemu = "" if built.guest.arch == "um" else emulator.version(built.guest.arch).splitlines()[0]
    return [str(built.folder), driver, ours, cache.content(programs.build_for(name, CRATE)), machine, qemu]


def processor():
    """The host's, by its name."""
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "?")


def commit():
    """The commit that is measured."""
    if not (ROOT / ".git").exists():
        return "not in git"
    changed = proc.output("git", "-C", ROOT, "status", "--porcelain", "-uno").strip()
    return proc.output("git", "-C", ROOT, "rev-parse", "--short", "HEAD").strip() + (" and changes" if changed else "")


def now():
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime())


def about(name, paths=()):
    """Date, driver, kernel and machine of results that were kept, or of now, in guest `name`."""
    kept = [known(path) for path in paths] or [{"began": now(), "commit": commit()}]
    commits = " / ".join(sorted({each["commit"] for each in kept}))
    machine = f"{processor()}, {os.cpu_count()} CPUs" if name == TIMED else emulator.version("x86_64").splitlines()[0].split(" (")[0]
    return f"{min(each['began'] for each in kept)[:10]}, driver {commits}, Linux {kernel.build(name).release} ({name}), {machine}"
