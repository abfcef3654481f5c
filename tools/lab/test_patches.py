# SPDX-License-Identifier: GPL-2.0
"""The series of patches: which patch a file belongs to, what a tree has after each, and what is refused."""

import pathlib
import re
import tempfile
import unittest

from . import install, patch_beside, patch_list, patch_modules, patch_stages, patch_suite, patches, say, wrap

ROW = '[[patch]]\nname = "{}"\ntitle = "t"\nmessage = "m"\n'
BASE = {
    "drivers/android/Kconfig": "menu \"Android\"\n\nconfig ANDROID_BINDER_IPC_RUST\n\tbool \"upstream\"\n\thelp\n\t  Words.\n\n\t  More.\n\nendmenu\n",
    "drivers/android/Makefile": "obj-$(CONFIG_ANDROID_BINDER_IPC)\t+= binder.o\nobj-$(CONFIG_ANDROID_BINDER_IPC_RUST)\t+= binder/\n",
    "rust/bindings/bindings_helper.h": "a\n#if IS_ENABLED(CONFIG_ANDROID_BINDER_IPC_RUST)\n#include \"b\"\n#endif\n",
    "Documentation/admin-guide/index.rst": "   bcache\n   binderfs\n",
    "MAINTAINERS": "ANDROID CONFIG FRAGMENTS\nM:\tA\n\nANDROID DRIVERS\nM:\tB\n",
    "drivers/android/binder/Makefile": "upstream\n",
    "drivers/android/binder.c": '#include "binder_internal.h"\nint binder_init(void)\n{\n\tret = binder_alloc_shrinker_init();\n}\n',
    "Documentation/admin-guide/kernel-parameters.txt": "\tbgrt_disable\n\n\tblkdevparts=\tWords\n",
}


class Patches(unittest.TestCase):
    def refused(self, words, *arguments):
        with self.assertRaisesRegex(say.LabError, words):
            arguments[0](*arguments[1:])


class TheList(Patches):
    def rows(self, *files):
        return [{"name": str(number), "title": "t", "message": "m", "files": list(one)} for number, one in enumerate(files)]

    def test_a_file_belongs_to_the_patch_that_names_it(self):
        rows = self.rows(["a/*.rs"], ["a/one.rs"])
        self.assertEqual(patch_list.owned(rows, ["a/one.rs", "a/two.rs"]), {"a/one.rs": "1", "a/two.rs": "0"})

    def test_a_glob_ends_at_a_folder(self):
        self.refused("a/b/one.rs belongs to no patch", patch_list.owned, self.rows(["a/*.rs"]), ["a/two.rs", "a/b/one.rs"])

    def test_a_file_of_no_patch_is_named(self):
        self.refused("a/new.rs belongs to no patch: packaging/patches/series.toml has to name it", patch_list.owned, self.rows([]), ["a/new.rs"])

    def test_a_file_of_two_patches_is_named(self):
        self.refused("a.rs belongs to 2 patches, 0 and 1", patch_list.owned, self.rows(["a.rs"], ["a.rs"]), ["a.rs"])

    def test_a_name_without_a_file_is_told(self):
        self.refused("b.rs of patch 0 is no file", patch_list.owned, self.rows(["a.rs", "b.rs"]), ["a.rs"])

    def test_words_that_nothing_reads(self):
        self.refused("nothing reads `fils` of patch a", patch_list.read, ROW.format("a") + "fils = []\n")

    def test_what_a_patch_needs(self):
        self.refused("patch a has no `message`", patch_list.read, '[[patch]]\nname = "a"\ntitle = "t"\n')

    def test_two_of_one_name(self):
        self.refused("two patches are called a", patch_list.read, ROW.format("a") * 2)

    def test_linked_with_none(self):
        self.refused("is linked with b, which there is not", patch_list.read, ROW.format("a") + 'linked = "b"\n')

    def test_every_file_of_the_driver_is_in_one(self):
        for flavour in patch_list.FLAVOURS:
            found = [file for patch in patch_list.series(flavour, install.files()) for file in patch.files]
            self.assertEqual(sorted(found), install.files())

    def test_messages_are_as_git_wants_them(self):
        for flavour in patch_list.FLAVOURS:
            for patch in patch_list.series(flavour, install.files()):
                lines = patch.text().splitlines()
                self.assertLessEqual(len(lines[0]), 75, patch.name)
                self.assertEqual(lines[1], "", patch.name)
                self.assertTrue(all(len(line) <= 75 for line in lines[2:]), patch.name)
                self.assertNotIn("Signed-off-by", patch.text())

    def test_titles_that_messages_name(self):
        for flavour in patch_list.FLAVOURS:
            series = patch_list.series(flavour, install.files())
            titles = {patch.title for patch in series}
            for patch in series:
                for named in re.findall(r'"((?:binder|rust): [^"]+)"', " ".join(patch.message.split())):
                    self.assertIn(named, titles, patch.name)


class TheModules(unittest.TestCase):
    TEXTS = {
        patch_modules.ROOT: "mod a;\n#[allow(x)]\n#[path = \"../c.rs\"]\nmod c;\n",
        "drivers/android/a.rs": "//! [`crate::c`] is no need.\nmod b;\nuse crate::c::{One, two::{self, Three as Four}};\n",
        "drivers/android/a/b.rs": "fn f() { super::g() }\n",
        "drivers/c.rs": "use crate::a;\n",
    }

    def test_who_needs_whom(self):
        found = patch_modules.Modules(self.TEXTS)
        self.assertEqual(found.needs, {"drivers/android/a.rs": {"drivers/c.rs"}, "drivers/android/a/b.rs": {"drivers/android/a.rs"},
                                       "drivers/c.rs": {"drivers/android/a.rs"}})

    def test_a_circle_is_compiled_when_it_is_complete(self):
        found = patch_modules.Modules(self.TEXTS)
        self.assertEqual(found.compiled({"drivers/android/a.rs", "drivers/android/a/b.rs"}), set())
        self.assertEqual(found.compiled({"drivers/android/a.rs", "drivers/c.rs"}), {"drivers/android/a.rs", "drivers/c.rs"})

    def test_who_implements_a_trait_comes_with_it(self):
        texts = {patch_modules.ROOT: "mod a;\nmod b;\nmod c;\nmod d;\n", "drivers/android/a.rs": "trait Subject {}\n", "drivers/android/b.rs": "struct Own<T>(T);\n",
                 "drivers/android/c.rs": "impl<T> crate::a::Subject for Own<T> {}\n", "drivers/android/d.rs": "struct Mine;\nimpl Subject for Mine {}\n"}
        self.assertEqual(patch_modules.Modules(texts).needs["drivers/android/a.rs"], {"drivers/android/c.rs"})

    def test_nested_declarations_lead_to_all_that_they_name(self):
        texts = {patch_modules.ROOT: "mod a;\nmod b;\nmod c;\nmod d;\n", **{f"drivers/android/{name}.rs": "" for name in "abcd"}}
        texts["drivers/android/d.rs"] = "use crate::{\n    a::{x, y},\n    b, //\n};\nuse kernel::c;\n"
        self.assertEqual(patch_modules.Modules(texts).needs["drivers/android/d.rs"], {"drivers/android/a.rs", "drivers/android/b.rs"})


class TheStages(Patches):
    @classmethod
    def setUpClass(cls):
        cls.stages = patch_stages.Stages("replace", BASE, patch_suite.SENDER)
        cls.trees = cls.stages.trees()
        cls.after, now = {}, dict(BASE)
        for patch, changed in cls.trees:
            now.update(changed)
            cls.after[patch.name] = {name: text for name, text in now.items() if text is not None}

    def test_the_last_tree_is_the_installers(self):
        last = self.after[self.trees[-1][0].name]
        ours = {name: (install.ROOT / name).read_text() for name in install.files()}
        self.assertEqual({name: last[name] for name in ours}, ours)
        self.assertEqual(last.keys() - ours.keys(), {*BASE, patch_stages.PAGE} - {"drivers/android/binder/Makefile"})
        self.assertEqual(last["drivers/android/Kconfig"], install.kconfig(BASE["drivers/android/Kconfig"]))

    def test_no_tree_declares_what_is_not_there(self):
        for name, tree in self.after.items():
            there = patch_modules.Modules({file: text for file, text in tree.items() if file.endswith(".rs")})
            for file in [patch_modules.ROOT, *there.needs]:
                for stem in patch_modules.declared(file, tree[file]).values():
                    self.assertIsNotNone(there.file(stem), f"{name}: {file} declares {stem}")

    def test_all_that_can_be_compiled_is_declared(self):
        tree = self.after["queue"]
        there = patch_modules.Modules({file: text for file, text in tree.items() if file.endswith(".rs")})
        self.assertIn("rust/kernel/box_queue/small.rs", there.needs)
        self.assertEqual(self.stages.compiled_later(), {name: "transactions" for name in ("work", "nodes", "allocation", "processes", "notifications")})

    def test_what_the_edge_implements_is_there_once(self):
        for name, tree in self.after.items():
            there = "drivers/android/process.rs" in patch_modules.Modules({file: text for file, text in tree.items() if file.endswith(".rs")}).needs
            found = sum(tree.get(file, "").count(" OpenedAs for Process") + tree.get(file, "").count("OpenedAs for process::Process")
                        for file in (patch_modules.ROOT, "drivers/android/entry/ffi.rs"))
            self.assertEqual(found, int(there), name)

    def test_upstreams_driver_stays_until_ours_is_whole(self):
        before, after = self.after["entry"], self.after["enable"]
        self.assertIn("+= binder/", before["drivers/android/Makefile"])
        self.assertIn("config ANDROID_BINDER_IPC_RUST\n", before["drivers/android/Kconfig"])
        self.assertNotIn("+= binder/", after["drivers/android/Makefile"])
        self.assertIn("drivers/android/binder/Makefile", after)

    def test_objects_are_linked_with_what_they_call(self):
        makefile = "drivers/android/Makefile.rust_binder"
        self.assertRegex(self.after["binderfs"][makefile], r"(?s)always-\S+ \+= .*binderfs/inodes\.o")
        self.assertNotIn("always-", self.after["entry"][makefile])

    def test_the_sender_is_in_maintainers(self):
        self.assertRegex(self.after["maintainers"]["MAINTAINERS"],
                         rf"ANDROID BINDER DRIVER IN RUST\nM:\t{patch_suite.SENDER}\n(?:.+\n)+\nANDROID DRIVERS\n")

    def test_a_tree_without_the_entry(self):
        base = BASE | {"drivers/android/Kconfig": "menu\nendmenu\n"}
        self.refused("Kconfig", patch_stages.Stages("replace", base, "s").trees)


class Beside(Patches):
    """Both drivers built in, one of which is chosen at boot."""

    @classmethod
    def setUpClass(cls):
        cls.trees = patch_stages.Stages("beside", BASE, patch_suite.SENDER).trees()
        cls.last = dict(BASE)
        for _, changed in cls.trees:
            cls.last.update(changed)

    def test_no_trace_event_has_a_name_of_the_c_drivers(self):
        events = self.last["drivers/android/trace/events.h"]
        names = re.findall(r"^(?:EVENT\(\w+, |\w*EVENT\()(\w+)", events, re.M)
        self.assertGreater(len(names), 30)
        self.assertEqual([name for name in names if not name.startswith("rust_binder_")], [])
        self.assertIn("binder_command_strings", events)

    def test_rust_looks_for_these_names(self):
        text = self.last["drivers/android/ffi/tracepoints.rs"]
        self.assertEqual(text.count("__tracepoint_rust_ $name"), 2)
        self.assertNotIn("__tracepoint_ $name", text)
        self.assertNotIn("rust_do_trace_ $name", text)

    def test_each_driver_asks_before_it_registers_anything(self):
        self.assertIn("\tif (!binder_impl_is_c())\n\t\treturn 0;\n\n\tret = binder_alloc_shrinker_init();\n", self.last["drivers/android/binder.c"])
        self.assertRegex(self.last[patch_modules.ROOT], r"fn init\([^)]*\) -> Result<Self> \{\n        if !is_chosen\(\)")

    def test_the_word_is_documented(self):
        self.assertRegex(self.last["Documentation/admin-guide/kernel-parameters.txt"], r"\n\n\tbinder\.impl=\t(?s:.)+\n\n\tblkdevparts=")
        self.assertIn("binder.impl=rust", self.last[patch_stages.PAGE])
        self.assertIn("config ANDROID_BINDER_IMPL\n", self.last["drivers/android/Kconfig"])

    def test_the_other_flavour_has_none_of_it(self):
        for patch, changed in patch_stages.Stages("replace", BASE, patch_suite.SENDER).trees():
            for name, text in changed.items():
                self.assertNotIn("binder_impl", f"{name} {text}", patch.name)

    def test_a_source_that_has_changed_is_named(self):
        self.refused("rust_binder.rs has no", patch_beside.ours, patch_modules.ROOT, "mod entry;")
        self.refused("binder.c has no", patch_beside.c_driver, "int x;")


class Making(Patches):
    def test_a_sender_that_is_none(self):
        for sender in ("", "Jane", "jane@example.org", "Jane <jane>", "Jane <a@b> <c@d>"):
            with tempfile.TemporaryDirectory() as folder:
                self.refused("is no sender", patches.write, pathlib.Path(folder) / "series", "replace", sender, BASE)

    def test_a_tree_that_has_the_driver(self):
        with tempfile.TemporaryDirectory() as folder:
            tree = pathlib.Path(folder)
            (tree / "drivers/android").mkdir(parents=True)
            (tree / "Makefile").write_text("VERSION = 7\nPATCHLEVEL = 3\n")
            self.refused("has no drivers/android/Kconfig", patches.base, tree)
            (tree / "drivers/android/binder_pick.c").write_text("")
            self.refused("FLAVOUR=replace", patches.base, tree, "beside")
            (tree / "drivers/android/node.rs").write_text("")
            self.refused("already has a drivers/android/node.rs", patches.base, tree)
            (tree / "drivers/android/rust_binder.rs").write_text("")
            self.refused("has our driver already", patches.base, tree)
            (tree / "Makefile").write_text("VERSION = 6\nPATCHLEVEL = 1\n")
            self.refused("Linux 6.1", patches.base, tree)

    def test_equal_input_gives_equal_patches_that_git_takes(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            first, second = (patches.write(folder / name, "replace", patch_suite.SENDER, BASE) for name in "ab")
            self.assertEqual([file.read_bytes() for file in first.files], [file.read_bytes() for file in second.files])
            repository = patches.Repository(folder, patch_suite.SENDER)
            repository.commit(BASE, "Linux")
            repository.git("am", "--quiet", *first.files)
            subjects = repository.git("log", "--format=%s", "--reverse").splitlines()
            self.assertEqual(subjects[1:], [patch.title for patch in first.stages.patches])

    def test_a_file_is_never_written_into(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "other").write_text("original")
            (folder / "file").hardlink_to(folder / "other")
            patches.Repository(folder, patch_suite.SENDER).commit({"file": "changed"}, "m")
            self.assertEqual((folder / "other").read_text(), "original")

    def test_sizes(self):
        self.assertEqual(patches.lines(" 1 file changed, 3 insertions(+)\n"), (3, 0))
        self.assertEqual(patches.lines(" 2 files changed, 1 insertion(+), 2 deletions(-)\n"), (1, 2))
        self.assertEqual(patches.lines(" 9 files changed, 20 deletions(-)\n"), (0, 20))


class WhatTheScriptsSay(unittest.TestCase):
    def told(self, name, line, words="WARNING: line length of 120 exceeds 100 columns"):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "patch"
            file.write_text(f"+++ b/{name}\n+{line}\n")
            return patch_suite.told(f"(patch):2: {words}\n", patch_list.Patch("p", "t", "m"), file)

    def test_a_long_comment(self):
        self.assertEqual(self.told("a.rs", "    // " + "x" * 100), ["p:2: WARNING: line length of 120 exceeds 100 columns"])

    def test_a_drawing_is_as_wide_as_it_looks(self):
        self.assertEqual(self.told("a.rs", "    // " + "─" * 60), [])

    def test_code_in_rust_is_rustfmts(self):
        self.assertEqual(self.told("a.rs", "x" * 101), [])
        self.assertEqual(len(self.told("a.c", "x" * 101)), 1)

    def test_anything_else(self):
        self.assertEqual(self.told("a.rs", "x", "ERROR: no"), ["p:2: ERROR: no"])


class Wrapping(unittest.TestCase):
    def test_a_short_paragraph_stays(self):
        text = "    /// One\n    /// two.\nfn f() {}\n"
        self.assertEqual(wrap.wrap(text), text)

    def test_a_long_one_is_wrapped_to_its_end(self):
        text = "    // " + "word " * 20 + "end\n    // of it.\n    //\n    // Another.\n"
        wrapped = wrap.wrap(text)
        self.assertTrue(all(len(line) <= wrap.WIDTH for line in wrapped.splitlines()))
        self.assertIn("word end of it.\n    //\n    // Another.\n", wrapped)

    def test_an_item_keeps_its_indentation(self):
        wrapped = wrap.wrap("/// - " + "word " * 25 + "\n/// - other\n")
        self.assertRegex(wrapped, r"^/// - word [^\n]*\n///   word [^\n]*\n/// - other\n$")

    def test_code_and_drawings_stay(self):
        text = "/// ```\n/// " + "x " * 60 + "\n/// ```\n/// | " + "y " * 60 + "|\n"
        self.assertEqual(wrap.wrap(text), text)

    def test_the_driver_is_wrapped(self):
        long = [f"{name}: {line}" for name in install.files() if name.endswith(".rs")
                for line in (install.ROOT / name).read_text().splitlines()
                if len(line) > wrap.WIDTH and re.match(r"\s*//", line)]
        self.assertEqual(long, [], "make wrap")


if __name__ == "__main__":
    unittest.main()
