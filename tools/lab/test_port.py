# SPDX-License-Identifier: GPL-2.0
"""The report for a port: small trees, each with one change."""

import pytest

from . import patches, port, test_patches

OLD = test_patches.BASE | {
    "fs/super.c": "EXPORT_SYMBOL(clear_inode);\n",
    "include/linux/fs.h": "/* Words. */\nextern void clear_inode(struct inode *inode);\nint nonseekable_open(struct inode *,\n\t\t     struct file *);\n",
    "include/linux/mutex_types.h": "#ifndef CONFIG_RT\ncontext_lock_struct(mutex) {\n\tatomic_long_t owner;\n};\n#else\nstruct mutex {\n\tint other;\n};\n#endif\n",
    "include/linux/security.h": "struct lsm_context {\n\tchar *context;\n\tu32 len;\n};\n",
    "include/uapi/linux/android/binder.h": "enum {\n\tTF_ONE_WAY = 1,\n};\n",
    "include/uapi/linux/android/binder_netlink.h": "enum {\n\tBINDER_A_REPORT_ERROR = 1,\n};\n",
    "rust/bindgen_parameters": "--newtype-enum lru_status\n",
    "rust/helpers/spinlock.c": "void rust_helper_spin_unlock(spinlock_t *lock) {}\n",
    "rust/kernel/error.rs": "pub mod code {\n    declare_err!(EPROTO);\n}\n",
    "rust/kernel/prelude.rs": "pub use crate::str::CStrExt as _;\n",
    "rust/kernel/rbtree.rs": "impl RBTree {\n    pub fn cursor_lower_bound(&self) -> Cursor {}\n}\n",
    "rust/kernel/sync.rs": "pub use arc::{Arc, UniqueArc};\n",
    "rust/uapi/uapi_helper.h": "#include <uapi/linux/android/binder_netlink.h>\n",
}
BINDERFS = "drivers/android/binder/rust_binderfs.c"
CASES = (
    ("include/linux/fs.h", "clear_inode", "clear_node", ("symbols", "clear_inode", "not in the headers", "entries of a mount")),
    ("fs/super.c", "EXPORT_SYMBOL", "EXPORT_SYMBOL_FOR_KVM", ("symbols", "clear_inode", "not exported", "entries of a mount")),
    ("rust/helpers/spinlock.c", "spin_unlock", "spin_lock", ("symbols", "spin_unlock", "no rust_helper_ function")),
    ("rust/bindgen_parameters", "lru", "lrv", ("symbols", "lru_status", "no enum of Rust in rust/bindgen_parameters")),
    ("rust/uapi/uapi_helper.h", "_netlink", "fs", ("symbols", "BINDER_A_REPORT_ERROR", "not by rust/uapi/uapi_helper.h")),
    ("include/linux/fs.h", "inode *inode)", "inode *inode, int)",
     ("signatures", "clear_inode", "void clear_inode(struct inode*inode) -> void clear_inode(struct inode*inode,int)", "entries of a mount")),
    ("include/linux/mutex_types.h", "atomic_long_t", "long", ("structs", "mutex", "2 lines differ; - atomic_long_t owner;; + long owner;")),
    ("include/linux/security.h", "u32 len", "u32 size", ("structs", "lsm_context", "no len; 2 lines differ; - u32 len;; + u32 size;")),
    ("rust/kernel/sync.rs", "UniqueArc", "", ("crate", "kernel::sync::UniqueArc", "not in the crate")),
    ("rust/kernel/prelude.rs", "CStrExt", "", ("crate", "kernel::prelude::CStrExt", "not in the crate")),
    ("rust/kernel/error.rs", "EPROTO", "EPROTONOSUPPORT", ("crate", "kernel::error::code::EPROTO", "not in the crate")),
    ("rust/kernel/rbtree.rs", "&self", "&mut self", ("crate", "rbtree.rs:cursor_lower_bound",
                                                     "pub fn cursor_lower_bound(&self)-> Cursor -> pub fn cursor_lower_bound(&mut self)-> Cursor")),
    ("include/uapi/linux/android/binder.h", "1,", "1,\n\tTF_NEW = 0x80,", ("uapi", "TF_NEW", "TF_NEW = 0x80,", "binder.h")),
    (BINDERFS, "", 'f = binderfs_create_file(dir, "new_one", g);', ("uapi", "features/new_one")),
    (BINDERFS, "", 'f = binderfs_create_file(dir, "extended_error", g);', None),
    ("drivers/android/node.rs", "", "theirs", ("edits", "drivers/android/node.rs", "a file of ours has this name")),
    ("drivers/android/Makefile", "_RUST", "_R", ("edits", "drivers/android/Makefile", "drivers/android/Makefile has no line for ANDROID_BINDER_IPC_RUST to replace")),
    ("include/linux/fs.h", "Words. */\n", "Others. */\n\n", None),
    ("include/linux/fs.h", ",\n\t\t     ", ", ", None),
)


@pytest.mark.parametrize("file, old, new, finding", CASES)
def test_each_change_is_found(tmp_path, file, old, new, finding):
    for name, texts in (("old", OLD), ("new", OLD | {file: OLD.get(file, "").replace(old, new, 1)})):
        patches.put(tmp_path / name, texts)
    assert port.findings(tmp_path / "old", tmp_path / "old") == []
    found = port.findings(tmp_path / "old", tmp_path / "new")
    if finding:
        assert [row[:len(finding)] for row in found if row[0] == finding[0]] == [finding]
    else:
        assert found == []
