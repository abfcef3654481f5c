# SPDX-License-Identifier: GPL-2.0
"""What is read from the output of Android's own benchmarks, and what is made of some boots.

    PYTHONPATH=tools python3 -m unittest lab.test_aosp_bench
"""

import json
import unittest

from . import aosp_bench, bench_summary, say

RUN = """@@ begin binderThroughputTest -i 100 -s {size} -w 2 -p -m 2000
Created BinderWorker1
iterations per sec: 42
average:{average}ms worst:1.5ms best:0.03ms
50%: 0.0234375 90%: 0.0234375 95%: 0.0390625 99%: 0.0703125 {more}
@@ end {status}
"""


def said(*averages, status=0):
    return "noise\n" + "".join(RUN.format(size=0, average=average, status=status, more="") for average in averages)


def google(**times):
    rows = [{"name": name, "real_time": value, "time_unit": "ns"} for name, value in times.items()]
    return json.dumps({"benchmarks": rows}).encode()


class Read(unittest.TestCase):
    def test_averages_and_tails_are_in_microseconds(self):
        self.assertEqual(aosp_bench.read_throughput(said("0.0405", "4.1e-02")), [[40.5, 70.3125], [41.0, 70.3125]])

    def test_a_run_that_failed_or_said_nothing_is_no_measurement(self):
        for output in (said("0.04", status=1), said("0.04").replace("average", "nothing"), said("0.04").replace("@@ end 0", "")):
            with self.assertRaises(say.LabError):
                aosp_bench.read_throughput(output)

    def test_cases_are_found_by_transport(self):
        content = google(**{"BM_pingTransaction/0": 40000.0, "BM_pingTransaction/1": 60000.0,
                            "BM_throughputForTransportAndBytes/0/64": 41000.0})
        self.assertEqual(aosp_bench.read_rpc(content), {"kernel": {"pingTransaction": 40.0, "throughput/64": 41.0},
                                                        "RPC": {"pingTransaction": 60.0}})

    def test_a_case_that_failed_is_no_measurement(self):
        content = json.dumps({"benchmarks": [{"name": "BM_x/0", "error_occurred": True, "error_message": "no"}]})
        with self.assertRaises(say.LabError):
            aosp_bench.read_rpc(content)


class Tables(unittest.TestCase):
    def boot(self, time):
        transports = {name: {"pingTransaction": time * 2, "throughput/65537": time * 8} for name in aosp_bench.TRANSPORTS.values()}
        return {"throughput": [[time, time * 3]] * len(aosp_bench.POINTS), "rpc": transports}

    def setUp(self):
        self.found = {"c": [self.boot(time) for time in (50.0, 40.0, 90.0)], "rust": [self.boot(40.0)], "upstream": []}

    def test_of_boots_the_middle_one_counts(self):
        headers, rows = aosp_bench.throughput_table(self.found, aosp_bench.SCENES["pinned"])
        self.assertEqual(rows[0], ["0, 1", "50.0", "40.0", "–", "0.800", "–", "150.0", "120.0"])
        self.assertEqual(len(headers), len(rows[0]))

    def test_instructions_are_nanoseconds_and_stand_beside_those_of_binder_bench(self):
        headers, rows = aosp_bench.rpc_table(self.found, aosp_bench.SCENES["count"])
        self.assertEqual(rows[0][:5], ["pingTransaction", "100 000", "80 000", "–", "0.800"])
        self.assertEqual(headers[6], "binder-bench")
        self.assertRegex(rows[0][6], r"^0\.\d{3}$")
        self.assertEqual(len(headers), len(rows[0]))

    def test_all_fit_into_the_columns_of_a_terminal(self):
        for scene in aosp_bench.SCENES.values():
            for table in (aosp_bench.throughput_table, aosp_bench.rpc_table):
                for line in bench_summary.columns(*table(self.found, scene)):
                    self.assertLessEqual(len(line), bench_summary.COLUMNS)

    def test_docs_say_how_many_boots_there_were(self):
        text = aosp_bench.markdown({"pinned": self.found, "free": {"c": [], "rust": [], "upstream": []}})
        self.assertIn("**binderThroughputTest**, time, one CPU, the middle one of 3 boots:", text)
        self.assertEqual(text.count("**"), 4)


if __name__ == "__main__":
    unittest.main()
