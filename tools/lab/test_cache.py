# SPDX-License-Identifier: GPL-2.0
"""What leaves the cache, and when; what the copy that cargo builds from has."""

import contextlib
import io
import os
import pathlib
import tempfile
import time
import unittest
from unittest import mock

from . import cache, programs, prune, say

HASHES = [f"{number:016x}" for number in range(9)]


class InFolder(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = pathlib.Path(made.name)

    def file(self, name, days=0.0, text="x"):
        """A file that was read and written so many days ago."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self.age(path, days)
        return path

    def age(self, path, days, read=None):
        now = time.time()
        os.utime(path, (now - (days if read is None else read) * prune.DAY, now - days * prune.DAY))


class TargetFolders(InFolder):
    def unit(self, name, number, days, profile="x/release"):
        """A build of a crate as cargo leaves it."""
        tail = f"{name}-{HASHES[number]}"
        paths = [f"{profile}/.fingerprint/{tail}/dep-lib-{name}", f"{profile}/deps/lib{tail}.rlib", f"{profile}/deps/lib{tail}.rmeta",
                 f"{profile}/deps/{tail}.d", f"{profile}/deps/{tail}", f"{profile}/build/{tail}/out/made.rs"]
        return [self.file(path, days) for path in paths]

    def there(self, paths):
        found = {path.exists() for path in paths}
        self.assertEqual(len(found), 1, "a build goes as a whole")
        return found.pop()

    def test_a_build_that_nobody_used_for_days_goes(self):
        old, new = self.unit("old", 0, prune.KEPT_DAYS + 1), self.unit("new", 1, prune.KEPT_DAYS - 1)
        other = self.unit("old", 2, prune.KEPT_DAYS + 1, "debug")
        prune.target_folder(self.folder)
        self.assertFalse(self.there(old))
        self.assertFalse(self.there(other))
        self.assertTrue(self.there(new))

    def test_a_build_stays_whole_when_one_of_its_files_was_read(self):
        used = self.unit("used", 0, 20)
        self.age(used[1], 20, read=0.5)
        prune.target_folder(self.folder)
        self.assertTrue(self.there(used))

    def test_programs_and_what_is_no_build_stay(self):
        stays = [self.file("x/release/contract", 30), self.file("x/release/.cargo-lock", 30), self.file("CACHEDIR.TAG", 30)]
        self.unit("new", 0, 0)
        prune.target_folder(self.folder)
        self.assertTrue(self.there(stays))

    def test_of_one_crate_a_few_incremental_folders_stay(self):
        self.unit("contract", 0, 0)
        many = [self.file(f"x/release/incremental/contract-{number}/s-1/work.o", number * 0.01) for number in range(9)]
        old = self.file("x/release/incremental/other-1/s-1/work.o", prune.KEPT_DAYS + 1)
        prune.target_folder(self.folder)
        self.assertEqual([path.exists() for path in many], [number < prune.KEPT_INCREMENTAL for number in range(9)])
        self.assertFalse(old.parent.parent.exists())

    def test_it_is_done_now_and_then(self):
        self.unit("new", 0, 0)
        prune.target_folder(self.folder)
        old = self.unit("old", 1, 30)
        prune.target_folder(self.folder)
        self.assertTrue(self.there(old))
        self.age(self.folder / ".pruned", 2 * prune.EVERY / prune.DAY)
        prune.target_folder(self.folder)
        self.assertFalse(self.there(old))

    def test_there_may_be_nothing(self):
        prune.target_folder(self.folder / "none")
        self.assertFalse((self.folder / "none").exists())


class Entries(InFolder):
    def setUp(self):
        super().setUp()
        self.enterContext(mock.patch.dict(os.environ, {"RUST_BINDER_CACHE": str(self.folder)}))
        self.said = self.enterContext(contextlib.redirect_stdout(io.StringIO()))

    def entry(self, name, days):
        path = cache.entry(name, lambda part: part.write_text(name))
        self.age(cache._lock_file(name), days)
        return path

    def test_what_no_checkout_used_for_so_long_goes(self):
        old, new = self.entry("kernel/um-1", 20), self.entry("kernel/um-2", 3)
        folder = cache.in_place("stock/debian-1", lambda path: (path / "vmlinuz").write_text("x"))
        self.age(cache._lock_file("stock/debian-1"), 20)
        prune.unused(14)
        self.assertEqual([path.exists() for path in (old, folder, new)], [False, False, True])
        self.assertEqual([name for name, _, _ in prune.entries()], ["kernel/um-2"])

    def test_who_asks_for_an_entry_uses_it(self):
        path = self.entry("kernel/um-1", 20)
        cache.entry("kernel/um-1", self.fail)
        prune.unused(14)
        self.assertTrue(path.exists())

    def test_what_is_being_made_stays(self):
        path = self.entry("kernel/um-1", 20)
        with cache.lock("kernel/um-1"):
            self.assertFalse(cache.forget("kernel/um-1", time.time()))
        self.assertTrue(path.exists())
        self.assertTrue(cache.forget("kernel/um-1", time.time()))
        self.assertEqual(cache.entry("kernel/um-1", lambda part: part.write_text("again")).read_text(), "again")

    def test_what_was_used_today_cannot_be_asked_for(self):
        with self.assertRaises(say.LabError):
            prune.unused(0)

    def test_the_list_names_what_is_large(self):
        self.entry("kernel/um-1", 2)
        (self.folder / "kernel/um-1").write_bytes(b"x" * 3_000_000)
        self.file("cargo/static-1/target/x", text="y" * 5_000_000)
        prune.show()
        self.assertRegex(self.said.getvalue(), r"3 MB  used   2.0 days ago  kernel/um-1\n")
        self.assertRegex(self.said.getvalue(), r"5 MB  used   0.0 days ago  cargo/static-1\n")

    def test_folders_of_an_older_lab_go_as_well(self):
        old = self.file("cargo/static-1/target/x")
        self.age(old.parent.parent, 20)
        prune.unused(14)
        self.assertFalse(old.exists())


class Copies(InFolder):
    def test_only_what_differs_is_written(self):
        tree, copy = self.folder / "tree", self.folder / "copy"
        self.file("tree/Cargo.toml", text="one")
        self.file("tree/tools/a/src/main.rs", text="same")
        self.file("tree/tools/a/target/debug/a", text="made")
        gone = self.file("tree/tests/b.rs", text="gone")
        self.file("tree/docs/other.md", text="no source")
        with mock.patch.object(programs, "ROOT", tree):
            programs.copy_into(copy)
            names = sorted(str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file())
            self.assertEqual(names, ["Cargo.toml", "tests/b.rs", "tools/a/src/main.rs"])
            for name in names:
                self.age(copy / name, 5)
            gone.unlink()
            # As in a checkout that is older than what was built last.
            self.file("tree/Cargo.toml", 9, "another")
            programs.copy_into(copy)
        self.assertFalse((copy / "tests/b.rs").exists())
        self.assertEqual((copy / "Cargo.toml").read_text(), "another")
        self.assertGreater((copy / "Cargo.toml").stat().st_mtime, time.time() - 60)
        self.assertLess((copy / "tools/a/src/main.rs").stat().st_mtime, time.time() - 4 * prune.DAY)


if __name__ == "__main__":
    unittest.main()
