# SPDX-License-Identifier: GPL-2.0
"""`make growth`: how costs grow with how many there are, in exact instructions, on every driver; and for how long preemption and
interrupts are off during that. `binder-bench report` decides what is too much.
"""

import json
import subprocess
import tomllib

from . import bench, gate, proc, programs, reports, say
from report import charts, data, page, symbols

# Seconds for one quantity in a boot. Upstream's driver stops at what others do in seconds: it goes as far as it does in this time.
_TIMEOUT, _PATIENCE = 1500, {"upstream": 300}
# For `make test`: quantities whose growth was once a fault, or is likely to become one. Four sizes: three give two differences, and memory
# that is freed in pieces bends a line through two points.
SHORT = ("own nodes, weak then strong", "depth of nesting", "files of one call")
SHORT_STEPS = 4


def run(only="", driver=None, steps=None, into_docs=False):
    """Measure what was not measured yet, print a table, and the phases that grow too fast; the exit status. `into_docs`: write
    reports/growth.tsv, too."""
    if into_docs and (only or driver or steps):
        raise say.LabError("only all quantities at all sizes on all drivers go into reports/")
    program = programs.build(bench.CRATE)
    paths, problems = collect([driver] if driver else bench.DRIVERS, _chosen(program, only, steps))
    print()
    subprocess.run([program, "report", *map(str, paths)], check=False)
    rows = data.report(program, paths)["growth"]
    found = faults(rows)
    for text in problems + found:
        print(f"error: {text}")
    print(f"\n{len(found) or 'no'} phases of our driver grow too fast or keep preemption off too long")
    if into_docs:
        reports.put("growth", "Growth of costs with the number of objects", bench.about(bench.COUNTED), table(rows))
    return 1 if problems or found else 0


def stage(tally):
    """A few quantities, for `make test`."""
    paths, problems = collect(bench.HELD, {";".join(SHORT): SHORT_STEPS})
    rows = data.report(programs.build(bench.CRATE), paths)["growth"]
    wrong = problems + faults(rows)
    say.lines(*(f"    error: {text}" for text in wrong))
    tally.add("growth next to C's", sum(who == "rust" for _, who in rows) - len(wrong), len(wrong))


def faults_kept():
    """The faults of our driver, if all of it was measured with the current drivers and kernel; None if it was not."""
    program = programs.build(bench.CRATE)
    quantities = _chosen(program)
    steps = [_step(driver, quantity, count) for driver in bench.HELD for quantity, count in quantities.items()]
    if not all(step.kept() for step in steps):
        return None
    return faults(data.report(program, collect(bench.HELD, quantities)[0])["growth"])


def collect(chosen, quantities):
    """Of quantities, {name: how many numbers}, the result files of drivers, and what was wrong with boots."""
    paths, problems = [], []
    for driver in chosen:
        parts = []
        for quantity, steps in quantities.items():
            content, wrong = json.loads(_step(driver, quantity, steps).result().read_text())
            parts.append(content)
            # A complaint of the kernel about another driver is no fault of ours.
            said = [f"{driver}, {quantity}: {text}" for text in wrong]
            problems += said if driver not in _PATIENCE else []
        paths.append(bench.HOME / "growth" / f"{driver}.part")
        proc.write(paths[-1], json.dumps(parts[0] | {"cells": [cell for part in parts for cell in part["cells"]]}) + "\n")
    return paths, problems


def _boot(driver, quantity, steps):
    """The boot for one quantity, or for several between semicolons."""
    script = f"$b growth --steps {steps} --quantities '{quantity}' $words --output /out/result.json"
    return bench.Boot(f"growth {driver}, {quantity}", driver, script, ("stretches.c", *addresses(bench.COUNTED)),
                      timeout=_PATIENCE.get(driver, _TIMEOUT))


def _step(driver, quantity, steps):
    return bench.step("growth", _boot(driver, quantity, steps), lambda: json.dumps(_measured(driver, quantity, steps)), quantity, steps)


def _measured(driver, quantity, steps):
    """The result of the boot that goes as far as the driver does in its time, and what was wrong with the boot."""
    for fewer in range(steps, 0, -1):
        boot = _boot(driver, quantity, fewer)
        try:
            files, problems = boot.run()
        except bench.Unfinished as error:
            if driver not in _PATIENCE or fewer == 1:
                raise
            say.note(str(error))
            continue
        content = add_phases(json.loads(files["result.json"]), read_phases(files["seen"], files["symbols"]))
        if fewer < steps:
            for cell in content["cells"]:
                cell["measured"]["growth"]["stopped"] = f"no end in {_PATIENCE[driver]} s with more"
        return content, problems


def addresses(guest):
    """The addresses of a guest's kernel that the plugin needs, as words for it."""
    found = {symbol: address for address, _, symbol in (line.split() for line in bench.kernel_symbols(guest).splitlines())}
    # A compiler may have put the one function into the other.
    batch = next(found[symbol] for symbol in ("rcu_do_batch", "rcu_core") if symbol in found)
    behind = min(address for address in found.values() if address > batch)
    return [f"count={found['__preempt_count']}", f"entry={found['entry_SYSCALL_64']}", f"batch={batch}", f"behind={behind}"]


def _chosen(program, only="", steps=None):
    """{name: how many numbers} of the quantities whose names contain one of the words, between commas."""
    listed = [line.split("\t") for line in proc.output(program, "growth", "--driver", "none", "--list").splitlines()]
    wanted = {name: min(int(numbers), steps or int(numbers)) for numbers, name in listed if any(word in name for word in only.split(","))}
    if not wanted:
        raise say.LabError(f"no quantity has {only} in its name; there are:\n" + "\n".join(name for _, name in listed))
    return wanted


def read_phases(text, kallsyms):
    """(instructions, longest with preemption off, with interrupts off) of all phases in their order; a longest stretch comes with the
    driver's function, or is None."""
    names = symbols.Names(symbols.read(kallsyms))

    def stretch(instructions, address):
        return {"instructions": int(instructions), "function": names.function(int(address, 16)).name} if instructions != "0" else None

    rows = (line.split() for line in text.splitlines())
    return [(int(row[0]), stretch(*row[1:3]), stretch(*row[3:])) for row in rows]


def add_phases(result, phases):
    """The result with the plugin's counts: of repetitions, the fewest instructions and the longest stretches. The cost of a phase in which
    nothing happens is subtracted; those phases come before all others."""
    points = [point for cell in result["cells"] for point in cell["measured"]["growth"]["points"]]
    first = min((place for point in points for place in point["places"]), default=0)
    nothing = min((instructions for instructions, _, _ in phases[:first]), default=0)
    for point in points:
        instructions, *stretches = zip(*(phases[place] for place in point["places"]))
        point["instructions"] = max(min(instructions) - nothing, 0)
        for name, seen in zip(("preempt_off", "irqs_off"), stretches):
            point[name] = max(filter(None, seen), key=lambda stretch: stretch["instructions"], default=None)
    return result


def faults(rows):
    """The faults of our driver, except accepted ones, with their reasons in docs/performance.md."""
    accepted = tomllib.loads(gate.LIMITS.read_text()).get("growth", {}).get("accepted", [])
    found = []
    for (cell, who), row in rows.items():
        wrong = [fault for fault in row["faults"] if not any(cell.case.endswith(one["phase"]) and fault == one["fault"] for one in accepted)]
        if who == "rust" and wrong:
            found.append(f"{cell.case}: {', '.join(wrong)}")
    return found


def table(rows):
    """A line for each phase, from the rows of `binder-bench report`."""
    whose = [driver for driver in bench.DRIVERS if any(who == driver for _, who in rows)]
    lines = []
    for cell in dict.fromkeys(cell for cell, _ in rows):
        found = {who: rows[cell, who] for who in whose if (cell, who) in rows}
        most = max((row["each"][-1][0] for row in found.values() if row["each"]), default=0)
        ratio = found.get("rust", {}).get("ratio")
        lines.append([cell.case, *(text for who in whose for text in _grown(found.get(who), most)), f"{ratio:.3f}" if ratio else "–",
                      "; ".join(found.get("rust", {}).get("faults", []))])
    heads = (f"{data.NAMES[who]} {text}" for who in whose for text in ("each", "grows as N to the", "preemption / interrupts off"))
    return page.Table(("quantity: what is done", *heads, "Rust Binder ÷ C", "faults"), lines, (0, 2 + 3 * len(whose)))


def _grown(row, most):
    if not row or not row["each"]:
        return "–", "–", "–"
    count, each = row["each"][-1]
    fewer = f" (with {charts.number(count)})" if count < most else ""
    stretches = (charts.number(row[name][0]) if row.get(name) else "–" for name in ("preempt_off", "irqs_off"))
    return charts.number(each) + fewer, "–" if row["exponent"] is None else f"{row['exponent']:.2f}", " / ".join(stretches)
