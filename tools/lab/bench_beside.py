# SPDX-License-Identifier: GPL-2.0
"""C and ours in one kernel, for what calls through both in turns: C's files are in /dev/binderfs, ours in /tmp/ours."""

import os

from . import bench, guest, module, programs, say

_LOAD = """
insmod /lab/{c}.ko && mount -t binder binder /dev/binderfs || exit
insmod /lab/{rust}.ko name=binder-rust {parameters} && mkdir /tmp/ours && mount -t binder-rust binder /tmp/ours || exit
"""
# Who computes without sleeping, until `script` has ended. Nothing moves it but the guest's scheduler.
_BUSY = """
(
	while :; do :; done &
	busy=$!
	echo "busy $busy"
	{script}
	status=$?
	kill $busy
	wait $busy 2>/dev/null
	exit $status
)"""


def files(built):
    """What such a guest of kernel `built` has: binder-bench, and no module but the two."""
    return {"/lab/binder-bench": programs.build(bench.CRATE), f"/lab/{guest.MODULES['c']}.ko": built.module("c"),
            f"/lab/{guest.MODULES['rust']}.ko": module.build(built)}


def output(built, there, title, script, parameters="", **options):
    """What `script` prints in a guest with the files `there`, in which both drivers are loaded, ours with `parameters`."""
    script = _LOAD.format(**guest.MODULES, parameters=parameters) + script
    job = guest.Job(argv=["/bin/sh", "-c", script], driver="none", files=there, **options)
    with say.Step(title):
        result = guest.run(built, job)
    if not result.good:
        why = "; ".join(result.problems) or f"status {result.status}: {result.output[-300:]}"
        raise say.LabError(f"the two drivers could not be measured beside each other: {why}")
    return result.output


def beside_busy(script):
    """The same script while a process at the normal nice level computes all the time; before what it prints is a line `busy PID`."""
    return _BUSY.format(script=script.strip())


def say_if_too_many(cpus):
    """Where a guest has more CPUs than the host, what is measured is the host's scheduler, too."""
    if cpus > (os.cpu_count() or 1):
        say.note(f"{cpus} CPUs of the guest are more than this machine has: what waits for a CPU of the host then is no figure of a driver's")
