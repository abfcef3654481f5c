# SPDX-License-Identifier: GPL-2.0
"""`make placement`: where client and server of a call run that nobody has pinned, and who moves them, as the scheduler's trace events say.

Calls are made through C and ours in turns, as in `make paired`. Who calls whom, and on which CPU, the drivers' own events say, each
driver's in an instance of the tracer; the scheduler's are in the tracer itself. The clock of all counts events: so they have one order.
"""

import base64
import collections
import dataclasses
import functools
import gzip
import operator
import re

from . import bench_beside, bench_free, bench_paired, guest, kernel, say

# Of an empty call binder-bench would measure what nobody can save as well, by futexes of the same client.
SIZE = 8
DRIVERS = ("c", "rust")
# Whom threads have woken as they started the scheduler takes into account for some seconds (`wakee_flips` in kernel/sched/fair.c).
SETTLED = 5
_SCRIPT = """
tracers=". instances/c instances/rust"
trace() {{
	for tracer in $tracers; do
		echo $1 >$tracer/tracing_on || exit
	done
}}
mount -t tracefs tracefs /sys/kernel/tracing && cd /sys/kernel/tracing && mkdir instances/c instances/rust && trace 0 || exit
for tracer in $tracers; do
	echo counter >$tracer/trace_clock && echo 32768 >$tracer/buffer_size_kb || exit
done
for event in binder_transaction binder_transaction_received; do
	echo binder:$event:mod:{c} >>instances/c/set_event && echo binder:$event:mod:{rust} >>instances/rust/set_event || exit
done
for event in waking wakeup migrate_task switch; do
	echo 1 >events/sched/sched_$event/enable || exit
done
{calls} >/tmp/said &
calls=$!
sleep {settled} && trace 1 && sleep {seconds} && trace 0
kill -0 $calls || exit
wait $calls || exit
grep busy /tmp/said
for tracer in $tracers; do
	echo "== $tracer"
	cat $tracer/per_cpu/cpu*/stats $tracer/trace
done | gzip | base64
"""
_SECTION = re.compile(r"^== (?:\.|instances/(\w+))$")
_LOST = re.compile(r"^(?:overrun|dropped events): (?!0$)(\d+)$", re.M)
#                      TASK-PID    CPU#      flags  order    event  what it says
_EVENT = re.compile(r"^ *.+-(\d+) +\[(\d+)\] \S+ +(\d+): (\w+): (.*)$")
_NUMBER = re.compile(r"\b(pid|prev_pid|next_pid|dest_cpu|transaction|reply)=(\d+)")


@dataclasses.dataclass(frozen=True, order=True)
class Event:
    """What was told, in this order, on `cpu` while thread `pid` ran; by `driver`, or the scheduler if that is empty."""

    order: int
    driver: str
    cpu: int
    pid: int
    name: str
    says: dict = dataclasses.field(compare=False)


@dataclasses.dataclass
class Counts:
    """Calls, those for which the server was woken, because it slept, those which it took on the caller's CPU, and on that of the busy
    process; how often client or server was moved as the other one woke it, by nobody's waking it, and as somebody else woke it."""

    calls: int = 0
    woken: int = 0
    same: int = 0
    busy: int = 0
    waking: int = 0
    balancer: int = 0
    others: int = 0

    def __add__(self, other):
        return Counts(*map(sum, zip(dataclasses.astuple(self), dataclasses.astuple(other))))


def run(name, asked, boots, seconds, into_docs=False):
    """Some boots of each scene in turns, in each of which calls are traced for so many `seconds`, and a table."""
    if into_docs:
        bench_free.must_have_place("placement", name)
    bench_beside.say_if_too_many(max(scene.cpus for scene in asked))
    built = kernel.build(name)
    there = bench_beside.files(built)
    found = {scene: [] for scene in asked}
    for boot in range(1, boots + 1):
        for scene in asked:
            said = scene.output(built, there, f"placement, boot {boot},", script(scene, seconds), memory=1536, timeout=60 * seconds + 240)
            found[scene].append(count(*unpacked(said)))
    text = table(found)
    print("\n" + text)
    if into_docs:
        bench_free.put_into_docs("placement", name, text)
    return 0


def script(scene, seconds):
    """What traces calls for so long in a guest. They begin before, and end after that."""
    calls = scene.script(bench_paired.script("free", (SIZE,), (SETTLED + seconds) // len(DRIVERS) + 2))
    return _SCRIPT.format(calls=calls, settled=SETTLED, seconds=seconds, **guest.MODULES)


def unpacked(said):
    """(what the tracers have told, the process that was busy, if one was) of what a guest has printed."""
    busy = re.match(r"busy (\d+)\n", said)
    packed = said[busy.end():] if busy else said
    return gzip.decompress(base64.b64decode(packed)).decode(), int(busy[1]) if busy else None


def events(text):
    """All that was told, in its order."""
    lost = sum(map(int, _LOST.findall(text)))
    if lost:
        raise say.LabError(f"the tracer has lost {lost} events: take fewer SECONDS_")
    found, driver = [], ""
    for line in text.splitlines():
        if section := _SECTION.match(line):
            driver = section[1] or ""
        elif event := _EVENT.match(line):
            pid, cpu, order, name, words = event.groups()
            found.append(Event(int(order), driver, int(cpu), int(pid), name, {key: int(value) for key, value in _NUMBER.findall(words)}))
    return sorted(found)


def count(text, busy=None):
    """The counts of each driver; `busy` is the process that computes."""
    told = events(text)
    calls = _Calls({driver: _pair(told, driver) for driver in DRIVERS}, busy)
    for event in told:
        calls.take(event)
    return calls.counts


class _Calls:
    """Calls of (client, server) of each driver, as events are taken in their order."""

    def __init__(self, pairs, busy):
        self.counts = {driver: Counts() for driver in DRIVERS}
        self._pairs = pairs
        # Of calls that are under way, the caller's CPU; of threads that are being woken, by whom.
        self._sent, self._wakers = {}, {}
        # Whose turn it is, and whether its server was woken since the call.
        self._turn, self._woken = None, False
        # The process that computes, and where it is.
        self._busy, self._busy_on = busy, None
        self._takes = {"binder_transaction": self._call, "binder_transaction_received": self._receipt, "sched_waking": self._waking,
                       "sched_wakeup": self._wakeup, "sched_migrate_task": self._move}

    def take(self, event):
        """Count what this one says. The scheduler's are of the driver that has called last."""
        driver = event.driver or self._turn
        if event.name in self._takes:
            self._takes[event.name](event, self._pairs.get(driver, ()), self.counts.get(driver))
        self._follow_busy(event)

    def _call(self, event, pair, _):
        if event.pid == pair[0] and not event.says["reply"]:
            self._turn, self._woken = event.driver, False
            self._sent[event.driver, event.says["transaction"]] = event.cpu

    def _receipt(self, event, pair, now):
        caller = self._sent.pop((event.driver, event.says["transaction"]), None) if event.pid == pair[1] else None
        if caller is not None:
            now.calls += 1
            now.woken += self._woken
            now.same += caller == event.cpu
            now.busy += self._busy_on == event.cpu

    def _waking(self, event, pair, _):
        whom = event.says["pid"]
        if whom in pair:
            self._wakers[whom] = event.pid
            self._woken |= whom == pair[1]

    def _wakeup(self, event, _pair, _now):
        self._wakers.pop(event.says["pid"], None)

    def _move(self, event, pair, now):
        whom = event.says["pid"]
        if whom in pair:
            kind = "balancer" if whom not in self._wakers else "waking" if self._wakers[whom] in pair else "others"
            setattr(now, kind, getattr(now, kind) + 1)

    def _follow_busy(self, event):
        moved = event.says["pid"] if event.name == "sched_migrate_task" else None
        if self._busy and self._busy in (event.says.get("prev_pid"), event.says.get("next_pid"), moved):
            self._busy_on = event.says.get("dest_cpu", event.cpu)


def _pair(told, driver):
    """(client, server): the threads that have most calls through a driver."""
    senders = {}
    pairs = collections.Counter()
    for event in told:
        if event.driver != driver:
            continue
        number = event.says["transaction"]
        if event.name == "binder_transaction" and not event.says["reply"]:
            senders[number] = event.pid
        elif event.name == "binder_transaction_received" and number in senders:
            pairs[senders.pop(number), event.pid] += 1
    if not pairs:
        raise say.LabError(f"the tracer has seen no call through {driver}")
    return pairs.most_common(1)[0][0]


def table(found):
    """A line for each scene, of which there are the counts of some boots: C's and ours next to each other, and of shares each boot's
    ends. What is moved is said of 1 000 calls."""
    lines = ["| guest | calls: C, ours | % with the server on the caller's CPU: C, of each boot | ours, of each boot | % for which it was woken: C, ours "
             "| % on the busy one's CPU: C, ours | moved, of 1 000 calls: C, ours | of these, as one woke the other | by the balancer "
             "| as somebody else woke it |",
             "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
    return "\n".join(lines + [_line(scene, boots) for scene, boots in found.items()]) + "\n"


def _line(scene, boots):
    total = [functools.reduce(operator.add, (counts[driver] for counts in boots)) for driver in DRIVERS]
    shares = []
    for driver, counts in zip(DRIVERS, total):
        each = sorted(100 * one[driver].same / one[driver].calls for one in boots)
        shares.append(f"{100 * counts.same / counts.calls:.0f}, {each[0]:.0f} to {each[-1]:.0f}")

    def both(parts, figure):
        return ", ".join(f"{parts * figure(one) / one.calls:.1f}" for one in total)

    words = [scene.title, ", ".join(str(one.calls) for one in total), *shares, both(100, lambda one: one.woken), both(100, lambda one: one.busy) if scene.busy else "–",
             f"**{both(1000, lambda one: one.waking + one.balancer + one.others)}**", both(1000, lambda one: one.waking),
             both(1000, lambda one: one.balancer), both(1000, lambda one: one.others)]
    return f"| {' | '.join(words)} |"
