# SPDX-License-Identifier: GPL-2.0
"""`make mutants`: faults made by a machine, and whether the tests see them.

A sample of all faults is drawn by a seed, each is tried on the tests that reach it, those that live on
every test, and those that live still in the debugging guest. What became of them is in `tests/mutants/`: `sample.jsonl` is the record of a whole sample,
`judged.toml` says of each survivor why it is one. A slice is drawn from those that the record calls killed: one
that lives then is a gap that has opened.
"""

import datetime
import hashlib
import json
import random
import tomllib

from . import kernel, kunit, marked, mutant_debug, mutant_module, mutant_runs, programs, say
from .versions import BUILD, ROOT

HOME = ROOT / "tests/mutants"
SAMPLE = HOME / "sample.jsonl"
JUDGED = HOME / "judged.toml"
GUEST = "um"
# How far a fault has come that lives.
_QUICKLY, _WHOLLY, _EVERYWHERE = "survived some tests", "survived User Mode Linux", "survived"
# How many survivors are tried on all tests at a time.
_TOGETHER = 20
RESULTS = BUILD / "mutants"
DOCS = ROOT / "docs/mutants.md"


def run(seed, count, most, keys=()):
    """Try a sample; goes on where it was interrupted, and from what the record says was killed. `most`: no more than
    so many in this run."""
    runs = _prepared("all")
    by_key = runs.mutants.by_key()
    wanted = list(keys) or _drawn(by_key, seed, count)
    results = RESULTS / (f"results-{seed}.jsonl" if not keys else "results.jsonl")
    done = {}
    if not keys:
        done = {row["key"]: row for row in _recorded() if row["end"] == "killed"}
        done |= {row["key"]: row for row in map(json.loads, results.read_text().splitlines())} if results.exists() else {}

    def keep(row):
        done[row["key"]] = row
        say.note(f"  {_title(row)}: {row['end']} {row['by']} {row['why'][:100]}")
        with open(results, "a") as file:
            file.write(json.dumps(row) + "\n")

    def ends_with(end):
        return [by_key[key] for key in wanted if done.get(key, {}).get("end", "") == end and key in by_key]

    for site in ends_with("")[:most]:
        keep(_row(runs, site, runs.quick(site["number"]), _QUICKLY))
    if most is None or not ends_with(""):
        left = ends_with(_QUICKLY)
        for some in (left[at:at + _TOGETHER] for at in range(0, len(left), _TOGETHER)):
            ends = runs.together([site["number"] for site in some])
            for site in some:
                keep(_row(runs, site, ends[site["number"]], _WHOLLY))
        left = {site["number"]: site for site in ends_with(_WHOLLY)}
        for number, end in mutant_debug.Debugging(runs, left.values()).each(left) if left else ():
            keep(_row(runs, left[number], end, _EVERYWHERE))
    rows = [done[key] for key in wanted if key in done]
    results.write_text("".join(json.dumps(row) + "\n" for row in rows))
    _report(len(by_key), rows, len(wanted))
    return 0


def _drawn(keys, seed, count):
    """A random sample. What is edited in the driver takes only its own faults out of it, and puts as few in."""
    return sorted(keys, key=lambda key: hashlib.sha256(f"{seed} {key}".encode()).digest())[:count]


def _prepared(name, only=None):
    built = kernel.build(GUEST)
    runs = mutant_runs.Runs(built, mutant_module.build(built, name, only), programs.build("tests/contract"))
    if only is None:
        runs.learn()
    return runs


def _row(runs, site, end, otherwise):
    row = {name: site[name] for name in ("key", "file", "line", "function", "operator", "original", "mutated")}
    row |= {"end": "killed" if end.killed else otherwise, "by": end.by, "why": end.why[:200]}
    row["reached"] = sum(len(runs.reaching(stage, site["number"])) for stage in mutant_runs.STAGES)
    return row


def _title(row):
    what = f"{row['original'][:60]!r} -> {row['mutated'][:60]!r}"
    return f"{row['key']} {row['file'].split('/', 1)[1]}:{row['line']} {row['function']}, {row['operator']}: {what}"


def _report(sites, rows, wanted):
    killed = sum(row["end"] == "killed" for row in rows)
    for row in rows:
        if row["end"] != "killed":
            print(f"  {_title(row)}: {row['end']}, {row['reached']} tests reach it")
    print(f"\n{killed} of {len(rows)} killed; {len(rows)} of a sample of {wanted} tried, of {sites} faults")


def record(seed):
    """Take the results of a sample as the record, and write the table of survivors into the docs."""
    rows = {row["key"]: row for row in map(json.loads, (RESULTS / f"results-{seed}.jsonl").read_text().splitlines())}
    for row in rows.values():
        row["why"] = row["why"][:80]
    SAMPLE.parent.mkdir(parents=True, exist_ok=True)
    SAMPLE.write_text("".join(json.dumps(row) + "\n" for row in sorted(rows.values(), key=_place)))
    marked.put(DOCS, "survivors", "\n".join(_table()) + "\n")
    return len(unjudged())


def unjudged():
    """Survivors of the recorded sample of whom nobody has said why they live."""
    known = _judged()
    return [_title(row) for row in _recorded() if row["end"] != "killed" and row["key"] not in known]


def _table():
    rows, known = _recorded(), _judged()
    alive = [row for row in rows if row["end"] != "killed"]
    equal = [row for row in alive if known.get(row["key"], {}).get("verdict") == "equivalent"]
    killed, sample = len(rows) - len(alive), len(rows)
    yield ""
    yield (f"{killed} of {sample} are killed ({100 * killed / sample:.1f} %); without the {len(equal)} that are shown to "
           f"change nothing, {100 * killed / (sample - len(equal)):.1f} %.")
    yield ""
    yield "| where | fault | verdict | why |\n|---|---|---|---|"
    for row in sorted(alive, key=lambda row: (known.get(row["key"], {}).get("verdict", ""), *_place(row))):
        verdict = known.get(row["key"], {"verdict": "not judged", "why": ""})
        fault = f"{row['operator']}: `{_cell(row['original'])}` → `{_cell(row['mutated'])}`".replace("`` → ", "")
        yield f"| `{row['file'].split('/', 1)[1]}` `{row['function']}` | {fault} | {verdict['verdict']} | {verdict['why']} |"


def _cell(text):
    text = text.replace("|", "\\|").replace("`", "'")
    return text if len(text) <= 70 else text[:67] + "..."


def _recorded():
    return [json.loads(line) for line in SAMPLE.read_text().splitlines()]


def _place(row):
    return row["file"], row["line"], row["key"]


def _judged():
    return {row["key"]: row for row in tomllib.loads(JUDGED.read_text())["survivor"]} if JUDGED.exists() else {}


def slice_of_killed(count, seed=None):
    """Try some of those that the record calls killed by a test and that the sources still have; what was tried, and
    what lives."""
    seed = seed or datetime.date.today().isoformat()
    # Where the guest hung, it may have been the tests before it that were needed, and it takes minutes to see that.
    # Nor is there time for another module, for the debugging guest.
    killed = {row["key"]: row for row in _recorded()
              if row["end"] == "killed" and "::" in row["by"] and "hung" not in row["why"]
              and not row["by"].startswith(kunit.GUEST)}
    there = sorted(killed.keys() & {site["key"] for site in mutant_module.listed()})
    # All of them, so that the next slice finds the module made.
    runs = _prepared("recorded", there)
    chosen = random.Random(seed).sample(runs.mutants.sites, min(count, len(runs.mutants.sites)))
    say.note(f"{len(chosen)} of {len(there)} recorded mutants that are still there ({len(killed)} were), seed {seed}")
    alive = []
    for site in chosen:
        end = runs.again(site["number"], killed[site["key"]]["by"])
        say.note(f"  {_title(site)}: {'killed by' if end.killed else 'SURVIVED'} {end.by}")
        if not end.killed:
            alive.append(_title(site))
    return chosen, alive
