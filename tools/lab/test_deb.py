# SPDX-License-Identifier: GPL-2.0
"""What of the words of a Debian machine counts as checks, and that none is lost."""

import pytest

from . import deb_test

# What systemd writes to a terminal when a service begins.
BEGUN = "\x1b]3008;start=1;unit=lab.service\x1b\\\x1b[0m\x1b]104\x07\x1b[!p\x1bP+q6E616D65\x1b\\"


@pytest.mark.parametrize("words, good, wrong", [
    ("ok 1 - one\n# more\nnot ok 2 - two\n# why\nok 3 - three\n1..3\n@@ end 1\n", 2, "not ok 2 - two\n# why"),
    (f"{BEGUN}not ok 1 - one\nok 2 - two\n1..2\n", 1, "not ok 1 - one"),
    ("Started: ok 1 - one\nok 2 - two\n1..2\n", 1, "of 2 checks 1 are told: 'Started: ok 1 - one\\nok 2 - two\\n1..2\\n'"),
])
def test_checks_are_counted_with_what_they_say(words, good, wrong):
    assert deb_test.checks(deb_test._plain(words)) == (good, [wrong])
