# SPDX-License-Identifier: GPL-2.0
"""Flame graphs of the profiles, drawn by inferno, a frame coloured by what its function is for."""

import colorsys
import hashlib
import pathlib
import re
import subprocess
import tempfile

from lab import proc, say, toolchain
from . import profile

# Hue, saturation and lightness, readable under black text on a light and on a dark page.
_HUES = {profile.DRIVER: (18, .80, .68), "scheduler": (212, .55, .76), "system call": (265, .40, .80),
         "copies": (150, .42, .70), "locks": (350, .60, .76), "memory": (48, .72, .68), "trees": (90, .35, .72),
         profile.USER: (0, 0, .80), profile.OTHER: (0, 0, .80)}
_KEEP = "function keep_state(...all) { try { history.replaceState(...all); } catch (refused) { } }\n"
LEGEND = tuple(kind for kind in _HUES if kind != profile.USER)


def draw(summary):
    """An SVG that zooms and searches by itself."""
    lines = [f"{chain} {value:.0f}" for chain, value in summary["folded"].items() if value >= 0.5]
    if not lines:
        raise say.LabError("the profile is empty: measure again with `make bench ONLY=profile`")
    classes = {row["name"]: row["class"] for row in summary["functions"]}
    frames = {frame for line in lines for frame in line.rsplit(" ", 1)[0].split(";")}
    with tempfile.TemporaryDirectory() as folder:
        palette = pathlib.Path(folder) / "palette.map"
        palette.write_text("".join(f"{f}->{colour(f, classes.get(f, profile.OTHER))}\n" for f in sorted(frames)))
        argv = [toolchain.inferno() / "inferno-flamegraph", "--cp", "--bgcolors", "#fefefe", "--uicolor", "#67707a",
                "--countname", "instructions", "--title", " ", "--fonttype", "sans-serif",
                "--fontsize", "11", "--fontwidth", "0.56", "--height", "17", "--minwidth", "0.05", "--quiet",
                "--stroke-color", "#fefefe", "--inverted"]
        done = subprocess.run([str(a) for a in argv], input="\n".join(lines), cwd=folder, text=True,
                              capture_output=True, env=proc.environment())
    if done.returncode:
        raise say.LabError(f"inferno cannot draw the profile of {summary['driver']}: {done.stderr.strip()}")
    # The palette has no say about the frame of all. What is paper is dark on a dark page.
    dark = "@media (prefers-color-scheme: dark) { stop { stop-color: #15181c } #frames > g > rect { stroke: #15181c } }"
    text = done.stdout.replace("</style>", f"{dark}</style>", 1)
    # A graph inside of a page has no address to keep its state in; trying to would end the click.
    text = text.replace("history.replaceState(", "keep_state(").replace("<![CDATA[", "<![CDATA[" + _KEEP, 1)
    return re.sub(r"(<title>all \(.*?fill=\")[^\"]*", rf"\g<1>{colour('all', profile.OTHER)}", text, count=1)


def colour(name, kind):
    """The class's colour, a little lighter or darker by the function's name so that neighbours differ."""
    return shade(kind, hashlib.sha256(name.encode()).digest()[0] / 255 * .10 - .05)


def shade(kind, lighter=0.0):
    """The colour of a class of functions."""
    hue, saturation, lightness = _HUES[kind]
    red, green, blue = colorsys.hls_to_rgb(hue / 360, lightness + lighter, saturation)
    return f"rgb({red * 255:.0f},{green * 255:.0f},{blue * 255:.0f})"
