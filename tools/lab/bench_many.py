# SPDX-License-Identifier: GPL-2.0
"""`make many`: calls a second of many clients at once through the C driver and ours in one kernel, in turns.

Where its CPUs wait for each other is where a driver's locks are; that takes CPUs that run at the same time, one of the host's for each.
"""

import json
import statistics

from . import bench_beside, kernel

ROUNDS = 3
# What they are called, and what binder-bench is told; `{}` in a name is how many there are.
CASES = (
    ("{} pairs", "throughput --sizes 0 --pairs 1,2,4"),
    ("{} clients of one server with 8 threads", "fanin --clients 1,4,8 --threads 8"),
    ("{} senders of oneway calls to one receiver", "oneway --sizes 0 --senders 1,3,7"),
)
# Who comes first in a round is last in the next.
_SCRIPT = """
measure() {{
	driver=$1 mount=$2
	shift 2
	/lab/binder-bench "$@" --driver $driver --binderfs $mount --carriers binder --placement free --seconds {seconds} --quiet --output - || exit
}}
for round in $(seq {rounds}); do
	for driver in $([ $((round % 2)) = 1 ] && echo c rust || echo rust c); do
		[ $driver = c ] && mount=/dev/binderfs || mount=/tmp/ours
		{cases}
	done
done
"""


def run(name, cpus, boots, seconds):
    """Some boots with so many CPUs, `seconds` for each case and round, and a table."""
    bench_beside.say_if_too_many(cpus)
    built = kernel.build(name)
    there = bench_beside.files(built)
    texts = [_boot(built, there, cpus, boot, seconds) for boot in range(1, boots + 1)]
    print("\n" + table(runs(text) for text in texts))
    return 0


def _boot(built, there, cpus, boot, seconds):
    cases = "\n\t\t".join(f"measure $driver $mount {words}" for _, words in CASES)
    return bench_beside.output(built, there, f"many clients {built.guest.name}, {cpus} CPUs, boot {boot}",
                               _SCRIPT.format(cases=cases, rounds=ROUNDS, seconds=seconds),
                               cpus=cpus, at_once=True, memory=2048, timeout=600)


def runs(text):
    """What binder-bench wrote in a boot, in its order."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def table(boots):
    """A line for each case and number of clients. The ratio is that of each round; of all of them the middle one, and the ends."""
    found = {}
    for boot, written in enumerate(boots):
        for number, one in enumerate(written):
            for cell in one["cells"]:
                key = (cell["workload"], cell["pairs"])
                # A round has as many runs of each driver as there are cases.
                round_ = (boot, number // (2 * len(CASES)))
                found.setdefault(key, {}).setdefault(round_, {})[one["driver"]] = cell["measured"]["latency"]["blocks"]
    lines = ["| | C, calls a second | ours | ours ÷ C | of each round | p50: C, µs | ours | p99: C, µs | ours |", "|---|--:|--:|--:|---|--:|--:|--:|--:|"]
    titles = {words.split()[0]: title for title, words in CASES}
    return "\n".join(lines + [_line(titles[workload].format(count), rounds) for (workload, count), rounds in found.items()]) + "\n"


def _line(title, rounds):
    sides = [[blocks[driver] for blocks in rounds.values()] for driver in ("c", "rust")]
    rates = [[_rate(blocks) for blocks in side] for side in sides]
    ratios = sorted(ours / base for base, ours in zip(*rates))
    middle = statistics.median
    base, ours = (middle(side) for side in rates)
    tails = (f"{middle(block[which] for blocks in side for block in blocks) / 1000:.0f}" for which in ("p50_ns", "p99_ns") for side in sides)
    title = title.replace("1 pairs", "1 pair").replace("1 clients", "1 client").replace("1 senders", "1 sender")
    return (f"| {title} | {base:.0f} | {ours:.0f} | **{middle(ratios):.2f}** | {ratios[0]:.2f} to {ratios[-1]:.2f} | " + " | ".join(tails) + " |")


def _rate(blocks):
    """Calls a second of all clients together."""
    return sum(block["calls"] for block in blocks) / sum(block["wall_ns"] for block in blocks) * 1e9
