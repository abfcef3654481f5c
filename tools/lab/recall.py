# SPDX-License-Identifier: GPL-2.0
"""Runs of the contract suite on the C driver that are not repeated: this kernel, with this first filesystem and these command lines, has
passed before. A change of ours to the driver changes none of these; one to the suite does.
"""

import base64
import hashlib
import json
import time

from . import cache, emulator, guest, say


def run(built, job, attempt):
    """The result of `attempt()`, which runs the job in that guest; or that of an earlier run of the same, if it was good."""
    name = f"contract/c-{_key(built, job)}.json"
    path = cache.root() / name
    if not path.exists():
        result = attempt()
        if result.good:
            files = {file: base64.b64encode(data).decode() for file, data in result.files.items()}
            cache.entry(name, lambda part: part.write_text(json.dumps({"output": result.output, "files": files})))
        return result
    kept = json.loads(path.read_text())
    say.note(f"the same guest passed this on {time.strftime('%Y-%m-%d', time.localtime(path.stat().st_mtime))}")
    files = {file: base64.b64decode(data) for file, data in kept["files"].items()}
    return guest.Result(status=0, output=kept["output"], files=files)


def _key(built, job):
    """A number that changes with whatever the guest is made of."""
    content = hashlib.sha256(guest.first_filesystem(built, job, token="token")).hexdigest()
    machine = "" if built.guest.arch == "um" else f"{emulator.version(built.guest.arch)} {emulator.words(built, job)}"
    return cache.key(str(built.folder), content, machine, job.boot, job.qemu, job.icount, job.cpus, job.memory)
