# SPDX-License-Identifier: GPL-2.0
"""The life of our packages on a Debian machine: built, installed, used, replaced, locked out, purged."""

import contextlib
import pathlib
import re
import tempfile
import textwrap

from . import clients, deb, debian, examples, machine, packages, proc, say, stock
from .run import Tally
from .versions import PINNED, ROOT

# The containers of the documents' recipes are Debian's.
_PACKAGES = [*PINNED["machine"]["packages"], "bubblewrap", "busybox-static", "crun", "lxc"]
_SCRIPTS = ROOT / "tests/packages"
_LINE = re.compile(r"^(not )?ok \d+ - .*(?:\n# .*)*", re.M)
_PLAN = re.compile(r"^1\.\.(\d+)$", re.M)
# Escape sequences that systemd sends to a terminal when a service begins, on the line of its first words.
_ESCAPES = re.compile(r"\x1b(?:[]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|\[[0-?]*[ -/]*[@-~]|[ -/]*[0-~])")
# The start of a script in the machine's root.
_APT = "set -eu\ncd /lab\nexport APT_CONFIG=/lab/apt CARGO_HTTP_CAINFO=/lab/certificates\ninstall='apt-get install -y --no-install-recommends'\n"
# All files but those that other packages, programs and the test itself write.
_LIST = r"""
find / -xdev \( -path /proc -o -path /dev -o -path /lab -o -path /srv -o -path /tmp -o -path /run -o -path /var/log \
    -o -path /var/cache -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /var/lib/systemd -o -path /home \
    -o -path /usr/lib/modules -o -path /usr/src -o -path /boot -o -path /var/lib/initramfs-tools -o -path /var/tmp \
    -o -path /var/lib/dbus -o -path /var/lib/misc -o -name .updated \) -prune -o -print |
    grep -v '^/var/lib/dkms/mok\|^/etc/.*-$' | sort
"""
# The version that is installed over the first one.
_VERSION = PINNED["project"]["version"]
_LATER = f"{_VERSION}+later"


def run():
    """Every step in its order; returns true if all passed."""
    packages.ensure("um", "deb_test")
    later = deb.build_next(_LATER, {"drivers/android/rust_binder.rs": ('description: "Android Binder"', f'description: "Android Binder {_LATER}"')})
    tally = Tally()
    pin = releases(PINNED["machine"])
    base = machine.debian_of(pin["suites"], _versions(pin, pin["release"], "image", "headers"), _PACKAGES)
    with _copy_of(machine.Machine(base)) as box:
        _life(box, tally, pin, later)
    return tally.finish()


@contextlib.contextmanager
def _copy_of(box):
    """A machine like that one, which stays as it is."""
    with tempfile.TemporaryDirectory(prefix="life-", dir=box.disk.parent) as folder:
        disk = pathlib.Path(folder) / "disk"
        proc.output("cp", "--sparse=always", box.disk, disk)
        yield machine.Machine(disk)


def releases(pin):
    """The pin of a machine with the release of its kernel, the newest that the last of its suites has today of the series."""
    with tempfile.TemporaryDirectory() as folder:
        suite = debian.Suite(pathlib.Path(folder), pin["suites"][-1])
        suite.must_update()
        release = stock.newest(suite, {"series": pin["series"], "flavour": "amd64"}, "machine")
    say.note(f"a machine of {pin['suites'][0]} with Linux {release}")
    return {"suites": pin["suites"], "release": release}


def checks(words):
    """(good ones, what is wrong) of the checks that a script has printed."""
    found = [match.group() for match in _LINE.finditer(words)]
    wrong = [line for line in found if line.startswith("not")]
    planned = int(_PLAN.search(words).group(1))
    good = len(found) - len(wrong)
    if len(found) != planned:
        wrong.append(f"of {planned} checks {len(found)} are reported: {words[:300]!r}")
    return good, wrong


def _plain(words):
    return _ESCAPES.sub("", words)


def _add(tally, where, words):
    good, wrong = checks(_plain(words))
    say.lines(*wrong)
    tally.add(where, good, len(wrong))


def _check(tally, name, good, words=""):
    """One check, with the end of what a script has printed."""
    tally.nothing_wrong(name, [] if good else words.splitlines()[-15:], good)


def _life(box, tally, pin, later):
    """Of the packages on one machine."""
    before, release = _files(box), pin["release"]
    build, backports, install = (step.removesuffix("reboot\n") for step in guide()[:3])
    _build(box, build)
    # The build installs one compiler, and the guide then another one. The list of backports is the user's.
    before |= _files(box) | {"/etc/apt/sources.list.d/backports.list"}
    _install(box, tally, pin)
    box.off("the documented installation", f"{_APT}cd /root/tree\n{backports}{install}")
    scripts = ("check", "used", "purged", "locked", "upgraded")
    box.put({f"lab/{name}": _SCRIPTS / name for name in scripts} | _clients())
    _lock(box, tally, release)
    _upgrade(box, tally, release, later)
    _use(box, tally, release, ". /lab/upgraded\n. /lab/purged")
    left = sorted(path for path in _files(box) - before if release not in path and "linux-" not in path)
    _check(tally, f"nothing is left on {release}", not left, "\n".join(left))


def guide():
    """The command blocks of the installation in docs/start/debian.md."""
    section = (ROOT / "docs/start/debian.md").read_text().partition("## Install on Debian 13\n")[2].partition("\n## ")[0]
    return [textwrap.dedent(block) for block in re.findall(r"```sh\n(.*?)^ *```", section, re.M | re.S)]


def _build(box, commands):
    """Build the packages by the documented commands, in a copy of this tree."""
    with tempfile.TemporaryDirectory() as folder:
        archive, options = pathlib.Path(folder) / "tree.tar", pathlib.Path(folder) / "apt"
        proc.output("tar", "-C", ROOT, "--exclude=./build", "--exclude=./.git", "--exclude=target", "-cf", archive, ".")
        options.write_text('APT::Get::Assume-Yes "true";\n')
        box.off("building the packages on the machine",
                f"{_APT}apt-get -qq update\nmkdir /root/tree\ncd /root/tree\ntar -xf /lab/tree.tar\n{commands}",
                {"lab/tree.tar": archive, "lab/apt": options, "lab/certificates": "/etc/ssl/certs/ca-certificates.crt"})


def _install(box, tally, pin):
    """First without the kernel's source, which then comes, at the second attempt."""
    release = pin["release"]
    words = box.off("installing the packages without source", f"{_APT}$install /root/tree/build/deb/*.deb rustc rust-src\n")
    _check(tally, f"{release} without its source: the message names the package", f"apt install {_source(release)}=" in words, words)
    # As if the power failed while the headers are prepared.
    begun = f"/var/lib/rust-binder/{release}.source"
    box.off("installing source, which is interrupted", f"{_APT}$install {_versions(pin, release, 'source')[0]} & apt=$!\n"
            f"while kill -0 $apt && [ ! -e {begun} ]; do sleep 0.2; done\nkill -KILL -1\nls -d {begun}")
    words = box.off(f"going on, and compiling for {release}", f"{_APT}dpkg --configure -a\nmodinfo -k {release} binder_rust\n! ls -d {begun}")
    _check(tally, f"the module is compiled for {release} after an interruption", "vermagic" in words, words)


def _use(box, tally, release, more=""):
    scene = examples.blocks(examples.text(), "rust")[examples.MACHINE]
    recipes = "".join(examples.marked(number, commands) for number, (commands, _) in enumerate(scene))
    words = box.on(f"starting it with {release}", release, f". /lab/used\n(set -e\n{recipes})\n{more}\nend", timeout=1200)
    _add(tally, f"used on {release}", words)
    tally.nothing_wrong(f"containers as documented on {release}", examples.judge(scene, _plain(words)))


def _upgrade(box, tally, release, later):
    """To a later version of the package, with the module of the first one kept aside."""
    words = box.off("installing a later version of the package", f"""{_APT}
module() {{ modinfo -k {release} "$@" binder_rust; }}
xz -dc "$(module -n)" >first.ko
$install ./{later.name}
echo "described: $(module -F description)"
dkms status -m rust-binder
! ls -d /usr/src/rust-binder-{_VERSION} /var/lib/dkms/rust-binder/{_VERSION}
""", {f"lab/{later.name}": later})
    good = f"described: Android Binder {_LATER}\n" in words and f"rust-binder/{_VERSION}," not in words
    _check(tally, f"a later version of the package takes the place of the first on {release}", good, words)


def _lock(box, tally, release):
    _add(tally, f"locked down, {release}", box.on(f"starting {release} locked down", release, ". /lab/locked\nend",
                                                boot=("lockdown=integrity",), timeout=1200))


def _files(box):
    """The paths on its disk that are of interest."""
    return {line for line in box.off("listing files", _LIST).splitlines() if line.startswith("/")}


def _versions(pin, release, *parts):
    """Names of packages of a kernel, for apt."""
    names = {"image": f"linux-image-{release}", "headers": f"linux-headers-{release}", "source": _source(release)}
    return [f"{names[part]}/{pin['suites'][-1]}" for part in parts]


def _source(release):
    return f"linux-source-{re.match(r'[0-9]+[.][0-9]+', release).group()}"


def _clients():
    """A root of its own with libgbinder's tools, rsbinder's service manager and a service: a container without more."""
    [part] = clients.parts("gbinder")
    files = {f"srv/clients{where}": path for where, path in part.files.items()}
    for applet in ("sh", "sed", "grep", "sleep", "cat", "mkdir"):
        files[f"srv/clients/bin/{applet}"] = "/bin/busybox"
    return files
