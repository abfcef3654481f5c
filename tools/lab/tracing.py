# SPDX-License-Identifier: GPL-2.0
"""The driver's trace events next to the C driver's: their formats, and the events of the same scenes."""

import difflib
import re

from . import foreign, guest, programs
from .versions import PINNED

# A kernel in which both drivers are modules, and one that watches memory.
GUEST = "um"
EVENTS = 31
# No scene on both drivers can show these: reading the C driver's event makes the kernel warn about its pointer.
UNSEEN = {"binder_netlink_report"}
ROUNDS = 3
# The format of these prints a name out of an array of the driver, which a reader does not have.
BY_NUMBER = {"binder_command", "binder_return"}
_REPORTED = re.compile(r"\s*\S+-\d+\s+\[\d+\]\s+[\d.]+: (binder_\w+):\s+(.*)$")
# The allowed differences: the C driver's text, and ours.
EXCEPTIONS = (
    # A buffer that begins and ends within one page: the C driver counts -1 free pages for it.
    (re.compile(r"^(binder_update_page_range .* size)=18446744073709547520$", re.M), r"\1=0"),
)
# A caller that was kept from its CPU reaches this event after its reply has arrived, with an empty stack.
_RACE = re.compile(r"(binder_wait_for_work .*transaction_stack)=\d( thread_todo=1)$", re.M)


def job(driver):
    """The job that prints the formats of all events, and the events of each scene."""
    program = programs.build("tests/contract")
    argv = ["/lab/traced", "-f", "/lab/contract", "trace", "--driver", driver]
    return guest.Job(argv=argv, driver=driver, files={"/lab/contract": program}, cpus=1)


def reloading():
    """The job that unloads and loads the driver while a tracer is attached."""
    argv = ["/lab/retraced", str(ROUNDS), "/lab/contract", "run", "--driver", "rust",
            "--filter", "sync::sender_cannot_lie"]
    return guest.Job(argv=argv, load=False, files={"/lab/contract": programs.build("tests/contract")}, cpus=1, timeout=600)


def read_by_trace_cmd(driver):
    """The job that records a busy run with trace-cmd, and prints its report."""
    files = foreign.files(foreign.root(PINNED["readers"]["trace-cmd"]), "trace-cmd")
    files["/lab/contract"] = programs.build("tests/contract")
    argv = ["/lab/recorded", "/lab/contract", "run", "--driver", driver, "--filter", "nested::", "--filter", "objects::"]
    return guest.Job(argv=argv, driver=driver, files=files, cpus=1, timeout=300)


def judge_report(output):
    """(events that trace-cmd has read, what is wrong) of its report."""
    events = [found.groups() for found in map(_REPORTED.match, output.splitlines()) if found]
    wrong = []
    for name in sorted({name for name, _ in events}):
        said = [words for other, words in events if other == name]
        failed = [words for words in said if "FAILED" in words or not re.search(r"[\w:]+[= ]\S", words)]
        if name in BY_NUMBER:
            # Their fields, at least.
            failed = [words for words in said if not re.fullmatch(r"\[FAILED TO PARSE\] cmd=\d+", words)]
        if failed:
            wrong.append(f"trace-cmd cannot read {len(failed)} of {len(said)} {name}: {failed[0]}")
    seen = {name for name, _ in events}
    wrong += [f"trace-cmd has seen no {name}" for name in sorted({"binder_transaction", *BY_NUMBER} - seen)]
    return len(events), wrong


def sections(output):
    """The output of a guest, by its headings: {"format binder_ioctl": [line, ...], "call": ...}."""
    found = {}
    for line in output.splitlines():
        if line.startswith("== "):
            current = found.setdefault(line[3:], [])
        elif found:
            current.append(line)
    return found


def comparable(c):
    """The output of C without the allowed differences."""
    for said, instead in EXCEPTIONS:
        c = said.sub(instead, c)
    return _RACE.sub(r"\1=?\2", c)


def judge(c, ours):
    """(what was compared, what differs) of the outputs of the two drivers."""
    c, ours = sections(comparable(c)), sections(_RACE.sub(r"\1=?\2", ours))
    wrong = []
    compared = c.keys() | ours.keys()
    for name in sorted(compared):
        lines = list(difflib.unified_diff(c.get(name, []), ours.get(name, []), "c", "rust", lineterm="", n=1))
        if lines:
            wrong.append(f"{name}: {len(lines) - 2} lines differ")
            wrong += [f"  {line}" for line in lines[2:12]]
    formats = {name.split()[1] for name in c if name.startswith("format ")}
    if len(formats) != EVENTS:
        wrong.append(f"the C driver has {len(formats)} events, not {EVENTS}")
    scenes = {name: lines for name, lines in c.items() if not name.startswith("format ")}
    seen = {line.split()[0] for lines in scenes.values() for line in lines if line}
    wrong += [f"{event} is in no scene" for event in sorted(formats - seen - UNSEEN)]
    return len(formats) + len(scenes), wrong
