# SPDX-License-Identifier: GPL-2.0
"""Programs out of Debian packages of any suite, with what they need to run in a guest.

A package and its dependencies are unpacked in the cache; nothing is installed. A guest gets the program, the libraries
that it needs, and its loader, at the places where the program looks for them.
"""

import dataclasses
import re

from . import cache, debian, proc, say


@dataclasses.dataclass(frozen=True)
class Target:
    """A target of programs: its name for compilers and in folders, Debian's name, and the place of the loader."""

    triple: str
    debian: str
    loader: str


# By the guest's architecture; User Mode Linux has this machine's.
TARGETS = {"x86_64": Target("x86_64-linux-gnu", "amd64", "lib64/ld-linux-x86-64.so.2"),
           "arm64": Target("aarch64-linux-gnu", "arm64", "lib/ld-linux-aarch64.so.1"),
           "riscv": Target("riscv64-linux-gnu", "riscv64", "lib/ld-linux-riscv64-lp64d.so.1")}
HERE = TARGETS["x86_64"]
# Part of every key: raise it when packages are unpacked in another way.
_LAYOUT = 1


def target(arch):
    """The target of programs for guests of an architecture; those for User Mode Linux are for this machine."""
    return TARGETS.get(arch, HERE)


def root(section, arch="x86_64"):
    """The root into which a section of versions.toml is unpacked: its package, and those named `with`, for an architecture."""
    package = section["package"]
    if target(arch) is not HERE:
        section = section | {"architecture": target(arch).debian}

    def make(part):
        # Packages of an interrupted download are not downloaded again.
        packages = part.with_name(part.name + ".deb")
        cache.need_space(0.3, f"unpacking {package}", packages)
        packages.mkdir(parents=True, exist_ok=True)
        debian.unpack(sorted(_download(section, packages)), part)
        for path in (part / "usr/bin").iterdir() if "programs" in section else ():
            if path.name not in section["programs"]:
                path.unlink()
        proc.output("rm", "-rf", packages)

    return cache.entry(f"foreign/{package}-{cache.key(section, _LAYOUT)}", make)


def needed(programs, folders):
    """The libraries that programs need, and those that these need: their names and files. They may be for another processor, so that
    no loader of this machine can list them."""
    found, left = {}, [*programs]
    while left:
        for name in re.findall(r"\(NEEDED\).*\[(.*)\]", proc.output("readelf", "-d", left.pop())):
            if name not in found:
                found[name] = next((folder / name for folder in folders if (folder / name).exists()), None)
                if not found[name]:
                    raise say.LabError(f"{name} is in none of {', '.join(map(str, folders))}: versions.toml lacks a package")
                left.append(found[name])
    return found


def files(root, *programs, private=(), loaded=()):
    """The files that a guest needs to run these programs of a root: its paths and the host's. `private`: folders of the root with
    libraries that are no one else's. `loaded`: files of the root that the programs load themselves."""
    folders = _libraries(root)
    paths = {f"/bin/{name}": next(path for path in (root / "usr/bin" / name, root / "usr/sbin" / name) if path.exists()) for name in programs}
    paths |= {f"/{name}": root / name for name in loaded}
    found = needed(paths.values(), [*folders, *(root / folder for folder in private)])
    libraries = {f"/lib/{HERE.triple}/{name}": path for name, path in found.items() if not HERE.loader.endswith(name)}
    return {f"/{HERE.loader}": root / HERE.loader, **paths, **libraries}


def command(root, program):
    """The command line that runs a program of a root here, where nothing of it is installed."""
    search = ":".join(map(str, _libraries(root)))
    return [root / HERE.loader, "--inhibit-cache", "--library-path", search, root / "usr/bin" / program]


def _libraries(root):
    return [root / folder / HERE.triple for folder in ("lib", "usr/lib")]


def _download(section, folder):
    """The package files of a section and of what it needs, in `folder`."""
    suite, package = debian.suite_with(section, folder / "apt"), section["package"]
    names = suite.with_dependencies(package, *section.get("with", ()))
    return suite.download(f"downloading {package} and {len(names) - 1} packages that it needs", f"apt-{package}", folder, *names)
