# SPDX-License-Identifier: GPL-2.0
"""`make bench-gate`: our driver's exact instructions, as a ratio to the C driver's, may not grow unnoticed.

Counts under `-icount` are the same in every run, so a hundredth is no noise. The ratios are recorded in
tools/binder-bench/gate.toml, with when and why they were changed.
"""

import datetime
import functools
import json
import tomllib

from . import bench, bench_series, cache, kernel, programs, say
from .versions import ROOT

RECORD = ROOT / bench.CRATE / "gate.toml"
# How much a ratio may exceed the recorded one, and how far exact counts of one driver may lie apart.
TOLERANCE = 0.01
# The same where nodes are found among many: the shape of their tree is made by where the allocator puts them, which is elsewhere with
# each build of kernel or driver. Six builds of 2026-11-23 were 0.6948 to 0.7150 of C with 1 000 refs.
AMONG_MANY = 0.03
EXACT = 0.001
_GUEST = "x86_64"
_HEAD = """\
# SPDX-License-Identifier: GPL-2.0
# Exact instructions of one operation, our driver's divided by the C driver's. `make bench-gate` fails when one is
# exceeded by more than 1 %, or by 3 % where nodes are found among many; `make bench-gate UPDATE='why'` records what is
# measured, and why, here.
"""


def run(update):
    """Measure both drivers and judge, or record with the reason `update`; the exit status."""
    if update is not None and len(update.split()) < 3:
        raise say.LabError("say why the ratios change, in some words: make bench-gate UPDATE='nodes are found by hash'")
    ratios = measure()
    if update is not None:
        old = read() if RECORD.exists() else {"ratios": {}, "changes": []}
        RECORD.write_text(write(ratios, [_change(old["ratios"], ratios, update), *old["changes"]]))
        say.note(f"recorded in {RECORD.relative_to(ROOT)}; commit it with what it is about")
        return 0
    if not RECORD.exists():
        raise say.LabError("no ratios are recorded yet: make bench-gate UPDATE='the first measurement'")
    rows, failures = judge(read()["ratios"], ratios)
    print("\n" + "\n".join(rows))
    for failure in failures:
        print(f"error: {failure}")
    print(f"\n{len(ratios) - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


def measure():
    """{operation: our instructions ÷ the C driver's}"""
    from report import data

    program = programs.build(bench.CRATE)
    ours = step(program)
    if not ours.kept():
        bench_series.keep(ours)
    return ratios_of(data.load(program, [base(program), ours.path]))


def step(program):
    """The boot in which ours is counted. Counts are exact, so those of the same driver, kernel and binder-bench are kept."""
    title = "gate: counting instructions, rust"
    inputs = [bench.identity(_GUEST, "rust", program, timed=False), bench.arguments("count")]
    return bench_series.Step(title, bench.HOME / "gate" / "rust-1.json", inputs,
                             functools.partial(bench.measure, title, _GUEST, "rust", program, "count"), 30, bench.conditions)


def base(program):
    """The C driver's counts, which change with the kernel and with binder-bench only."""
    key = cache.key(str(kernel.build(_GUEST).folder), cache.content(program))

    def make(part):
        part.write_bytes(bench.measure("gate: counting instructions, c", _GUEST, "c", program, "count"))

    return cache.entry(f"bench/c-{key}.json", make)


def ratios_of(results):
    return {cell.name: row["ratio"] for (cell, who), row in sorted(results.counts.items())
            if who == "rust" and row["ratio"]}


def judge(recorded, measured):
    """A line for each operation, and what is wrong."""
    rows, failures = [], []
    for name in sorted(recorded.keys() | measured.keys()):
        was, now = recorded.get(name), measured.get(name)
        text = f"  {name:<48} {_shown(was):>9} {_shown(now):>9}"
        if was is None:
            failures.append(f"{name} is not recorded: make bench-gate UPDATE='why it is measured now'")
        elif now is None:
            failures.append(f"{name} is recorded and was not measured: is it gone from binder-bench?")
        else:
            text += f" {(now / was - 1) * 100:+8.2f} %"
            tolerance = _tolerance(name)
            if now > was * (1 + tolerance):
                failures.append(f"{name} takes {now:.4f} times the C driver's instructions, recorded is {was:.4f}: make it "
                                "cheaper (`make profile` shows where it goes), or record it with the reason")
            elif now < was * (1 - tolerance):
                text += "  cheaper: record it, so that it stays (UPDATE='why')"
        rows.append(text)
    return [f"  {'÷ C':<48} {'recorded':>9} {'now':>9}", *rows], failures


def _tolerance(name):
    return AMONG_MANY if name.startswith("handles ") and not name.endswith(" refs=0") else TOLERANCE


def _shown(ratio):
    return "–" if ratio is None else f"{ratio:.4f}"


def _change(old, new, why):
    """What the record says about one update."""
    both = sorted(old.keys() & new.keys())
    moved = [f"{name} {old[name]:.4f} -> {new[name]:.4f}" for name in both if abs(new[name] / old[name] - 1) > 0.0005]
    moved += [f"{name} {new[name]:.4f}, new" for name in sorted(new.keys() - old.keys()) if old]
    moved += [f"{name} gone" for name in sorted(old.keys() - new.keys())]
    return {"date": datetime.date.today(), "why": " ".join(why.split()), "moved": moved}


def read():
    found = tomllib.loads(RECORD.read_text())
    return {"ratios": found.get("ratios", {}), "changes": found.get("change", [])}


def write(ratios, changes):
    """The record as TOML."""
    lines = [_HEAD, "[ratios]", *(f"{json.dumps(name)} = {ratio:.4f}" for name, ratio in sorted(ratios.items()))]
    for change in changes:
        lines += ["", "[[change]]", f"date = {change['date']}", f"why = {json.dumps(change['why'], ensure_ascii=False)}",
                  "moved = [", *(f"    {json.dumps(text)}," for text in change["moved"]), "]"]
    return "\n".join(lines) + "\n"


def exact(rounds=3):
    """Count `rounds` times with every driver, and fail when a count differs by more than EXACT; the exit status."""
    from report import data

    program = programs.build(bench.CRATE)
    paths = bench.series("exact", _GUEST, rounds, bench.DRIVERS, program)
    rows, failures = [f"  {'':<48} {'':<10} {'loaded':<10} {'least':>12} {'most':>12} {'apart':>9}"], []
    for driver in bench.DRIVERS:
        # Each alone: a yardstick may count a little differently next to another driver.
        counts = data.load(program, [path for path in paths if path.name.startswith(f"{driver}-")]).counts
        for kind, found in zip((rows, failures), judge_exact(counts, driver, rounds)):
            kind += found
    print("\n" + "\n".join(rows))
    for failure in failures:
        print(f"error: {failure}")
    print(f"\n{len(rows) - 1 - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


def judge_exact(counts, driver, rounds):
    """A line for each operation and carrier with `driver` loaded, and those that runs do not agree about."""
    rows, failures = [], []
    for (cell, who), row in sorted(counts.items()):
        apart = row["most"] / row["least"] - 1
        rows.append(f"  {cell.name:<48} {who:<10} {driver:<10} {row['least']:>12.1f} {row['most']:>12.1f} "
                    f"{apart * 100:>7.3f} %")
        if apart > EXACT:
            failures.append(f"{rounds} runs of {cell.name} on {who} lie {apart * 100:.2f} % apart, "
                            f"more than {EXACT * 100:g} % ({driver} loaded)")
    return rows, failures
