"""Files by their paths as git sees them, wherever they are: a commit, the working tree, an overlay in memory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from ktx_cli.project.files import read_bytes


class Tree(Protocol):
    """Files to read. A path is relative, with `/` between its parts."""

    def read(self, path: str) -> bytes | None:
        """Return a file's content, None when there is no such file."""
        ...

    def paths(self, prefix: str) -> Iterable[str]:
        """Return the paths of all files that begin with `prefix` (`wiki/`; an empty prefix means every file)."""
        ...


class EmptyTree:
    """No files."""

    def read(self, path: str) -> bytes | None:
        """Return None."""
        return None

    def paths(self, prefix: str) -> Iterable[str]:
        """Return nothing."""
        return ()


class WorkingTree:
    """The files of a project as they are on disk now. Raises `StorageError` for what cannot be read."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, path: str) -> bytes | None:
        """Return a file's content, None when there is no such file."""
        return read_bytes(self._root / path)

    def paths(self, prefix: str) -> list[str]:
        """Return the paths of all files that begin with `prefix`, sorted as paths are, folder by folder.

        A folder that is called like a file (`orders.yaml`) is among them: reading it says what is wrong.
        """
        folder = self._root / prefix.rpartition("/")[0]
        if not folder.is_dir():
            return []
        listed = (path for path in sorted(folder.rglob("*")) if path.suffix or path.is_file())
        found = (path.relative_to(self._root) for path in listed)
        return [path.as_posix() for path in found if path.as_posix().startswith(prefix)]
