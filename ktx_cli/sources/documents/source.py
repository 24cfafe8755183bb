"""Read documents in a folder or a git repository: Markdown, HTML, PDF, text and SQL files.

Links to targets outside the folder are not followed, and skipped files are reported.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ktx_cli.core import CancelledError, Command, Hint, SourceError, StorageError, is_utf8, listing, one_line, plural
from ktx_cli.documents import SUFFIXES, Changes, RawFile, Skipped, Snapshot, WorkUnit
from ktx_cli.project import CONFIG_NAME, OWN_NAMES, read_bytes, storage_error
from ktx_cli.sources.document_units import NEIGHBOURS, DocumentSource, document_units
from ktx_cli.sources.port import FetchContext, Projection
from ktx_cli.sources.registry import Detected, Folder, topmost

if TYPE_CHECKING:
    from ktx_cli.sources.git import Origin


MAX_FILE_BYTES: Final = 20_000_000
MAX_FILES: Final = 100_000

_NEVER_NAMED: Final = frozenset((".git", ".ktx"))
_LEFT_OUT: Final = frozenset(("node_modules",))


@dataclass(slots=True)
class Found:
    """Files by path, sorted, and the skipped files. `complete`: no previous file can be missing by mistake."""

    files: dict[str, RawFile] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)
    complete: bool = True


def read_folder(root: Path, suffixes: Collection[str], *, stopped: Callable[[], bool] = lambda: False) -> Found:
    """Return the hashed files below `root` with one of the lower-case `suffixes`.

    A single thread reads them, because several threads, which hand over after each small file, take four times as long.
    Files that ktx itself keeps in a project are skipped. Raises `StorageError` if the root cannot be listed,
    `CancelledError` if `stopped()` returns true.
    """
    walk = _Walk(root.resolve(), frozenset(suffixes), stopped)
    for path, place in sorted(walk.paths().items()):
        walk.take(path, _hashed(path, place, stopped))
    walk.found.skipped.sort(key=lambda skipped: skipped.what)
    walk.found.skipped += walk.unread.skipped()
    return walk.found


class _Walk:
    def __init__(self, root: Path, suffixes: frozenset[str], stopped: Callable[[], bool]) -> None:
        self.found = Found()
        self.unread = Unread()
        self._root, self._suffixes, self._stopped = root, suffixes, stopped
        self._paths: dict[str, Path] = {}

    def paths(self) -> dict[str, Path]:
        """Return path -> location of every selected file."""
        waiting = [(self._root, "")]
        while waiting:
            _look(self._stopped)
            folder, prefix = waiting.pop()
            listed = self._listed(folder, prefix)
            is_project = any(entry.name == CONFIG_NAME for entry in listed)
            for entry in listed:
                if is_project and entry.name in OWN_NAMES:
                    self._own(entry, prefix + entry.name)
                    continue
                inner = self._entry(entry, prefix + entry.name)
                if inner is not None:
                    waiting.append((inner, f"{prefix}{entry.name}/"))
        return self._paths

    def take(self, path: str, outcome: RawFile | StorageError) -> None:
        """Add a readable file, or report an unreadable one."""
        if isinstance(outcome, RawFile):
            self.found.files[path] = outcome
        else:
            self._leave(path, outcome.message, retry=True)

    def _listed(self, folder: Path, prefix: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            failed = storage_error(folder, error, "list")
            if not prefix:
                raise failed from error
            self._leave(prefix, failed.message, retry=True)
            return []

    def _entry(self, entry: os.DirEntry[str], path: str) -> Path | None:
        """Process a directory entry, and return it if it is a folder to read."""
        if not is_utf8(entry.name):
            self._leave(path, "its name is not UTF-8")
        elif entry.is_symlink():
            self._link(entry, path)
        elif entry.is_dir(follow_symlinks=False):
            return self._folder(entry, path)
        elif entry.is_file(follow_symlinks=False):
            self._file(Path(entry.path), entry.stat(follow_symlinks=False).st_size, path)
        return None

    def _own(self, entry: os.DirEntry[str], path: str) -> None:
        """Skip folders that ktx writes in a project: files made from documents are not documents."""
        if entry.name not in _NEVER_NAMED and entry.is_dir():
            self._leave(f"{path}/", "folder that ktx writes to")

    def _folder(self, entry: os.DirEntry[str], path: str) -> Path | None:
        folder = Path(entry.path)
        if entry.name in _LEFT_OUT or entry.name.startswith("."):
            if entry.name not in _NEVER_NAMED:
                self._leave(f"{path}/", "hidden folder" if entry.name.startswith(".") else "third-party packages")
        else:
            return folder
        return None

    def _file(self, place: Path, size: int, path: str) -> None:
        if Path(path).suffix.lower() not in self._suffixes:
            self.unread.note(path)
        elif place.name.startswith(".") or Path(path).name.startswith("."):
            self._leave(path, "hidden file")
        elif size > MAX_FILE_BYTES:
            self._leave(path, f"larger than {MAX_FILE_BYTES:,} bytes")
        elif len(self._paths) >= MAX_FILES:
            self._leave("more files", f"only the first {MAX_FILES:,} are read", retry=True)
        else:
            self._paths[path] = place

    def _link(self, entry: os.DirEntry[str], path: str) -> None:
        """Add the target file of a link inside the folder. A linked folder is read at its own location."""
        if Path(path).suffix.lower() not in self._suffixes and not entry.is_dir():
            return
        place = Path(os.path.realpath(entry.path))
        if not place.is_relative_to(self._root):
            self._leave(path, "link to a target outside the folder")
            return
        try:
            found = place.stat()
        except OSError:
            self._leave(path, "broken link")
            return
        if stat.S_ISREG(found.st_mode) and not any(
            part.startswith(".") for part in place.relative_to(self._root).parts
        ):
            self._file(place, found.st_size, path)

    def _leave(self, path: str, reason: str, *, retry: bool = False) -> None:
        left = Skipped(one_line(path.encode("utf-8", "backslashreplace").decode()), reason, retry)
        self.found.complete = self.found.complete and not retry
        if left not in self.found.skipped[-1:]:
            self.found.skipped.append(left)


def _hashed(path: str, place: Path, stopped: Callable[[], bool]) -> RawFile | StorageError:
    _look(stopped)
    try:
        content = _content(place, path)
    except StorageError as error:
        return error
    digest = hashlib.sha256(content).hexdigest()
    return RawFile(path, digest, len(content), lambda: _unchanged(place, path, digest))


def _content(place: Path, path: str) -> bytes:
    content = read_bytes(place)
    if content is None:
        raise StorageError(
            f"{path} no longer exists", hint=Hint("the next `{}` reads the folder again", Command("ingest"))
        )
    return content


def _unchanged(place: Path, path: str, digest: str) -> bytes:
    """Return the hashed content, because later content must not be mistaken for it."""
    content = _content(place, path)
    if hashlib.sha256(content).hexdigest() != digest:
        message = f"{path} changed while it was being read"
        raise StorageError(message, hint=Hint("the next `{}` reads it again", Command("ingest")))
    return content


def _look(stopped: Callable[[], bool]) -> None:
    if stopped():
        raise CancelledError("stopped while reading the folder")


REASON = "ktx has no reader for {kinds}"
MOST = 5
"""The maximum number of listed files and kinds."""


class Unread:
    """Records files without a reader. Hidden files are ignored."""

    def __init__(self) -> None:
        self._paths: list[str] = []

    def note(self, path: str) -> None:
        """Record a file."""
        if not PurePosixPath(path).name.startswith("."):
            self._paths.append(path)

    def skipped(self) -> tuple[Skipped, ...]:
        """Return one line for all these files: the count, the first names, and the kinds."""
        if not self._paths:
            return ()
        paths = [one_line(path.encode("utf-8", "backslashreplace").decode()) for path in sorted(self._paths)]
        kinds = sorted({PurePosixPath(path).suffix.lower() or "names without an extension" for path in paths})
        what = f"{plural(len(paths), 'file')} ({listing(paths, MOST)})"
        return (Skipped(what, REASON.format(kinds=listing(kinds, MOST))),)


FOLDER_NAMES: Final = (
    "docs", "doc", "documentation", "handbook", "handbooks", "guide", "guides", "manual", "manuals", "wiki", "kb",
    "knowledge", "knowledge-base", "knowledge_base", "notes", "policies", "playbooks", "runbooks", "glossary",
)  # fmt: skip
"""Names of folders in which documents are usually kept."""

SEVERAL: Final = 2
"""The minimum number of pages in a folder of documents."""

_MARKDOWN: Final = (".md", ".markdown")
_OF_SOFTWARE: Final = (
    "readme", "changelog", "contributing", "license", "code_of_conduct", "security", "agents", "claude",
)  # fmt: skip
"""Names of pages about a repository rather than a business."""


class DocumentsSource(DocumentSource):
    """The driver `documents`. Raises `SourceError` if the folder does not exist, `GitError` for a repository."""

    kind: ClassVar[str] = "files"
    skills: ClassVar[tuple[str, ...]] = ("documents_ingest", "wiki_capture")

    def fetch(self, entry: Any, context: FetchContext) -> Snapshot:
        """Read and hash the files; files in a folder are not copied."""
        if getattr(entry, "repo_url", None):
            return _from_repository(entry, context)
        found = read_folder(_local(entry.path, context), SUFFIXES, stopped=context.stopped)
        return _snapshot(found, entry.path, context)

    def check(self, entry: Any, context: FetchContext) -> str:
        """Implements `Source`."""
        if getattr(entry, "repo_url", None):
            from ktx_cli.sources.git import check_files

            return check_files(_origin(entry, context), context)
        return f"folder {_local(entry.path, context)}"

    def units(self, entry: Any, snapshot: Snapshot, changes: Changes, projection: Projection) -> tuple[WorkUnit, ...]:
        """Return one unit per file, with small files in the same folder combined."""
        return document_units(snapshot, changes, NEIGHBOURS, lambda raw: _folder_of(raw.path))

    def folders(self, entry: Any, root: Path) -> Iterable[Path]:
        """Return the folder itself."""
        base = Path(getattr(entry, "repo_url", None) or "").expanduser()
        return (root / base / Path(entry.path).expanduser(),)


def _from_repository(entry: Any, context: FetchContext) -> Snapshot:
    from ktx_cli.sources.git import fetch_files

    unread = Unread()

    def wanted(path: str) -> int:
        if not _is_document(path):
            unread.note(path)
        return _wanted(path)

    snapshot = fetch_files(_origin(entry, context), context, wanted)
    return replace(snapshot, skipped=(*snapshot.skipped, *unread.skipped()))


def _origin(entry: Any, context: FetchContext) -> Origin:
    from ktx_cli.sources.git import Origin

    return Origin(
        f"connections.{context.connection}",
        url=entry.repo_url,
        branch=getattr(entry, "branch", None),
        path=entry.path,
        token=getattr(entry, "auth_token_ref", None),
    )


def _wanted(path: str) -> int:
    """Return the maximum number of bytes to read from a file, or 0 if it is not needed."""
    return MAX_FILE_BYTES if _is_document(path) and not PurePosixPath(path).name.startswith(".") else 0


def _is_document(path: str) -> bool:
    return PurePosixPath(path).suffix.lower() in SUFFIXES


def _local(path: str, context: FetchContext) -> Path:
    where = f"connection `{context.connection}`"
    hint = Command("config", "set", f"connections.{context.connection}.path", "PATH")
    try:
        folder = context.layout.root / Path(path).expanduser()
    except RuntimeError as error:
        raise SourceError(f"{where}: cannot expand {path} because this user has no home folder", hint=hint) from error
    if not folder.is_dir():
        what = f"{folder} is a file, not a folder" if folder.exists() else f"folder {folder} does not exist"
        raise SourceError(f"{where}: {what}", hint=hint, details={"path": str(folder)})
    return folder


def _snapshot(found: Found, origin: str, context: FetchContext) -> Snapshot:
    changed = sum(context.previous.get(path) != raw.sha256 for path, raw in found.files.items())
    return Snapshot(
        files=found.files,
        complete=found.complete,
        origin=f"{origin} ({plural(len(found.files), 'file')})",
        fetched=changed,
        skipped=tuple(found.skipped),
    )


def _folder_of(path: str) -> str:
    folder = PurePosixPath(path).parent.as_posix()
    return "" if folder == "." else folder


def detect(folders: Sequence[Folder]) -> Iterator[Detected]:
    """Yield the folders with several pages and a typical name for documents."""
    pages = {folder.path: sum(map(_is_page, folder.files)) for folder in folders}
    for path in topmost([path for path in pages if path.name.lower() in FOLDER_NAMES]):
        count = sum(count for inner, count in pages.items() if inner.is_relative_to(path))
        if count >= SEVERAL:
            yield Detected(path, f"{plural(count, 'Markdown file')}", {"path": str(path)})


def _is_page(name: str) -> bool:
    path = PurePosixPath(name.lower())
    return path.suffix in _MARKDOWN and path.stem not in _OF_SOFTWARE
