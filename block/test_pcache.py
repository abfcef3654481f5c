# SPDX-License-Identifier: GPL-2.0
"""The enumeration of crashes in pcache/, and the format of all Rust here."""

import parts
from lab import proc


def test_crashes():
    parts.cargo("pcache", "test")


def test_formatted():
    proc.output("/usr/bin/rustfmt", "--check", "--edition", "2021", *parts.HERE.rglob("*.rs"))
