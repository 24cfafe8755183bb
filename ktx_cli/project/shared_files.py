"""Files by content in the shared state: hosts exchange trees of files without a common disk, and copy projects."""

from __future__ import annotations

import bisect
import contextlib
import fcntl
import hashlib
import itertools
import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

from ktx_cli.core import StorageError, isoformat, now
from ktx_cli.project.files import read_bytes, storage_error, write_atomic
from ktx_cli.project.layout import CONFIG_NAME, OWN_NAMES, PRIVATE_NAME, Layout
from ktx_cli.project.state import StateDatabase, prepare_private_folder, transaction
from ktx_cli.project.workspace import checked_path

_AT_ONCE: Final = 500
"""Maximum number of files per statement."""

_BYTES_AT_ONCE: Final = 16_000_000
"""Maximum size of the files of a statement together; a larger file has a statement of its own."""

_AHEAD: Final = 200
_BYTES_AHEAD: Final = 1_000_000
"""How many of the next files in a folder of a tree are read with one, and how large they may be together."""

KEPT_DAYS: Final = 14
"""How long a file is kept after its last use."""

KEPT_COPIES: Final = 3
"""The number of copies of a project that are kept, besides those in use."""


class SharedFiles:
    """Stores and returns contents by their sha256. `cache`: a folder with copies of what this host has read.

    Raises `StorageError` if the database fails, or if a content is missing or damaged; `again`: what stores it again.
    """

    def __init__(
        self, database: StateDatabase, cache: Path | None = None, *, again: str = "start the run again"
    ) -> None:
        self._database = database
        self._cache = cache
        self._again = again

    @staticmethod
    def name_of(content: bytes) -> str:
        """Return the name under which a content is stored."""
        return hashlib.sha256(content).hexdigest()

    def put(self, contents: Iterable[bytes]) -> None:
        """Store contents that are not stored yet."""
        for some in _chunks(contents, len):
            by_hash = {hashlib.sha256(content).hexdigest(): content for content in some}
            stamp = isoformat(now())
            with transaction(self._database):
                known = self._rows("used", by_hash)
                self._database.executemany(
                    "INSERT INTO shared_files VALUES (?, ?, ?)",
                    [(name, content, stamp) for name, content in by_hash.items() if name not in known],
                )
                day = stamp[:10]
                old = [(stamp, name) for name, used in known.items() if used[:10] != day]
                self._database.executemany("UPDATE shared_files SET used = ? WHERE sha256 = ?", old)

    def put_tree(self, files: Mapping[str, bytes]) -> str:
        """Store the files of a tree and their names, and return the tree's id."""
        document = _tree_text(files)
        self.put((*files.values(), document))
        return hashlib.sha256(document).hexdigest()

    def get(self, sha256: str) -> bytes:
        """Return a content."""
        return next(content for _, content in self.get_many((sha256,)))

    def get_many(self, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Yield the names and contents of files, each once and in any order; holds a limited size at once."""
        wanted = list(names)
        for name in wanted:
            if not is_sha256(name):
                raise StorageError(f"{name!r} is not the name of a file of the shared state", hint=self._again)
        for name, content in self.find(wanted):
            if content is None:
                raise StorageError(f"the shared state has no file {name[:12]}", hint=self._again)
            yield name, content

    def find(self, names: Iterable[str], bytes_at_once: int = _BYTES_AT_ONCE) -> Iterator[tuple[str, bytes | None]]:
        """Yield what `get_many` yields, but None for a content that is missing or damaged, or cannot exist."""
        unread: list[str] = []
        for name in dict.fromkeys(names):
            content = self._copy_of(name) if is_sha256(name) else None
            if content is not None:
                yield name, content
            elif is_sha256(name):
                unread.append(name)
            else:
                yield name, None
        for start in range(0, len(unread), _AT_ONCE):
            some = unread[start : start + _AT_ONCE]
            sizes = self._rows("length(content)", some) if len(some) > 1 else {}
            for part in _chunks(some, lambda name, sizes=sizes: sizes.get(name, 0), bytes_at_once):  # type: ignore[misc]
                found = self._rows("content", part)
                for name in part:
                    yield name, self._checked(name, found.pop(name, None))

    def _copy_of(self, name: str) -> bytes | None:
        """Return this host's copy of a content, or None if there is none or it is damaged."""
        place = self._place(name)
        content = None if place is None else read_bytes(place)
        if place is None or content is None or self.name_of(content) != name:
            return None
        with contextlib.suppress(OSError):  # another process has deleted it by now
            os.utime(place)
        return content

    def _checked(self, name: str, stored: bytes | None) -> bytes | None:
        """Return a content from the database, and keep a copy on this host; None if it is missing or damaged."""
        if stored is None:
            return None
        content, place = bytes(stored), self._place(name)
        if self.name_of(content) != name:
            with contextlib.suppress(StorageError):  # a reader may not; otherwise it is stored again
                self._database.execute("DELETE FROM shared_files WHERE sha256 = ?", (name,))
            return None
        if place is not None:
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomic(place, content, mode=0o600)
        return content

    def _place(self, name: str) -> Path | None:
        return None if self._cache is None else self._cache / name[:2] / name

    def tree(self, tree_id: str) -> dict[str, str]:
        """Return the paths of a stored tree with the sha256 of each file."""
        return {str(path): str(name) for path, name in json.loads(self.get(tree_id)).items()}

    def drop_unused(self) -> int:
        """Delete what was not used for `KEPT_DAYS`, and return the number of contents deleted from the database.

        What a published snapshot consists of is kept, however old it is.
        """
        before = isoformat(now() - timedelta(days=KEPT_DAYS))
        with transaction(self._database):
            rows = self._database.execute("SELECT sha256 FROM shared_files WHERE used < ?", (before,)).fetchall()
            unused = {str(name) for (name,) in rows}
            unused = unused - self._published() if unused else unused
            self._database.executemany("DELETE FROM shared_files WHERE sha256 = ?", [(name,) for name in unused])
        return len(unused)

    def drop_unused_copies(self) -> None:
        """Delete the copies of this host that were not used for `KEPT_DAYS`."""
        before = (now() - timedelta(days=KEPT_DAYS)).timestamp()
        for path in () if self._cache is None else self._cache.glob("*/*"):
            with contextlib.suppress(OSError):  # another process was faster
                if path.stat().st_mtime < before:
                    path.unlink()

    def _published(self) -> set[str]:
        """Return the names of what published snapshots consist of."""
        names: set[str] = set()
        for tree, statuses in self._database.execute("SELECT tree, statuses FROM published").fetchall():
            row = self._database.execute("SELECT content FROM shared_files WHERE sha256 = ?", (tree,)).fetchone()
            names |= {str(tree), str(statuses)}
            if row is not None:
                with contextlib.suppress(ValueError, AttributeError):  # damaged: no server can open it
                    names |= set(json.loads(bytes(row[0])).values())
        return names

    def _rows(self, column: str, names: Iterable[str]) -> dict[str, Any]:
        """Return the values of a column of the files that are stored, by name."""
        wanted = list(names)
        places = ", ".join("?" * len(wanted))
        query = f"SELECT sha256, {column} FROM shared_files WHERE sha256 IN ({places})"
        return dict(self._database.execute(query, wanted).fetchall()) if wanted else {}


def is_sha256(name: object) -> bool:
    """Return whether this is a sha256 as contents are named by."""
    return isinstance(name, str) and _SHA256.fullmatch(name) is not None


_SHA256: Final = re.compile(r"[0-9a-f]{64}")


def tree_id(files: Mapping[str, bytes]) -> str:
    """Return the id of a tree, whether it is stored or not."""
    return hashlib.sha256(_tree_text(files)).hexdigest()


def _tree_text(files: Mapping[str, bytes]) -> bytes:
    names = {path: hashlib.sha256(content).hexdigest() for path, content in sorted(files.items())}
    return json.dumps(names, ensure_ascii=True).encode()


class SharedTree:
    """A stored tree of files, read when needed; see `Tree`."""

    def __init__(self, files: SharedFiles, names: Mapping[str, str]) -> None:
        self._files, self._names = files, names
        self._paths = sorted(names)
        self._contents: dict[str, bytes] = {}
        """The contents that were read, by name."""

    def read(self, path: str) -> bytes | None:
        """Return a file's content, or None if the file does not exist."""
        name = self._names.get(path)
        if name is None:
            return None
        if name not in self._contents:
            self._read_ahead(path)
        if name not in self._contents:
            self._contents[name] = self._files.get(name)
        return self._contents[name]

    def paths(self, prefix: str) -> list[str]:
        """Return the paths of all files that begin with `prefix`, sorted."""
        start = bisect.bisect_left(self._paths, prefix)
        return list(itertools.takewhile(lambda path: path.startswith(prefix), self._paths[start:]))

    def _read_ahead(self, path: str) -> None:
        """Read a file with those after it in its folder: who reads one mostly reads them all, in this order."""
        folder = path.rpartition("/")[0]
        start = bisect.bisect_left(self._paths, path)
        near = (each for each in self._paths[start : start + _AHEAD] if each.rpartition("/")[0] == folder)
        names = [name for name in dict.fromkeys(map(self._names.__getitem__, near)) if name not in self._contents]
        size = 0
        for name, content in self._files.find(names, _BYTES_AHEAD):
            if content is not None:
                self._contents[name] = content
                size += len(content)
            if size > _BYTES_AHEAD:
                return


Item = TypeVar("Item")


def _chunks(
    items: Iterable[Item], size: Callable[[Item], int], most: int = _BYTES_AT_ONCE, count: int = _AT_ONCE
) -> Iterator[list[Item]]:
    """Yield lists of at most `count` items, of at most `most` bytes together if it is more than one."""
    some: list[Item] = []
    total = 0
    for item in items:
        if some and (len(some) == count or total + size(item) > most):
            yield some
            some, total = [], 0
        some.append(item)
        total += size(item)
    if some:
        yield some


@dataclass(slots=True)
class ProjectCopy:
    """A copy of a project with the context files of another tree; no process removes it before `close`."""

    layout: Layout
    _lock: int | None

    def close(self) -> None:
        """Let the copy be removed, once newer ones are there."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def open_copy(layout: Layout) -> ProjectCopy | None:
    """Open a copy that exists, or return None; raises `StorageError`."""
    try:
        descriptor = _locked(layout.root, fcntl.LOCK_SH)
        if descriptor is not None:
            os.utime(layout.root)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_error(layout.root, error, "open") from error
    return None if descriptor is None else ProjectCopy(layout, descriptor)


def copy_project(
    own: Layout, layout: Layout, names: Mapping[str, str], files: SharedFiles, finish: Callable[[Layout], None]
) -> ProjectCopy:
    """Open a copy with the context files of a stored tree, made if it does not exist.

    The settings are those of the own project: whoever can write to the shared state must not say where secrets go.
    Everything else is a link to it, and secrets are read from it; see `origin_of`. `finish` completes the copy before
    others can see it. Raises `StorageError`, also for a tree with files that no project has.
    """
    for path in names:
        if checked_path(path) != path or path.split("/")[0] not in OWN_NAMES - {PRIVATE_NAME}:
            raise StorageError(
                f"the shared state contains the file {path!r}, which ktx does not store there",
                hint="check who can write to the shared state",
            )
    while (copy := open_copy(layout)) is None:
        try:
            layout.root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=layout.root.parent))
            try:
                _fill(own, Layout(draft), names, files)
                finish(Layout(draft))
                try:
                    draft.rename(layout.root)
                except OSError:
                    if not layout.private.is_dir():  # otherwise another process was faster
                        raise
            finally:
                if draft.is_dir():
                    shutil.rmtree(draft)
        except OSError as error:
            raise storage_error(layout.root, error) from error
    return copy


def remove_old_copies(folder: Path) -> None:
    """Remove the copies in a folder, except those in use and the `KEPT_COPIES` that were used last.

    A copy gets another name first, so that nobody opens an incomplete one. One that cannot be removed stays.
    """
    used: list[tuple[float, Path]] = []
    for each in folder.glob("[0-9a-f]*"):
        with contextlib.suppress(OSError):  # another process removed it
            used.append((each.stat().st_mtime, each))
    for _, each in sorted(used, reverse=True)[KEPT_COPIES:]:
        with contextlib.suppress(OSError):
            descriptor = _locked(each, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if descriptor is not None:
                try:
                    each.rename(folder / f".removed-{secrets.token_hex(8)}")
                finally:
                    os.close(descriptor)
    for each in folder.glob(".removed-*"):
        shutil.rmtree(each, ignore_errors=True)


def _locked(root: Path, kind: int) -> int | None:
    """Return a descriptor that locks a copy, or None if it was removed meanwhile; raises `OSError`."""
    path = root / PRIVATE_NAME / "copy.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, kind)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _fill(own: Layout, copy: Layout, names: Mapping[str, str], files: SharedFiles) -> None:
    paths: dict[str, list[Path]] = {}
    for path, name in names.items():
        (copy.root / path).parent.mkdir(parents=True, exist_ok=True)
        if path == CONFIG_NAME:
            (copy.root / path).write_bytes(own.config.read_bytes())
        else:
            paths.setdefault(name, []).append(copy.root / path)
    for name, content in files.get_many(paths):
        for place in paths[name]:
            place.write_bytes(content)
    for entry in own.root.iterdir():
        if entry.name not in OWN_NAMES and entry.name != ".git":
            (copy.root / entry.name).symlink_to(entry)
    prepare_private_folder(copy)
