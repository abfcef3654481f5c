# SPDX-License-Identifier: GPL-2.0
"""`make bench ONLY=paired`: round trips through another driver and ours in one kernel, in turns, by the same two processes. So a
difference between boots affects both drivers; several boots show the rest of it.
"""

import itertools
import json
import statistics

from . import bench, guest, kernel, module, programs, reports, say
from report import data, page

_RESULT = bench.HOME / "paired.json"
SIZES = (0, 65536)
BOOTS, SECONDS = 5, 5
# Title; where client and server run, and on which of the host's CPUs; more words for binder-bench.
SCENES = (("one CPU", "same", 0, ""), ("one CPU, deferred", "same", 0, "--defer"), ("free", "free", None, ""))
_OTHERS = ("c", "upstream")
# The other driver's files are in /dev/binderfs, ours in /tmp/ours.
_SCRIPT = """
insmod /lab/{module}.ko && mount -t binder binder /dev/binderfs || exit
insmod /lab/binder_rust.ko name=binder-rust && mkdir /tmp/ours && mount -t binder-rust binder /tmp/ours || exit
/lab/binder-bench paired {other}=/dev/binderfs rust=/tmp/ours --placement {placement} --sizes {sizes} --seconds {seconds} {words} --output -
"""


def run(boots=BOOTS, seconds=SECONDS, into_docs=False):
    """Some boots of each other driver and scene in turns, `seconds` for each size and driver, and a table."""
    built = kernel.build(bench.TIMED)
    files = {"/lab/binder-bench": programs.build(bench.CRATE), "/lab/binder_rust.ko": module.build(built),
             **{f"/lab/{guest.MODULES[other]}.ko": built.module(other) for other in _OTHERS}}
    found = {(other, scene[0], size): [] for other in _OTHERS for scene in SCENES for size in SIZES}
    say.note(f"{boots} boots of each of {len(SCENES)} scenes with {len(_OTHERS)} other drivers: "
             f"{boots * len(SCENES) * len(_OTHERS) * (len(SIZES) * 2 * seconds + 3) / 60:.0f} min")
    for boot in range(1, boots + 1):
        for other, (title, placement, pin, words) in itertools.product(_OTHERS, SCENES):
            script = _SCRIPT.format(module=guest.MODULES[other], other=other, words=words, placement=placement, seconds=seconds,
                                    sizes=",".join(map(str, SIZES)))
            job = guest.Job(argv=["/bin/sh", "-c", script], driver="none", files=files, pin=pin, timeout=len(SIZES) * seconds * 3 + 60)
            result = guest.succeed(f"paired with {other}, {title}, boot {boot}", built, job)
            for row in json.loads(result.output.strip().splitlines()[-1])["rows"]:
                found[other, title, row["size"]].append(row)
    bench.put(_RESULT, json.dumps([[*key, rows] for key, rows in found.items()]), key=_key())
    print("\n" + "\n".join(page.plain(table(found))))
    if into_docs:
        reports.put("paired", "Time of calls, two drivers in one kernel", bench.about(bench.TIMED, [_RESULT]), table(found))
    return 0


def found_before():
    """{(other driver, scene, size): rows of boots} that were measured of the very drivers, kernel and machine of now; nothing if none were."""
    about = bench.known(_RESULT)
    if not about or about["key"] != _key():
        return {}
    return {tuple(key): rows for *key, rows in json.loads(_RESULT.read_text())}


def _key():
    return bench.cache.key([bench.identity(bench.TIMED, driver, timed=True) for driver in bench.DRIVERS])


def table(found):
    """A line for each other driver, scene and size: the middle one of all boots, and the ends of the ratios."""
    lines = []
    for (other, scene, size), rows in found.items():
        middle = statistics.median
        first, second = (middle(row["median_us"][side] for row in rows) for side in (0, 1))
        medians = sorted(row["median"]["point"] for row in rows)
        # Half of the widest interval of a boot.
        unsure = max((row["median"]["high"] - row["median"]["low"]) / 2 for row in rows)
        ratios = middle(medians), medians[0], medians[-1], unsure, middle(row["average"]["point"] for row in rows)
        lines.append([data.Cell("throughput", size=size).label, scene, f"{first:.1f}", f"{second:.1f}",
                      *(f"{ratio:.3f}" for ratio in ratios), data.NAMES[other]])
    heads = ("operation", "where", "other driver, µs", "Rust Binder, µs", "ratio", "least boot", "greatest boot", "± in a boot", "ratio of averages",
             "other driver")
    return page.Table(heads, lines, (0, 1, 9))
