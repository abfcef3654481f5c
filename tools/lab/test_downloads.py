# SPDX-License-Identifier: GPL-2.0
"""What apt itself says and leaves of packages whose download was cut off or that had no room, and that the next run goes on."""

import contextlib
import hashlib
import http.server
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

from lab import debian, proc, say
from lab.versions import ROOT

_BYTES = 2_000_000
_PACKAGE = "linux-thing"
_DATE = "Mon, 02 Nov 2026 00:00:00 GMT"
_FILE = f"{_PACKAGE}_1_all.deb"
# Gets the package into a folder that a filesystem of so many kilobytes is mounted on; apt's lists are elsewhere, for how large
# they are depends on the machine.
_ON_A_SMALL_DISK = """
mount -t tmpfs -o size=$1k small "$2"
exec "$3" -B -m lab.test_downloads "$5" "$2" "$4"
"""


class Archive(http.server.BaseHTTPRequestHandler):
    """An archive with one suite and one package, of which the first answers end before their end."""

    files = {}
    # How many bytes of the package it gives before it hangs up; None: all.
    breaks_after = None
    asked = []

    def do_GET(self):
        content = self.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        same = self.headers.get("If-Range") == _DATE
        start = int(self.headers["Range"].removeprefix("bytes=").rstrip("-")) if same else 0
        if self.path.endswith(_FILE):
            type(self).asked.append(start)
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.send_header("Last-Modified", _DATE)
        self.end_headers()
        end = len(content)
        if self.breaks_after is not None and self.path.endswith(_FILE):
            end = min(end, max(start, self.breaks_after))
        with contextlib.suppress(ConnectionError):
            self.wfile.write(content[start:end])

    def log_message(self, *_):
        pass


class Downloads(unittest.TestCase):
    """One package of an archive on this machine."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.package = os.urandom(_BYTES)
        self.handler = type("Handler", (Archive,), {"files": _archive(self.package), "asked": []})
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.mirror = f"http://127.0.0.1:{server.server_port}/debian"
        self.enterContext(contextlib.redirect_stdout(io.StringIO()))

    def get(self):
        into = self.folder / "packages"
        into.mkdir(exist_ok=True)
        return _download(self.folder / "apt", into, self.mirror)

    def test_the_rest_of_a_package_whose_download_was_cut_off_is_got_by_the_next_run(self):
        self.handler.breaks_after = 1_500_000
        with self.assertRaisesRegex(say.LabError, f"(?s)getting it failed.*Failed to fetch {self.mirror}.*run this again: it goes on with what"):
            self.get()
        self.handler.breaks_after = None
        self.handler.asked.clear()
        [path] = self.get()
        self.assertEqual(hashlib.sha256(path.read_bytes()).hexdigest(), hashlib.sha256(self.package).hexdigest())
        self.assertGreaterEqual(self.handler.asked[0], 1_000_000)
        self.handler.asked.clear()
        self.get()
        self.assertEqual(self.handler.asked, [], "a package that is there is not asked for")

    def test_a_package_whose_bytes_are_others_is_got_again(self):
        [path] = self.get()
        path.write_bytes(bytes(_BYTES))
        [path] = self.get()
        self.assertEqual(hashlib.sha256(path.read_bytes()).hexdigest(), hashlib.sha256(self.package).hexdigest())

    def test_packages_that_were_not_asked_for_go(self):
        (self.folder / "packages").mkdir()
        # As an attempt has left it that was interrupted before the suite went on.
        (self.folder / "packages" / f"{_PACKAGE}_0_all.deb").write_bytes(self.package[:100])
        [path] = self.get()
        self.assertEqual([*path.parent.glob("*.deb")], [path])

    def test_the_mirror_is_debians(self):
        state = self.folder / "others"
        sources = []
        for suite, origin in (("stable", "Another"), ("bookworm", "Debian")):
            handler = type("Handler", (Archive,), {"files": _archive(self.package, suite, origin), "asked": []})
            server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self.addCleanup(server.server_close)
            self.addCleanup(server.shutdown)
            sources.append(f"http://127.0.0.1:{server.server_port}/debian")
        with mock.patch.object(debian, "mirror", lambda: sources[0]):
            options = debian._options(state, "stable", debian.KEYRING, False, None)
        (state / "sources.list").write_text("".join(f"deb [trusted=yes] {site} {suite} main\n"
                                                    for site, suite in zip(sources, ("stable", "bookworm"))))
        (state / "status").touch()
        options = [*options, "-o", "APT::Default-Release=", "-o", "Acquire::http::Proxy=DIRECT"]
        subprocess.run(["apt-get", *options, "-qq", "update"], check=True, env=proc.environment())
        output = proc.output

        def of_these(program, *words):
            return output(program, *options, *words)

        with mock.patch.object(proc, "output", of_these):
            self.assertEqual(debian.mirror(), sources[1])

    def test_a_disk_that_a_package_does_not_fit_on_is_told(self):
        for kilobytes, status in ((1_000, 1), (20_000, 0)):
            with self.subTest(kilobytes):
                into = self.folder / "small"
                into.mkdir(exist_ok=True)
                user = [] if os.geteuid() == 0 else ["--map-root-user"]
                done = subprocess.run(["unshare", "--mount", *user, "sh", "-euc", _ON_A_SMALL_DISK, "sh", str(kilobytes), into,
                                       sys.executable, self.mirror, self.folder / "apt"], cwd=ROOT / "tools", text=True, capture_output=True, timeout=60,
                                      env=proc.environment())
                self.assertEqual(done.returncode, status, done.stderr)
                if status:
                    self.assertRegex(done.stderr, r"(?s)getting it failed.*(No space left on device|enough free space)")


def _archive(package, suite="sid", origin="nobody"):
    """The files of an archive by their paths; the package is no package, which nobody looks at."""
    digest = hashlib.sha256(package).hexdigest()
    listed = (f"Package: {_PACKAGE}\nVersion: 1\nArchitecture: all\nMaintainer: nobody\nFilename: pool/{_FILE}\n"
              f"Size: {len(package)}\nSHA256: {digest}\nDescription: nothing\n\n").encode()
    where = "main/binary-amd64/Packages"
    release = (f"Origin: {origin}\nSuite: {suite}\nCodename: {suite}\nArchitectures: amd64\nComponents: main\nDate: Mon, 02 Nov 2026 00:00:00 UTC\n"
               f"SHA256:\n {hashlib.sha256(listed).hexdigest()} {len(listed)} {where}\n").encode()
    return {f"/debian/dists/{suite}/Release": release, f"/debian/dists/{suite}/{where}": listed, f"/debian/pool/{_FILE}": package}


def _download(state, into, mirror):
    """The paths of what is got of the suite, of which apt's lists are in `state`; it is not signed."""
    options = debian._options

    def trusting(where, *arguments):
        found = options(where, *arguments)
        path = where / "sources.list"
        path.write_text(path.read_text().replace(f"signed-by={debian.KEYRING}", "trusted=yes"))
        return [*found, "-o", "Acquire::Retries=0", "-o", "Acquire::http::Proxy=DIRECT"]

    with mock.patch.object(debian, "mirror", lambda: mirror), mock.patch.object(debian, "_options", trusting):
        suite = debian.Suite(state, "sid")
        suite.must_update()
        return suite.download("getting it", "apt-test", into, _PACKAGE)


if __name__ == "__main__":
    try:
        _download(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3])
    except say.LabError as error:
        sys.exit(f"error: {error}")
