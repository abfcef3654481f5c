# SPDX-License-Identifier: GPL-2.0
"""The page and its charts, from made-up results."""

import re
import xml.etree.ElementTree as tree

from lab import bench_run
from lab.test_gate import weighed
from . import charts, data, page

RATIO = {"point": 0.5, "low": 0.4, "high": 0.6, "verdict": "50.0 % faster"}
LATENCY = {(data.Cell("throughput", size=size), who): {"p50_ns": 1000 * place, "p99_ns": 5000, "ratios": {"p50": RATIO} if who != "c" else None}
           for size in (0, 4096) for place, who in enumerate(("c", "rust", "upstream"), 1)}


def rendered():
    found = {"c": weighed(1), "rust": weighed(0.5), "upstream": weighed(2)}
    ours, base = found["rust"], found["c"]
    compared = lambda what: [found[driver][what] for driver in ("rust", "c", "upstream")]
    tables = {"instructions": page.counts(*compared("counts")), "memory": page.memory(compared("memory"), compared("ends")),
              "time": page.times(LATENCY), "lines": page.Table(("of a call", "a < b"), [["<call>", "1"]])}
    return page.render(bench_run.sections(tables, found, LATENCY), bench_run.headline(ours, base), [("host", "<k>")])


def test_every_section_is_there_and_text_is_escaped():
    text = rendered()
    assert re.findall(r"<section id=(\w+)>", text) == ["instructions", "memory", "time", "lines", "facts"]
    for found in ("0.500 × C&#x27;s instructions", "&lt;k&gt;", "a &lt; b", "&lt;call&gt;", "0.500 [0.400, 0.600]", "0.250"):
        assert found in text, found
    assert "<k>" not in text


def test_the_page_needs_nothing_from_elsewhere():
    assert not re.findall(r"\b(?:src|href)=|url\(|@import", rendered())


def test_charts_are_xml_with_labels_values_and_drivers():
    for chart in (charts.bars("<title>", [("a & b", {"c": 200, "rust": 12345.6})], "note"), charts.ratios("t", [("x", {"rust": (0.5, 0.4, 0.6)})])):
        texts = [text.text for text in tree.fromstring(chart).iter("{http://www.w3.org/2000/svg}text")]
        assert {"■ C", "■ Rust Binder"} <= set(texts) and "■ upstream Rust" not in texts
    assert {"<title>", "a & b", "12 346"} <= {text.text for text in tree.fromstring(charts.bars("<title>", [("a & b", {"rust": 12345.6})])).iter()}


def test_bars_are_as_long_as_their_values():
    chart = tree.fromstring(charts.bars("t", [("a", {"c": 100, "rust": 50})]))
    _, full, half = (float(rect.get("width")) for rect in chart.iter("{http://www.w3.org/2000/svg}rect"))
    assert abs(full - 2 * half) < 0.2


def test_a_ratio_below_one_lies_left_of_c():
    chart = tree.fromstring(charts.ratios("t", [("a", {"rust": (0.5, 0.4, 0.6), "upstream": (1.5, 1.4, 1.6)})]))
    line = [float(each.get("x1")) for each in chart.iter("{http://www.w3.org/2000/svg}line") if each.get("class") == "c"]
    ours, upstream = (float(dot.get("cx")) for dot in chart.iter("{http://www.w3.org/2000/svg}circle"))
    assert ours < line[0] < upstream


def test_a_table_for_terminals_has_columns():
    table = page.Table(("name", "n"), [["a", "100"], ["longer", "1"]])
    assert page.plain(table) == ["  name      n", "  a       100", "  longer    1"]


def test_names_tell_cells_apart_and_labels_are_short():
    one = data.Cell("fanin", size=4096, pairs=8, parameters=(("threads", 4),))
    assert (one.name, one.label) == ("fanin size=4096 reply=0 pairs=8 threads=4", "fanin, threads 4 × 8")
    assert data.Cell("throughput", size=1024).label == "throughput 1 KiB"
    assert (data.Cell("throughput", pairs=2).label, data.title("rpc a/64 size=124 reply=72")) == ("null call × 2", "rpc a/64")


def test_no_ratio_is_made_of_nothing():
    assert page.over(3, 0) == "–"
