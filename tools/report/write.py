# SPDX-License-Identifier: GPL-2.0
"""Write the report: the page, its figures as files, flame graphs, and tables for the docs."""

import json
import os
import platform
import re
import shutil

from lab import bench, emulator, say, toolchain
from . import data, figures, flame, page, sections


# What binder-bench has measured, by the names of folders with results.
MEASURED = ("time", "count", "memory", "growth")


def report(program, paths, profiles, facts, out, locked=None, compilers="", more=()):
    """Write everything into folder `out`; the path of the page. `paths` are result files by what was MEASURED;
    what was not is left out. `locked` are locked operations by driver, [(fields of a cell, how many)], `more` are sections
    that come last."""
    if not any(paths.values()) and not profiles:
        raise say.LabError("nothing was measured yet: run `make bench`")
    tables = data.rfc_tables(program, paths["time"]) if paths["time"] else ""
    measured = {kind: data.load(program, paths[kind]) for kind in MEASURED if paths[kind]}
    times, counts, memory, growth = (measured.get(kind) for kind in MEASURED)
    raw = {f"profile-{path.name}": path.read_bytes() for path in profiles}
    profiles = [json.loads(path.read_text()) for path in profiles]
    shown = [*sections.build(times, counts, profiles, memory, growth, locked), *more,
             *([sections.rfc(tables)] if tables.strip() else [])]
    part = out.with_name(out.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    flames = {p["driver"]: flame.draw(p) for p in profiles}
    for driver, text in flames.items():
        (part / f"flame-{driver}.svg").write_text(text)
    for section in shown:
        for figure in section.figures:
            (part / f"{figure.name}.svg").write_text(figures.svg(figure.panels, alone=True, columns=figure.columns))
            (part / f"{figure.name}.png").write_bytes(figures.png(figure.panels, figure.columns))
        if section.table or section.text:
            (part / f"{section.anchor}.md").write_text(page.markdown(section.table) if section.table else section.text)
    for kind, results in measured.items():
        raw |= {f"{kind}-{path.name}": path.read_bytes() for path in results.paths}
    tiles = _tiles(times, counts, profiles)
    text = page.render(shown, tiles, _facts(times, counts, facts, compilers), flames, raw)
    (part / "index.html").write_text(text)
    shutil.rmtree(out, ignore_errors=True)
    part.rename(out)
    return out / "index.html"


def docs(out, folder):
    """Copy the figures of the report in `out` to `folder` in the docs, without the scripts of flame graphs,
    which no viewer of documents runs."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in out.glob("*.svg"):
        (folder / path.name).write_text(re.sub(r"<script.*?</script>", "", path.read_text(), flags=re.S))


def _null(results, kind):
    """Rows of the null call by who, if it was measured."""
    rows = getattr(results, kind) if results else {}
    return {who: row for (cell, who), row in rows.items()
            if cell.workload == sections.ECHO and cell.size == 0 and cell.reply == 0 and cell.pairs == 1}


def _tiles(times, counts, profiles):
    """The three figures to read first: (figure, what it is, remark)."""
    tiles = []
    count, time = _null(counts, "counts"), _null(times, "latency")
    if {"c", "rust"} <= count.keys():
        ours, base = (sections.number(count[who]["instructions"]) for who in ("rust", "c"))
        tiles.append((f"{count['rust']['ratio']:.3f} × C", "instructions of a null call", f"{ours}, C {base}"))
    if {"c", "rust"} <= time.keys() and time["rust"]["ratios"]:
        ratio = time["rust"]["ratios"]["p50"]
        ours, base = (f"{time[who]['p50_ns'] / 1000:.1f}" for who in ("rust", "c"))
        tiles.append((f"{ratio['point']:.3f} × C", "median time of a null call",
                      f"{ours} µs, C {base} µs; 95 %: {ratio['low']:.3f} to {ratio['high']:.3f}"))
    locked = {p["driver"]: f"{p['locked']:.0f}" for p in profiles}
    if {"c", "rust"} <= locked.keys():
        tiles.append((locked["rust"], "instructions with LOCK prefix in a null call", f"C {locked['c']}"))
    return tiles


def _facts(times, counts, known, compilers):
    """(name, value) of the machine and the build."""
    known = {stage: known[stage] for stage in (*MEASURED, "profile") if stage in known}
    facts = [("our driver", _all({stage.get("commit", "") for stage in known.values()}))]
    for results, label in ((times, "time"), (counts, "instructions")):
        if results:
            there = data.environment(results)
            facts.append((f"guest kernel, {label}", there["kernel"]))
            facts.append((f"guest, {label}", "; ".join(f"{k} {there[k]}" for k in ("cpus", "clock", "placement")
                                                         if k in there)))
    qemu = emulator.version("x86_64").splitlines()[0].removeprefix("QEMU emulator version ")
    facts += [("processor", f"{bench.processor()}, {os.cpu_count()} virtual CPUs"), ("host kernel", platform.release()),
              ("compilers", compilers or our_compilers()), ("QEMU", qemu)]
    began = sorted(stage["began"] for stage in known.values() if "began" in stage)
    if began:
        facts.append(("measured", f"{began[0]} UTC" if len(began) == 1 else f"from {began[0]} to {began[-1]} UTC"))
    time = known.get("time", {})
    if time.get("loads"):
        low, high = min(time["loads"]), max(time["loads"])
        facts.append(("load while timing", f"{low:.1f} to {high:.1f} on {os.cpu_count()} CPUs (1 is the benchmark's own)"))
        facts.append(("boots of each driver", str(time["rounds"])))
    return facts


def our_compilers():
    """Those of the kernels that are compiled here."""
    rustc, clang, bindgen = toolchain.versions()
    return f"{rustc}; {clang}; bindgen {bindgen}"


def _all(values):
    """What the stages were measured of; a commit that one of them saw changed is named once."""
    return " / ".join(sorted(v for v in values if v and not any(o != v and o.startswith(v) for o in values)))


