# SPDX-License-Identifier: GPL-2.0
"""`make bench ONLY=paired`: round trips through the C driver and ours in one kernel, in turns, by the same two processes. So a difference
between boots affects both drivers; several boots show the rest of it.
"""

import json
import statistics

from . import bench, guest, kernel, module, programs, reports, say
from report import data, page

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
    print("\n" + "\n".join(page.plain(table(found))))
    if into_docs:
        reports.put("paired", "Time of calls, both drivers in one kernel", bench.about(bench.TIMED, [_RESULT]), table(found))
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
    """A line for each scene and size: the middle one of all boots, and the ends of the ratios."""
    lines = []
    for (scene, size), rows in found.items():
        middle = statistics.median
        first, second = (middle(row["median_us"][side] for row in rows) for side in (0, 1))
        medians = sorted(row["median"]["point"] for row in rows)
        # Half of the widest interval of a boot.
        unsure = max((row["median"]["high"] - row["median"]["low"]) / 2 for row in rows)
        ratios = middle(medians), medians[0], medians[-1], unsure, middle(row["average"]["point"] for row in rows)
        lines.append([data.Cell("throughput", size=size).label, scene, f"{first:.1f}", f"{second:.1f}", *(f"{ratio:.3f}" for ratio in ratios)])
    return page.Table(("operation", "where", "C, µs", "Rust Binder, µs", "÷ C", "least boot", "greatest boot", "± in a boot", "average ÷ C"), lines, (0, 1))
