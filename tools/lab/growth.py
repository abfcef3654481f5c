# SPDX-License-Identifier: GPL-2.0
"""`make growth`: how costs grow with how many there are, in exact instructions, on every driver; and for how long
others have to wait meanwhile.

What is measured, and when growth is a fault, is in tools/binder-bench (src/growth, src/report/growth.rs). Here a
plugin of QEMU is added, which sees how long preemption and interrupts are off (tools/report/stretches.c).
"""

import json
import pathlib
import subprocess
import tempfile

from . import bench, guest, kernel, packages, proc, programs, say

DRIVERS = bench.DRIVERS
STAGE = "growth"
_GUEST = "x86_64"
_PLUGIN = pathlib.Path(__file__).parent.parent / "report/stretches.c"
_TIMEOUT = 2400


def run(only="", drivers=DRIVERS, steps=4):
    """Measure, print a table, and say what grows too fast; the exit status."""
    packages.ensure("report")
    program = programs.build(bench.CRATE)
    quantities = _chosen(program, only)
    folder = bench.HOME / STAGE
    folder.mkdir(parents=True, exist_ok=True)
    began, problems, paths = bench.now(), [], []
    for driver in drivers:
        content, wrong = measure(driver, program, quantities, steps)
        problems += [f"{driver}: {text}" for text in wrong]
        # A part must not take the place of the whole.
        path = folder / (f"{driver}-1.json" if not only and steps == 4 else f"{driver}.part")
        path.write_bytes(content)
        paths.append(path)
    if not only and steps == 4:
        bench.remember(STAGE, began=began)
    print()
    subprocess.run([program, "report", *map(str, paths)], check=False)
    found = faults(program, paths)
    for text in problems + found:
        print(f"error: {text}")
    print(f"\n{'no' if not found else len(found)} phases of ours grow too fast or let others wait too long")
    return 1 if problems or found else 0


def _chosen(program, only):
    """Names of the quantities that contain one of the words, between commas; none for all."""
    if not only:
        return []
    listed = proc.output(program, "growth", "--driver", "none", "--list")
    wanted = [name for name in listed.splitlines() if any(word in name for word in only.split(","))]
    if not wanted:
        raise say.LabError(f"no quantity is called {only}; there are:\n{listed}")
    return wanted


def measure(driver, program, quantities=(), steps=4):
    """The result file of one boot, with the longest stretches in it, and what was wrong with the boot."""
    built = kernel.build(_GUEST)
    with tempfile.TemporaryDirectory() as folder:
        plugin, seen = pathlib.Path(folder) / "stretches.so", pathlib.Path(folder) / "seen"
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-fvisibility=hidden", "-o", plugin, _PLUGIN], check=True)
        words = ["growth", "--driver", driver, "--steps", str(steps), "--output", "/out/result.json"]
        words += ["--quantities", ";".join(quantities)] if quantities else []
        line = "grep '\\[' /proc/kallsyms >/out/symbols; exec /lab/binder-bench \"$@\""
        job = guest.Job(argv=["/bin/sh", "-c", line, "sh", *words], driver=driver, icount=True, timeout=_TIMEOUT,
                        files={"/lab/binder-bench": program},
                        qemu=("-plugin", f"{plugin},out={seen},{_addresses(built)}"))
        with say.Step(f"growth {driver}") as step:
            result = guest.run(built, job, step.hear)
        if "result.json" not in result.files:
            why = "; ".join(result.problems) or f"status {result.status}: {result.output[-300:]}"
            raise say.LabError(f"growth could not be measured on {driver}: {why}")
        stretches = read_stretches(seen.read_text(), result.files["symbols"].decode())
    return add_stretches(json.loads(result.files["result.json"]), stretches), result.problems


def _addresses(built):
    """What the plugin has to know of the kernel."""
    wanted = {"__preempt_count": "count", "entry_SYSCALL_64": "entry"}
    lines = (line.split() for line in (built.folder / "System.map").read_text().splitlines())
    found = {name: address for address, _, name in lines if name in wanted}
    return ",".join(f"{key}={found[name]}" for name, key in wanted.items())


def read_stretches(text, symbols):
    """[(preemption off, interrupts off)] of all phases in their order, each with the driver's function or None."""
    from report import profile

    functions = profile.read_symbols(symbols)

    def stretch(instructions, address):
        if instructions == "0":
            return None
        return {"instructions": int(instructions), "function": _name(functions, int(address, 16))}

    rows = (line.split() for line in text.splitlines())
    return [(stretch(*row[:2]), stretch(*row[2:])) for row in rows]


def _name(functions, address):
    below = [function.name for function in functions if function.address <= address]
    return below[-1] if below else f"{address:#x}"


def add_stretches(result, stretches):
    """The result as it is written, with what the plugin saw."""
    for cell in result["cells"]:
        for point in cell["measured"]["growth"]["points"]:
            point["preempt_off"], point["irqs_off"] = stretches[point["place"]]
    return json.dumps(result).encode() + b"\n"


def faults(program, paths):
    """What is wrong with ours."""
    done = subprocess.run([str(a) for a in (program, "report", "--json", *paths)], text=True, capture_output=True,
                          check=True)
    return [f"{row['case']}: {', '.join(row['faults'])}" for row in json.loads(done.stdout)["growth"]
            if row["subject"].get("driver") == "rust" and row["faults"]]
