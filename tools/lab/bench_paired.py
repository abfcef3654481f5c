# SPDX-License-Identifier: GPL-2.0
"""`make paired`: round trips through the C driver and ours in one kernel, in turns, by the same two processes. What a boot differs
from the next by is in both then; some boots show what is left of it.
"""

import json
import statistics

from . import bench, bench_beside, bench_series, cache, kernel, marked, programs, say
from .versions import BUILD, ROOT

HOME = BUILD / "bench/paired"
DOCUMENT = ROOT / "docs/performance.md"
SIZES = (0, 4096, 65536)
# What they are called; where client and server run, and on which of the host's CPUs; what our driver is told.
SCENES = (("one CPU", "same", 0, ""), ("free", "free", None, ""), ("free, `handoff=2`", "free", None, "handoff=2"))
_SCRIPT = "/lab/binder-bench paired c=/dev/binderfs rust=/tmp/ours --placement {placement} --sizes {sizes} --seconds {seconds} --quiet --output -"


def run(name, boots, seconds, into_docs=False):
    """Some boots of each scene in turns, `seconds` for each size and driver, and a table."""
    built = kernel.build(name)
    there = bench_beside.files(built)
    found = {(scene[0], size): [] for scene in SCENES for size in SIZES}
    say.note(f"{boots} boots of each of {len(SCENES)} scenes: {boots * len(SCENES) * (len(SIZES) * 2 * seconds + 3) / 60:.0f} min")
    for boot in range(1, boots + 1):
        for scene in SCENES:
            for row in _boot(built, there, scene, boot, seconds):
                found[scene[0], row["size"]].append(row)
    text = table(found)
    print("\n" + text)
    content = json.dumps([[*key, rows] for key, rows in found.items()], indent=1) + "\n"
    bench_series.put(HOME / f"{name}.json", content.encode(), key=_key(name, programs.build(bench.CRATE)), **bench.conditions())
    if into_docs:
        from report import front

        front.time({key: [tuple(row["median"][end] for end in ("point", "low", "high")) for row in rows] for key, rows in found.items()})
        marked.put(DOCUMENT, "paired", text)
    return 0


def found_before(name):
    """{(scene, size): rows of boots} that were measured of the very drivers, kernel and machine of now; nothing if none were."""
    path = HOME / f"{name}.json"
    if not path.exists() or bench_series.known(path).get("key") != _key(name, programs.build(bench.CRATE)):
        return {}
    return {(scene, size): rows for scene, size, rows in json.loads(path.read_text())}


def _key(name, program):
    return cache.key([bench.identity(name, driver, program, timed=True) for driver in ("c", "rust")])


def _boot(built, there, scene, boot, seconds):
    title, placement, pin, parameters = scene
    said = bench_beside.output(built, there, f"paired {built.guest.name}, {title}, boot {boot}", script(placement, SIZES, seconds), parameters,
                               pin=pin if built.guest.arch == "um" else None, timeout=len(SIZES) * seconds * 3 + 60)
    return rows_of(said)


def script(placement, sizes, seconds):
    """What measures both in a guest, `seconds` for each size and driver."""
    return _SCRIPT.format(placement=placement, seconds=seconds, sizes=",".join(map(str, sizes)))


def rows_of(said):
    """What came out, for each size: of what the script printed, the last line."""
    return json.loads(said.strip().splitlines()[-1])["rows"]


def table(found):
    """What both take, and what they add to an empty call."""
    return "\n".join(ratios(found) + added(found)) + "\n"


def ratios(found):
    """A line for each scene and size: of each boot's figures the middle one, and of the ratios also the ends."""
    lines = ["| where they run | bytes | C, µs | ours, µs | ours ÷ C, median | of each boot | average |", "|---|--:|--:|--:|--:|---|--:|"]
    for (scene, size), rows in found.items():
        middle = statistics.median
        first, second = (middle(row["median_us"][side] for row in rows) for side in (0, 1))
        medians = sorted(row["median"]["point"] for row in rows)
        # Half an interval, of the boot that knows least.
        unsure = max((row["median"]["high"] - row["median"]["low"]) / 2 for row in rows)
        lines.append(f"| {scene} | {size} | {first:.1f} | {second:.1f} | **{middle(medians):.3f}** | {medians[0]:.3f} to {medians[-1]:.3f}, "
                     f"± {unsure:.3f} | {middle(row['average']['point'] for row in rows):.3f} |")
    return lines


def added(found):
    """What the drivers add to an empty call that nobody can save: a line for each scene."""
    lines = ["", "| where they run | two switches and three system calls, µs | C adds, µs | ours adds, µs | ours ÷ C | of each boot |",
             "|---|--:|--:|--:|--:|---|"]
    for (scene, _), rows in found.items():
        known = [row["added"] for row in rows if row["added"]]
        if not known:
            continue
        middle = statistics.median
        ratios = sorted(one["ratio"]["point"] for one in known)
        unsure = max((one["ratio"]["high"] - one["ratio"]["low"]) / 2 for one in known)
        first, second = (middle(one["added_us"][side] for one in known) for side in (0, 1))
        lines.append(f"| {scene} | {middle(one['floor_us'] for one in known):.1f} | {first:.1f} | {second:.1f} | **{middle(ratios):.3f}** | "
                     f"{ratios[0]:.3f} to {ratios[-1]:.3f}, ± {unsure:.3f} |")
    return lines
