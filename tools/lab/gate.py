# SPDX-License-Identifier: GPL-2.0
"""`make bench-gate`: our driver's exact figures, most of them as a ratio to the C driver's, may not get worse unnoticed.

What is held, and how much of it is no change, is in gate_figures.py. The figures are recorded in tools/binder-bench/gate.toml, with when
and why they were changed; those of arm64 in gate-arm64.toml.
"""

import datetime
import json
import tomllib

from . import bench, gate_figures, programs, say
from .gate_figures import GUEST, GUESTS, KINDS
from .versions import ROOT

# How far exact counts of one driver may lie apart.
EXACT = 0.001
_HEAD = """\
# SPDX-License-Identifier: GPL-2.0
# What our driver takes{of}, for `{command}`, which fails when one of these is exceeded by more than its tolerance
# (tools/lab/gate_figures.py has them, with what they are from). `{command} UPDATE='why'` records what is measured, and
# why, here. `ratios` are exact instructions of one operation, ours divided by the C driver's{others}.
"""
_OTHERS = ("; `locked` are locked\n# operations of ours; `memory` is kernel memory of one more object, ours divided by C's; "
           "`lines` are cache lines that move\n# between CPUs, ours divided by C's, or those that both of two pairs write")


def record(name=GUEST):
    """The file with what is recorded of guest `name`."""
    return ROOT / bench.CRATE / ("gate.toml" if name == GUEST else f"gate-{name}.toml")


def run(update, name=GUEST):
    """Measure guest `name` and judge, or record with the reason `update`; the exit status."""
    if name not in GUESTS:
        raise say.LabError(f"figures are recorded of {' and '.join(GUESTS)}, not of {name}")
    if update is not None and len(update.split()) < 3:
        raise say.LabError("say why the figures change, in some words: make bench-gate UPDATE='nodes are found by hash'")
    file = record(name)
    if update is None and not file.exists():
        raise say.LabError(f"nothing is recorded yet: {command(name)} UPDATE='the first measurement'")
    measured = {kind.table: kind.measure(name) for kind in KINDS[name]}
    if update is not None:
        file.write_text(write(*updated(read(name), measured, update, name), name))
        say.note(f"recorded in {file.relative_to(ROOT)}; commit it with what it is about")
        return 0
    return _judged(read(name), measured, name)


def _judged(recorded, measured, name):
    """Print what became of each figure; the exit status."""
    count, failures = 0, []
    for kind in KINDS[name]:
        rows, wrong = judge(kind, recorded[kind.table], measured[kind.table], name)
        print("\n" + "\n".join(rows))
        count, failures = count + len(rows) - 1, failures + wrong
    print()
    for failure in failures:
        print(f"error: {failure}")
    print(f"\n{count - len(failures)} passed, {len(failures)} failed")
    return 1 if failures else 0


def command(name):
    """What judges that guest's."""
    return "make bench-gate" + ("" if name == GUEST else f" GUEST={name}")


def judge(kind, recorded, measured, name=GUEST):
    """A line for each figure of a kind, and what is wrong."""
    rows, failures = [], []
    for case in sorted(recorded.keys() | measured.keys()):
        was, now = recorded.get(case), measured.get(case)
        text = f"  {case:<48} {kind.shown(was):>9} {kind.shown(now):>9}"
        if was is None:
            failures.append(f"{case}: {kind.what} not recorded: {command(name)} UPDATE='why it is measured now'")
        elif now is None:
            failures.append(f"{case}: {kind.what} recorded and not measured: is it gone from binder-bench?")
        else:
            text += f" {(now / was - 1) * 100:+8.2f} %" if was else ""
            judged = kind.judged(case, was, now)
            if judged > 0:
                failures.append(f"{case} {kind.worse.format(now=kind.shown(now), was=kind.shown(was))} "
                                f"({command(name)} UPDATE='why')")
            elif judged < 0:
                text += "  better: record it, so that it stays (UPDATE='why')"
        rows.append(text)
    return [f"  {f'{kind.what} {kind.unit}'.strip():<48} {'recorded':>9} {'now':>9}", *rows], failures


def updated(old, measured, why, name=GUEST):
    """What is to be recorded in place of `old`, and the changes to it, the latest first."""
    new, moved = {}, []
    for kind in KINDS[name]:
        was = old[kind.table]
        now = {case: kind.recorded(case, was[case], figure) if case in was else figure for case, figure in measured[kind.table].items()}
        new[kind.table] = now
        moved += _moved(kind, was, now)
    change = {"date": datetime.date.today(), "why": " ".join(why.split()), "moved": moved}
    return new, [change, *old["changes"]]


def _moved(kind, old, new):
    """What the record says of one update about a kind."""
    before = "" if kind is gate_figures.INSTRUCTIONS else f"{kind.table}: "
    both = [name for name in sorted(old.keys() & new.keys()) if abs(new[name] - old[name]) > 0.0005 * old[name]]
    moved = [f"{before}{name} {kind.shown(old[name])} -> {kind.shown(new[name])}" for name in both]
    moved += [f"{before}{name} {kind.shown(new[name])}, new" for name in sorted(new.keys() - old.keys()) if old]
    return moved + [f"{before}{name} gone" for name in sorted(old.keys() - new.keys())]


def read(name=GUEST):
    """What is recorded: {table: {row: figure}}, and the `changes`."""
    found = tomllib.loads(record(name).read_text()) if record(name).exists() else {}
    return {**{kind.table: found.get(kind.table, {}) for kind in KINDS[name]}, "changes": found.get("change", [])}


def write(figures, changes, name=GUEST):
    """The record as TOML."""
    arm = name != GUEST
    lines = [_HEAD.format(command=command(name), of=f" on {name}" if arm else "", others="" if arm else _OTHERS)]
    for kind in KINDS[name]:
        lines += [f"[{kind.table}]", *(f"{json.dumps(row)} = {kind.shown(figure)}"
                                       for row, figure in sorted(figures[kind.table].items())), ""]
    for change in changes:
        lines += ["[[change]]", f"date = {change['date']}", f"why = {json.dumps(change['why'], ensure_ascii=False)}",
                  "moved = [", *(f"    {json.dumps(text)}," for text in change["moved"]), "]", ""]
    return "\n".join(lines).rstrip("\n") + "\n"


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
