# SPDX-License-Identifier: GPL-2.0
"""Write the guest's first filesystem: a cpio archive, which needs no root to hold device nodes."""

import stat

_MAGIC = "070701"


class Archive:
    """A cpio archive in the "new ASCII" format that the kernel unpacks at boot."""

    def __init__(self):
        self._parts = []
        self._inode = 0
        self._folders = set()

    def folder(self, path):
        """Add a folder and those above it."""
        parent = path.rpartition("/")[0]
        if parent:
            self.folder(parent)
        if path not in self._folders:
            self._folders.add(path)
            self._member(path, stat.S_IFDIR | 0o755, b"")

    def file(self, path, content, mode=0o644):
        self._parented(path)
        self._member(path, stat.S_IFREG | mode, content)

    def link(self, path, target):
        self._parented(path)
        self._member(path, stat.S_IFLNK | 0o777, target.encode())

    def character_device(self, path, major, minor):
        self._parented(path)
        self._member(path, stat.S_IFCHR | 0o600, b"", (major, minor))

    def bytes(self):
        """The finished archive."""
        self._member("TRAILER!!!", 0, b"")
        return b"".join(self._parts)

    def _parented(self, path):
        parent = path.rpartition("/")[0]
        if parent:
            self.folder(parent)

    def _member(self, path, mode, content, device=(0, 0)):
        self._inode += 1
        name = path.encode() + b"\0"
        fields = (
            self._inode, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(name), 0,
        )
        header = _MAGIC + "".join(f"{field:08x}" for field in fields)
        self._parts += [_padded(header.encode() + name), _padded(content)]


def _padded(data):
    return data + b"\0" * (-len(data) % 4)
