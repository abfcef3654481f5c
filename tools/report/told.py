# SPDX-License-Identifier: GPL-2.0
"""The end of a command that measures something and tells it."""

import json
import sys

from lab import say


def tell(measured, show, top, into=None):
    """Call `measured`, keep what comes out in the file `into` if there is one, and show each part, at most `top` rows of a table.
    What goes wrong meanwhile is said, with status 1."""
    try:
        found = measured()
    except say.LabError as error:
        sys.exit(f"error: {error}")
    if into:
        into.write_text(json.dumps(found))
    for data in found:
        show(data, top)
