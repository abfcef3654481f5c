# SPDX-License-Identifier: GPL-2.0
"""The commands of README and the documents on a machine that has nothing: a root of Debian 12 with git and make.

The root is entered by chroot, in namespaces of its own. The tree's HEAD is cloned into it; what a command lacks, it has to
install itself, from the mirror that this machine uses.
"""

import os
import pathlib
import re
import shutil
import subprocess
import time

from . import cache, marked, packages, proc, say
from .commands import of_clean_machine
from .versions import BUILD, ROOT

HOME = BUILD / "clean-machine"
DOCUMENT = ROOT / "docs/lab.md"
_CLONE = "/root/rust-binder"
# What takes more than some minutes is run when all is.
_LONG = re.compile(r"make (test.*|bench FULL=1|aosp.*|growth.*|clients|client-stress GUEST=.*|contract GUEST=.*)|.* soak .*|.* run --driver c")
# What is typed at a command that waits for it.
_TYPED = {"make boot": "ls /dev/binderfs; cat /proc/mounts; exit\n"}
# Whose certificates this machine accepts beside Debian's list: its network may have a proxy of its own.
_TRUSTED = pathlib.Path("/usr/local/share/ca-certificates")
_TIMEOUT = 3 * 3600
# Mounts of a namespace of their own, which ends with the command.
_ENTER = """
root=$1; shift
# A root that is no mount cannot have namespaces of mounts in it.
mount --bind "$root" "$root"
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
while [ "$1" != -- ]; do mkdir -p "$root/$1"; mount --rbind "$1" "$root/$1"; shift; done
shift
exec chroot "$root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 "$@"
"""


def run(only=(), everything=False, with_cache=False, into_docs=False):
    """Make the root, run the commands, all or those that are named in `only`, and print how long each took; the exit
    status. `with_cache`: the machine has this one's cache."""
    if os.geteuid():
        raise say.LabError("a root is entered by chroot, which only root may do")
    commands = of_clean_machine()
    unknown = set(only) - {command for _, command in commands}
    if unknown:
        raise say.LabError(f"no document has {', '.join(sorted(unknown))} among the commands of a clean machine")
    packages.ensure("clean_machine")
    # The last one is removed first.
    cache.need_space(2 if with_cache else 25 if everything else 12, "a machine of its own", HOME / "root", HOME)
    root = _root()
    shared = [cache.root()] if with_cache else []
    rows = [("", "git clone", *_clone(root))]
    for place, command in commands:
        wanted = command in only if only else everything or not _LONG.fullmatch(command)
        if wanted:
            rows.append((place, command, *_command(root, shared, command)))
            # An interrupted run has told what it found.
            (HOME / "report.md").write_text(table(rows, with_cache))
    failed = [row for row in rows if row[2]]
    text = table(rows, with_cache)
    print("\n" + text)
    if into_docs:
        marked.put(DOCUMENT, "clean machine", text)
    print(f"{len(rows) - len(failed)} passed, {len(failed)} failed; logs are in {HOME.relative_to(ROOT)}")
    return 1 if failed else 0


def table(rows, with_cache):
    """What the document shows."""
    cpus = os.cpu_count()
    head = f"{cpus} CPUs, {'with the cache of another clone' if with_cache else 'nothing cached'}; {proc.output('git', 'log', '-1', '--format=%h, %cs').strip()}"
    lines = [f"{head}.", "", "| command | stands in | min:s | |", "|---|---|---|---|"]
    for place, command, status, seconds in rows:
        shown = command.replace("|", "\\|")
        lines.append(f"| `{shown}` | {place.split(':')[0]} | {int(seconds) // 60}:{int(seconds) % 60:02d} "
                     f"| {'' if status == 0 else f'fails ({status})'} |")
    lines.append(f"| all | | {int(sum(row[3] for row in rows)) // 60}:{int(sum(row[3] for row in rows)) % 60:02d} | |")
    return "\n".join(lines) + "\n"


def _root():
    """A new root with git and make, and this machine's sources of packages."""
    root = HOME / "root"
    _remove(root)
    HOME.mkdir(parents=True, exist_ok=True)
    options = HOME / "apt.conf"
    # Proxies, and what else the mirror needs.
    options.write_text(proc.output("apt-config", "dump", "Acquire"))
    argv = ["mmdebstrap", "--variant=minbase", "--include=git,make", f"--aptopt={options}", "bookworm", root, "-"]
    with say.Step("making a root of Debian 12 with git and make"):
        done = subprocess.run([str(word) for word in argv], input="\n".join(_sources()) + "\n", text=True, capture_output=True,
                              env=proc.environment())
    if done.returncode:
        raise say.LabError(f"mmdebstrap failed: {done.stderr.strip()[-600:]}")
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    if _TRUSTED.is_dir():
        shutil.copytree(_TRUSTED, root / _TRUSTED.relative_to("/"), dirs_exist_ok=True)
    return root


def _sources():
    """The lines of this machine's apt that name Debian 12."""
    listed = proc.output("apt-get", "indextargets", "--format", "$(ORIGIN)|$(CODENAME)|$(SITE)|$(RELEASE)|$(COMPONENT)",
                         "Created-By: Packages")
    found = {}
    for line in listed.splitlines():
        origin, codename, site, release, component = line.split("|")
        if origin == "Debian" and codename.startswith("bookworm"):
            found.setdefault((site, release), []).append(component)
    if not found:
        raise say.LabError("apt knows no Debian 12 archive: see /etc/apt/sources.list.d")
    return [f"deb {site} {release} {' '.join(sorted(set(components)))}" for (site, release), components in sorted(found.items())]


def _remove(root):
    if root.exists():
        # What a killed run has left mounted would be emptied.
        if any(str(root) in line for line in pathlib.Path("/proc/mounts").read_text().splitlines()):
            raise say.LabError(f"something is mounted below {root}: unmount it")
        with say.Step("removing the last machine"):
            shutil.rmtree(root)


def _clone(root):
    """Clone the tree's HEAD; (status, seconds)."""
    began = time.monotonic()
    done = subprocess.run(["git", "clone", "--quiet", f"file://{ROOT}", f"{root}{_CLONE}"])
    head = proc.output("git", "-C", ROOT, "rev-parse", "HEAD").strip()
    subprocess.run(["git", "-C", f"{root}{_CLONE}", "checkout", "--quiet", "--detach", head])
    return done.returncode, time.monotonic() - began


def _command(root, shared, command):
    """Run one command in the clone; (status, seconds). What it says is in its log."""
    log = HOME / (re.sub(r"\W+", "-", command).strip("-")[:80] + ".log")
    variables = [f"RUST_BINDER_CACHE={cache.root()}"] if shared else []
    argv = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", _ENTER, "sh", root, *shared, "--",
            *variables, "sh", "-c", f"cd {_CLONE} && {command}"]
    typed = next((text for start, text in _TYPED.items() if command.startswith(start)), "")
    began = time.monotonic()
    with say.Step(command), open(log, "w") as sink:
        try:
            done = subprocess.run([str(word) for word in argv], input=typed, text=True, stdout=sink, stderr=subprocess.STDOUT,
                                  timeout=_TIMEOUT)
            status = done.returncode
        except subprocess.TimeoutExpired:
            status = 124
    if status:
        say.lines(*(f"    {line}" for line in log.read_text(errors="replace").splitlines()[-15:]))
    return status, time.monotonic() - began
