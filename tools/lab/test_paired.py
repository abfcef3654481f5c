# SPDX-License-Identifier: GPL-2.0
"""What is made of some boots with two drivers in each."""

from . import paired


def boot(base, other, ratio, width):
    return {"median_us": [base, other], "median": {"point": ratio, "low": ratio - width, "high": ratio + width}, "average": {"point": ratio + 0.1}}


FOUND = {("one CPU", 4096): [boot(10.0, 8.0, 0.8, 0.01), boot(30.0, 21.0, 0.7, 0.02), boot(20.0, 18.0, 0.9, 0.01)]}


def test_the_middle_of_boots_and_their_ends():
    assert paired.table(FOUND).splitlines()[2] == "| one CPU | 4096 | 20.0 | 18.0 | **0.800** | 0.700 to 0.900, ± 0.020 | 0.900 |"


def test_the_chart_has_each_scene():
    assert "one CPU, 4096 bytes" in paired.chart(FOUND)
