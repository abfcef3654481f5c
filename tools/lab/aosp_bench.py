# SPDX-License-Identifier: GPL-2.0
"""`make aosp-bench`: Android's own benchmarks of Binder, binderThroughputTest and binderRpcBenchmark, on all drivers.

They are compiled as aosp.py compiles Android's tests, and measure themselves. Where the guest's clock counts instructions,
the nanoseconds that they print are instructions, of client, server, libbinder and kernel.
"""

import dataclasses
import functools
import json
import re
import statistics

from . import aosp, bench, bench_series, bench_summary, gate, guest, kernel, marked, say
from .versions import ROOT

DRIVERS = bench.DRIVERS
HOME = bench.HOME / "aosp"
DOCUMENT = ROOT / "docs/performance.md"
# (bytes, pairs of client and server) of binderThroughputTest.
POINTS = ((0, 1), (4096, 1), (65536, 1), (0, 4))
# What binderRpcBenchmark calls its transports, and what they are called here; RPC is over Unix sockets.
TRANSPORTS = {"0": "kernel", "1": "RPC", "2": "RPC, TLS"}
# The service manager asks for its callers' security contexts.
BOOT = ("lsm=selinux",)
# Boots of each driver, for times.
ROUNDS = 3
_OWN = "binder-bench"
_END = re.compile(r"^@@ end (\d+)$", re.M)
_AVERAGE = re.compile(r"^average:([\d.e+-]+)ms", re.M)
_TAIL = re.compile(r"99%: ([\d.e+-]+)")


@dataclasses.dataclass(frozen=True)
class Scene:
    """Where the programs run, and for how long: calls of binderThroughputTest, seconds of a case of binderRpcBenchmark, and which of its
    transports. Pinned is to one CPU, the guest's only one: two on one of the host's would spin for locks whose holder does not run."""

    title: str
    guest: str
    icount: bool
    pinned: bool
    calls: int
    seconds: float
    transports: str

    @property
    def lines(self):
        """The command lines. binderThroughputTest sorts times up to a limit, of as many microseconds, into 128 classes."""
        limit = 2000
        found = [f"binderThroughputTest -i {self.calls} -s {size} -w {2 * pairs} -p -m {limit}" for size, pairs in POINTS]
        # Not collectProxies, which has stopped for ever on C and on ours: a thread of its server waits until objects are gone.
        cases = f"^BM_[^c][^/]*/[{self.transports}](/.*)?$"
        return [*found, f"binderRpcBenchmark --benchmark_min_time={self.seconds}s --benchmark_filter={cases} "
                        "--benchmark_out=/out/rpc.json --benchmark_out_format=json"]


# The yardstick with TLS takes longest and says least: where it counts exactly is enough.
SCENES = {
    "count": Scene("exact instructions", "x86_64", True, False, 1000, 0.02, "012"),
    "pinned": Scene("time, one CPU", "um", False, True, 20000, 0.1, "01"),
    "free": Scene("time, two CPUs, run where they like", "um", False, False, 20000, 0.1, "01"),
}


def run(only="", rounds=ROUNDS, into_docs=False, again=False):
    """Measure the scenes named in `only` (all), times in `rounds` boots of each driver in turns, and print the tables; the exit status."""
    names = only.split(",") if only else list(SCENES)
    if unknown := set(names) - set(SCENES):
        raise say.LabError(f"no scene {', '.join(sorted(unknown))}: there are {', '.join(SCENES)}")
    built = aosp.build()
    steps = [step(built, name, driver, turn) for name in names
             for turn in range(1, (1 if SCENES[name].icount else rounds) + 1) for driver in DRIVERS]
    bench_series.run(steps, again)
    found = {name: measured(name) for name in SCENES}
    for name in names:
        print()
        bench_summary.show(bench_summary.columns(*throughput_table(found[name], SCENES[name])))
        print()
        bench_summary.show(bench_summary.columns(*rpc_table(found[name], SCENES[name])))
    if into_docs:
        marked.put(DOCUMENT, "aosp-bench", markdown(found))
    return 0


def step(built, name, driver, turn):
    """One boot."""
    scene = SCENES[name]
    title = f"AOSP's benchmarks, {scene.title}, {driver}, round {turn}"
    # Of the machine, too, if it is time.
    inputs = [bench.identity(scene.guest, driver, built / "binderThroughputTest", timed=not scene.icount), built.name, scene.lines, scene.pinned]
    return bench_series.Step(title, HOME / name / f"{driver}-{turn}.json", inputs,
                             functools.partial(_measure, title, built, scene, driver), 40 if scene.icount else 20, bench.conditions)


def _measure(title, built, scene, driver):
    machine = kernel.build(scene.guest)
    job = guest.Job(argv=["/aosp/run", *scene.lines], driver=driver, files=aosp.files(built), timeout=900, boot=BOOT, icount=scene.icount,
                    cpus=1 if scene.pinned else 2, pin=bench.quiet_cpu() if scene.pinned else None)
    with say.Step(title) as progress:
        result = guest.run(machine, job, progress.hear)
    if not result.good or "rpc.json" not in result.files or not result.output.rstrip().endswith("servicemanager alive"):
        why = "; ".join(result.problems) or result.output[-500:]
        raise say.LabError(f"AOSP's benchmarks failed on {driver}: {why}")
    return json.dumps({"throughput": read_throughput(result.output), "rpc": read_rpc(result.files["rpc.json"])}).encode()


def read_throughput(output):
    """[[average, 99th percentile]] in µs of the points in their order."""
    found = []
    for run in output.split("@@ begin binderThroughputTest")[1:]:
        ended, average, tail = (pattern.search(run) for pattern in (_END, _AVERAGE, _TAIL))
        if not (ended and ended[1] == "0" and average and tail):
            raise say.LabError(f"binderThroughputTest has not ended well: {run[-300:]}")
        found.append([float(average[1]) * 1000, float(tail[1]) * 1000])
    return found


def read_rpc(content):
    """{transport: {case: µs}} from what Google Benchmark has written."""
    found = {}
    for row in json.loads(content)["benchmarks"]:
        if row.get("error_occurred"):
            raise say.LabError(f"binderRpcBenchmark: {row['name']}: {row['error_message']}")
        name, transport, *size = row["name"].removeprefix("BM_").split("/")
        case = "/".join([name.removesuffix("ForTransportAndBytes"), *size])
        found.setdefault(TRANSPORTS[transport], {})[case] = row["real_time"] / {"ns": 1000, "us": 1}[row["time_unit"]]
    return found


def measured(name):
    """{driver: contents of its boots} of a scene, as it was measured last."""
    return {driver: [json.loads(path.read_bytes()) for path in sorted((HOME / name).glob(f"{driver}-*.json"))] for driver in DRIVERS}


def throughput_table(found, scene):
    """Headers and rows of binderThroughputTest."""
    headers = ["bytes, pairs", *_names(scene), "ours ÷ C", "upstream ÷ C", *([_OWN] if scene.icount else ["p99: C", "ours"])]
    rows = []
    for index, (size, pairs) in enumerate(POINTS):
        each = {who: [boot["throughput"][index] for boot in boots] for who, boots in found.items()}
        averages = {who: _middle(points, 0) for who, points in each.items()}
        more = [_own(f"throughput size={size} reply=0") if pairs == 1 else "–"] if scene.icount else [
            _shown(_middle(each[who], 1), scene) for who in ("c", "rust")]
        rows.append([f"{size}, {pairs}", *_row(averages, scene), *more])
    return headers, rows


def rpc_table(found, scene):
    """Headers and rows of binderRpcBenchmark: the drivers, and what no driver has a part in."""
    others = [TRANSPORTS[number] for number in scene.transports if number != "0"]
    headers = ["case", *_names(scene), "ours ÷ C", "upstream ÷ C", *([_OWN] if scene.icount else []), *others]
    cases = next((boots[0]["rpc"]["kernel"] for boots in found.values() if boots), {})
    rows = []
    for case in cases:
        drivers = {who: _middle([[boot["rpc"]["kernel"][case]] for boot in boots], 0) for who, boots in found.items()}
        every = [boot for boots in found.values() for boot in boots]
        yardsticks = (_middle([[boot["rpc"][transport][case]] for boot in every], 0) for transport in others)
        own = [_own(f"rpc {case} size=")] if scene.icount else []
        rows.append([case, *_row(drivers, scene), *own, *(_shown(value, scene) for value in yardsticks)])
    return headers, rows


def markdown(found):
    """All of it for the docs."""
    texts = []
    for name, boots in found.items():
        scene, count = SCENES[name], max(map(len, boots.values()))
        if not count:
            continue
        how = "" if scene.icount else f", the middle one of {count} boots"
        for program, (headers, rows) in (("binderThroughputTest", throughput_table(boots, scene)), ("binderRpcBenchmark", rpc_table(boots, scene))):
            lines = ["| " + " | ".join(cells) + " |" for cells in [headers, *rows]]
            texts.append("\n".join([f"**{program}**, {scene.title}{how}:", "", lines[0], "|---" + "|--:" * (len(headers) - 1) + "|", *lines[1:], ""]))
    return "\n".join(texts)


def _own(beginning):
    """What the gate has recorded of the same calls by binder-bench: ours ÷ C."""
    return next((f"{ratio:.3f}" for name, ratio in gate.read()["ratios"].items() if name.startswith(beginning)), "–")


def _names(scene):
    unit = "" if scene.icount else ", µs"
    return [f"{name}{unit}" for name in ("C", "ours", "upstream")]


def _row(values, scene):
    ratios = (f"{values[who] / values['c']:.3f}" if values[who] and values["c"] else "–" for who in ("rust", "upstream"))
    return [*(_shown(values[who], scene) for who in ("c", "rust", "upstream")), *ratios]


def _middle(rows, index):
    """Of some boots the middle one; None if there are none."""
    return statistics.median(row[index] for row in rows) if rows else None


def _shown(value, scene):
    """Microseconds; instructions are nanoseconds."""
    if value is None:
        return "–"
    return bench_summary.number(value * 1000) if scene.icount else f"{value:.1f}"
