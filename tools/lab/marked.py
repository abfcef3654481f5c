# SPDX-License-Identifier: GPL-2.0
"""Parts of documents that commands write: each stands between `<!-- begin: NAME -->` and `<!-- end: NAME -->`."""

import re

from . import say


def put(document, name, made):
    """Lay `made`, whole lines, into the file `document` in place of what was there."""
    document.write_text(replaced(document.read_text(), name, made, document.name))


def replaced(text, name, made, document="the document"):
    """The text with `made` in its one place of this name."""
    begin, end = f"<!-- begin: {name} -->\n", f"<!-- end: {name} -->"
    text, places = re.subn(f"(?<={re.escape(begin)}).*?(?={re.escape(end)})", lambda _: made, text, flags=re.S)
    if places != 1:
        raise say.LabError(f"{document} has {places or 'no'} place{'s' * (places > 1)} for `{name}`: it needs `{begin.strip()}` and `{end}` once")
    return text
