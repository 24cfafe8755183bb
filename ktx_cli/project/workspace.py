"""An in-memory overlay: a base tree with changed paths on top, and child overlays that merge back."""

from __future__ import annotations

import bisect
import functools
import unicodedata
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from ktx_cli.core import ConfigError, UsageError
from ktx_cli.project.layout import SEMANTIC_NAME, Tree, ancestors, is_usable

if TYPE_CHECKING:
    from ktx_cli.project.merge import Conflict, TextMerge

_DEFINITIONS: Final = f"{SEMANTIC_NAME}/"


class Workspace:
    """A tree of files with changes: what was written or deleted here, on top of the base tree.

    Nothing reaches the disk. Paths are relative, with `/` between their parts, and never lead out of the project or
    into `.git`: every method normalizes its paths and raises `UsageError` for invalid ones. Use a workspace in one
    thread at a time; children of one parent are independent of each other.
    """

    def __init__(self, base: Tree) -> None:
        self._base = base if isinstance(base, _Snapshot) else _Snapshot(_Listing(base), {}, frozenset())
        self._changed: dict[str, bytes | None] = {}
        self._folders: set[str] = set()

    def read(self, path: str) -> bytes | None:
        """Return the file's current content, or None if there is no such file."""
        if not is_usable(path) and path.startswith(_DEFINITIONS) and self._base.has(path):
            return self._base.read(path)
        path = checked_path(path)
        return self._changed[path] if path in self._changed else self._base.read(path)

    def read_text(self, path: str) -> str | None:
        """Return the file's text, including any byte order mark; raises `ConfigError` if it is not UTF-8."""
        content = self.read(path)
        try:
            return None if content is None else content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path} is not UTF-8 text (byte {error.start})", hint=f"save {path} as UTF-8") from error

    def exists(self, path: str) -> bool:
        """Return whether the file exists here."""
        path = checked_path(path)
        return self._changed[path] is not None if path in self._changed else self._base.has(path)

    def paths(self, prefix: str = "") -> tuple[str, ...]:
        """Return the paths of all files here that begin with `prefix`, sorted."""
        found = set(self._base.paths(prefix))
        for path, content in self._changed.items():
            if content is None:
                found.discard(path)
            elif path.startswith(prefix):
                found.add(path)
        return tuple(sorted(found))

    def write(self, path: str, content: bytes | str) -> None:
        """Write a file; text is stored as UTF-8.

        Raises `UsageError` if a file is where the path needs a folder, or vice versa.
        """
        path = checked_path(path)
        self._check_place(path)
        self._put(path, content.encode("utf-8") if isinstance(content, str) else content)

    def _put(self, path: str, content: bytes | None) -> None:
        self._changed[path] = content
        self._folders.update(ancestors(path))

    def delete(self, path: str) -> None:
        """Delete a file, which need not exist."""
        self._put(checked_path(path), None)

    def apply(self, changes: Mapping[str, bytes | str | None]) -> None:
        """Write and delete files; None stands for a file to delete. Raises as `write`."""
        for path, content in changes.items():
            if content is None:
                self.delete(path)
            else:
                self.write(path, content)

    def drop(self, path: str) -> None:
        """Discard the change at this path, so that it is as in the base again.

        Raises `UsageError` if a file written here blocks the file of the base.
        """
        path = checked_path(path)
        if self._base.has(path):
            self._check_place(path)
        self._changed.pop(path, None)

    def changes(self) -> dict[str, bytes | None]:
        """Return the differences from the base, sorted by path; None for a deleted file."""
        return {path: content for path, content in sorted(self._changed.items()) if content != self._base.read(path)}

    @property
    def origin(self) -> Tree:
        """The tree at the bottom; it is the same object for all overlays in a stack."""
        return self._base.listing

    def base(self) -> Workspace:
        """Return the tree that this overlay was made on, without its own changes."""
        return Workspace(self._base)

    def overlaid(self) -> Mapping[str, bytes | None]:
        """Return everything that was written or deleted above the tree at the bottom; None for a deleted file."""
        return {**self._base.changed, **self._changed}

    def child(self) -> Workspace:
        """Return an overlay on the current state of this one; later changes here do not affect it."""
        return Workspace(self._base.with_changes(self._changed, self._folders))

    def absorb(self, child: Workspace, *, text_merge: TextMerge | None = None) -> tuple[Conflict, ...]:
        """Merge the child's changes into this overlay: all of them, or none if there are conflicts.

        Each file is merged by `merge_file` from the state the child began with; the child's changes are put into the
        text here. Returns the conflicts, sorted by path.
        """
        from ktx_cli.project.merge import Conflict, merge_file

        merged: dict[str, bytes | None] = {}
        conflicts: list[Conflict] = []
        for path, content in child.changes().items():
            result = merge_file(path, child._base.read(path), content, self.read(path), text_merge=text_merge)
            if isinstance(result, Conflict):
                conflicts.append(result)
            else:
                merged[path] = result
        if not conflicts:
            conflicts = self._clashes(merged)
        if not conflicts:
            for path, result in merged.items():
                self._put(path, result)
        return tuple(conflicts)

    def _clashes(self, merged: Mapping[str, bytes | None]) -> list[Conflict]:
        """Return a conflict for every merged file whose path is blocked by another file."""
        from ktx_cli.project.merge import Conflict

        trial = self.child()
        for path, content in merged.items():
            trial._put(path, content)
        found = ((path, trial._clash(path)) for path, content in merged.items() if content is not None)
        return [Conflict(path, "", f"{clash} is in the way") for path, clash in found if clash is not None]

    def _check_place(self, path: str) -> None:
        clash = self._clash(path)
        if clash is not None:
            raise UsageError(f"{path} cannot be written: {clash} is in the way", hint=f"delete {clash} first")

    def _clash(self, path: str) -> str | None:
        """Return the file that blocks `path`, or None if nothing does."""
        above = next((folder for folder in ancestors(path) if self.exists(folder)), None)
        if above is not None or not (path in self._folders or self._base.may_be_folder(path)):
            return above
        return next(iter(self.paths(path + "/")), None)


class _Listing:
    """A base tree whose paths are listed once."""

    def __init__(self, base: Tree) -> None:
        self.read = base.read
        self._base = base

    @functools.cached_property
    def _paths(self) -> list[str]:
        """The paths that an overlay can name. A definition with any other name can be read: it may contain policies."""
        return sorted(path for path in set(self._base.paths("")) if is_usable(path) or path.startswith(_DEFINITIONS))

    def paths(self, prefix: str) -> Iterator[str]:
        paths = self._paths
        for index in range(bisect.bisect_left(paths, prefix), len(paths)):
            if not paths[index].startswith(prefix):
                return
            yield paths[index]

    def has(self, path: str) -> bool:
        return next(self.paths(path), None) == path


class _Snapshot:
    """A listing with frozen changes, on which every overlay is based.

    `folders` are the folders of the changed paths.
    """

    def __init__(self, listing: _Listing, changed: dict[str, bytes | None], folders: frozenset[str]) -> None:
        self.listing = listing
        self.changed = changed
        self._folders = folders

    def with_changes(self, changed: Mapping[str, bytes | None], folders: set[str]) -> _Snapshot:
        return _Snapshot(self.listing, {**self.changed, **changed}, self._folders | folders)

    def read(self, path: str) -> bytes | None:
        return self.changed[path] if path in self.changed else self.listing.read(path)

    def has(self, path: str) -> bool:
        return self.changed[path] is not None if path in self.changed else self.listing.has(path)

    def paths(self, prefix: str) -> Iterator[str]:
        yield from (path for path in self.listing.paths(prefix) if path not in self.changed)
        yield from (path for path, content in self.changed.items() if content is not None and path.startswith(prefix))

    def may_be_folder(self, path: str) -> bool:
        return path in self._folders or next(self.listing.paths(path + "/"), None) is not None


def checked_path(path: str) -> str:
    """Return the normalized form of a project path (`wiki/./a//b.md` becomes `wiki/a/b.md`).

    Raises `UsageError` for a path that is empty, absolute, leads upwards or into `.git`, or contains a backslash or a
    control character.
    """
    parts = [part for part in path.split("/") if part not in ("", ".")]
    problem = None
    if not parts or path.endswith(("/", "/.")):
        problem = "does not name a file"
    elif path.startswith("/"):
        problem = "is absolute"
    elif ".." in parts:
        problem = "leads out of the project"
    elif not is_usable(path):
        problem = "contains a backslash or a control character"
    elif any(_means_git(part) for part in parts):
        problem = "leads into .git"
    if problem is not None:
        message = f"the path {path!r} {problem}"
        raise UsageError(message, hint="use a path in the project folder, for example wiki/global/a.md")
    return "/".join(parts)


def _means_git(part: str) -> bool:
    """Return whether some file system treats this name as `.git`: other case, ignored characters, the 8.3 name."""
    visible = "".join(character for character in part if unicodedata.category(character) != "Cf")
    name = visible.partition(":")[0].rstrip(". ").casefold()
    return name in (".git", "git~1")
