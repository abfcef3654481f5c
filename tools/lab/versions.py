# SPDX-License-Identifier: GPL-2.0
"""The pinned versions, read from the one file that holds them."""

import pathlib
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"

PINNED = tomllib.loads((ROOT / "versions.toml").read_text())
