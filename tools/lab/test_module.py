# SPDX-License-Identifier: GPL-2.0
"""The module's build on a kernel that does not export a needed function, and the parsing of its disassembly."""

import re
import subprocess

import pytest

from . import module
from .frames import of_disassembly
from .versions import ROOT

DRIVER = ROOT / "drivers/android"
# Each symbol with the option without which it is not needed.
NEEDED = dict(re.findall(r'needs\("(\w+)", "(\w+)"', (DRIVER / "exports").read_text()))


@pytest.fixture
def check(tmp_path):
    """The output of the check for a kernel with these options that exports these symbols, and its exit status."""
    def of(exported, options=tuple(NEEDED.values())):
        (tmp_path / "auto.conf").write_text("".join(f"CONFIG_{option}=y\n" for option in options))
        (tmp_path / "Module.symvers").write_text("".join(f"0x00000000\t{name}\tvmlinux\tEXPORT_SYMBOL_GPL\t\n" for name in exported))
        done = subprocess.run(["awk", "-f", DRIVER / "exports", "auto.conf", "Module.symvers"], cwd=tmp_path,
                              text=True, capture_output=True)
        return done.returncode, done.stdout

    return of


def test_a_kernel_with_all_that_its_options_want_is_fine(check):
    assert check([*NEEDED, "other"]) == check([], ["OTHER"]) == (0, "")


@pytest.mark.parametrize("name", NEEDED)
def test_one_that_is_missing_is_named_with_what_it_is_for(check, name):
    status, said = check([other for other in NEEDED if other != name] + [f"{name}_of_another_name"])
    head, missing, advice = said.splitlines()
    assert status == 1 and "does not export" in head and missing.startswith(f"  {name} for ") and "tools/install-into-kernel" in advice
    assert check([], [NEEDED[name]])[0] == 1


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


def test_long_names_are_found():
    assert module.too_long(f"0000000000000010 t {'a' * 400}\n                 U {'b' * 401}\n") == ["b" * 401]
