# SPDX-License-Identifier: GPL-2.0
"""`make aosp-bench ONLY=beside`: Android's own benchmarks through the C driver and ours in one kernel, in turns.

Boots differ by more than the drivers do in most of their cases. So both drivers are in one guest, each with its own mount, and the
programs, which open /dev/binder, find one there and then the other.
"""

import math
import statistics

from . import aosp, aosp_bench, bench, bench_beside, bench_summary, kernel, marked, say

NAME = "beside"
TURNS = 12
# One CPU, and the kernel's transport alone: the others know nothing of a driver. Turns are short, so that what else the host does is in both.
_SCENE = aosp_bench.Scene("time in one kernel, one CPU", "um", False, True, 5000, 0.03, "0")
# Who comes first in a turn is last in the next. A service manager that is left would be the next driver's.
_SCRIPT = """
chmod 666 /dev/binderfs/binder /tmp/ours/binder
for turn in $(seq {turns}); do
	for driver in $([ $((turn % 2)) = 1 ] && echo c rust || echo rust c); do
		[ $driver = c ] && mount=/dev/binderfs || mount=/tmp/ours
		ln -sf $mount/binder /dev/binder
		echo "@@ driver $driver"
		/aosp/run {lines}
		killall servicemanager
		while pidof servicemanager >/dev/null; do sleep 0.1; done
		echo "@@ rpc"
		cat /out/rpc.json && rm /out/rpc.json || exit
	done
done
"""


def run(boots=aosp_bench.ROUNDS, into_docs=False):
    """Some boots, and a table; the exit status."""
    built, machine = aosp.build(), kernel.build(_SCENE.guest)
    there = bench_beside.files(machine) | aosp.files(built)
    found = {"c": [], "rust": []}
    for boot in range(1, boots + 1):
        said = bench_beside.output(machine, there, f"AOSP's benchmarks, {_SCENE.title}, {TURNS} turns, boot {boot}", script(TURNS),
                                   boot=aosp_bench.BOOT, cpus=1, pin=bench.quiet_cpu(), timeout=120 * TURNS)
        for driver, turns in read(said).items():
            found[driver] += turns
    print()
    bench_summary.show(bench_summary.columns(*table(found)))
    if into_docs:
        marked.put(aosp_bench.DOCUMENT, "aosp-bench beside", markdown(found))
    return 0


def script(turns):
    """What calls through both in a guest, so many times."""
    return _SCRIPT.format(turns=turns, lines=" ".join(f"'{line}'" for line in _SCENE.lines))


def read(said):
    """{driver: [{case: µs} of each turn]} of what such a guest has printed."""
    found = {"c": [], "rust": []}
    for turn in said.split("@@ driver ")[1:]:
        driver, _, rest = turn.partition("\n")
        printed, mark, written = rest.partition("@@ rpc\n")
        if not mark:
            raise say.LabError(f"a turn of {driver} has no end: {rest[-300:]}")
        points = zip(aosp_bench.POINTS, aosp_bench.read_throughput(printed))
        times = {f"{size} bytes, {pairs} {'pair' if pairs == 1 else 'pairs'}": average for (size, pairs), (average, _) in points}
        found[driver].append(times | aosp_bench.read_rpc(written)["kernel"])
    return found


def table(found):
    """Headers and rows: of the turns of a driver the middle one, and of the ratios of turns the middle one, with the interval in which
    it is with 95 %."""
    rows = []
    for case in found["c"][0]:
        base, ours = ([turn[case] for turn in found[driver]] for driver in ("c", "rust"))
        ratios = sorted(our / their for their, our in zip(base, ours))
        low, high = _interval(ratios)
        rows.append([case, f"{statistics.median(base):.1f}", f"{statistics.median(ours):.1f}", f"{statistics.median(ratios):.3f}",
                     f"{low:.3f} to {high:.3f}"])
    return ["case", "C, µs", "ours, µs", "ours ÷ C", "95 %"], rows


def _interval(sorted_):
    """Where the median of what these are a sample of is with 95 %, whatever its distribution: between two of them, by their order."""
    reach = 0.98 * math.sqrt(len(sorted_))
    middle = (len(sorted_) - 1) / 2
    return sorted_[max(math.floor(middle - reach), 0)], sorted_[min(math.ceil(middle + reach), len(sorted_) - 1)]


def markdown(found):
    """The same for the docs."""
    headers, rows = table(found)
    return "\n".join([f"| {' | '.join(headers)} |", "|---|--:|--:|--:|---|", *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"
