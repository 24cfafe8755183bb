"""Google Drive as a context source: the walk through folders, and the files in them as documents."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ktx_cli.core import CancelledError, ResultWarning, SourceError, listing, plural
from ktx_cli.documents import SUFFIXES, RawFile, UnreadableDocumentError, read_document, with_front_matter
from ktx_cli.sources.document_units import NEIGHBOURS, DocumentSource, document_units
from ktx_cli.sources.fetch import PageFetch
from ktx_cli.sources.gdrive import api as drive
from ktx_cli.sources.gdrive.api import DriveFile, GoogleApi
from ktx_cli.sources.gdrive.tables import spreadsheet
from ktx_cli.sources.http import CHECKING, HttpAuthError, HttpClient, HttpStatusError, RetryPolicy, Site
from ktx_cli.sources.port import FetchContext, Projection

if TYPE_CHECKING:
    from ktx_cli.documents import Changes, Snapshot, WorkUnit

MAX_FILE_BYTES: Final = 20_000_000
MAX_FOLDERS: Final = 5_000

_POLICY: Final = RetryPolicy(tries=8, base=1.0, cap=64.0)
"""Google counts requests per minute and sends no `Retry-After`, so that retries must last longer than a minute."""

_GOOGLE: Final = "application/vnd.google-apps."
_DOCUMENT, _SHEET, _SLIDES = f"{_GOOGLE}document", f"{_GOOGLE}spreadsheet", f"{_GOOGLE}presentation"
_SUFFIXES: Final = {
    "application/pdf": ".pdf",
    "text/markdown": ".md",
    "text/x-markdown": ".md",
    "text/html": ".html",
    "text/plain": ".txt",
    "application/sql": ".sql",
}
"""Kind of an uploaded file -> the extension of its reader, if its name has none that ktx can read."""

_MOST_NAMED: Final = 5


class GoogleDriveSource(DocumentSource):
    """The driver `gdrive`. `sleep` can be replaced in tests."""

    kind: ClassVar[str] = "gdrive"
    skills: ClassVar[tuple[str, ...]] = ("documents_ingest", "wiki_capture")

    def __init__(self, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep

    def fetch(self, entry: Any, context: FetchContext) -> Snapshot:
        """Read the changes since the last fetch. After a `SourceError` or `NotReadyError`, nothing has changed."""

        def open(site: Site) -> HttpClient:
            return HttpClient(
                site, policy=_POLICY, stopped=context.stopped, emit=context.emit, sleep=self._sleep, timeout=60.0
            )

        with GoogleApi(entry, context, open) as api:
            scope = ",".join(
                sorted((*drive.folders_of(entry), *entry.drive_ids, *([] if drive.reads_below(entry) else ["alone"])))
            )
            site = f"{entry.base_url or drive.DRIVE} {entry.subject or ''} {scope}"
            pages = PageFetch(context, site, entry.max_pages, noun="file")
            return _read(api, entry, pages, f"connections.{context.connection}")

    def check(self, entry: Any, context: FetchContext) -> str:
        """Implements `Source`."""

        def open(site: Site) -> HttpClient:
            return HttpClient(site, policy=CHECKING, emit=context.emit, sleep=self._sleep)

        with GoogleApi(entry, context, open) as api:
            tops = list(_tops(api, entry, f"connections.{context.connection}"))
        return f"Google Drive, {listing(name for name, top in tops if top is not None)}"

    def units(self, entry: Any, snapshot: Snapshot, changes: Changes, projection: Projection) -> tuple[WorkUnit, ...]:
        """Return one unit per document, with small documents in the same folder combined."""
        return document_units(snapshot, changes, NEIGHBOURS, _folder_of)


def _folder_of(raw: RawFile) -> str:
    return str(read_document(raw).properties.get("folder") or "")


def _tops(api: GoogleApi, entry: Any, where: str) -> Iterator[tuple[str, DriveFile | None]]:
    """Yield the folders and shared drives of the connection: name or ID, and None for one that cannot be seen.

    Raises `SourceError` if none can be seen.
    """
    named = [(id, f"{where}.{setting}", api.file) for id, setting in drive.folders_of(entry).items()]
    named += [(id, f"{where}.drive_ids", api.drive) for id in entry.drive_ids]
    found = [(id, find(drive.id_in(id, place))) for id, place, find in named]
    if not any(top is not None and not top.is_trashed for _, top in found):
        message = (
            f"this account cannot see any of the configured folders in Google Drive: {listing(id for id, _ in found)}"
        )
        raise SourceError(message, hint="share the folders with the account")
    yield from ((id, None) if top is None or top.is_trashed else (top.name, top) for id, top in found)


def _read(api: GoogleApi, entry: Any, pages: PageFetch, where: str) -> Snapshot:
    walk = _Walk(api, pages, below=drive.reads_below(entry))
    names, warnings = [], []
    for name, top in _tops(api, entry, where):
        if top is None:
            pages.skip(f"folder {name}", "the account cannot see it in Google Drive", missing=True)
            message = f"this account cannot see the Google Drive folder {name}"
            warnings.append(ResultWarning("folder_not_seen", message, hint="share the folder with the account"))
        else:
            names.append(name)
            walk.add(replace(top, folder=top.name))
    reader = _Reader(api, pages)
    for file in walk.files():
        reader.read(file)
    reader.report_unread()
    return pages.snapshot(f"Google Drive, {listing(names)}", (*warnings, *reader.warnings))


class _Walk:
    """Finds the files in folders. Each folder and each file is visited once, however many ways lead to it.

    `below`: whether the folders below are visited too.
    """

    def __init__(self, api: GoogleApi, pages: PageFetch, *, below: bool) -> None:
        self._api, self._pages, self._below = api, pages, below
        self._seen: set[str] = set()
        self._folders = 0
        self._waiting: list[DriveFile] = []
        self._shortcuts: list[DriveFile] = []
        self._files: list[DriveFile] = []

    def add(self, folder: DriveFile) -> None:
        """Add a folder; its `folder` is the path under which its contents are shown."""
        if folder.id in self._seen:
            return
        self._seen.add(folder.id)
        self._folders += 1
        if self._folders > MAX_FOLDERS:
            if self._folders == MAX_FOLDERS + 1:
                self._pages.skip("more folders", f"only the first {MAX_FOLDERS:,} are read", missing=True)
            return
        self._waiting.append(folder)

    def files(self) -> list[DriveFile]:
        """Return all files, by their path. Shortcuts are followed last, so that a file keeps its own folder."""
        while self._waiting or self._shortcuts:
            while self._waiting:
                self._level()
            following, self._shortcuts = self._shortcuts, []
            for shortcut in following:
                self._follow(shortcut)
        return sorted(self._files, key=lambda file: (file.folder, file.name, file.id))

    def _level(self) -> None:
        """List the contents of all waiting folders."""
        level, self._waiting = self._waiting, []
        below: list[DriveFile] = []
        for shared in sorted({folder.drive for folder in level}):
            paths = {folder.id: folder.folder for folder in level if folder.drive == shared}
            for ids in drive.batches(paths):
                below += (replace(each, folder=paths[parent]) for parent, each in self._api.children(ids, shared))
        for each in sorted(below, key=lambda each: (each.folder, each.name, each.id)):
            self._sort(each)

    def _sort(self, each: DriveFile) -> None:
        if each.mime == drive.FOLDER:
            if self._below:
                self.add(replace(each, folder=f"{each.folder}/{each.name}"))
        elif each.mime == drive.SHORTCUT:
            self._shortcuts.append(each)
        elif each.id not in self._seen:
            self._seen.add(each.id)
            self._files.append(each)

    def _follow(self, shortcut: DriveFile) -> None:
        if shortcut.target in self._seen:
            return
        target = self._api.file(shortcut.target) if shortcut.target else None
        if target is None or target.is_trashed:
            self._pages.skip(
                f"shortcut {shortcut.folder}/{shortcut.name}", "its target does not exist, or is not shared"
            )
        elif target.mime != drive.SHORTCUT:
            self._sort(replace(target, folder=shortcut.folder))


class _Reader:
    """Reads files as documents. `warnings`: what affects many of them."""

    def __init__(self, api: GoogleApi, pages: PageFetch) -> None:
        self._api, self._pages = api, pages
        self._unread: list[tuple[str, str]] = []
        self._has_markdown = True
        self.warnings: list[ResultWarning] = []

    def read(self, file: DriveFile) -> None:
        """Add a file as a document, or report why it is none."""
        if self._pages.context.stopped():
            raise CancelledError("stopped while reading Google Drive")
        suffix = _suffix(file)
        if suffix is None:
            self._unread.append((file.name, _kind(file)))
            return
        path, name = f"pages/{file.id}.md", f"{file.folder}/{file.name}"
        if self._pages.unchanged(path, file.moment) or not self._pages.may_read(path):
            return
        if not file.can_download:
            self._pages.skip(name, "its owner does not allow this account to download it")
        elif file.size > MAX_FILE_BYTES and not file.mime.startswith(_GOOGLE):
            self._omit(path, file, f"it is larger than {MAX_FILE_BYTES:,} bytes")
        else:
            self._put(path, file, suffix)

    def report_unread(self) -> None:
        """Report the files of kinds that ktx cannot read, in one line."""
        if self._unread:
            names = sorted(name for name, _ in self._unread)
            kinds = sorted({kind for _, kind in self._unread})
            what = f"{plural(len(names), 'file')} ({listing(names, _MOST_NAMED)})"
            self._pages.skip(what, f"ktx has no reader for {listing(kinds, _MOST_NAMED)}")

    def _put(self, path: str, file: DriveFile, suffix: str) -> None:
        name = f"{file.folder}/{file.name}"
        try:
            markdown, cut = self._markdown(file, suffix)
        except UnreadableDocumentError as error:
            self._omit(path, file, error.message)
            return
        except (HttpStatusError, HttpAuthError) as error:
            self._failed(path, file, error)
            return
        if cut:
            self._pages.skip(f"the rest of {name}", cut)
        front = {
            "id": file.id,
            "title": file.name,
            "url": _address(file),
            "parent": file.folder,
            "properties": {"folder": file.folder},
        }
        self._pages.put(path, with_front_matter(front, canonical_links(markdown)), file.moment)

    def _failed(self, path: str, file: DriveFile, error: HttpStatusError | HttpAuthError) -> None:
        """Report a file that Google does not return. Raises the error if it concerns more than this file."""
        reason, name = drive.reason_of(error), f"{file.folder}/{file.name}"
        if reason == drive.TOO_LARGE:
            self._pages.keep(path)
            self._pages.skip(name, "Google exports at most 10 MB of a file, and this one is larger")
        elif reason in drive.DISABLED and file.mime == _SHEET:
            self._pages.keep(path)
            self._pages.skip(name, "the Google Sheets API is not enabled")
            if not self.warnings:
                message = "the Google Sheets API is not enabled, so spreadsheets in Google Drive are not read"
                hint = "enable the Google Sheets API in the Google Cloud project of the account"
                self.warnings.append(ResultWarning("sheets_disabled", message, hint=hint))
        elif error.status in (403, 404) and reason not in drive.BUSY | drive.DISABLED:
            self._pages.skip(name, "this account cannot download it")
        else:
            raise error

    def _omit(self, path: str, file: DriveFile, reason: str) -> None:
        self._pages.omit(path, file.moment)
        self._pages.skip(f"{file.folder}/{file.name}", reason)

    def _markdown(self, file: DriveFile, suffix: str) -> tuple[str, str]:
        """Return a file as Markdown, and why a part is missing, or an empty string."""
        if file.mime == _SHEET:
            return spreadsheet(self._api, file.id)
        if file.mime == _DOCUMENT:
            return without_images(self._document(file)), ""
        content = self._api.exported(file.id, "text/plain") if file.mime == _SLIDES else self._api.content(file.id)
        return _converted(_named(file, suffix), content)

    def _document(self, file: DriveFile) -> str:
        """Return a Google Doc: as Google's Markdown, or from its HTML where Google does not offer Markdown."""
        if self._has_markdown:
            try:
                return self._api.exported(file.id, "text/markdown").decode("utf-8-sig", "replace").replace("\r\n", "\n")
            except HttpStatusError as error:
                if error.status != 400:
                    raise
                self._has_markdown = False
        return _converted(_named(file, ".html"), self._api.exported(file.id, "text/html"))[0]


def _suffix(file: DriveFile) -> str | None:
    """Return the extension of the reader for a file, or None if there is none."""
    if file.mime in (_DOCUMENT, _SHEET):
        return ".md"
    if file.mime == _SLIDES:
        return ".txt"
    own = PurePosixPath(file.name).suffix.lower()
    return None if file.mime.startswith(_GOOGLE) else own if own in SUFFIXES else _SUFFIXES.get(file.mime)


def _kind(file: DriveFile) -> str:
    own = PurePosixPath(file.name).suffix.lower()
    if file.mime.startswith(_GOOGLE):
        return f"Google {file.mime.removeprefix(_GOOGLE)}"
    return own if re.fullmatch(r"\.[a-z0-9]{1,10}", own) else file.mime or "files without a kind"


def _named(file: DriveFile, suffix: str) -> str:
    return file.name if PurePosixPath(file.name).suffix.lower() == suffix else f"{file.name}{suffix}"


def _converted(name: str, content: bytes) -> tuple[str, str]:
    """Return a file as Markdown, and what its reader omitted. Raises `UnreadableDocumentError`."""
    raw = RawFile(name, hashlib.sha256(content).hexdigest(), len(content), lambda: content)
    document = read_document(raw)
    return document.markdown, "; ".join(document.notes)


_ADDRESSES: Final[Mapping[str, str]] = {
    _DOCUMENT: "https://docs.google.com/document/d/{}/edit",
    _SHEET: "https://docs.google.com/spreadsheets/d/{}/edit",
    _SLIDES: "https://docs.google.com/presentation/d/{}/edit",
}


def _address(file: DriveFile) -> str:
    return _ADDRESSES.get(file.mime, "https://drive.google.com/file/d/{}/view").format(file.id)


_REDIRECT: Final = re.compile(r"https://www\.google\.com/url\?q=(https?://[^&\s)>\]]{1,2000})[^\s)>\]]*")
_OWN_LINK: Final = re.compile(
    r"(https://docs\.google\.com/(?:document|spreadsheets|presentation)/)(?:u/\d+/)?d/([\w-]+)(?:/[^\s)>\]|]*)?"
)
_FILE_LINK: Final = re.compile(
    r"https://drive\.google\.com/(?:file/d/([\w-]+)(?:/[^\s)>\]|]*)?|open\?id=([\w-]+)[^\s)>\]|]*)"
)


def canonical_links(markdown: str) -> str:
    """Return a text whose links to files in Google Drive have one form each, which is the `url` of the document."""
    from urllib.parse import unquote

    text = _REDIRECT.sub(lambda found: unquote(found[1]), markdown)
    text = _OWN_LINK.sub(r"\1d/\2/edit", text)
    return _FILE_LINK.sub(lambda found: f"https://drive.google.com/file/d/{found[1] or found[2]}/view", text)


_IMAGE_DATA: Final = re.compile(r"^\[[^\]\n]{1,80}\]:[ \t]*<?data:[^\n]*\n?", re.MULTILINE)
_INLINE_DATA: Final = re.compile(r"!\[([^\]\n]{0,500})\]\(data:[^)\n]*\)")
_IMAGE: Final = re.compile(r"!\[([^\]\n]{0,500})\]\[image\d+\]")


def without_images(markdown: str) -> str:
    """Return the Markdown of a Google Doc with the descriptions of its images instead of their data."""
    text = _INLINE_DATA.sub(r"\1", _IMAGE_DATA.sub("", markdown))
    return _IMAGE.sub(r"\1", text)
