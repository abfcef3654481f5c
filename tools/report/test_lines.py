# SPDX-License-Identifier: GPL-2.0
"""The arithmetic of lines that move, without a guest.

    PYTHONPATH=tools python3 -m unittest report.test_lines
"""

import unittest

from lab import bench_lines, goals, marked, say
from . import counted, lines, lines_page, profile, symbols

FUNCTION = symbols.Function
IOCTL = FUNCTION(0xffffffff80000100, "binder_ioctl", "binder_linux")
LOCK = FUNCTION(0xffffffff80000200, "_raw_spin_lock", "")
TICK = FUNCTION(0xffffffff80000300, "sysvec_apic_timer_interrupt", "")
WAKE = FUNCTION(0xffffffff80000400, "try_to_wake_up", "")
SYMBOLS = [IOCTL, LOCK, TICK, WAKE]
IMAGE = [(0xffffffff81000000, "jiffies"), (0xffffffff81000040, "tasklist_lock"), (0xffffffff81000080, "_end")]
NAMES = lines.Names(SYMBOLS, IMAGE)

# Chain 1 is the driver, 2 the driver that takes a lock, 3 the tick, 4 the tick's lock.
CHAINS = """\
chain 1 0 ffffffff80000110
chain 2 1 ffffffff80000120
chain 3 0 ffffffff80000310
chain 4 3 ffffffff80000320
"""


def operation(text, **cell):
    (events,) = lines.read_events([*(CHAINS + text).splitlines(), "end"])
    count = {"n1": 1, "n2": 6, "t1": [0, 0], "t2": [0, 0]}
    fields = {"workload": "throughput", "case": "", "size": 0, "pairs": 1, "batch": 1, "parameters": {}, "ran": {}}
    return counted.Operation(fields | cell | {"measured": {"count": count}}, events)


class Summary(unittest.TestCase):
    def summary(self, text, **cell):
        return lines.summary(operation(text, **cell), NAMES, 2)

    def test_what_long_windows_have_more_counts_by_unit(self):
        text = "event short read a0 1 ffffffff80000404 10\nevent long read a0 1 ffffffff80000404 40\nevent long write a0 0 ffffffff80000104 20"
        self.assertEqual(self.summary(text)["unit"], {"read": 3.0, "write": 2.0, "locked": 0, "pause": 0})
        self.assertEqual(self.summary(text, pairs=2, batch=3)["unit"]["read"], 0.5)

    def test_a_helper_works_for_its_caller(self):
        data = self.summary("event long write a0 1 ffffffff80000208 10\nevent long write a0 1 ffffffff80000404 30")
        self.assertEqual(lines.moved(data, profile.DRIVER), 1.0)
        self.assertEqual(lines.moved(data, "scheduler"), 3.0)
        (line,) = data["lines"]
        self.assertEqual([text for _, _, text, _, _ in line["by"]], ["try_to_wake_up+0x4", "_raw_spin_lock+0x8 < binder_ioctl"])

    def test_accesses_to_bytes_of_a_line_are_of_that_line(self):
        data = self.summary("event long write a0 1 ffffffff80000104 10\nevent long read bf 1 ffffffff80000104 10\n"
                            "event long read c0 1 ffffffff80000104 10")
        self.assertEqual([(line["line"], line["moved"]) for line in data["lines"]], [("2", 2.0), ("3", 1.0)])
        self.assertEqual([byte for _, byte, _, _, _ in data["lines"][0]["by"]], [0x20, 0x3f])
        self.assertEqual(data["distinct"], {profile.DRIVER: 2})

    def test_the_tick_is_left_out(self):
        data = self.summary("event long write a0 4 ffffffff80000208 10\nhold long 4 10 100 10")
        self.assertEqual((lines.moved(data), data["lines"], data["holds"]), (0, [], []))

    def test_user_space_is_the_benchmark(self):
        data = self.summary("event long locked a0 0 401000 10")
        self.assertEqual(data["owners"], {profile.USER: {"read": 0, "write": 0, "locked": 1.0, "pause": 0}})

    def test_lines_of_the_kernels_image_have_names(self):
        events = "event long read {0:x} 1 ffffffff80000404 10\nmapped {0:x} {1:x}"
        for address, name in ((IMAGE[0][0], "jiffies"), (IMAGE[0][0] + 0x48, "tasklist_lock"), (0xffff888000001000, "")):
            (line,) = self.summary(events.format(0x123, address))["lines"]
            self.assertEqual(line["name"], name)

    def test_turns_of_a_loop_are_told_by_their_function(self):
        data = self.summary("event long pause 0 1 ffffffff80000209 25")
        self.assertEqual((data["unit"]["pause"], data["pauses"]), (2.5, {"_raw_spin_lock < binder_ioctl": 2.5}))
        self.assertEqual(lines.moved(data), 0)

    def test_holds_are_of_who_takes_the_lock(self):
        data = self.summary("hold short 1 10 100 30\nhold long 1 30 700 40")
        self.assertEqual(data["holds"], [{"by": "binder_ioctl", "times": 2.0, "mean": 30.0, "longest": 40}])

    def test_memory_that_is_not_seen_is_a_fault(self):
        with self.assertRaises(say.LabError):
            lines.read_events(["event long read a0 1 ffffffff80000404 100", "unknown 50", "end"])


class Known(unittest.TestCase):
    def figures(self, **changes):
        found = []
        for case, (read, write, locked, count) in bench_lines.KNOWN.items():
            unit = {"read": read, "write": write, "locked": locked, "pause": 0} | changes
            line = {"by": [["read", 0, "user space+0x0", profile.USER, 1.0]]}
            found.append({"case": case, "owners": {profile.USER: unit}, "lines": [line] * count})
        return found

    def test_what_is_known_passes(self):
        self.assertEqual(bench_lines.judge(self.figures()), [])

    def test_one_move_too_few_fails_each_case(self):
        self.assertEqual(len(bench_lines.judge(self.figures(read=1))), len(bench_lines.KNOWN))

    def test_a_case_that_is_missing_fails(self):
        self.assertEqual(bench_lines.judge(self.figures()[1:]), ["hand over: was not measured"])

    def test_pairs_that_share_a_line_fail(self):
        apart, together = {"distinct": {profile.USER: 1}}, {"distinct": {profile.DRIVER: 1}}
        self.assertEqual(bench_lines.judge_pairs([apart]), [])
        self.assertEqual(len(bench_lines.judge_pairs([apart, together])), 1)
        self.assertEqual(bench_lines.judge_pairs([]), ["pairs were not measured"])


class InDocs(unittest.TestCase):
    HOLDS = [{"by": "push", "times": 2.0, "mean": 100.0, "longest": 900}, {"by": "take", "times": 1.0, "mean": 400.0, "longest": 500}]

    def data(self, moved, holds=()):
        unit = {"read": moved, "write": 0.0, "locked": 1.0, "pause": 0.5}
        return {"unit": unit, "owners": {profile.DRIVER: unit | {"read": 2.0}}, "holds": list(holds)}

    def made(self):
        by_driver = {who: {"a call": self.data(moved, holds), "known to some": self.data(1.0)}
                     for who, moved, holds in (("c", 8.0, self.HOLDS), ("rust", 4.0, self.HOLDS[:1]), ("upstream", 6.0, ()))}
        del by_driver["upstream"]["known to some"]
        return lines_page.made(by_driver, "2026-01-01, our driver of `abc`")

    def test_holds_are_summed_up(self):
        self.assertEqual(lines_page.held(self.data(1.0, self.HOLDS)), (3.0, 200.0, self.HOLDS[1]))
        self.assertEqual(lines_page.held(self.data(1.0)), (0, 0.0, None))

    def test_there_is_a_line_in_each_table_for_what_all_drivers_have(self):
        made = self.made()
        self.assertIn("| a call | 8.0 | 4.0 | 6.0 | **0.50** | 2.0 | 2.0 | 2.0 | 1.0 | 1.0 | 0.5 | 0.5 | 0.5 |", made)
        self.assertIn("| a call | 3.0 | 2.0 | 0.0 | 200 | 100 | – | `take` 1.0 × 400 | `push` 2.0 × 100 |", made)
        self.assertTrue(made.startswith("2026-01-01, our driver of `abc`.\n\n| of a call | C |"))
        self.assertNotIn("known to some", made)

    def test_the_document_has_marks_and_the_same_columns(self):
        text = lines_page.DOCUMENT.read_text()
        replaced = marked.replaced(text, "lines", self.made())
        self.assertIn("| a call | 8.0 |", replaced)
        self.assertNotIn("| null call to another CPU |", replaced[replaced.index("<!-- begin: lines"):replaced.index("<!-- end: lines")])
        head = next(line for line in self.made().splitlines() if line.startswith("| of a call"))
        self.assertIn(head, text)

    def test_when_is_the_first_day_and_of_which_drivers_all_of_them(self):
        known = [{"began": f"2026-01-{when}", "commit": commit} for when, commit in (("02 03:04", "b"), ("01 23:59", "a"), ("03 00:00", "b"))]
        self.assertEqual(bench_lines.measured(known), "2026-01-01, our driver of `a` / `b`")


class Goals(unittest.TestCase):
    def test_figures_are_those_that_the_goals_name(self):
        unit = {"read": 6.0, "write": 4.0, "locked": 1.0, "pause": 0.0}
        data = {"unit": unit, "distinct": {profile.DRIVER: 2}}
        titles = [title for loads in bench_lines.LOADS.values() for title, _ in loads]
        half = {"unit": unit | {"read": 1.0, "pause": 3.0}, "distinct": {}}
        figures = bench_lines.figures({"c": dict.fromkeys(titles, half), "rust": dict.fromkeys(titles, data)})
        self.assertEqual(figures["pair on two CPUs: lines"], 2.0)
        self.assertEqual((figures["8 clients, 8 CPUs: spins"], figures["independent pairs: shared lines"]), (0.0, 2))
        self.assertLessEqual({goal.key for goal in goals.read()["lines"].goals}, figures.keys())

    def test_what_was_not_measured_has_no_figure(self):
        self.assertEqual(bench_lines.figures({"c": {}, "rust": {}}), {})
