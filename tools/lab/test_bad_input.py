# SPDX-License-Identifier: GPL-2.0
"""What is said of words that nothing reads, of mirrors that have not what is asked for, and of disks that are full; what an
interrupted download leaves."""

import contextlib
import errno
import http.server
import io
import os
import pathlib
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

from lab import __main__, cache, debian, proc, programs, say, source, stock
from lab.versions import ROOT


class Words(unittest.TestCase):
    def make(self, *words):
        """The status of a make, and what it complains of."""
        done = subprocess.run(["make", *words], cwd=ROOT, env=proc.environment(), text=True, capture_output=True, timeout=60)
        return done.returncode, done.stderr

    def test_a_word_that_nothing_reads_is_refused(self):
        status, said = self.make("-n", "bench", "FUL=1", "GUEST=debian")
        self.assertEqual(status, 2)
        self.assertIn("nothing reads FUL=: there are GUEST DRIVER", said)

    def test_words_that_the_makefile_reads_are_not(self):
        text = (ROOT / "Makefile").read_text()
        words = set(re.findall(r"\$\((?:if )?\$?\(?([A-Z_]+)\)", text)) - {"LAB", "WHERE", "NAMED", "WORDS", "UNKNOWN", "CLIENTS", "MAKE"}
        self.assertIn("ROUNDS", words)
        status, said = self.make("-n", "help", *(f"{word}=x" for word in words))
        self.assertEqual((status, said), (0, ""))

    def test_what_somebody_wrote_reaches_a_command_as_it_is(self):
        done = subprocess.run(["make", "-n", "bench-gate", "UPDATE=it's \"so\""], cwd=ROOT, env=proc.environment(), text=True,
                              capture_output=True, check=True, timeout=60)
        self.assertEqual(shlex.split(done.stdout)[-2:], ["--update", "it's \"so\""])

    def test_each_option_that_there_is_not_ends_with_a_line_that_says_what_there_is(self):
        for command, says in (
            (("bench", "ONLY=nonsense"), "error: no stage 'nonsense': there are time, count"),
            (("bench", "FULL=1", "GUEST=x86_64"), "error: the full measurement has guests of its own"),
            (("bench", "GUEST=um"), "error: instructions are counted on Debian's kernels"),
            (("test", "GUEST=nonsense"), "error: make test is in all guests"),
            (("test", "QUICK=1", "GUEST=nonsense"), "invalid choice: 'nonsense' (choose from 'debian-7.3'"),
            (("boot", "DRIVER=nonsense"), "invalid choice: 'nonsense' (choose from 'rust', 'c', 'upstream'"),
            (("bench", "FULL=1", "ROUNDS=0"), "error: argument --rounds: 0 is none: 1 or more"),
            (("bench", "FULL=1", "ROUNDS=many"), "error: argument --rounds: invalid _count value: 'many'"),
            (("mesh", "SECONDS_=0"), "error: argument --seconds: 0 is none: 1 or more"),
            (("many", "CPUS=99"), "error: argument --cpus: invalid choice: 99 (choose from 1, 2"),
            (("paired", "CPUS=3"), "error: argument --cpus: 3 is none of 1, 2, 4"),
            (("paired", "CPUS=1,two"), "error: argument --cpus: two is none of 1, 2, 4"),
            (("paired", "BUSY=2"), "error: argument --busy: 2 is none of 0, 1"),
            (("paired", "CPUS=2", "DOCS=1"), "error: the table in docs has all guests: DOCS=1 CPUS=1,2,4 BUSY=0,1"),
            (("placement", "HANDOFF=3"), "error: argument --handoff: 3 is none of 0, 1, 2"),
            (("mutations", "ONLY=tidy,nonsense"), "error: no mutation has"),
            (("deb-test", "ONLY=nonsense"), "invalid choice: 'nonsense' (choose from 'sid', 'trixie')"),
            (("install", "KERNEL=/nonexistent"), "error: /nonexistent is no kernel tree"),
            (("nonsense",), "No rule to make target 'nonsense'"),
        ):
            with self.subTest(" ".join(command)):
                status, said = self.make(*command)
                self.assertEqual(status, 2)
                self.assertIn(says, said)

    def test_parts_of_names_that_no_test_of_the_contract_has(self):
        listed = mock.patch.object(proc, "output", lambda *argv: "deaths::one\n" if argv[-1] == "deaths::" else "")
        with listed, mock.patch.object(programs, "build", return_value="contract"):
            __main__._must_be_tests(("deaths::",))
            with self.assertRaisesRegex(say.LabError, "no test of the contract has dead::, gone in its name: `contract list`"):
                __main__._must_be_tests(("dead::", "deaths::", "gone"))


class Nothing(http.server.BaseHTTPRequestHandler):
    """A mirror that has nothing."""

    def do_GET(self):
        self.send_error(404)

    def log_message(self, *_):
        pass


class Mirrors(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Nothing)
        self.addCleanup(self.server.server_close)
        self.enterContext(mock.patch.object(debian, "mirror", lambda: f"http://127.0.0.1:{self.server.server_port}/debian"))
        self.enterContext(contextlib.redirect_stdout(io.StringIO()))

    def serve(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.shutdown)

    def refusal(self):
        with self.assertRaises(say.LabError) as caught:
            stock._download(self.folder / "packages", {"suite": "trixie-backports", "series": "7.3", "flavour": "amd64"})
        return str(caught.exception)

    def test_a_suite_that_the_mirror_has_not(self):
        self.serve()
        self.assertRegex(self.refusal(), r"lists of trixie-backports cannot be read from http://127.0.0.1:\d+/debian: .* "
                                         r"does not have a Release file\. Check the network, then run this again")

    def test_a_mirror_that_cannot_be_reached(self):
        self.server.server_close()
        self.assertRegex(self.refusal(), r"cannot be read from http://127.0.0.1:\d+/debian: .*[Cc]onnect")

    def test_each_suite_that_was_tried_is_told_with_its_reason(self):
        self.serve()
        with self.assertRaisesRegex(say.LabError, r"tried trixie-backports \(.*no.*Release file.*\), experimental \(.*, sid \("):
            source._download(self.folder)


class Crates(unittest.TestCase):
    """Cargo's home is empty."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)
        self.enterContext(mock.patch.dict("os.environ", {"CARGO_HOME": folder.name, "RUST_BINDER_CACHE": f"{folder.name}/cache"}))
        self.enterContext(contextlib.redirect_stdout(io.StringIO()))

    def test_without_network_it_is_told_what_to_do(self):
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            (self.home / "config.toml").write_text(f'''
[source.crates-io]
replace-with = "nobody"
[source.nobody]
registry = "sparse+http://127.0.0.1:{nobody.getsockname()[1]}/"
[net]
retry = 0
''')
            with self.assertRaisesRegex(say.LabError, "failed, see above: not all crates are here .* Check the network.* run this again"):
                # Not what this run has built already.
                programs.build.__wrapped__("tools/binderctl")

    def test_what_fails_with_all_crates_is_not_the_network(self):
        crate = self.home / "crate"
        (crate / "src").mkdir(parents=True)
        (crate / "src/main.rs").write_text("not Rust")
        (crate / "Cargo.toml").write_text('[package]\nname = "alone"\n[workspace]\n')
        (crate / "Cargo.lock").write_text('version = 3\n[[package]]\nname = "alone"\nversion = "0.0.0"\n')
        self.assertEqual(programs._of_missing_crates(crate, "", programs.environment()), "")


class Downloads(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.enterContext(mock.patch.dict("os.environ", {"RUST_BINDER_CACHE": folder.name}))

    def test_what_was_there_before_an_interruption_is_not_downloaded_again(self):
        def interrupted(folder):
            (folder / "half").write_text("of it")
            raise KeyboardInterrupt

        def rest(folder):
            self.assertEqual((folder / "half").read_text(), "of it")
            (folder / "linux.deb").write_text("all")

        with mock.patch.object(source, "_download", interrupted), self.assertRaises(KeyboardInterrupt):
            source._package()
        with mock.patch.object(source, "_download", rest):
            self.assertEqual(source._package().read_text(), "all")

    def test_a_disk_that_is_full_is_seen_before_anything_is_downloaded(self):
        with mock.patch.object(cache.shutil, "disk_usage") as usage, mock.patch.object(stock, "_download") as download:
            usage.return_value.free = 1e9
            with self.assertRaisesRegex(say.LabError, "needs 4.0 GB in .*, 1.0 GB are free"):
                stock.prepared("debian-7.3")
        download.assert_not_called()

    def test_after_a_download_that_was_interrupted_the_next_run_goes_on(self):
        with mock.patch.object(stock, "_download", side_effect=[say.LabError("cut off"), "7.3.4-amd64"]), \
                mock.patch.object(stock, "_unpack"), mock.patch.object(stock, "_prepare"), mock.patch.object(cache, "need_space"), \
                contextlib.redirect_stdout(io.StringIO()):
            with self.assertRaisesRegex(say.LabError, "cut off"):
                stock.prepared("debian-7.3")
            self.assertTrue((stock.prepared("debian-7.3") / ".complete").exists())

    def test_what_a_full_disk_leaves_of_a_download_does_not_look_finished(self):
        def fills(path, _):
            path.touch()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with mock.patch.object(stock.debian, "Suite"), mock.patch.object(stock, "newest", return_value="7.3.4-amd64"), \
                mock.patch.object(pathlib.Path, "write_text", fills), contextlib.redirect_stdout(io.StringIO()):
            for _ in range(2):
                with self.assertRaisesRegex(OSError, "No space left"):
                    stock._download(self.folder / "packages", {"suite": "sid", "series": "7.3", "flavour": "amd64", "tested": ""})

    def test_a_disk_that_fills_up_meanwhile_is_told_with_what_to_do(self):
        def fills():
            with open("/dev/full", "w") as full:
                full.write("x" * 100_000)

        said = io.StringIO()
        with mock.patch.object(sys, "argv", ["lab", "cache"]), mock.patch("lab.cache.show", fills), \
                contextlib.redirect_stderr(said):
            self.assertEqual(__main__.main(), 1)
        self.assertRegex(said.getvalue(), r"^error: .*No space left on device\nerror: free some of what .*, then run this again")


if __name__ == "__main__":
    unittest.main()
