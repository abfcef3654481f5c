# SPDX-License-Identifier: GPL-2.0
"""What the build of the module says on a kernel that does not export what it needs."""

import pathlib
import subprocess
import tempfile
import unittest

from lab.versions import ROOT

DRIVER = ROOT / "drivers/android"
# Each symbol with the option without which it is not needed.
NEEDED = dict(line.split()[:2] for line in (DRIVER / "exports").read_text().splitlines() if not line.startswith("#"))


def check(exported, options=tuple(NEEDED.values())):
    """What the check says of a kernel with these options that exports these symbols, and its exit status."""
    with tempfile.TemporaryDirectory() as folder:
        config, symvers = (pathlib.Path(folder) / name for name in ("auto.conf", "Module.symvers"))
        config.write_text("".join(f"CONFIG_{option}=y\n" for option in options))
        symvers.write_text("".join(f"0x00000000\t{name}\tvmlinux\tEXPORT_SYMBOL_GPL\t\n" for name in exported))
        done = subprocess.run(["awk", "-f", DRIVER / "exports.awk", config, symvers, DRIVER / "exports"],
                              text=True, capture_output=True)
        return done.returncode, done.stdout


class Exports(unittest.TestCase):
    def test_a_kernel_with_all_of_them_is_fine(self):
        self.assertEqual(check([*NEEDED, "other"]), (0, ""))

    def test_each_one_that_is_missing_is_named_with_what_it_is_for(self):
        for name in NEEDED:
            status, said = check([other for other in NEEDED if other != name] + [f"{name}_of_another_name"])
            self.assertEqual(status, 1)
            head, missing, advice = said.splitlines()
            self.assertIn("does not export", head)
            self.assertRegex(missing, rf"^  {name} for +\w")
            self.assertIn("tools/install-into-kernel", advice)


    def test_what_an_option_leaves_out_is_not_needed(self):
        self.assertEqual(check([], options=["OTHER"]), (0, ""))
        status, said = check([], options=["PER_VMA_LOCK"])
        self.assertEqual((status, len(said.splitlines())), (1, 3))


if __name__ == "__main__":
    unittest.main()
