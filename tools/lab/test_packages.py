# SPDX-License-Identifier: GPL-2.0
"""What packaging/dkms/prepare says of kernels that there cannot be a module for, and what rust-headers makes and refuses."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from lab.versions import ROOT

RELEASE = "7.3.4+deb13-amd64"
CONFIG = "CONFIG_RUST=y\nCONFIG_SCHEDSTATS=y\nCONFIG_RUSTC_VERSION=108501\n"


class Refused(unittest.TestCase):
    """A machine with all that is needed, in which one thing is otherwise."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.here = self.root / "usr/src/rust-binder"
        self.write("usr/src/rust-binder/rust-headers", "echo prepared >&2; exit 1\n")
        (self.here / "prepare").write_bytes((ROOT / "packaging/dkms/prepare").read_bytes())
        (self.here / "drivers").mkdir()
        (self.here / "drivers/android").symlink_to(ROOT / "drivers/android")
        self.kernel(RELEASE)
        for name in ("bindgen", "pahole", "flex", "bison", "bc"):
            self.program(name, "exit 0")
        self.program("rustc", "echo rustc 1.85.1 '(Debian)'")
        self.program("dpkg-query", "echo 7.3.4-1")
        self.program("df", "echo head; echo disk 9999 1 9999 1% /")
        (self.root / "tree").mkdir()
        self.write("usr/src/linux-source-7.3.tar.xz", "")
        subprocess.run(["tar", "-C", self.root, "-cJf", self.root / "usr/src/linux-source-7.3.tar.xz", "tree"], check=True)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def program(self, name, script):
        self.write(f"bin/{name}", f"#!/bin/sh\n{script}\n").chmod(0o755)

    def kernel(self, release, config=CONFIG):
        build = f"lib/modules/{release}/build"
        self.write(f"{build}/.config", config)
        self.write(f"{build}/include/config/auto.conf", "CONFIG_IPC_NS=y\n")
        self.write(f"{build}/Module.symvers", "0x0\tinit_ipc_ns\tvmlinux\tEXPORT_SYMBOL\t\n")

    def prepare(self, release=RELEASE):
        env = {"PATH": f"{self.root}/bin:{os.environ['PATH']}", "RUST_BINDER_ROOT": str(self.root)}
        return subprocess.run(["sh", self.here / "prepare", release], text=True, capture_output=True, env=env)

    def state(self):
        """What it has left."""
        return sorted(path.name for path in (self.root / "var/lib/rust-binder").iterdir())

    def refusal(self, release=RELEASE):
        """What it says, and leaves for who asks later."""
        done = self.prepare(release)
        self.assertEqual(done.returncode, 77, done.stderr)
        kept = (self.root / f"var/lib/rust-binder/{release}.problem").read_text()
        self.assertIn(kept, done.stderr)
        return kept

    def test_all_is_there_and_the_headers_are_prepared(self):
        self.assertIn("could not be prepared", self.refusal())

    def test_headers_that_are_missing(self):
        self.assertIn("apt install linux-headers-7.9.1-amd64", self.refusal("7.9.1-amd64"))

    def test_kernel_without_rust(self):
        self.kernel(RELEASE, CONFIG.replace("CONFIG_RUST=y", "# CONFIG_RUST is not set"))
        self.assertIn("without Rust", self.refusal())

    def test_kernel_that_is_too_old(self):
        self.kernel("6.12.107+deb13-amd64")
        self.assertIn("older than Linux 7.2", self.refusal("6.12.107+deb13-amd64"))

    def test_kernel_without_an_export(self):
        self.write(f"lib/modules/{RELEASE}/build/Module.symvers", "0x0\tother\tvmlinux\tEXPORT_SYMBOL\t\n")
        self.assertIn("init_ipc_ns", self.refusal())

    def test_another_rust_compiler(self):
        self.program("rustc", "echo rustc 1.96.1 '(Debian)'")
        self.assertRegex(self.refusal(), "built by rustc 1.85.1, and the one here is 1.96.1(.|\n)*apt install rustc")

    def test_source_of_another_version(self):
        self.program("dpkg-query", 'case $* in *source-7.3*) echo 7.3.5-1 ;; *) echo 7.3.4-1 ;; esac')
        self.assertRegex(self.refusal(), "linux-source-7.3 is 7.3.5-1(.|\n)*apt install linux-source-7.3=7.3.4-1")

    def test_no_source(self):
        (self.root / "usr/src/linux-source-7.3.tar.xz").unlink()
        self.program("dpkg-query", 'case $* in *source-7.3*) exit 1 ;; *) echo 7.3.4-1 ;; esac')
        self.assertIn("linux-source-7.3 is not there", self.refusal())

    def test_full_disk(self):
        self.program("df", "echo head; echo disk 9999 1 12 1% /")
        self.assertIn("12 MB left", self.refusal())

    def test_disk_that_becomes_full_meanwhile(self):
        self.program("df", f'echo head; [ -e "{self.root}/full" ] && echo disk 9999 1 3 1% / || echo disk 9999 1 9999 1% /')
        self.write("usr/src/rust-binder/rust-headers", f'mkdir "$3" "$3.work"; touch "{self.root}/full"; exit 1\n')
        self.assertRegex(self.refusal(), "has filled .*: it needs 3500 MB(.|\n)*dpkg-reconfigure")
        self.assertEqual(self.state(), [f"{RELEASE}.problem"])

    def test_after_an_interruption_all_is_made_anew(self):
        for rest in ("", ".source", ".work"):
            self.write(f"var/lib/rust-binder/{RELEASE}{rest}/half", "")
        self.write("usr/src/rust-binder/rust-headers", 'rm -rf "$3.work"; mkdir "$3"; touch "$3/whole"\n')
        self.assertEqual(self.prepare().returncode, 0)
        self.assertEqual(self.state(), [RELEASE])
        made = self.root / "var/lib/rust-binder" / RELEASE
        self.assertEqual(sorted(path.name for path in made.iterdir()), [".identity", "whole"])
        # And stays from then on.
        (self.root / "usr/src/linux-source-7.3.tar.xz").unlink()
        self.assertEqual(self.prepare().returncode, 0)
        # But they are of no use to another compiler.
        self.program("rustc", "echo rustc 1.96.1 '(Debian)'")
        self.assertIn("built by rustc 1.85.1", self.refusal())

    def test_nothing_stays_of_a_kernel_that_is_gone(self):
        gone = self.write("var/lib/rust-binder/7.2.1-amd64/rust/libkernel.rmeta", "")
        self.refusal()
        self.assertFalse(gone.exists())


class Headers(unittest.TestCase):
    """The headers of a kernel, and a `make` that configures and prepares as the test wants."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("headers/.config", 'CONFIG_SMP=y\nCONFIG_RUSTC_VERSION=108501\nCONFIG_CC_VERSION_TEXT="gcc 14.2.0-19"\n')
        self.write("headers/.kernelvariables", "override ARCH = x86\noverride KERNELRELEASE = 7.3.4+deb13-amd64\nCCACHE = ccache\n"
                   "CC = $(if $(DEBIAN_KERNEL_USE_CCACHE),$(CCACHE)) $(CROSS_COMPILE)gcc-14\n"
                   "override CROSS_COMPILE = x86_64-linux-gnu-\n")
        self.write("headers/Makefile", "KBUILD_OUTPUT=/elsewhere\n")
        self.write("headers/Module.symvers", "0x0\t_RNvone\tvmlinux\tEXPORT_SYMBOL_GPL\t\n")
        self.write("headers/scripts/target.c", "")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def prepared(self, configured="", exported="_RNvone"):
        """Run it; `configured`: a script for the configuration that comes out, `exported`: what the crates want."""
        make = self.write("bin/make", f"""#!/bin/sh
case $* in
*-f*) exec {shutil.which('make')} "$@" ;;
*olddefconfig) cd "${{3#O=}}"; {configured or 'true'} ;;
*prepare)
    echo "$*" >"{self.root}/words"; cd "${{3#O=}}"; mkdir -p rust/kernel scripts
    for name in {exported}; do echo "EXPORT_SYMBOL_RUST_GPL($name);"; done >rust/exports_kernel_generated.h
    touch rust/libkernel.rmeta rust/libmacros.so rust/kernel/generated.rs scripts/target.json ;;
esac
""")
        make.chmod(0o755)
        (self.root / "source").mkdir(exist_ok=True)
        env = {"PATH": f"{self.root}/bin:{os.environ['PATH']}"}
        return subprocess.run(["sh", ROOT / "packaging/dkms/rust-headers", self.root / "headers", self.root / "source",
                               self.root / "out"], text=True, capture_output=True, env=env)

    def test_what_is_made_lies_beside_links_to_the_headers(self):
        done = self.prepared()
        self.assertEqual(done.returncode, 0, done.stderr)
        out = self.root / "out"
        for name in ("rust/libkernel.rmeta", "rust/libmacros.so", "rust/kernel/generated.rs", "scripts/target.json",
                     "scripts/target.c", "Module.symvers", ".config"):
            self.assertTrue((out / name).exists(), name)
        self.assertEqual((out / "Makefile").read_text(), f"KBUILD_OUTPUT={out}\n")
        self.assertFalse((self.root / "headers/rust").exists())

    def test_compilers_are_those_of_the_header_package(self):
        self.prepared()
        self.assertIn("ARCH=x86 KERNELRELEASE=7.3.4+deb13-amd64 CROSS_COMPILE=x86_64-linux-gnu- CC=x86_64-linux-gnu-gcc-14",
                      (self.root / "words").read_text())

    def test_signing_and_revisions_of_compilers_may_differ(self):
        self.assertEqual(self.prepared("sed -i s/0-19/0-20/ .config; echo '# CONFIG_MODULE_SIG_KEY_X is not set' >>.config").returncode, 0)

    def test_another_rust_compiler_is_refused(self):
        done = self.prepared("sed -i s/108501/109601/ .config")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "CONFIG_RUSTC_VERSION=108501;.*CONFIG_RUSTC_VERSION=109601")

    def test_symbols_that_the_kernel_does_not_export_are_refused(self):
        for exported, said in (("_RNvone _RNvtwo", "1 of 2 symbols"), ("", "0 of 0 symbols")):
            done = self.prepared(exported=exported)
            self.assertEqual(done.returncode, 1)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main()
