# SPDX-License-Identifier: GPL-2.0
"""What is read of a disassembly."""

from .frames import of_disassembly

SMALL = """
0000000000000010 <small>:
      10: \tpushq\t%rbp
      11: \tsubq\t$0x20, %rsp
      15: \tretq
"""
LARGE = """
0000000000000020 <large>:
      20: \tpushq\t%rbp
      21: \tpushq\t%rbx
      22: \tsubq\t$0xba8, %rsp                  # imm = 0xBA8
      29: \tcallq\t0x10 <small>
"""
OTHERS = """
0000000000000040 <leaf>:
      40: \tsubq\t%rax, %rdx
      43: \tretq

0000000000000050 <of_128>:
      50: \taddq\t$-0x80, %rsp

0000000000000060 <of_any_size>:
      60: \tsubq\t%rax, %rsp
"""


def test_room_and_what_is_pushed_before():
    assert of_disassembly((SMALL + LARGE + OTHERS).splitlines()) == {
        "small": 40, "large": 16 + 0xBA8, "leaf": 0, "of_128": 128, "of_any_size": float("inf")}
