# SPDX-License-Identifier: GPL-2.0
"""Every field of the kernel's structs that Rust code names has a row in rust/kernel/layouts.rs.

The compiler lists the fields. The kernel crate and the driver are compiled against bindings in which each field is deprecated, and the
compiler warns about each use, with the struct. The rows of the table are uses themselves.
"""

import collections
import json
import re
import shlex
import subprocess

from lab import kernel, module, proc
from lab.versions import ROOT
from stages import stage

TABLE = "rust/kernel/layouts.rs"
# Files of the kernel crate with types that the driver does not use, in modules that it uses.
UNUSED = ("rust/kernel/fs/kiocb.rs", "rust/kernel/time/hrtimer.rs", "rust/kernel/workqueue.rs")
# Of KUnit are macros alone, and C has no offset of a bit field.
EXEMPT = re.compile(r"kunit\w*::|\w+::_bitfield_")


def compile_against(built, bindings, cmd, crate):
    """Check a crate of the kernel's build by its recorded command; the uses of deprecated fields: by the file, the set of fields."""
    words = shlex.split(cmd.read_text().splitlines()[0].partition(":=")[2])
    while "=" in words[0]:
        words.pop(0)
    words = [f"-L{bindings}" if word in ("-L./rust", f"{built.folder}/rust/") else word for word in words if not word.startswith("--emit")]
    words = [word for word in words if word != "-L"]
    if "--out-dir" in words:
        words[words.index("--out-dir") + 1] = str(bindings)
    environment = proc.environment(RUSTC_BOOTSTRAP="1", OBJTREE=str(bindings.parent), RUST_MODFILE="binder_rust")
    argv = [*words, f"--emit=metadata={bindings}/lib{crate}.rmeta", "--error-format=json", "-Adeprecated" if crate == "bindings" else "-Wdeprecated"]
    done = subprocess.run(argv, cwd=built.folder if crate != "rust_binder" else cmd.parent, env=environment, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return uses(map(json.loads, done.stderr.splitlines()), built.tree)


def uses(diagnostics, tree):
    """The deprecated fields of a compiler's warnings, by the file that names them."""
    found = collections.defaultdict(set)
    for one in diagnostics:
        field = re.match(r"use of deprecated field `(?:kernel::)?bindings::([\w:]+)`", one["message"])
        if field:
            span = next(span for span in one["spans"] if span["is_primary"])
            while span["expansion"]:
                span = span["expansion"]["span"]
            found[span["file_name"].removeprefix(f"{tree}/").removeprefix(f"{ROOT}/").replace("drivers/android/../../", "")].add(field[1])
    return found


def deprecated_bindings(built, folder):
    """Lay the crates that the kernel's build made into a folder, all but the bindings and what depends on them, and bindings in which fields are deprecated."""
    rust, made = folder / "rust", built.folder / "rust"
    (rust / "bindings").mkdir(parents=True)
    for path in [*made.iterdir(), *(made / "bindings").iterdir()]:
        if path.name not in ("bindings", "libbindings.rmeta", "libkernel.rmeta", "bindings_generated.rs"):
            (folder / path.relative_to(built.folder)).symlink_to(path)
    text, count = re.subn(r"\bpub (?=(r#)?\w+ ?: )", "#[deprecated] pub ", (made / "bindings/bindings_generated.rs").read_text())
    assert count > 1000
    (rust / "bindings/bindings_generated.rs").write_text(text)
    return rust


def used_modules():
    """The modules of the kernel crate that the driver names."""
    texts = [path.read_text() for folder in ("drivers/android", "rust/kernel") for path in (ROOT / folder).rglob("*.rs")]
    blocks = [name for text in texts for block in re.findall(r"use kernel::\{(.*?)\};", text, re.S) for name in re.findall(r"^    (\w+)", block, re.M)]
    return {"module_param", *blocks, *(name for text in texts for name in re.findall(r"\bkernel::(\w+)", text))}


def without_row(of_driver, of_kernel):
    """The fields that the driver, or a part of the kernel crate that it uses, names, and the table does not."""
    used = used_modules()
    named = {field for path, fields in of_driver.items() if path != TABLE for field in fields}
    for path, fields in of_kernel.items():
        if path not in UNUSED and re.split(r"[/.]", path)[2] in used:
            named |= fields
    return {field for field in named - of_driver[TABLE] if not EXEMPT.match(field)}


@stage("drivers/", "rust/", "tests/suites/test_fields.py", takes=30)
def test_fields_have_rows(tally, tmp_path):
    built = kernel.build("um")
    rust, made = deprecated_bindings(built, tmp_path), module.build(built).parent
    compile_against(built, rust, built.folder / "rust/.bindings.o.cmd", "bindings")
    of_kernel = compile_against(built, rust, built.folder / "rust/.kernel.o.cmd", "kernel")
    of_driver = compile_against(built, rust, made / ".rust_binder.o.cmd", "rust_binder")
    missing = without_row(of_driver, of_kernel)
    tally.nothing_wrong("fields that bindgen placed have rows", [f"{TABLE}: no row has {field}" for field in sorted(missing)])
    # The kernel crate names the first field, the driver the others.
    for field in ("task_struct::mm", "vm_fault__bindgen_ty_1::vma", "vm_area_struct::vm_pgoff"):
        less = {**of_driver, TABLE: of_driver[TABLE] - {field}}
        tally.one(f"a missing row of {field} is found", without_row(less, of_kernel) == missing | {field})
