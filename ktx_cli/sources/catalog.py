"""The catalog of a source's documents: wiki pages that list each document with its title, date, sections and status.

The catalog is written without a model, from the documents themselves. Text that may not be on a page (a secret, contact
data, instructions to agents) is omitted, and the entry says why.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import KtxError, ResultWarning, one_line, plural
from ktx_cli.documents import Mark, Outline, Standing, UnreadableDocumentError, marks_of, outline_of
from ktx_cli.wiki import (
    CATALOG,
    FOLDER,
    GLOBAL,
    REASONS,
    Page,
    body_line,
    changed,
    lint_page,
    new_page,
    own_page,
    place_of,
    render,
    suggested_key,
)

if TYPE_CHECKING:
    from ktx_cli.documents import RawFile, Snapshot
    from ktx_cli.project import Workspace

PREFIX: Final = "documents-"
"""The prefix of the keys of catalog pages, before the connection."""

_MOST_LISTED: Final = 3_500
"""The maximum length of the entries on a page, which leaves room for its title."""
_MOST_WITH_HEAD: Final = 2_800
"""The maximum length of the entries on the catalog's introductory page."""
_LONGEST_KEY: Final = 100
_LONGEST_TITLE: Final = 120
_LONGEST_PATH: Final = 160
_LONGEST_SECTION: Final = 60
_LONGEST_SECTIONS: Final = 240
_LONGEST_QUOTE: Final = 90
_MOST_MARKS: Final = 4
_DEEPEST: Final = 12
"""The levels of folders at which pages may be split."""

Listed = tuple[str, Outline | None, str]
"""A document's path, its content, and the reason if it cannot be read."""

Owned = Mapping[str, Mapping[str, str]]
"""File path -> item in the file that a source owns -> the sha256 of the written item."""

Made = tuple[Page, tuple[str, ...]]
"""A page and its documents."""


@dataclass(frozen=True, slots=True)
class Catalog:
    """A source's catalog in its written form. `pages`: path of a page -> its documents."""

    pages: Mapping[str, tuple[str, ...]]
    outlines: tuple[Outline, ...]
    """Summaries of the documents that can be read."""
    owned: Owned
    """Page path -> the content that ktx wrote."""
    warnings: tuple[ResultWarning, ...] = ()
    """Pages that claim to belong to the catalog but do not."""


def write_catalog(workspace: Workspace, connection: str, snapshot: Snapshot, owned: Owned | None = None) -> Catalog:
    """Update a source's catalog in an overlay.

    `owned`: the items that the last run wrote for the source in project files. A page that it did not write is kept,
    whatever the page says about itself, and so is an edited page that is no longer needed.
    """
    claimed = {page.path: page for page in _claimed(workspace, connection)}
    own = _own(claimed, connection, owned or {})
    others = {key for path in workspace.paths(f"{FOLDER}{GLOBAL}/") if path not in own for key in _key_of(path)}
    listed = [_read(raw) for raw in snapshot.files.values()]
    pages = catalog_pages(connection, listed, others, complete=snapshot.complete)
    written: dict[str, Mapping[str, str]] = {}
    for page, _ in pages:
        content = render(page)
        written[page.path] = {_PAGE: hashlib.sha256(content).hexdigest()}
        if workspace.read(page.path) != content:
            workspace.write(page.path, content)
    kept = sorted(claimed.keys() - own.keys())
    for path in sorted(own.keys() - written.keys()):
        found = workspace.read(path)
        if found is not None and own[path] not in ("", hashlib.sha256(found).hexdigest()):
            kept.append(path)
        else:
            workspace.delete(path)
    warnings = tuple(_kept(path, connection, pages[0][0].path if pages else "") for path in sorted(kept))
    outlines = tuple(found for _, found, _ in listed if found)
    return Catalog({page.path: paths for page, paths in pages}, outlines, written, warnings)


_PAGE: Final = "page"
"""The part of a page that a catalog owns: the whole page."""


def _claimed(workspace: Workspace, connection: str) -> Iterator[Page]:
    """Yield the pages that claim to belong to a connection's catalog."""
    for path in sorted(workspace.paths(f"{FOLDER}{GLOBAL}/{PREFIX}")):
        place = place_of(path)
        page = None if place is None else own_page(workspace, place[1], GLOBAL)
        if isinstance(page, Page) and page.is_catalog and page.fields.get("connection") == connection:
            yield page


def _own(claimed: Mapping[str, Page], connection: str, owned: Owned) -> dict[str, str]:
    """Return the pages that an earlier run wrote, with the sha256 of their written content, which is empty if unknown.

    Pages written before ktx recorded them are recognized by their headings.
    """
    recorded = {path: items[_PAGE] for path, items in owned.items() if _PAGE in items}
    if recorded:
        return {path: recorded[path] for path in claimed if path in recorded}
    return {path: "" for path, page in claimed.items() if page.body.lstrip().startswith(_heading(connection))}


def _heading(connection: str) -> str:
    return f"# Documents of {connection}"


def _kept(path: str, connection: str, first: str) -> ResultWarning:
    where = f"; the catalog of {connection} is in {first}" if first and first != path else ""
    message = f"{path} claims that ktx wrote it, but its content differs; ktx keeps it unchanged{where}"
    hint = f"delete the page, or remove `source: {CATALOG}` from it"
    return ResultWarning("catalog_page", message, hint=hint, path=path)


def _key_of(path: str) -> Iterator[str]:
    place = place_of(path)
    if place is not None:
        yield place[1].casefold()


def _read(raw: RawFile) -> Listed:
    try:
        return raw.path, outline_of(raw), ""
    except UnreadableDocumentError as error:
        return raw.path, None, _UNREADABLE[error.reason]
    except KtxError:  # It no longer exists, or its disk failed.
        return raw.path, None, "it could not be read"


_UNREADABLE: Final[Mapping[str, str]] = {
    "encrypted": "it is encrypted",
    "broken": "its file is damaged",
    "no_text": "it contains only images",
    "binary": "it is not a text file",
    "unknown_kind": "ktx cannot read files of this kind",
}
"""The reason why the catalog lists a document without its content."""


def catalog_pages(
    connection: str, listed: Iterable[Listed], taken: Iterable[str] = (), *, complete: bool = True
) -> list[Made]:
    """Return the pages of a catalog, starting with the first, each with its documents; none if there are no documents.

    `taken`: lower-case keys of other pages. `complete`: whether all documents of the source were read.
    """
    ordered = sorted(listed, key=lambda each: (PurePosixPath(each[0]).parts[:-1], each[0]))
    marks = marks_of({path: found for path, found, _ in ordered if found is not None})
    entries = [_entry(path, found, problem, marks.get(path, ())) for path, found, problem in ordered]
    return _Catalog(connection, set(taken), len(entries), len(marks), complete).pages(entries) if entries else []


@dataclass(frozen=True, slots=True)
class _Entry:
    """A document on a page: its line, and its path in a form that pages may show."""

    path: str
    line: str
    shown: str

    @property
    def folders(self) -> tuple[str, ...]:
        return PurePosixPath(self.path).parts[:-1]


@dataclass(slots=True)
class _Catalog:
    """The pages of a catalog during layout. `marked`: the number of documents with a mark."""

    connection: str
    taken: set[str]
    count: int
    marked: int
    complete: bool

    def pages(self, entries: list[_Entry]) -> list[Made]:
        """Return one page, or an index page that links to the others."""
        key, heading = self._free_key(""), _heading(self.connection)[2:]
        marked = f"; {plural(self.marked, 'document is', 'documents are')} marked" if self.marked else ""
        about = f"{plural(self.count, 'document')} of {self.connection}: titles, dates, sections{marked}."
        if _size(each.line for each in entries) <= _MOST_WITH_HEAD:
            lines = [*self._head(), "", *(each.line for each in entries)]
            return [(self._page(key, heading, about, lines), tuple(each.path for each in entries))]
        chunks = _cut(entries)
        leaves = [self._leaf(chunk) for chunk in chunks]
        links = [_link(page, chunk) for (page, _), chunk in zip(leaves, chunks, strict=True)]
        contents: list[Made] = []
        while _size(links) > _MOST_WITH_HEAD:
            packs = list(_packed(links))
            parts = [f"contents, part {number} of {len(packs)}" for number in range(1, len(packs) + 1)]
            pages = [
                self._page(self._free_key("contents"), f"{heading}: {part}", f"{heading}: {part}.", pack)
                for part, pack in zip(parts, packs, strict=True)
            ]
            contents += [(page, ()) for page in pages]
            links = [f"- [[{page.key}]]: {part}" for page, part in zip(pages, parts, strict=True)]
        lines = [*self._head(), "", "These pages list them:", "", *links]
        return [(self._page(key, heading, about, lines), ()), *contents, *leaves]

    def _head(self) -> Iterator[str]:
        yield (
            f"The documents of the connection {self.connection}, as they describe themselves: title, path, date, first "
            "sentence and sections. To read what a document says, search for it. ktx rewrites this page when the "
            "documents change; edits are lost."
        )
        if self.marked:
            yield ""
            yield (
                "A mark in bold at the end of an entry says that a document is superseded, a draft or time-limited, "
                "or that its dates contradict each other. Text in quotation marks is quoted from the documents."
            )
        if not self.complete:
            yield ""
            yield "The last run could not read the whole source, so documents may be missing here."

    def _leaf(self, chunk: list[_Entry]) -> Made:
        folder = safe_text("/".join(_common([each.folders for each in chunk])), 80)
        where = f" in {folder}" if folder and "(not shown" not in folder else ""
        heading = f"{_heading(self.connection)[2:]}{where}"
        about = one_line(f"{plural(len(chunk), 'document')} of {self.connection}{where}, {_span(chunk)}.", 200)
        page = self._page(self._free_key(where.removeprefix(" in ")), heading, about, [each.line for each in chunk])
        return page, tuple(each.path for each in chunk)

    def _free_key(self, part: str) -> str:
        key = suggested_key(f"{PREFIX}{self.connection}{f'-{part}' if part else ''}.md")[:_LONGEST_KEY].rstrip("-_")
        found, number = key, 2
        while found.casefold() in self.taken:
            found, number = f"{key}-{number}", number + 1
        self.taken.add(found.casefold())
        return found

    def _page(self, key: str, heading: str, summary: str, lines: Sequence[str]) -> Page:
        fields: dict[str, Any] = {"summary": one_line(summary, 200), "source": CATALOG, "connection": self.connection}
        return _without_findings(new_page(key, fields, "\n".join((f"# {heading}", "", *lines))))


def _without_findings(page: Page) -> Page:
    """Return a page without lines that may appear alone but not together."""
    while True:
        lines, first = page.body.split("\n"), body_line(page)
        places = sorted({(each.line or 0) - first for each in lint_page(page, ())})
        wrong = [place for place in places if 0 <= place < len(lines) and lines[place].startswith("- **")]
        if not wrong:
            return page
        lines[wrong[-1]] = "- (a document is not shown: its text cannot be on a page with the others)"
        page = changed(page, None, "\n".join(lines))


def _link(page: Page, chunk: Sequence[_Entry]) -> str:
    return f"- [[{page.key}]]: {plural(len(chunk), 'document')}, {_span(chunk)}"


def _span(chunk: Sequence[_Entry]) -> str:
    first, last = (one_line(each.shown.strip("`"), 50) for each in (chunk[0], chunk[-1]))
    return first if len(chunk) == 1 else f"{first} to {last}"


def _common(folders: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the folders that all of these paths begin with."""
    first, last = min(folders), max(folders)
    count = next((place for place, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), None)
    return first[: min(len(first), len(last)) if count is None else count]


def _size(lines: Iterable[str]) -> int:
    return sum(len(line) + 1 for line in lines)


def _cut(entries: list[_Entry], level: int = 0) -> list[list[_Entry]]:
    """Return the entries in parts that fit on pages, split at folders if possible."""
    if _size(each.line for each in entries) <= _MOST_LISTED:
        return [entries]
    parts: list[list[_Entry]] = []
    for folder, group in groupby(entries, lambda each: each.folders[level : level + 1]):
        members = list(group)
        pieces = _cut(members, level + 1) if folder and level < _DEEPEST else _pieces(members)
        for piece in pieces:
            if parts and _size(each.line for each in (*parts[-1], *piece)) <= _MOST_LISTED:
                parts[-1] = [*parts[-1], *piece]
            else:
                parts.append(piece)
    return parts


def _pieces(entries: Sequence[_Entry]) -> Iterator[list[_Entry]]:
    by_line = iter(entries)
    for pack in _packed([each.line for each in entries]):
        yield [next(by_line) for _ in pack]


def _packed(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield lines in runs that fit on pages."""
    pack: list[str] = []
    for line in lines:
        if pack and _size((*pack, line)) > _MOST_LISTED:
            yield pack
            pack = []
        pack.append(line)
    yield pack


def _unfit(text: str) -> str:
    """Return why a text may not be on a page, or an empty string if it may."""
    codes = [each.code for each in lint_page(Page("document", body=text), ())]
    return next((REASONS.get(code, "it contains links or markup") for code in codes), "")


_ADDRESS: Final = re.compile(
    r"(?:\b[a-z][a-z0-9+.-]{1,20}:)?//\S+|\bwww\.\S+|\b(?:mailto|data|javascript):\S+", re.IGNORECASE
)
_ENTITY: Final = re.compile(r"&(?=#|\w+;)")
_MEANINGFUL: Final = str.maketrans(
    {"[": "(", "]": ")", "<": "‹", ">": "›", "`": "'", "|": "/", "*": "·", "~": "-", "\\": "/"}
)


def _plain(text: str) -> str:
    """Return a text escaped so that it has no special meaning in Markdown or HTML, with `(link)` for addresses."""
    return _ENTITY.sub("& ", _ADDRESS.sub("(link)", text).translate(_MEANINGFUL))


def safe_text(text: str, limit: int, what: str = "text") -> str:
    """Return a text in a form that may appear on a page, or a placeholder and the reason why it is hidden."""
    reason = _unfit(text) if text else ""
    if reason in REASONS.values():
        return f"({what} not shown: {reason})"
    plain = one_line(_plain(text), limit)
    reason = _unfit(plain) if plain else ""
    return f"({what} not shown: {reason})" if reason else plain


_SIMPLE_PATH: Final = re.compile(r"[\w./ +@(),&=-]+")


def _path(path: str) -> str:
    """Return a path in the form that pages show: as code if nothing in it has another meaning."""
    shown = safe_text(path, _LONGEST_PATH, "path")
    return f"`{shown}`" if shown == path and _SIMPLE_PATH.fullmatch(path) and "." in path else shown


def _entry(path: str, found: Outline | None, problem: str, marks: Sequence[Mark]) -> _Entry:
    shown = _path(path)
    if found is None:
        return _Entry(path, f"- **{shown}**: not read, because {problem}.", shown)
    title = safe_text(found.title, _LONGEST_TITLE, "title") or shown
    date = safe_text(found.date, _LONGEST_QUOTE, "date")
    parts = [f"- **{title}** ({shown}{f'; {date}' if date else ''})"]
    parts += [f"{text}" for text in (safe_text(found.summary, 200, "first sentence"), _sections(found)) if text]
    parts += [*dict.fromkeys(map(_mark, marks))][:_MOST_MARKS]
    line = ": ".join(parts[:2]) + "".join(f" {each}" for each in parts[2:])
    if _unfit(line):  # Each part may appear alone, but not with the others.
        line = f"- **(title not shown: its text cannot be on a page)** ({shown})"
    return _Entry(path, line, shown)


def _sections(found: Outline) -> str:
    texts: list[str] = []
    for each in found.sections:
        text = safe_text(each, _LONGEST_SECTION, "section")
        if _size((*texts, text)) > _LONGEST_SECTIONS:
            break
        texts.append(text)
    more = len(found.sections) - len(texts)
    listed = "; ".join((*texts, *([f"{more} more"] if more else [])))
    return f"Sections: {listed}." if listed else ""


_WORDS: Final = {
    Standing.SUPERSEDED: "Superseded",
    Standing.DRAFT: "Draft",
    Standing.ENDS: "Time-limited",
    Standing.REPLACES: "Replaces another document",
    Standing.LATER: "Later version",
    Standing.CONTRADICTION: "Contradicting dates",
}


def _mark(mark: Mark) -> str:
    quotes = [f'"{safe_text(words, _LONGEST_QUOTE)}"' for words, _ in mark.quotes]
    if mark.standing is Standing.LATER:
        return f"**{_WORDS[mark.standing]}:** {_path(mark.other)} has a later year or version in its name."
    if mark.standing is Standing.CONTRADICTION:
        places = [f"{quote} in the {place}" for quote, (_, place) in zip(quotes, mark.quotes, strict=True)]
        return f"**{_WORDS[mark.standing]}:** {' and '.join(places)}."
    who = _path(mark.other) if mark.other else "it"
    return f"**{_WORDS[mark.standing]}:** {who} states {quotes[0]}."
