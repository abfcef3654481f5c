# SPDX-License-Identifier: GPL-2.0
"""Messages about packages that cannot be had, continuing an interrupted run, and the files that programs out of packages need, for any
processor."""

import errno
import functools
import hashlib
import http.server
import os
import pathlib
import threading

import pytest

from . import cache, debian, foreign, proc, say, source, stock

KERNEL = {"suite": "trixie-backports", "series": "7.3", "flavour": "amd64", "tested": ""}


def test_what_is_there_is_not_downloaded_and_other_packages_go(tmp_path, monkeypatch):
    monkeypatch.setattr(debian, "mirror", lambda: "http://127.0.0.1:9/debian")
    suite = debian.Suite(tmp_path / "apt", "sid")
    for name, text in (("whole.deb", "whole"), ("cut-off.deb", "cu"), ("older.deb", "")):
        (tmp_path / name).write_text(text)
    listed = "".join(f"'pool/{name}.deb' {name}.deb 5 SHA256:{hashlib.sha256(name.encode()).hexdigest()}\n" for name in ("whole", "cut-off"))
    monkeypatch.setattr(debian.proc, "output", lambda *_: listed)
    asked = []
    monkeypatch.setattr(debian.proc, "logged", lambda _title, _log, argv, cwd: asked.extend(argv))
    assert suite.download("getting them", "apt-test", tmp_path, "whole", "cut-off") == [tmp_path / "whole.deb", tmp_path / "cut-off.deb"]
    # The same program gets the rest of one that was cut off.
    assert asked[0].endswith("apt-helper") and [word for word in asked if str(word).endswith(".deb")] == ["pool/cut-off.deb", "cut-off.deb"]
    assert not (tmp_path / "older.deb").exists()


def test_the_mirror_is_debians(tmp_path, monkeypatch):
    options, output = debian._options(tmp_path, "stable", debian.KEYRING, False, None), proc.output
    (tmp_path / "status").touch()
    with open(tmp_path / "sources.list", "w") as sources:
        for suite, origin in (("stable", "Another"), ("bookworm", "Debian")):
            folder, listed = tmp_path / origin / "dists" / suite, b"Package: x\nVersion: 1\nArchitecture: all\n"
            (folder / "main/binary-amd64").mkdir(parents=True)
            (folder / "main/binary-amd64/Packages").write_bytes(listed)
            (folder / "Release").write_text(f"Origin: {origin}\nSuite: {suite}\nCodename: {suite}\nArchitectures: amd64\nComponents: main\n"
                                            f"Date: Mon, 02 Nov 2026 00:00:00 UTC\nSHA256:\n {hashlib.sha256(listed).hexdigest()} {len(listed)} main/binary-amd64/Packages\n")
            sources.write(f"deb [trusted=yes] file:{tmp_path}/{origin} {suite} main\n")
    options += ["-o", "APT::Default-Release="]
    output("apt-get", *options, "-qq", "update")
    monkeypatch.setattr(proc, "output", lambda program, *words: output(program, *options, *words))
    assert debian.mirror() == f"file:{tmp_path}/Debian"


def of_stock(folder):
    stock._download(folder / "packages", KERNEL)


@pytest.mark.parametrize("ask, is_there, words", [
    (of_stock, True, r"lists of trixie-backports cannot be read from http://127.0.0.1:\d+/debian: .* does not have a Release file\. "
                     "Check the network, then run this again"),
    (of_stock, False, r"cannot be read from http://127.0.0.1:\d+/debian: .*[Cc]onnect"),
    (functools.partial(debian.suite_with, source.KERNEL), True,
     r"tried trixie-backports \(.*no.*Release file.*\), experimental \(.*, sid \(.*Check the network and the suites in versions.toml"),
])
def test_a_mirror_that_lacks_a_suite_or_cannot_be_reached(tmp_path, monkeypatch, ask, is_there, words):
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path / "empty")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(debian, "mirror", lambda: f"http://127.0.0.1:{server.server_port if is_there else 9}/debian")
        with pytest.raises(say.LabError, match=words):
            ask(tmp_path)
        server.shutdown()


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


LISTED = {
    "program": " 0x0000000000000001 (NEEDED)             Shared library: [libone.so.1]\n 0x000000000000000e (SONAME)  Library soname: [x]\n",
    "libone.so.1": " 0x0000000000000001 (NEEDED)             Shared library: [libtwo.so.2]\n",
    "libtwo.so.2": " 0x0000000000000001 (NEEDED)             Shared library: [libone.so.1]\n",
}


def test_libraries_of_libraries_are_there_once_and_a_missing_one_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(foreign.proc, "output", lambda *words: LISTED[pathlib.Path(words[-1]).name])
    for name in ("program", "libone.so.1"):
        (tmp_path / name).touch()
    folders = [tmp_path / "nowhere", tmp_path]
    with pytest.raises(say.LabError, match="libtwo.so.2 is in none of"):
        foreign.needed([tmp_path / "program"], folders)
    (tmp_path / "libtwo.so.2").touch()
    assert foreign.needed([tmp_path / "program"], folders) == {name: tmp_path / name for name in ("libone.so.1", "libtwo.so.2")}
