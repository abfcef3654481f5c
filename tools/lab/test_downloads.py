# SPDX-License-Identifier: GPL-2.0
"""What apt itself says and leaves of packages that cannot be had or whose download was cut off, and that the next run goes on."""

import contextlib
import errno
import hashlib
import http.server
import os
import pathlib
import subprocess
import threading

import pytest

from . import cache, debian, proc, say, source, stock

BYTES = 2_000_000
PACKAGE = "linux-thing"
FILE = f"{PACKAGE}_1_all.deb"
DATE = "Mon, 02 Nov 2026 00:00:00 GMT"
KERNEL = {"suite": "trixie-backports", "series": "7.3", "flavour": "amd64", "tested": ""}


class Archive(http.server.BaseHTTPRequestHandler):
    """An archive with one suite and one package, of which the first answers end before their end; or with nothing."""

    files = {}
    # How many bytes of the package it gives before it hangs up; None: all.
    breaks_after = None

    def do_GET(self):
        content = self.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        same = self.headers.get("If-Range") == DATE
        start = int(self.headers["Range"].removeprefix("bytes=").rstrip("-")) if same else 0
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.send_header("Last-Modified", DATE)
        self.end_headers()
        end = len(content)
        if self.path.endswith(FILE):
            self.asked.append(start)
            end = min(end, max(start, self.breaks_after or end))
        with contextlib.suppress(ConnectionError):
            self.wfile.write(content[start:end])

    def log_message(self, *_):
        pass


def files(package, suite, origin):
    """The files of an archive by their paths; the package is no package, which nobody looks at."""
    listed = (f"Package: {PACKAGE}\nVersion: 1\nArchitecture: all\nMaintainer: nobody\nFilename: pool/{FILE}\n"
              f"Size: {len(package)}\nSHA256: {hashlib.sha256(package).hexdigest()}\nDescription: nothing\n\n").encode()
    where = "main/binary-amd64/Packages"
    release = (f"Origin: {origin}\nSuite: {suite}\nCodename: {suite}\nArchitectures: amd64\nComponents: main\nDate: Mon, 02 Nov 2026 00:00:00 UTC\n"
               f"SHA256:\n {hashlib.sha256(listed).hexdigest()} {len(listed)} {where}\n").encode()
    return {f"/debian/dists/{suite}/Release": release, f"/debian/dists/{suite}/{where}": listed, f"/debian/pool/{FILE}": package}


@pytest.fixture
def serve():
    """Starts archives: their handlers, which know the package and their addresses."""
    with contextlib.ExitStack() as stack:
        def started(suite="sid", origin="nobody", is_empty=False):
            package = os.urandom(BYTES)
            handler = type("Handler", (Archive,), {"files": {} if is_empty else files(package, suite, origin), "package": package, "asked": []})
            server = stack.enter_context(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
            handler.address = f"http://127.0.0.1:{server.server_port}/debian"
            return handler

        yield started


@pytest.fixture
def archive(serve, tmp_path, monkeypatch):
    """An archive, which is not signed; `get()` is the path of its package once that is there."""
    made, options = serve(), debian._options

    def trusting(where, *arguments):
        found = options(where, *arguments)
        path = where / "sources.list"
        path.write_text(path.read_text().replace(f"signed-by={debian.KEYRING}", "trusted=yes"))
        return [*found, "-o", "Acquire::Retries=0", "-o", "Acquire::http::Proxy=DIRECT"]

    def get():
        (tmp_path / "packages").mkdir(exist_ok=True)
        suite = debian.Suite(tmp_path / "apt", "sid")
        suite.must_update()
        made.asked.clear()
        [path] = suite.download("getting it", "apt-test", tmp_path / "packages", PACKAGE)
        assert path.read_bytes() == made.package and [*path.parent.glob("*.deb")] == [path]
        return path

    monkeypatch.setattr(debian, "mirror", lambda: made.address)
    monkeypatch.setattr(debian, "_options", trusting)
    made.get = get
    return made


def test_the_next_run_gets_the_rest_of_a_package_that_was_cut_off(archive):
    archive.breaks_after = 1_500_000
    with pytest.raises(say.LabError, match=f"(?s)getting it failed.*Failed to fetch {archive.address}.*run this again: it goes on with what"):
        archive.get()
    archive.breaks_after = None
    archive.get()
    assert archive.asked[0] >= 1_000_000
    archive.get()
    assert archive.asked == [], "a package that is there is not asked for"


def test_other_bytes_are_replaced_and_other_packages_go(archive):
    path = archive.get()
    path.write_bytes(bytes(BYTES))
    # As an attempt has left it that was interrupted before the suite went on.
    path.with_name(f"{PACKAGE}_0_all.deb").write_bytes(bytes(100))
    archive.get()


def test_the_mirror_is_debians(serve, tmp_path, monkeypatch):
    suites = {suite: serve(suite, origin).address for suite, origin in (("stable", "Another"), ("bookworm", "Debian"))}
    output, address = proc.output, suites["bookworm"]
    with monkeypatch.context() as patch:
        patch.setattr(debian, "mirror", lambda: address)
        options = debian._options(tmp_path, "stable", debian.KEYRING, False, None)
    (tmp_path / "sources.list").write_text("".join(f"deb [trusted=yes] {site} {suite} main\n" for suite, site in suites.items()))
    (tmp_path / "status").touch()
    options = [*options, "-o", "APT::Default-Release=", "-o", "Acquire::http::Proxy=DIRECT"]
    subprocess.run(["apt-get", *options, "-qq", "update"], check=True, env=proc.environment())
    monkeypatch.setattr(proc, "output", lambda program, *words: output(program, *options, *words))
    assert debian.mirror() == address


def of_stock(folder):
    stock._download(folder / "packages", KERNEL)


def of_source(folder):
    debian.suite_with(source.KERNEL, folder)


@pytest.mark.parametrize("ask, is_there, words", [
    (of_stock, True, r"lists of trixie-backports cannot be read from http://127.0.0.1:\d+/debian: .* does not have a Release file\. "
                     "Check the network, then run this again"),
    (of_stock, False, r"cannot be read from http://127.0.0.1:\d+/debian: .*[Cc]onnect"),
    (of_source, True, r"tried trixie-backports \(.*no.*Release file.*\), experimental \(.*, sid \(.*Check the network and the suites in versions.toml"),
])
def test_a_mirror_that_lacks_a_suite_or_cannot_be_reached(serve, tmp_path, monkeypatch, ask, is_there, words):
    address = serve(is_empty=True).address if is_there else "http://127.0.0.1:9/debian"
    monkeypatch.setattr(debian, "mirror", lambda: address)
    with pytest.raises(say.LabError, match=words):
        ask(tmp_path)


def test_the_kernels_source_goes_on_where_it_was_interrupted(tmp_path, monkeypatch):
    class Suite:
        def download(self, _title, _log, folder, _package):
            if not (folder / "half").exists():
                (folder / "half").touch()
                raise KeyboardInterrupt
            (folder / "linux.deb").write_text("all")

    monkeypatch.setenv("RUST_BINDER_CACHE", str(tmp_path))
    monkeypatch.setattr(debian, "suite_with", lambda *_: Suite())
    with pytest.raises(KeyboardInterrupt):
        source._package()
    assert source._package().read_text() == "all"


def test_a_stock_kernel_needs_room_and_goes_on_where_it_was_interrupted(tmp_path, monkeypatch):
    ends = iter([say.LabError("cut off"), "7.3.4-amd64"])

    def download(*_):
        if isinstance(end := next(ends), Exception):
            raise end
        return end

    monkeypatch.setenv("RUST_BINDER_CACHE", str(tmp_path))
    for name, replacement in (("_download", download), ("_unpack", lambda *_: None), ("_prepare", lambda *_: None)):
        monkeypatch.setattr(stock, name, replacement)
    with monkeypatch.context() as patch:
        patch.setattr(cache.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1e9}))
        with pytest.raises(say.LabError, match="needs 4.0 GB in .*, 1.0 GB are free"):
            stock.prepared("debian-7.3")
    monkeypatch.setattr(cache, "need_space", lambda *_: None)
    with pytest.raises(say.LabError, match="cut off"):
        stock.prepared("debian-7.3")
    assert (stock.prepared("debian-7.3") / ".complete").exists()


def test_what_a_full_disk_leaves_of_a_download_does_not_look_finished(tmp_path, monkeypatch):
    class Suite:
        name = "sid"

        def __getattr__(self, _):
            return lambda *_: None

    def fills(path, _):
        path.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(debian, "Suite", lambda *_: Suite())
    monkeypatch.setattr(stock, "newest", lambda *_: "7.3.4-amd64")
    monkeypatch.setattr(pathlib.Path, "write_text", fills)
    for _ in range(2):
        with pytest.raises(OSError, match="No space left"):
            stock._download(tmp_path / "packages", KERNEL)
