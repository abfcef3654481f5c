# SPDX-License-Identifier: GPL-2.0
"""The driver's trace events in Perfetto: its recorder takes them, and what it wrote is read by its published schema.

The trace processor, which makes slices of them, is in no package of Debian's: of its tracks, this sees what they are made
of. A call is a `binder_transaction`, which is taken by a thread with a `binder_transaction_received` of the same number.
"""

import collections
import re
import shutil
import subprocess

from . import cache, foreign, guest, packages, proc, programs
from .versions import PINNED

GUEST = "um"
TRACE = "trace.pftrace"
# Those for which Perfetto has messages of their own. It records the others by numbers that it makes up.
FIELDS = {
    "binder_transaction": ["debug_id", "target_node", "to_proc", "to_thread", "reply", "code", "flags"],
    "binder_transaction_received": ["debug_id"],
    "binder_transaction_alloc_buf": ["debug_id", "data_size", "offsets_size", "extra_buffers_size"],
    "binder_command": ["cmd"],
    "binder_return": ["cmd"],
}
_EVENT = re.compile(r"^      (binder_\w+) \{\n((?:        .*\n)*)      \}$", re.M)
_FIELD = re.compile(r"^ +(\w+): (\S+)$", re.M)
_LOST = re.compile(r"^ +(overrun|commit_overrun|dropped_events|ftrace_setup_errors|failed_ftrace_events): (?!0$)(.*)$", re.M)


def job(driver):
    """The job that records a busy run."""
    files = foreign.files(foreign.root(PINNED["readers"]["perfetto"]), "perfetto", "traced", "traced_probes",
                          private=("usr/lib/perfetto",))
    files["/lab/contract"] = programs.build("tests/contract")
    argv = ["/lab/recorded_by_perfetto", "/lab/contract", "run", "--driver", driver, "--filter", "nested::",
            "--filter", "objects::"]
    return guest.Job(argv=argv, driver=driver, files=files, cpus=1, timeout=300)


def decoded(trace):
    """A trace as text, by protoc."""
    packages.ensure("perfetto")
    schema = _schema()
    argv = ["protoc", "--decode=perfetto.protos.Trace", "-I", schema.parent, schema]
    return subprocess.run([str(a) for a in argv], input=trace, capture_output=True, env=proc.environment(),
                          check=True).stdout.decode(errors="replace")


def judge(text):
    """(calls that were sent and taken, what is wrong) of a decoded trace."""
    wrong = [f"the recorder counted {name}: {said}" for name, said in _LOST.findall(text)]
    found = collections.defaultdict(list)
    for name, body in _EVENT.findall(text):
        found[name].append(dict(_FIELD.findall(body)))
    for name, fields in FIELDS.items():
        if not found[name]:
            wrong.append(f"no {name}")
        odd = [event for event in found[name] if sorted(event) != sorted(fields)]
        if odd:
            wrong.append(f"{len(odd)} of {len(found[name])} {name} lack fields: {odd[0]}")
    sent = {event.get("debug_id") for event in found["binder_transaction"]}
    taken = {event.get("debug_id") for event in found["binder_transaction_received"]}
    if taken - sent:
        wrong.append(f"taken and not sent: {sorted(taken - sent)[:5]}")
    if not any(event.get("reply") == "1" for event in found["binder_transaction"]):
        wrong.append("no reply")
    return len(taken & sent), wrong


def _schema():
    """Perfetto's published schema, out of a crate that has it."""
    pin = PINNED["perfetto_schema"]

    def make(part):
        part.mkdir(parents=True)
        (part / "src").mkdir()
        (part / "src/lib.rs").touch()
        (part / "Cargo.toml").write_text('[package]\nname = "fetched"\nversion = "0.0.0"\nedition = "2021"\n'
                                         f'[dependencies]\n{pin["crate"]} = "={pin["version"]}"\n[workspace]\n')
        proc.logged("fetching Perfetto's schema", "perfetto-schema", [programs.CARGO, "vendor", "crates"],
                    env=programs.environment(), cwd=part)
        shutil.copy2(part / "crates" / pin["crate"] / "protos/perfetto_trace.proto", part / "perfetto_trace.proto")
        for name in ("crates", "src"):
            shutil.rmtree(part / name)

    return cache.entry(f"foreign/perfetto-schema-{cache.key(pin)}", make) / "perfetto_trace.proto"
