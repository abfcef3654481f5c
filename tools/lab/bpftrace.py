# SPDX-License-Identifier: GPL-2.0
"""The one-liners of docs/logs-and-traces.md for bpftrace: they are run as they stand there, while calls are made.

Before a block of commands is what makes the calls, as words for `contract`, and behind it a block with what is printed. Which
lines come, how often, and their numbers are not compared: that there is one of each kind, and none of another.
"""

import re

from . import examples, foreign, guest, packages, proc, programs, stock
from .versions import BUILD, PINNED

# Its kernel has what bpftrace needs, but for descriptions of its types (BTF).
GUEST = stock.NAMES[0]
# The first filesystem takes 240 MB while the kernel unpacks it, and as much again afterwards.
MEMORY = 1024

_BLOCK = re.compile(r"<!-- bpftrace while: (.*?) -->\n```sh\n(.*?)```\n```text\n(.*?)```\n", re.S)
_OUTPUT = "/tmp/printed"


def blocks(text):
    """The one-liners: (what makes the calls, the commands, what they print), one after another."""
    return _BLOCK.findall(text)


def kinds(text):
    """The kinds of lines: lines that differ only in numbers and lengths of bars are one kind."""
    text = re.sub(r"\|[@ ]*\|", "|", text)
    text = re.sub(r"\[\d+[KMG]?(, \d+[KMG]?\))?\]? +\d+ \|", "[#, #) # |", text)
    lines = {re.sub(r"\d+", "#", line).strip() for line in text.splitlines()}
    return {line for line in lines if line and not line.startswith("Attaching ")}


def job(driver):
    """The job that runs all of them in one guest."""
    script = "set -e\nmount -t tracefs tracefs /sys/kernel/tracing\n"
    # It traces from before the calls are made until they have ended.
    script += f'bpftrace() {{ /bin/bpftrace --include stdint.h -o {_OUTPUT} -c "/lab/contract $load" "$@"; }}\n'
    for number, (load, commands, _) in enumerate(blocks(examples.text())):
        load = load.replace("DRIVER", driver)
        script += f"load='{load}'\n{commands}" + examples.marked(number, f"cat {_OUTPUT}\n")
    path = BUILD / "examples" / f"{driver}-bpftrace.sh"
    proc.write(path, script)
    files = foreign.files(foreign.root(PINNED["readers"]["bpftrace"]), "bpftrace")
    files |= _headers() | {"/lab/contract": programs.build("tests/contract"), "/lab/oneliners.sh": path}
    return guest.Job(argv=["/bin/sh", "/lab/oneliners.sh"], driver=driver, files=files, memory=MEMORY, timeout=300)


def judge(output):
    """(how many there are, what is wrong with them)."""
    found, wrong = blocks(examples.text()), []
    for number, (_, commands, documented) in enumerate(found):
        printed, title = examples.printed(number, output), commands.splitlines()[0]
        if printed is None:
            wrong.append(f"did not end: {title}")
        elif kinds(printed) != kinds(documented):
            wrong.append(f"prints {sorted(kinds(printed))}, documented {sorted(kinds(documented))}: {title}")
    return len(found), wrong


def _headers():
    """The types of integers that formats of trace events name: without BTF, bpftrace has them from headers, those of the
    kernel or, as here, of the C library."""
    packages.ensure("rust")
    listed = proc.output("gcc", "-E", "-M", "-include", "stdint.h", "-x", "c", "/usr/include/linux/types.h")
    return {path: path for path in re.findall(r"/usr/include/\S+", listed)}
