# SPDX-License-Identifier: GPL-2.0
"""What syzkaller is given: its programs have our descriptions, whose numbers are those of our header."""

import re
import subprocess

import pytest

from . import proc, say, syzkaller
from .versions import ROOT

_CONSTANTS = syzkaller.DESCRIPTIONS.with_name("rust_binder.txt.const")


def test_numbers_are_those_of_the_header(tmp_path):
    numbers = dict(re.findall(r"^(\w+) = (\d+)$", _CONSTANTS.read_text(), re.M))
    ours = [name for name in numbers if re.match(r"BC_|BINDER_(?!CTL_)|TF_|FLAT_", name)]
    assert len(ours) > 50
    checks = "".join(f'_Static_assert((unsigned int)({name}) == {numbers[name]}u, "{name}");\n' for name in ours)
    (tmp_path / "numbers.c").write_text(f"#include <linux/android/binder.h>\n{checks}")
    done = subprocess.run(["gcc", "-fsyntax-only", f"-I{ROOT}/include/uapi", tmp_path / "numbers.c"], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_names_in_the_descriptions_have_numbers():
    text = re.sub(r"#.*|\"[^\"]*\"", "", syzkaller.DESCRIPTIONS.read_text())
    used = set(re.findall(r"\b(?:B[CR]|BINDER|TF|FLAT|O|MAP|MS|EPOLL)_[A-Z_]+\b", text))
    assert used <= set(re.findall(r"^(\w+) = ", _CONSTANTS.read_text(), re.M))


def test_a_folder_without_its_programs_is_refused(tmp_path):
    for path in ("", str(tmp_path)):
        with pytest.raises(say.LabError, match="SYZKALLER= names the folder"):
            syzkaller._programs(path)
    for name in ("bin/syz-manager", "bin/linux_amd64/syz-executor", "sys/linux/rust_binder.txt"):
        proc.write(tmp_path / name, "")
    with pytest.raises(say.LabError, match="rust_binder.txt is not tests/syzkaller/"):
        syzkaller._programs(str(tmp_path))
