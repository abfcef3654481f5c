# SPDX-License-Identifier: GPL-2.0
"""The commands that README and the documents show: each fence names its language, and each target of make exists."""

import re

from .versions import ROOT

_FENCE = re.compile(r"^```(\w*)$(.*?)^```$", re.M | re.S)
_MAKE = re.compile(r"^(?:\$ )?make (?=[a-z])([\w-]+)", re.M)
_TARGETS = re.compile(r"^TARGETS := (.*)$", re.M)


def complaints(root=ROOT):
    """Fences without a language, and commands that make does not have."""
    targets = {"help"} | {word for line in _TARGETS.findall((root / "Makefile").read_text()) for word in line.split()}
    wrong = []
    for path in sorted([*root.glob("*.md"), *root.glob("docs/*.md")]):
        text = path.read_text()
        for fence in _FENCE.finditer(text):
            place = f"{path.relative_to(root)}:{text.count(chr(10), 0, fence.start()) + 1}"
            if not fence[1]:
                wrong.append(f"{place}: a fence names its language: sh, console, text, ...")
            wrong += [f"{place}: there is no make {target}" for target in _MAKE.findall(fence[2])
                      if target not in targets]
    return wrong
