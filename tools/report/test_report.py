# SPDX-License-Identifier: GPL-2.0
"""The report from made-up results.

    PYTHONPATH=tools python3 -m unittest report.test_report
"""

import re
import unittest

from lab import bench_summary
from . import data, figures, headline, page, sections

DRIVERS = ("c", "rust", "upstream")
SIZES, PAIRS = (0, 4096, 65536), (1, 4)


def cell_fields(size, pairs, measured, carrier="binder"):
    return {"workload": "throughput", "case": "", "carrier": carrier, "size": size, "reply": 0, "pairs": pairs,
            "parameters": {}, "measured": measured}


def latency(scale):
    block = {name: 1000.0 * scale for name in ("mean_ns", "p50_ns", "p99_ns")}
    return {"latency": {"blocks": [block] * 3, "histogram": [[900, 50], [1100, 40], [5000, 10]]}}


def made_up():
    """Times of three drivers in two boots each, ours half of C's."""
    files, rows = [], {}
    for index, driver in enumerate(DRIVERS):
        for boot in (1, 2):
            cells = [cell_fields(s, p, latency(boot + index)) for s in SIZES for p in PAIRS]
            files.append({"driver": driver, "cells": cells, "environment": {"kernel": "<k>", "cpus": [0], "boot_id": "x"}})
        for size in SIZES:
            for pairs in PAIRS:
                ratio = {"point": 0.5, "low": 0.4, "high": 0.6, "verdict": "50.0 % faster"}
                row = {"p50_ns": 1000, "p99_ns": 5000, "ratios": {"p50": ratio, "mean": ratio} if index else None,
                       "instructions": 100.0 + index, "ratio": (100 + index) / 100 if index else None}
                rows[data.Cell("throughput", size=size, pairs=pairs), driver] = row
    memory = {key: row | {"bytes": 96.0, "plus_minus": 1.0} for key, row in rows.items()}
    growth = {key: row | {"exponent": 1.0, "each": [[1, 9.0], [64, 8.0]], "faults": [], "preempt_off": [70, "f"]}
              for key, row in rows.items()}
    return data.Results([], files, rows, rows, memory, growth, [])


LOCKED = {driver: [({"workload": "throughput", "case": "", "size": size, "reply": 0, "pairs": 1, "parameters": {}}, 50.0)
                   for size in SIZES] for driver in DRIVERS}
PROFILE = {"driver": "rust", "classes": {"driver": 60.0, "scheduler": 40.0}, "rooms": {"send.rs": 60.0},
           "instructions": 100.0, "locked": 3.0}


class Data(unittest.TestCase):
    def test_boots_are_summed_up_by_their_middle_and_their_ends(self):
        boots = data.boots(made_up(), "p50_ns")
        self.assertEqual(boots[data.Cell("throughput"), "c"], (1.5, 1.0, 2.0))

    def test_percentiles_start_at_none_and_stop_where_ten_calls_are_left(self):
        curves = data.percentiles(made_up(), data.Cell("throughput"))
        self.assertEqual(curves["c"], [(0.0, 0.9), (0.5, 1.1), (0.9, 5.0)])

    def test_names_tell_cells_apart_and_labels_are_short(self):
        one = data.Cell("fanin", size=4096, pairs=8, parameters=(("threads", 4),))
        self.assertEqual(one.name, "fanin size=4096 reply=0 pairs=8 threads=4")
        self.assertEqual(one.label, "fanin, threads 4 × 8")
        self.assertEqual(data.Cell("rpc", "throughput/65537", 65609).label, "rpc throughput/65537")
        self.assertEqual(data.Cell("throughput", size=4096).label, "throughput 4 KiB")

    def test_drivers_come_in_their_order(self):
        self.assertEqual(made_up().drivers(), list(DRIVERS))


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shown = [*sections.build(made_up(), made_up(), [PROFILE], made_up(), made_up(), LOCKED), sections.rfc("a < b")]
        flames = {"rust": '<svg width="1200" height="392"></svg>'}
        cls.text = page.render(cls.shown, [("0.5", "what", "note")], [("guest kernel", "<k>")], flames,
                               {"a.json": b"{}"})

    def test_every_section_is_there(self):
        self.assertEqual([s.anchor for s in self.shown],
                         ["instructions", "locked", "breakdown", "time", "pairs", "payloads", "tails", "memory", "growth", "rfc"])
        for section in self.shown:
            self.assertIn(f"id={section.anchor}>", self.text)

    def test_sections_without_measurements_are_left_out(self):
        self.assertEqual([s.anchor for s in sections.build(None, None, [PROFILE])], ["breakdown"])

    def test_it_needs_nothing_from_elsewhere(self):
        found = re.findall(r"(?:src|href)\s*=\s*['\"]?([^'\"> ]+)", self.text)
        self.assertTrue(found)
        for target in found:
            self.assertRegex(target, r"^(data:|#)")
        self.assertNotIn("url(http", self.text)

    def test_text_is_escaped(self):
        self.assertNotIn("<k>", self.text)
        self.assertIn("&lt;k&gt;", self.text)
        self.assertIn("a &lt; b", self.text)


class Printed(unittest.TestCase):
    """What `make bench FULL=1` prints of the same results."""

    def setUp(self):
        self.results = made_up()

    def test_all_tables_fit_into_the_columns_of_a_terminal(self):
        for table in (bench_summary.times, bench_summary.counts, bench_summary.memory):
            lines = table(self.results)
            self.assertGreater(len(lines), 1)
            for line in lines:
                self.assertLessEqual(len(line), bench_summary.COLUMNS)

    def test_headlines_are_of_the_null_call_and_others(self):
        self.assertEqual(bench_summary.time_headline(self.results),
                         ["  null call, median time       0.500 × C's (0.400 to 0.600): 50.0 % faster"])
        self.assertEqual(bench_summary.count_headline(self.results)[0], "  throughput 0 B               1.010 × C's instructions")


class Figures(unittest.TestCase):
    def setUp(self):
        (self.figure,) = sections.build(made_up(), None, [])[1].figures

    def test_colours_follow_the_page(self):
        text = figures.svg(self.figure.panels[:1])
        for role in ("rust", "c", "upstream", "grid"):
            self.assertIn(f"var(--{role})", text)
        self.assertNotRegex(text, r"(fill|stroke): #")

    def test_alone_each_colour_is_an_attribute_that_a_dark_page_replaces(self):
        text = figures.svg(self.figure.panels[:1], alone=True)
        self.assertNotRegex(text, r'style="[^"]*(fill|stroke): *(#|var)')
        light, dark = figures.PALETTE["rust"]
        self.assertIn(f'fill="{light}"', text)
        self.assertRegex(text, rf'prefers-color-scheme:dark.*\[fill="{light}"\]{{fill:{dark}}}')

    def test_the_figure_of_the_readme_names_two_drivers_and_both_counts(self):
        drawn = headline.panels({"null call": (50, 30)}, {"null call": (100, 120)})
        text = figures.svg(drawn, alone=True, drivers=("c", "rust"))
        for found in ("null call", "Locked operations", ">50<", ">25<", figures.NAMES["rust"]):
            self.assertIn(found, text)
        self.assertNotIn(figures.NAMES["upstream"], text)

    def test_no_colour_stands_for_two_roles(self):
        light = [pair[0] for pair in figures.PALETTE.values()]
        self.assertEqual(len(light), len(set(light)))

    def test_the_same_data_give_the_same_file(self):
        panels = self.figure.panels[:1]
        self.assertEqual(figures.svg(panels), figures.svg(panels))

    def test_a_picture_is_one(self):
        self.assertTrue(figures.png(self.figure.panels[:1]).startswith(b"\x89PNG"))


if __name__ == "__main__":
    unittest.main()
