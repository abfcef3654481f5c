# SPDX-License-Identifier: GPL-2.0
"""What is read of the user space in Android's shape, and which kernels it may have.

    PYTHONPATH=tools python3 -m unittest lab.test_android
"""

import unittest

from . import android, clients, kernel, say

SAID = """failure: none
figure calls made: 12345
figure refused, no space (oneway): 0
a figure that is none: 3
android ok: 60 s, seed 1
"""


class Figures(unittest.TestCase):
    def test_lines_that_are_figures_are_read(self):
        self.assertEqual(android.figures(SAID), {"calls made": 12345, "refused, no space (oneway)": 0})

    def test_drivers_stand_side_by_side_and_gaps_are_seen(self):
        lines = android.table({"c": {"calls made": 12345, "freezes": 7}, "rust": {"calls made": 9}}, "android, 60 s")
        self.assertEqual([line.split()[-2:] for line in lines], [["c", "rust"], ["345", "9"], ["7", "–"]])
        self.assertTrue(all(len(line) == len(lines[0]) for line in lines))

    def test_other_kernels_are_refused_with_those_that_there_are(self):
        with self.assertRaisesRegex(say.LabError, "there are android, "):
            android.run("um", ("rust",), 1)


class Kernels(unittest.TestCase):
    def test_all_have_the_fragment_last(self):
        for name in android.GUESTS:
            own = [] if name == "android" else ["android-qemu"]
            self.assertEqual([part for part in kernel.GUESTS[name].fragments if "android" in part], ["android", *own], name)

    def test_clients_that_need_namespaces_are_left_out(self):
        self.assertIsNone(clients.lacks("selftest", "um"))
        for name in android.GUESTS:
            self.assertEqual(clients.lacks("selftest", name), "namespaces of users")
            self.assertIsNone(clients.lacks("gbinder", name))

    def test_the_fragment_has_what_the_user_space_needs(self):
        lines = kernel.fragment("android")
        self.assertIn("CONFIG_PSI=y", lines)
        self.assertIn("# CONFIG_RT_GROUP_SCHED is not set", lines)
        wanted = {kernel._symbol(line): line for name in kernel.GUESTS["android"].fragments for line in kernel.fragment(name)}
        for line in ("CONFIG_MEMCG=y", "CONFIG_CGROUP_FREEZER=y", "CONFIG_SECURITY_SELINUX=y",
                     'CONFIG_ANDROID_BINDER_DEVICES="binder,hwbinder,vndbinder"'):
            self.assertEqual(wanted[line.split("=")[0]], line)


if __name__ == "__main__":
    unittest.main()
