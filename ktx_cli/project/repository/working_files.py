"""The project's files on disk: their current state, how new contents are staged, and how they are moved into place."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ktx_cli.project.files import can_read, can_write_in, storage_error, sync_directory, write_atomic
from ktx_cli.project.layout import ancestors
from ktx_cli.project.repository.model import HeldReason, RepositoryLayout

STAGING_PREFIX = "staging-"
"""New contents wait in `.ktx/staging-<token>/` until the branch has moved."""


@contextlib.contextmanager
def naming(path: Path, doing: str = "write") -> Iterator[None]:
    """Turn operating system errors into `StorageError`s that name the path."""
    try:
        yield
    except OSError as error:
        raise storage_error(path, error, doing) from error


@dataclass(frozen=True, slots=True)
class Signature:
    """What shows that a file was touched, from `lstat`."""

    device: int
    inode: int
    mode: int
    size: int
    modified_ns: int
    changed_ns: int

    @property
    def executable(self) -> bool:
        """Whether the owner may execute the file."""
        return bool(self.mode & stat.S_IXUSR)

    @property
    def is_file(self) -> bool:
        """Whether the path is a regular file."""
        return stat.S_ISREG(self.mode)


def signature_of(path: Path) -> Signature | None:
    """Return the signature of what is at `path`, or None if nothing is there. Does not follow a symbolic link."""
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise storage_error(path, error, "inspect") from error
    return Signature(found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def obstacle(
    project_dir: Path, path: str, found: Signature | None, clear: dict[str, HeldReason | None]
) -> HeldReason | None:
    """Return why no file can be at `path`, or None. `clear` caches what is known about folders."""
    for folder in ancestors(path):
        if folder not in clear:
            clear[folder] = _folder_obstacle(project_dir / folder)
        if clear[folder] is not None:
            return clear[folder]
    if found is None:
        return None
    if found.is_file:
        return None if can_read(project_dir / path) else HeldReason.UNREADABLE
    if stat.S_ISLNK(found.mode):
        return HeldReason.SYMLINK
    return HeldReason.IS_A_DIRECTORY if stat.S_ISDIR(found.mode) else HeldReason.NOT_A_FILE


def _folder_obstacle(folder: Path) -> HeldReason | None:
    found = signature_of(folder)
    if found is None:
        return None
    if stat.S_ISLNK(found.mode):
        return HeldReason.SYMLINK
    if not stat.S_ISDIR(found.mode):
        return HeldReason.NOT_A_DIRECTORY
    return HeldReason.NESTED_REPOSITORY if os.path.lexists(folder / ".git") else None


def names_in(folder: Path) -> list[str]:
    """Return the names of a folder's entries."""
    return [path.name for path in folder.iterdir()]


def digest_of(path: Path) -> str | None:
    """Return the SHA-256 of a regular file's bytes, or None if there is none at `path`."""
    found = signature_of(path)
    if found is None or not found.is_file:
        return None
    with naming(path, "read"), path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class Placement:
    """A file to put in place only if `expected` still matches. `staged` None: the file is removed."""

    path: str
    staged: Path | None
    expected: Signature | None


@dataclass(frozen=True, slots=True)
class NewFile:
    """Content to stage; `replaces` is the file whose permissions it takes over, None for a new file."""

    content: bytes
    replaces: Signature | None
    executable: bool = False


def stage(folder: Path, files: Mapping[str, NewFile]) -> dict[str, Path]:
    """Write contents durably into a staging folder; return path -> staged file."""
    staged = {}
    for number, (path, file) in enumerate(files.items()):
        target = folder / str(number)
        with naming(target):
            folder.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as stream:
                os.fchmod(stream.fileno(), _permissions(file, os.fstat(stream.fileno()).st_mode))
                stream.write(file.content)
                stream.flush()
                os.fsync(stream.fileno())
        staged[path] = target
    return staged


def _permissions(file: NewFile, fresh: int) -> int:
    """Return the permission bits: those of the replaced file, else those the umask leaves, executable if readable."""
    bits = stat.S_IMODE(fresh if file.replaces is None else file.replaces.mode)
    return bits | ((bits & 0o444) >> 2) if file.executable else bits


def remove_staging(private: Path, living: Collection[str]) -> list[str]:
    """Remove the staging folders except those of live runs, given by their tokens; return the names."""
    kept = {f"{STAGING_PREFIX}{token}" for token in living}
    removed = []
    with naming(private, "remove staging folders of"):
        for folder in private.glob(f"{STAGING_PREFIX}*"):
            if folder.name not in kept:
                shutil.rmtree(folder)
                removed.append(folder.name)
    return removed


def check_places(project_dir: Path, placements: Iterable[Placement]) -> None:
    """Raise `StorageError` for a file whose folder, or nearest existing ancestor, accepts no new files."""
    known: dict[Path, bool] = {}
    for placement in placements:
        target = project_dir / placement.path
        folder = target.parent
        while not os.path.lexists(folder) and folder != project_dir:
            folder = folder.parent
        if folder not in known:
            known[folder] = not folder.is_dir() or can_write_in(folder)
        if not known[folder]:
            number = errno.EROFS if os.statvfs(folder).f_flag & os.ST_RDONLY else errno.EACCES
            raise storage_error(target, OSError(number, os.strerror(number)))


class Undo:
    """Old files, kept until the end of a commit, so that the new ones can be undone."""

    def __init__(self, project_dir: Path, folder: Path) -> None:
        self._project_dir = project_dir
        self._folder = folder
        self._done: list[tuple[Placement, Path | None, Signature | None]] = []

    def keep(self, placement: Placement) -> Path | None:
        """Keep the current content at the path; return its location."""
        if placement.expected is None:
            return None
        self._folder.mkdir(parents=True, exist_ok=True)
        kept = self._folder / f"old-{len(self._done)}"
        target = self._project_dir / placement.path
        try:
            os.link(target, kept)
        except OSError:  # another file system, or a file of another user
            shutil.copy2(target, kept)
        return kept

    def record(self, placement: Placement, kept: Path | None) -> None:
        """Record that the file is in place."""
        self._done.append((placement, kept, signature_of(self._project_dir / placement.path)))

    def take_back(self) -> None:
        """Restore the old files, except where somebody touched the new ones meanwhile."""
        while self._done:
            placement, kept, placed = self._done.pop()
            target = self._project_dir / placement.path
            if signature_of(target) != placed:
                continue
            with naming(target):
                if kept is None:
                    target.unlink(missing_ok=True)
                    _remove_empty(self._project_dir, placement.path)
                else:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    _move(kept, target)


def place_all(layout: RepositoryLayout, placements: Iterable[Placement], undo: Undo | None = None) -> list[str]:
    """Put files in place, removals first; return the paths that were skipped because they were touched meanwhile."""
    left, folders = [], set()
    for placement in sorted(placements, key=lambda placement: (placement.staged is not None, placement.path)):
        target = layout.project_dir / placement.path
        with naming(target):
            if not _place(layout.project_dir, placement, undo):
                left.append(placement.path)
            folders.add(target.parent)
    for folder in folders:
        with naming(folder), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            sync_directory(folder)
    return left


def _place(project_dir: Path, placement: Placement, undo: Undo | None) -> bool:
    target = project_dir / placement.path
    if placement.staged is not None:
        with contextlib.suppress(FileExistsError, NotADirectoryError):
            target.parent.mkdir(parents=True, exist_ok=True)
    found = signature_of(target)
    if found != placement.expected or obstacle(project_dir, placement.path, found, {}) is not None:
        return False
    kept = None if undo is None else undo.keep(placement)
    if placement.staged is None:
        target.unlink(missing_ok=True)
        _remove_empty(project_dir, placement.path)
    else:
        _move(placement.staged, target)
    if undo is not None:
        undo.record(placement, kept)
    return True


def _move(source: Path, target: Path) -> None:
    """Replace `target` with `source`, even from another file system."""
    try:
        os.replace(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        write_atomic(target, source.read_bytes(), mode=source.stat().st_mode & 0o7777)


def _remove_empty(project_dir: Path, path: str) -> None:
    """Remove the empty folders above a path, but not the project itself."""
    for folder in reversed(list(ancestors(path))):
        try:
            (project_dir / folder).rmdir()
        except FileNotFoundError:
            continue
        except OSError:  # not empty, or not ours to remove: git does not track folders, so nothing is wrong with it
            return


def remove_temporaries(project_dir: Path, paths: Iterable[str]) -> list[str]:
    """Remove what a killed `write_atomic` left next to the given paths; return the names of removed files."""
    removed = []
    for folder in {(project_dir / path).parent for path in paths}:
        with naming(folder, "remove temporary files of"):
            if not folder.is_dir():
                continue
            for temporary in folder.glob(".*.ktx-tmp"):
                temporary.unlink(missing_ok=True)
                removed.append(temporary.name)
    return removed


def needs_recovery(layout: RepositoryLayout) -> bool:
    """Return whether a record or a leftover of a run exists. Writes nothing."""
    if not layout.private.is_dir():
        return False
    names = names_in(layout.private)
    return any(name == layout.pending.name or is_leftover(layout, name) for name in names)


def is_leftover(layout: RepositoryLayout, name: str) -> bool:
    """Return whether a file in the private folder is left over from a killed run."""
    temporary = name.startswith(f".{layout.pending.name}.") and name.endswith(".ktx-tmp")
    return temporary or name.startswith(STAGING_PREFIX)
