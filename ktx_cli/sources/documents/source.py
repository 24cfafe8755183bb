"""Documents in a folder, or in a git repository: Markdown, HTML, PDF, text and SQL files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ktx_cli.core import Command, SourceError, plural
from ktx_cli.documents import SUFFIXES, Changes, Snapshot, WorkUnit
from ktx_cli.sources.document_units import NEIGHBOURS, document_units
from ktx_cli.sources.folder import MAX_FILE_BYTES, Found, Unread, read_folder
from ktx_cli.sources.port import FetchContext, Projection, Source
from ktx_cli.sources.registry import Detected, Folder, topmost

if TYPE_CHECKING:
    from ktx_cli.sources.git import Origin

FOLDER_NAMES: Final = (
    "docs", "doc", "documentation", "handbook", "handbooks", "guide", "guides", "manual", "manuals", "wiki", "kb",
    "knowledge", "knowledge-base", "knowledge_base", "notes", "policies", "playbooks", "runbooks", "glossary",
)  # fmt: skip
"""Names of folders that people keep documents in."""

SEVERAL: Final = 2
"""How many pages make a folder one of documents."""

_MARKDOWN: Final = (".md", ".markdown")
_OF_SOFTWARE: Final = (
    "readme", "changelog", "contributing", "license", "code_of_conduct", "security", "agents", "claude",
)  # fmt: skip
"""Pages about a repository, not about a business."""


class DocumentsSource(Source):
    """The driver `documents`. Raises `SourceError` where the folder is not there, `GitError` for its repository."""

    kind: ClassVar[str] = "files"
    documents: ClassVar[bool] = True
    skills: ClassVar[tuple[str, ...]] = ("documents_ingest", "wiki_capture")

    def fetch(self, entry: Any, context: FetchContext) -> Snapshot:
        """Read and hash the files; those of a folder stay where they are."""
        if getattr(entry, "repo_url", None):
            return _from_repository(entry, context)
        found = read_folder(_local(entry.path, context), SUFFIXES, stopped=context.stopped)
        return _snapshot(found, entry.path, context)

    def check(self, entry: Any, context: FetchContext) -> str:
        """See `Source`."""
        if getattr(entry, "repo_url", None):
            from ktx_cli.sources.git import check_files

            return check_files(_origin(entry, context), context)
        return f"folder {_local(entry.path, context)}"

    def units(self, entry: Any, snapshot: Snapshot, changes: Changes, projection: Projection) -> tuple[WorkUnit, ...]:
        """Return one unit a file, small files of one folder together."""
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
    """Return how many bytes of a file are read at most, 0 for one that is not wanted."""
    return MAX_FILE_BYTES if _is_document(path) and not PurePosixPath(path).name.startswith(".") else 0


def _is_document(path: str) -> bool:
    return PurePosixPath(path).suffix.lower() in SUFFIXES


def _local(path: str, context: FetchContext) -> Path:
    where = f"connection `{context.connection}`"
    hint = Command("config", "set", f"connections.{context.connection}.path", "PATH")
    try:
        folder = context.layout.root / Path(path).expanduser()
    except RuntimeError as error:
        raise SourceError(f"{where}: this user has no home folder for {path}", hint=hint) from error
    if not folder.is_dir():
        what = f"{folder} is a file, not a folder" if folder.exists() else f"there is no folder {folder}"
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
    """Yield the folders with a name that people give to documents and with several pages."""
    pages = {folder.path: sum(map(_is_page, folder.files)) for folder in folders}
    for path in topmost([path for path in pages if path.name.lower() in FOLDER_NAMES]):
        count = sum(count for inner, count in pages.items() if inner.is_relative_to(path))
        if count >= SEVERAL:
            yield Detected(path, f"{plural(count, 'Markdown file')}", {"path": str(path)})


def _is_page(name: str) -> bool:
    path = PurePosixPath(name.lower())
    return path.suffix in _MARKDOWN and path.stem not in _OF_SOFTWARE
