"""What a run compares with: the committed tree, and on disk the files of ours that git ignores."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from ktx_cli.project.files import read_bytes
from ktx_cli.project.layout import Layout
from ktx_cli.project.repository import Repository, TreeView


class ProjectBase:
    """A commit's files, and where git ignores one of our folders the working files in it.

    Ignored files have no history, so what people wrote into them is on disk alone. Files that are neither committed
    nor ignored are the user's business and not part of the base.
    """

    def __init__(self, layout: Layout, repository: Repository | None, commit: str | None) -> None:
        self.commit = commit
        self._layout = layout
        self._repository = repository
        self._tree: TreeView | None = None if repository is None else repository.tree(commit)
        self._ignored: dict[str, bytes] = {}

    def read(self, path: str) -> bytes | None:
        """Return a file's content, or None where there is no such file."""
        content = None if self._tree is None else self._tree.read(path)
        return self._ignored.get(path) if content is None else content

    def read_many(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Return path -> content of those that exist."""
        contents = ((path, self.read(path)) for path in paths)
        return {path: content for path, content in contents if content is not None}

    def blobs(self, prefix: str) -> dict[str, str]:
        """Return path -> an id of the content, of everything below a folder."""
        committed = {} if self._tree is None else self._tree.blobs(prefix)
        self._ignored.update(self._read_ignored(prefix, committed))
        ignored = {
            path: f"sha256:{hashlib.sha256(content).hexdigest()}"
            for path, content in self._ignored.items()
            if path.startswith(f"{prefix}/") and path not in committed
        }
        return {**committed, **ignored}

    def paths(self, prefix: str) -> list[str]:
        """Return the paths that begin with `prefix`, sorted."""
        committed = () if self._tree is None else self._tree.entries
        return sorted(path for path in {*committed, *self._ignored} if path.startswith(prefix))

    def _read_ignored(self, prefix: str, committed: Mapping[str, str]) -> dict[str, bytes]:
        if self._repository is None:
            return {}
        root = self._layout.root
        found = [path.relative_to(root).as_posix() for path in (root / prefix).rglob("*") if path.is_file()]
        ignored = self._repository.ignored([path for path in found if path not in committed])
        contents = ((path, read_bytes(root / path)) for path in sorted(ignored))
        return {path: content for path, content in contents if content is not None}
