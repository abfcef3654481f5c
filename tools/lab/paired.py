# SPDX-License-Identifier: GPL-2.0
"""`make bench ONLY=paired`: round trips through the C driver and ours in one kernel, in turns, by the same two processes. So a difference
between boots affects both drivers; several boots show the rest of it.
"""

import json
import statistics

from . import bench, guest, kernel, marked, module, programs, say
from .versions import ROOT
from report import charts

DOCUMENT = ROOT / "docs/performance.md"
_RESULT = bench.HOME / "paired.json"
SIZES = (0, 4096, 65536)
BOOTS, SECONDS = 5, 10
# Title; where client and server run, and on which of the host's CPUs; parameters of our driver.
SCENES = (("one CPU", "same", 0, ""), ("free", "free", None, ""))
# C's files are in /dev/binderfs, ours in /tmp/ours.
_SCRIPT = """
insmod /lab/{c}.ko && mount -t binder binder /dev/binderfs || exit
insmod /lab/{rust}.ko name=binder-rust {parameters} && mkdir /tmp/ours && mount -t binder-rust binder /tmp/ours || exit
/lab/binder-bench paired c=/dev/binderfs rust=/tmp/ours --placement {placement} --sizes {sizes} --seconds {seconds} --output -
"""


def run(boots=BOOTS, seconds=SECONDS, into_docs=False):
    """Some boots of each scene in turns, `seconds` for each size and driver, and a table."""
    built = kernel.build(bench.TIMED)
    files = {"/lab/binder-bench": programs.build(bench.CRATE), f"/lab/{guest.MODULES['c']}.ko": built.module("c"),
             f"/lab/{guest.MODULES['rust']}.ko": module.build(built)}
    found = {(scene[0], size): [] for scene in SCENES for size in SIZES}
    say.note(f"{boots} boots of each of {len(SCENES)} scenes: {boots * len(SCENES) * (len(SIZES) * 2 * seconds + 3) / 60:.0f} min")
    for boot in range(1, boots + 1):
        for title, placement, pin, parameters in SCENES:
            script = _SCRIPT.format(**guest.MODULES, parameters=parameters, placement=placement, seconds=seconds, sizes=",".join(map(str, SIZES)))
            job = guest.Job(argv=["/bin/sh", "-c", script], driver="none", files=files, pin=pin, timeout=len(SIZES) * seconds * 3 + 60)
            result = guest.succeed(f"paired, {title}, boot {boot}", built, job)
            for row in json.loads(result.output.strip().splitlines()[-1])["rows"]:
                found[title, row["size"]].append(row)
    bench.put(_RESULT, json.dumps([[*key, rows] for key, rows in found.items()]), key=_key())
    print("\n" + table(found))
    if into_docs:
        marked.put(DOCUMENT, "paired", f"{bench.when([_RESULT])}.\n\n{table(found)}")
        (ROOT / "docs/figures/front-time.svg").write_text(chart(found))
    return 0


def found_before():
    """{(scene, size): rows of boots} that were measured of the very drivers, kernel and machine of now; nothing if none were."""
    about = bench.known(_RESULT)
    if not about or about["key"] != _key():
        return {}
    return {(scene, size): rows for scene, size, rows in json.loads(_RESULT.read_text())}


def _key():
    return bench.cache.key([bench.identity(bench.TIMED, driver, timed=True) for driver in bench.DRIVERS])


def table(found):
    """A line for each scene and size: of each boot's figures the middle one, and of the ratios also the ends."""
    lines = ["| where they run | bytes | C, µs | ours, µs | ours ÷ C, median | of each boot | average |", "|---|--:|--:|--:|--:|---|--:|"]
    for (scene, size), rows in found.items():
        middle = statistics.median
        first, second = (middle(row["median_us"][side] for row in rows) for side in (0, 1))
        medians = sorted(row["median"]["point"] for row in rows)
        # Half of the widest interval of a boot.
        unsure = max((row["median"]["high"] - row["median"]["low"]) / 2 for row in rows)
        lines.append(f"| {scene} | {size} | {first:.1f} | {second:.1f} | **{middle(medians):.3f}** | {medians[0]:.3f} to {medians[-1]:.3f}, "
                     f"± {unsure:.3f} | {middle(row['average']['point'] for row in rows):.3f} |")
    return "\n".join(lines) + "\n"


def chart(found):
    """The middle boot, and from the least to the most that any of them has."""
    rows = []
    for (scene, size), boots in found.items():
        medians = [row["median"] for row in boots]
        interval = (statistics.median_low([median["point"] for median in medians]), min(median["low"] for median in medians),
                    max(median["high"] for median in medians))
        rows.append((f"{scene.replace('`', '')}, {size} bytes", {"rust": interval}))
    return charts.ratios("Time of a call ÷ C, in one kernel", rows)
