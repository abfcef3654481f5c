# SPDX-License-Identifier: GPL-2.0
"""The messages of packaging/dkms/prepare for unsuitable kernels, and the output and refusals of rust-headers."""

import os
import re
import shutil
import subprocess
import time

import pytest

from lab.proc import write
from lab.versions import ROOT

RELEASE = "7.3.4+deb13-amd64"
BUILD = f"lib/modules/{RELEASE}/build"
SOURCE = "usr/src/linux-source-7.3.tar.xz"
HEADERS = "usr/src/rust-binder/rust-headers"
STATE = "var/lib/rust-binder"


class Machine:
    """A machine with all that is needed, below a folder."""

    def __init__(self, root):
        self.root, self.here = root, root / "usr/src/rust-binder"
        self.write(HEADERS, "echo prepared >&2; exit 1\n")
        (self.here / "prepare").write_bytes((ROOT / "packaging/dkms/prepare").read_bytes())
        (self.here / "drivers").mkdir()
        (self.here / "drivers/android").symlink_to(ROOT / "drivers/android")
        self.kernel(RELEASE)
        for name in ("bindgen", "pahole", "flex", "bison", "bc"):
            self.program(name, "exit 0")
        self.program("rustc", "echo rustc 1.85.1 '(Debian)'")
        self.program("dpkg-query", "echo 7.3.4-1")
        self.program("df", "echo head; echo disk 9999 1 9999 1% /")
        (root / "tree").mkdir()
        self.write(SOURCE, "")
        subprocess.run(["tar", "-C", root, "-cJf", root / SOURCE, "tree"], check=True)

    def write(self, name, text):
        return write(self.root / name, text)

    def program(self, name, script):
        self.write(f"bin/{name}", f"#!/bin/sh\n{script}\n").chmod(0o755)

    def kernel(self, release, rust="CONFIG_RUST=y"):
        build = f"lib/modules/{release}/build"
        self.write(f"{build}/.config", f"{rust}\nCONFIG_SCHEDSTATS=y\nCONFIG_RUSTC_VERSION=108501\n")
        self.write(f"{build}/include/config/auto.conf", "CONFIG_PER_VMA_LOCK=y\n")
        self.write(f"{build}/Module.symvers", "0x0\tlock_vma_under_rcu\tvmlinux\tEXPORT_SYMBOL\t\n")

    def start(self, *argv):
        env = {"PATH": f"{self.root}/bin:{os.environ['PATH']}", "RUST_BINDER_ROOT": str(self.root)}
        return subprocess.Popen(["sh", *argv], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)

    def prepare(self, release=RELEASE):
        running = self.start(self.here / "prepare", release)
        _, said = running.communicate()
        return subprocess.CompletedProcess(running.args, running.returncode, stderr=said)

    def state(self):
        """The files that it has left."""
        return sorted(path.name for path in (self.root / STATE).iterdir())

    def refusal(self, release=RELEASE):
        """Its output, and the record that it leaves."""
        done = self.prepare(release)
        assert done.returncode == 77, done.stderr
        kept = (self.root / f"{STATE}/{release}.problem").read_text()
        assert kept in done.stderr
        return kept


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def without_source(machine):
    (machine.root / SOURCE).unlink()
    machine.program("dpkg-query", 'case $* in *source-7.3*) exit 1 ;; *) echo 7.3.4-1 ;; esac')


@pytest.mark.parametrize("words, change, release", [
    ("could not be prepared", lambda machine: None, RELEASE),
    ("apt install linux-headers-7.9.1-amd64", lambda machine: None, "7.9.1-amd64"),
    ("without Rust", lambda machine: machine.kernel(RELEASE, "# CONFIG_RUST is not set"), RELEASE),
    ("older than Linux 7.3", lambda machine: machine.kernel("6.12.107+deb13-amd64"), "6.12.107+deb13-amd64"),
    ("lock_vma_under_rcu", lambda machine: machine.write(f"{BUILD}/Module.symvers", "0x0\tother\tvmlinux\tEXPORT_SYMBOL\t\n"), RELEASE),
    ("built by rustc 1.85.1, and the one here is 1.96.1(.|\n)*apt install rustc",
     lambda machine: machine.program("rustc", "echo rustc 1.96.1 '(Debian)'"), RELEASE),
    ("linux-source-7.3 is 7.3.5-1(.|\n)*apt install linux-source-7.3=7.3.4-1",
     lambda machine: machine.program("dpkg-query", 'case $* in *source-7.3*) echo 7.3.5-1 ;; *) echo 7.3.4-1 ;; esac'), RELEASE),
    ("linux-source-7.3 is not there", without_source, RELEASE),
    ("bindgen 0.73.1 lays out", lambda machine: machine.program("bindgen", "echo bindgen 0.73.1"), RELEASE),
    ("12 MB left", lambda machine: machine.program("df", "echo head; echo disk 9999 1 12 1% /"), RELEASE),
])
def test_one_thing_is_otherwise(machine, words, change, release):
    change(machine)
    assert re.search(words, machine.refusal(release))


def test_a_disk_that_becomes_full_meanwhile(machine):
    machine.program("df", f'echo head; [ -e "{machine.root}/full" ] && echo disk 9999 1 3 1% / || echo disk 9999 1 9999 1% /')
    machine.write(HEADERS, f'mkdir "$3" "$3.work"; touch "{machine.root}/full"; exit 1\n')
    assert re.search("has filled .*: it needs 3500 MB(.|\n)*dpkg-reconfigure", machine.refusal())
    assert machine.state() == [f"{RELEASE}.problem"]


def test_after_an_interruption_all_is_made_anew(machine):
    for rest in ("", ".source", ".work"):
        machine.write(f"{STATE}/{RELEASE}{rest}/half", "")
    machine.write(HEADERS, 'rm -rf "$3.work"; mkdir "$3"; touch "$3/whole"\n')
    assert machine.prepare().returncode == 0
    assert machine.state() == [RELEASE]
    assert sorted(path.name for path in (machine.root / STATE / RELEASE).iterdir()) == [".identity", "whole"]
    # And stays from then on.
    (machine.root / SOURCE).unlink()
    assert machine.prepare().returncode == 0
    # But they are of no use to another compiler.
    machine.program("rustc", "echo rustc 1.96.1 '(Debian)'")
    assert "built by rustc 1.85.1" in machine.refusal()


def test_two_at_once_leave_each_other_alone(machine):
    other, begun = "7.3.5-amd64", machine.root / STATE / RELEASE
    machine.kernel(other)
    machine.write(HEADERS, 'mkdir "$3"; sleep 0.5; [ -d "$2" ] && touch "$3/whole"\n')
    first = machine.start(machine.here / "prepare", RELEASE)
    while not begun.exists() and first.poll() is None:
        time.sleep(0.01)
    assert machine.prepare(other).returncode == 0
    assert (first.wait(), machine.state()) == (0, [RELEASE, other])


def test_nothing_stays_of_a_kernel_that_is_gone(machine):
    gone = machine.write(f"{STATE}/7.2.1-amd64/rust/libkernel.rmeta", "")
    machine.refusal()
    assert not gone.exists()


def test_links_to_devices(machine):
    """Devices that options name are added. Links that were there stay, also when those of the package go."""
    dev = machine.root / "dev"
    (dev / "binderfs").mkdir(parents=True)
    for name in ("binder-control", "binder", "hwbinder", "mine"):
        (dev / "binderfs" / name).symlink_to("/dev/null")
    (dev / "mine").symlink_to("binderfs/mine")
    (dev / "hwbinder").symlink_to("binderfs/gone")
    machine.program("modprobe", "echo 'options binder_linux debug_mask=1 devices=\"binder,foo\"'")
    machine.program("perl", 'case $4 in refused) exit 1 ;; esac; ln -s /dev/null "${3%/*}/$4"')
    (dev / "binderfs/no-device").mkdir()

    def run(*words, status=0):
        child = machine.start(ROOT / "packaging/system/devices", *words)
        said = child.communicate()[1]
        assert child.returncode == status, said
        return said

    def links():
        return {path.name: str(path.readlink()) for path in dev.iterdir() if path.is_symlink()}

    before = links()
    assert run("link") == "rust-binder: /dev/hwbinder stays a link to binderfs/gone, which does not exist\n"
    assert links() == before | {"binder": "binderfs/binder", "foo": "binderfs/foo"}
    assert run("add", '"bar,foo"') == ""
    assert links() == before | {name: f"binderfs/{name}" for name in ("binder", "foo", "bar")}
    run("add", "refused", status=1)
    assert run("add", "bar") == "", "what was refused is not asked for again"
    run("unlink")
    assert links() == before
    (dev / "binderfs/bar").unlink()
    run("link")
    assert "bar" in links(), "a requested link stays until the module goes"


@pytest.fixture
def prepared(tmp_path):
    """Runs rust-headers on the headers of a kernel, with a `make` that configures as the script `configured` says and prepares
    crates that want the symbols `exported`."""
    for name, text in ((".config", 'CONFIG_SMP=y\nCONFIG_RUSTC_VERSION=108501\nCONFIG_CC_VERSION_TEXT="gcc 14.2.0-19"\n'),
                       (".kernelvariables", "override ARCH = x86\noverride KERNELRELEASE = 7.3.4+deb13-amd64\nCCACHE = ccache\n"
                        "CC = $(if $(DEBIAN_KERNEL_USE_CCACHE),$(CCACHE)) $(CROSS_COMPILE)gcc-14\noverride CROSS_COMPILE = x86_64-linux-gnu-\n"),
                       ("Makefile", "KBUILD_OUTPUT=/elsewhere\n"), ("Module.symvers", "0x0\t_RNvone\tvmlinux\tEXPORT_SYMBOL_GPL\t\n"),
                       ("scripts/target.c", "")):
        write(tmp_path / "headers" / name, text)
    (tmp_path / "source").mkdir()

    def run(configured="true", exported="_RNvone"):
        write(tmp_path / "bin/make", f"""#!/bin/sh
case $* in
*-f*) exec {shutil.which('make')} "$@" ;;
*olddefconfig) cd "${{3#O=}}"; {configured} ;;
*prepare)
    echo "$*" >"{tmp_path}/words"; cd "${{3#O=}}"; mkdir -p rust/kernel scripts
    for name in {exported}; do echo "EXPORT_SYMBOL_RUST_GPL($name);"; done >rust/exports_kernel_generated.h
    touch rust/libkernel.rmeta rust/libmacros.so rust/kernel/generated.rs scripts/target.json ;;
esac
""").chmod(0o755)
        return subprocess.run(["sh", ROOT / "packaging/dkms/rust-headers", *(tmp_path / name for name in ("headers", "source", "out"))], text=True,
                              capture_output=True, env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"})

    return run


def test_what_is_made_lies_beside_links_to_the_headers(prepared, tmp_path):
    done, out = prepared(), tmp_path / "out"
    assert done.returncode == 0, done.stderr
    for name in ("rust/libkernel.rmeta", "rust/libmacros.so", "rust/kernel/generated.rs", "scripts/target.json", "scripts/target.c",
                 "Module.symvers", ".config"):
        assert (out / name).exists(), name
    assert (out / "Makefile").read_text() == f"KBUILD_OUTPUT={out}\n"
    assert not (tmp_path / "headers/rust").exists()
    # The compilers are those of the header package.
    assert "ARCH=x86 KERNELRELEASE=7.3.4+deb13-amd64 CROSS_COMPILE=x86_64-linux-gnu- CC=x86_64-linux-gnu-gcc-14" in (tmp_path / "words").read_text()


def test_signing_and_revisions_of_compilers_may_differ(prepared):
    assert prepared("sed -i s/0-19/0-20/ .config; echo '# CONFIG_MODULE_SIG_KEY_X is not set' >>.config").returncode == 0


@pytest.mark.parametrize("words, configured, exported", [
    ("CONFIG_RUSTC_VERSION=108501;.*CONFIG_RUSTC_VERSION=109601", "sed -i s/108501/109601/ .config", "_RNvone"),
    ("1 of 2 symbols", "true", "_RNvone _RNvtwo"),
    ("0 of 0 symbols", "true", ""),
])
def test_another_compiler_and_symbols_that_the_kernel_does_not_export(prepared, words, configured, exported):
    done = prepared(configured, exported)
    assert done.returncode == 1 and re.search(words, done.stderr)
