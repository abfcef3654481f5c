# SPDX-License-Identifier: GPL-2.0
"""Our driver taken away at the moments at which its code might still be needed: group `unload` of the contract suite."""

from . import guest, programs

# At native speed, and where all memory is watched (and userfaultfd is there, without which two are skipped).
GUESTS = ("um", "x86_64-debug")
# These tests want the driver loaded for them alone, and are skipped elsewhere.
GROUP = "unload::"


def job(name, only=GROUP, **options):
    """What loads the driver in guest `name` for each of the tests, and runs them."""
    argv = ["/lab/contract", "run", "--driver", "rust", "--module", f"/lab/{guest.MODULES['rust']}.ko", "--filter", only]
    return guest.Job(argv=argv, files={"/lab/contract": programs.build_for(name, "tests/contract")}, load=False, **options)
