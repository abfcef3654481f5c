# SPDX-License-Identifier: GPL-2.0
"""Packages of other Debian suites: source packages, and packages unpacked as a root of their own.

All goes through a private apt state, so the machine's own sources stay as they are; the mirror is
the one that the machine already uses.
"""

import hashlib
import os
import re
import subprocess

from . import proc, say

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def mirror():
    """The archive that this machine's own apt reads Debian's main component from."""
    # Others have suites of these names, too.
    for line in proc.output(
        "apt-get", "indextargets", "--format", "$(SITE) $(CODENAME) $(RELEASE)", "Created-By: Packages",
        "Component: main", "Origin: Debian",
    ).splitlines():
        words = line.split()
        if "bookworm" in words[1:] or "stable" in words[1:]:
            return words[0]
    raise say.LabError("apt has no Debian 12 archive: see /etc/apt/sources.list.d")


class Suite:
    """One suite of the archive, its package lists in folder `state`.

    Packages named `without` are never downloaded, as if they were installed. They are for this machine, or for another `architecture`.
    """

    def __init__(self, state, name, keyring=KEYRING, sources=False, without=(), architecture=None):
        self.name = name
        self._options = _options(state, name, keyring, sources, architecture)
        (state / "status").write_text("".join(map(_installed, without)))

    def update(self):
        """Read the package lists; returns apt's error, or an empty string."""
        done = subprocess.run(["apt-get", *self._options, "-qq", "update"], text=True,
                              capture_output=True, env=proc.environment())
        said = [line.removeprefix("E: ") for line in done.stderr.splitlines() if line.startswith("E: ")]
        return (said or ["apt-get update failed"])[0].rstrip(".") if done.returncode else ""

    def must_update(self):
        """Read the package lists, or fail with the reason."""
        wrong = self.update()
        if wrong:
            raise say.LabError(f"the package lists of {self.name} cannot be read from {mirror()}: {wrong}. "
                               "Check the network, then run this again")

    def candidate(self, package):
        """The version that this suite has of `package`, or None."""
        policy = proc.output("apt-cache", *self._options, "policy", package)
        found = re.search(r"Candidate: (\d\S*)", policy)
        return found and found.group(1)

    def names(self, beginning):
        """The packages of this suite whose names begin so."""
        return proc.output("apt-cache", *self._options, "pkgnames", beginning).split()

    def with_dependencies(self, *packages):
        """`packages` and all that they need on a machine that has nothing."""
        plan = proc.output("apt-get", *self._options, "-s", "-y", "--no-install-recommends", "install",
                           *packages)
        return re.findall(r"^Inst (\S+)", plan, re.M)

    def download(self, title, log, folder, *packages):
        """Lay the package files into `folder`, those that are not there from an earlier attempt, of one that was cut off the
        rest, and no others; their paths."""
        listed = re.findall(r"^'(\S+)' (\S+) \d+ SHA256:(\S+)$",
                            proc.output("apt-get", *self._options, "download", "--print-uris", *packages), re.M)
        missing = [(uri, name, f"SHA256:{digest}") for uri, name, digest in listed if not _is_there(folder / name, digest)]
        if missing:
            # `apt-get download` begins a file anew that was cut off.
            argv = ["/usr/lib/apt/apt-helper", *self._options, "download-file", *(word for file in missing for word in file)]
            try:
                proc.logged(title, log, argv, cwd=folder)
            except say.LabError as error:
                raise say.LabError(f"{error}\nCheck the network and the disk, then run this again: it continues with the files that are there") from None
        wanted = [folder / name for _, name, _ in listed]
        for path in set(folder.glob("*.deb")) - set(wanted):
            # Of an attempt before the suite went on.
            path.unlink()
        return wanted


def unpack_source(wanted, title, log, folder, *options):
    """Unpack the original archive of a source package, without Debian's changes, into a new folder; `options` of tar."""
    folder.mkdir(parents=True)
    suite = Suite(folder / "apt", wanted["suite"], sources=True)
    suite.must_update()
    proc.logged(title, log, ["apt-get", *suite._options, "source", "--download-only", "--tar-only", wanted["package"]], cwd=folder)
    archive = next(folder.glob("*.orig.tar.*"), None)
    if not archive:
        raise say.LabError(f"{wanted['package']} of {suite.name} came without its original archive")
    proc.output("tar", "-xf", archive, "-C", folder, *options)
    archive.unlink()
    proc.output("rm", "-rf", folder / "apt")


def suite_with(section, state):
    """The first of the suites of a section of versions.toml that has the section's package; its package lists are below `state`."""
    package, tried = section["package"], []
    for name in section["suites"]:
        suite = Suite(state / name, name, section.get("keyring", KEYRING), without=section.get("without", ()), architecture=section.get("architecture"))
        wrong = suite.update()
        version = None if wrong else suite.candidate(package)
        if version:
            say.note(f"{package} {version} from {name}" + ("" if version == section["tested"] else f" (tested with {section['tested']})"))
            return suite
        tried.append(f"{name} ({wrong or 'no such package'})")
    raise say.LabError(f"no suite of {mirror()} gave {package}: tried {', '.join(tried)}. Check the network and the suites in versions.toml")


def unpack(packages, root):
    """Unpack package files as a root to compile against; nothing of them is run or configured."""
    root.mkdir(parents=True, exist_ok=True)
    for package in packages:
        proc.output("dpkg-deb", "-x", package, root)
    for name in ("lib", "lib64"):
        # Packages leave these links to a package that a bare root does not have.
        if not (root / name).exists() and (root / "usr" / name).exists():
            (root / name).symlink_to(f"usr/{name}")


def _is_there(path, digest):
    if not path.exists():
        return False
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == digest


def _installed(package):
    return (f"Package: {package}\nStatus: install ok installed\nVersion: 999\nArchitecture: amd64\n"
            "Maintainer: nobody\nDescription: left out\n\n")


def _options(state, suite, keyring, sources, architecture):
    for sub in ("lists/partial", "cache/archives/partial"):
        (state / sub).mkdir(parents=True, exist_ok=True)
    where = f"[signed-by={keyring}] {mirror()} {suite} main"
    lines = [f"deb {where}\n"] + ([f"deb-src {where}\n"] if sources else [])
    (state / "sources.list").write_text("".join(lines))
    options = {
        "Dir::Etc::sourcelist": state / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::State::lists": state / "lists",
        "Dir::State::status": state / "status",
        "Dir::Cache": state / "cache",
        "APT::Default-Release": suite,
        "APT::Update::Error-Mode": "any",
    }
    if architecture:
        options |= {"APT::Architecture": architecture, "APT::Architectures": architecture}
    if os.geteuid() == 0:
        options["APT::Sandbox::User"] = "root"
    return [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
