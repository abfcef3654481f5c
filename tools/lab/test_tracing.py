# SPDX-License-Identifier: GPL-2.0
import unittest

from . import tracing

FORMAT = "== format binder_{0}\nname: binder_{0}\n\tfield:int ret;\n"


def output(scene, formats=range(tracing.EVENTS)):
    return "".join(FORMAT.format(number) for number in formats) + f"== call\n-- client\n{scene}"


SCENE = "".join(f"binder_{number} ret=0\n" for number in range(tracing.EVENTS))


class Judge(unittest.TestCase):
    def test_alike(self):
        self.assertEqual(tracing.judge(output(SCENE), output(SCENE)), (tracing.EVENTS + 1, []))

    def test_another_format(self):
        other = output(SCENE).replace("name: binder_3\n\tfield:int", "name: binder_3\n\tfield:long")
        self.assertIn("format binder_3", tracing.judge(output(SCENE), other)[1][0])

    def test_an_event_is_missing(self):
        self.assertTrue(tracing.judge(output(SCENE), output(SCENE, range(tracing.EVENTS - 1)))[1])
        fewer = output(SCENE, range(tracing.EVENTS - 1))
        self.assertTrue(tracing.judge(fewer, fewer)[1])

    def test_an_event_in_no_scene(self):
        less = output(SCENE.replace("binder_7 ret=0\n", ""))
        self.assertEqual(tracing.judge(less, less)[1], ["binder_7 is in no scene"])

    def test_another_order(self):
        one, two = "binder_1 ret=0\n", "binder_2 ret=0\n"
        self.assertTrue(tracing.judge(output(SCENE), output(SCENE.replace(one + two, two + one)))[1])

    def test_the_exception_is_one_for_the_c_driver_alone(self):
        page = "binder_update_page_range proc=server allocate=0 offset=4096 size="
        c, ours = output(f"{SCENE}{page}18446744073709547520\n"), output(f"{SCENE}{page}0\n")
        self.assertEqual(tracing.judge(c, ours)[1], [])
        self.assertTrue(tracing.judge(ours, c)[1])


class Report(unittest.TestCase):
    HEAD = "        contract-71    [001]     6.669093: "
    GOOD = (f"cpus=2\n{HEAD}binder_transaction:   transaction=21 dest_node=0 dest_proc=76\n{HEAD}binder_txn_latency_free: transaction=6 from 0:0\n"
            f"{HEAD}binder_command:       [FAILED TO PARSE] cmd=25356\n{HEAD}binder_return:        [FAILED TO PARSE] cmd=29190\n")

    def test_all_is_read(self):
        self.assertEqual(tracing.judge_report(self.GOOD), (4, []))

    def test_an_event_is_not(self):
        other = self.GOOD.replace("   transaction=21 dest", " [FAILED TO PARSE] debug_id=21 dest")
        self.assertEqual(len(tracing.judge_report(other)[1]), 1)

    def test_nothing_is_there(self):
        self.assertEqual(len(tracing.judge_report("cpus=2\n")[1]), 3)
