# SPDX-License-Identifier: GPL-2.0
"""The output for the user: steps with elapsed time, and errors as one line with the next step.

Threads may write at once: lines come out whole.
"""

import os
import re
import sys
import threading
import time

# The start of the whole run, which child processes inherit.
START = float(os.environ.setdefault("LAB_BEGAN", str(time.monotonic())))
QUIET_INTERVAL = 15.0
# Of a line of progress.
WIDTH = 99
# Escape sequences of terminals.
_CODES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class LabError(Exception):
    """A failure that the user can understand: its text is the whole message."""


_speaking = threading.Lock()


def note(text):
    _say(f"{_head()} {text}\n")


def lines(*texts):
    """Several lines that stay together."""
    _say("".join(f"{line}\n" for text in texts for line in text.splitlines()))


def _say(text):
    with _speaking:
        sys.stdout.write(text)
        sys.stdout.flush()


def _head():
    return f"[{_clock(time.monotonic() - START)}]"


def _clock(seconds):
    return f"{int(seconds) // 60:2d}:{int(seconds) % 60:02d}"


class Step:
    """One long step: a live line on a terminal, a line now and then elsewhere, a summary at its end."""

    def __init__(self, title):
        self.title = title
        # Two threads have no one last line to write over.
        self.live = sys.stdout.isatty() and threading.current_thread() is threading.main_thread()
        self.detail = ""
        self._heard = ""

    def __enter__(self):
        self.began = self.shown = time.monotonic()
        note(f"{self.title} ...")
        return self

    def progress(self, detail):
        self.detail = detail
        now = time.monotonic()
        if now - self.shown < (0.2 if self.live else QUIET_INTERVAL):
            return
        self.shown = now
        line = f"{_head()} {self.title}: {_clock(now - self.began).strip()} {detail}"[:WIDTH]
        _say(f"\r{line:<{WIDTH}}" if self.live else f"{line}\n")

    def hear(self, text):
        """Show the last line of a program's output as it comes."""
        lines = (self._heard + text).splitlines(keepends=True)
        self._heard = lines[-1] if lines else ""
        said = [line for line in (_CODES.sub("", line).strip() for line in lines) if line]
        self.progress(said[-1] if said else self.detail)

    def __exit__(self, kind, _value, _trace):
        if self.live and self.detail:
            _say("\r" + " " * WIDTH + "\r")
        took = time.monotonic() - self.began
        note(f"{self.title}: {'failed' if kind else 'done'} after {took:.1f} s")
