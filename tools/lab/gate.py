# SPDX-License-Identifier: GPL-2.0
"""`make bench-gate`: our driver's exact instructions, as a ratio to the C driver's, may not grow unnoticed.

Counts under `-icount` are the same in every run, so a hundredth is no noise. The ratios are recorded in
tools/binder-bench/gate.toml, with when and why they were changed; those of arm64 in gate-arm64.toml.
"""

import datetime
import functools
import json
import tomllib

from . import bench, bench_series, cache, kernel, programs, say
from .versions import ROOT

# Where it is counted, and what is recorded of that. `make test` counts on the first.
GUESTS = ("x86_64", "arm64")
GUEST = GUESTS[0]
# How much a ratio may exceed the recorded one, and how far exact counts of one driver may lie apart.
TOLERANCE = 0.01
# The same where nodes are found among many: the shape of their tree is made by where the allocator puts them, which is elsewhere with
# each build of kernel or driver. Six builds of 2026-11-23 were 0.6948 to 0.7150 of C with 1 000 refs.
AMONG_MANY = 0.03
EXACT = 0.001
_HEAD = """\
# SPDX-License-Identifier: GPL-2.0
# Exact instructions of one operation{of}, our driver's divided by the C driver's. `{command}` fails when one is
# exceeded by more than 1 %, or by 3 % where nodes are found among many; `{command} UPDATE='why'` records what is
# measured, and why, here.
"""


def record(name=GUEST):
    """The file with what is recorded of guest `name`."""
    return ROOT / bench.CRATE / ("gate.toml" if name == GUEST else f"gate-{name}.toml")


def run(update, name=GUEST):
    """Measure both drivers in guest `name` and judge, or record with the reason `update`; the exit status."""
    if name not in GUESTS:
        raise say.LabError(f"instructions are recorded of {' and '.join(GUESTS)}, not of {name}")
    if update is not None and len(update.split()) < 3:
        raise say.LabError("say why the ratios change, in some words: make bench-gate UPDATE='nodes are found by hash'")
    ratios, file = measure(name), record(name)
    if update is not None:
        old = read(name) if file.exists() else {"ratios": {}, "changes": []}
        file.write_text(write(ratios, [_change(old["ratios"], ratios, update), *old["changes"]], name))
        say.note(f"recorded in {file.relative_to(ROOT)}; commit it with what it is about")
        return 0
    if not file.exists():
        raise say.LabError(f"no ratios are recorded yet: {command(name)} UPDATE='the first measurement'")
    rows, failures = judge(read(name)["ratios"], ratios, name)
    print("\n" + "\n".join(rows))
    for failure in failures:
        print(f"error: {failure}")
    print(f"\n{len(ratios) - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


def command(name):
    """What judges that guest's."""
    return "make bench-gate" + ("" if name == GUEST else f" GUEST={name}")


def measure(name=GUEST):
    """{operation: our instructions ÷ the C driver's}"""
    from report import data

    program = programs.build_for(name, bench.CRATE)
    ours = step(program, name)
    if not ours.kept():
        bench_series.keep(ours)
    return ratios_of(data.load(programs.build(bench.CRATE), [base(program, name), ours.path]))


def step(program, name=GUEST):
    """The boot in which ours is counted. Counts are exact, so those of the same driver, kernel and binder-bench are kept."""
    title = f"gate: counting instructions, {name}, rust"
    inputs = [bench.identity(name, "rust", program, timed=False), bench.arguments("count")]
    return bench_series.Step(title, bench.HOME / "gate" / f"{name}-rust.json", inputs,
                             functools.partial(bench.measure, title, name, "rust", program, "count"), 30, bench.conditions)


def base(program, name=GUEST):
    """The C driver's counts, which change with the kernel and with binder-bench only."""
    key = cache.key(str(kernel.build(name).folder), cache.content(program))

    def make(part):
        part.write_bytes(bench.measure(f"gate: counting instructions, {name}, c", name, "c", program, "count"))

    return cache.entry(f"bench/c-{key}.json", make)


def ratios_of(results):
    return {cell.name: row["ratio"] for (cell, who), row in sorted(results.counts.items())
            if who == "rust" and row["ratio"]}


def judge(recorded, measured, name=GUEST):
    """A line for each operation, and what is wrong."""
    rows, failures = [], []
    for case in sorted(recorded.keys() | measured.keys()):
        was, now = recorded.get(case), measured.get(case)
        text = f"  {case:<48} {_shown(was):>9} {_shown(now):>9}"
        if was is None:
            failures.append(f"{case} is not recorded: {command(name)} UPDATE='why it is measured now'")
        elif now is None:
            failures.append(f"{case} is recorded and was not measured: is it gone from binder-bench?")
        else:
            text += f" {(now / was - 1) * 100:+8.2f} %"
            tolerance = _tolerance(case)
            if now > was * (1 + tolerance):
                failures.append(f"{case} takes {now:.4f} times the C driver's instructions, recorded is {was:.4f}: make it "
                                "cheaper (`make profile` shows where it goes), or record it with the reason")
            elif now < was * (1 - tolerance):
                text += "  cheaper: record it, so that it stays (UPDATE='why')"
        rows.append(text)
    return [f"  {'÷ C':<48} {'recorded':>9} {'now':>9}", *rows], failures


def _tolerance(case):
    return AMONG_MANY if case.startswith("handles ") and not case.endswith(" refs=0") else TOLERANCE


def _shown(ratio):
    return "–" if ratio is None else f"{ratio:.4f}"


def _change(old, new, why):
    """What the record says about one update."""
    both = sorted(old.keys() & new.keys())
    moved = [f"{name} {old[name]:.4f} -> {new[name]:.4f}" for name in both if abs(new[name] / old[name] - 1) > 0.0005]
    moved += [f"{name} {new[name]:.4f}, new" for name in sorted(new.keys() - old.keys()) if old]
    moved += [f"{name} gone" for name in sorted(old.keys() - new.keys())]
    return {"date": datetime.date.today(), "why": " ".join(why.split()), "moved": moved}


def read(name=GUEST):
    found = tomllib.loads(record(name).read_text())
    return {"ratios": found.get("ratios", {}), "changes": found.get("change", [])}


def write(ratios, changes, name=GUEST):
    """The record as TOML."""
    head = _HEAD.format(command=command(name), of="" if name == GUEST else f" on {name}")
    lines = [head, "[ratios]", *(f"{json.dumps(name)} = {ratio:.4f}" for name, ratio in sorted(ratios.items()))]
    for change in changes:
        lines += ["", "[[change]]", f"date = {change['date']}", f"why = {json.dumps(change['why'], ensure_ascii=False)}",
                  "moved = [", *(f"    {json.dumps(text)}," for text in change["moved"]), "]"]
    return "\n".join(lines) + "\n"


def exact(rounds=3):
    """Count `rounds` times with every driver, and fail when a count differs by more than EXACT; the exit status."""
    from report import data

    program = programs.build(bench.CRATE)
    paths = bench.series("exact", GUEST, rounds, bench.DRIVERS, program)
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
