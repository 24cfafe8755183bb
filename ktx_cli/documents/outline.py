"""A document's outline (title, first sentence, headings, date), and marks on documents that may no longer be valid."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Final

from ktx_cli.core import StorageError, one_line
from ktx_cli.documents.conventions import Convention, stated_conventions
from ktx_cli.documents.dates import Meaning, Statement, conflicts, is_possible, stated_dates, statements
from ktx_cli.documents.markdown import is_heading, outside_fences
from ktx_cli.documents.raw import Document, RawFile, UnreadableDocumentError
from ktx_cli.documents.reader import read_document

_PAGES: Final = 3
"""The maximum number of pages to read from a PDF."""
_MOST_LINES: Final = 5_000
"""The maximum number of lines to search for headings."""
_MOST_SECTIONS: Final = 40
_LONGEST_SUMMARY: Final = 200

_DATED: Final = (Meaning.UPDATED, Meaning.DATED, Meaning.PUBLISHED, Meaning.REVIEWED, Meaning.VALID_FROM)
_FILE_DATE: Final = re.compile(r"(?<!\d)(?:19|20)\d{2}(?:-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12]\d|3[01]))?)?(?!\d)")
_PDF_PAGE: Final = re.compile(r"Page \d+")
_SENTENCE: Final = re.compile(r".+?[.!?](?=\s|$)")
_LEADING: Final = re.compile(r"^(?:[-*+>]\s+|\d+[.)]\s+)+")
_TABLE: Final = re.compile(r"\s*[|+]")
_MARKUP: Final = re.compile(
    r"!?\[([^\[\]]*)\]\([^()\s]*(?:\s\"[^\"]*\")?\)|`+|(?<!\w)\*+(?=\S)|(?<=\S)\*+(?!\w)|(?<!\w)_+|_+(?!\w)"
)


_MOST_BYTES: Final = 200_000
"""The maximum size of a file that is searched for dates."""
_READ: Final = frozenset((".html", ".htm", ".pdf"))
"""Extensions of files whose text must be extracted first."""


@dataclass(frozen=True, slots=True)
class Outline:
    """A summary of a document. `summary`: the stated one, else the first sentence. `sections`: its headings.

    `date`: in the words of the document or its file name, empty if neither has one. `stated`: its statements about its
    own date and status. `conventions`: its statements about its project's conventions.
    """

    path: str
    title: str
    summary: str = ""
    sections: tuple[str, ...] = ()
    date: str = ""
    stated: tuple[Statement, ...] = ()
    conventions: tuple[Convention, ...] = ()


def outline_of(raw: RawFile) -> Outline:
    """Return the outline of a raw file. Raises as `read_document`. Only the first pages of a PDF are read."""
    document = read_document(raw, pages=_PAGES)
    stated = _stated(raw, document)
    headings, title = list(_headings(document.markdown)), without_markup(document.title) or document.title
    return Outline(
        raw.path,
        title,
        _summary(document),
        tuple(each for each in dict.fromkeys(headings) if each != title)[:_MOST_SECTIONS],
        _date(raw.path, stated),
        stated,
        stated_conventions(document.markdown),
    )


def dates_of(raw: RawFile) -> tuple[str, ...]:
    """Return a raw file's statements about its own date, as in `stated_dates`; none for large or unreadable files.

    HTML and PDF are read as documents, other files as text.
    """
    if raw.size > _MOST_BYTES:
        return ()
    try:
        if PurePosixPath(raw.path).suffix.lower() in _READ:
            return stated_dates(read_document(raw, pages=_PAGES).markdown)
        return stated_dates(raw.text())
    except (StorageError, UnreadableDocumentError):  # The tool that reads it reports the error.
        return ()


def _stated(raw: RawFile, document: Document) -> tuple[Statement, ...]:
    """Return a document's statements about itself, including those in Markdown front matter."""
    is_text = PurePosixPath(raw.path).suffix.lower() in (".md", ".markdown")
    return statements(raw.text().replace("\r\n", "\n") if is_text else document.markdown)


def _date(path: str, stated: tuple[Statement, ...]) -> str:
    for meaning in _DATED:
        found = next((each for each in stated if each.meaning is meaning and each.place != "title"), None)
        if found is not None:
            return found.words
    in_name = _FILE_DATE.search(PurePosixPath(path).stem)
    title = next((each.words for each in stated if each.place == "title"), "")
    return f"file name: {in_name[0]}" if in_name and is_possible(in_name[0]) else title


def _headings(markdown: str) -> Iterator[str]:
    for number, line in outside_fences(markdown):
        if number > _MOST_LINES:
            return
        if is_heading(line) and len(line) - len(line.lstrip().lstrip("#")) <= 3:
            text = without_markup(line.strip().strip("#"))
            if text and not _PDF_PAGE.fullmatch(text):
                yield text


def _summary(document: Document) -> str:
    for name in ("summary", "description"):
        own = document.properties.get(name)
        if isinstance(own, str) and own.strip():
            return one_line(without_markup(own), _LONGEST_SUMMARY)
    paragraph: list[str] = []
    for number, line in outside_fences(document.markdown):
        is_text = line.strip() and not is_heading(line) and not _TABLE.match(line) and not _is_statement(line)
        if number > _MOST_LINES or (paragraph and not is_text):
            break
        if is_text and re.search(r"[^\W\d_]{2}", line):
            paragraph.append(_LEADING.sub("", line.strip()) if not paragraph else line.strip())
        if len(paragraph) > 5 or (paragraph and _LEADING.match(line.strip())):
            break
    text = without_markup(" ".join(paragraph))
    found = _SENTENCE.match(text)
    return one_line(found[0] if found else text, _LONGEST_SUMMARY)


def _is_statement(line: str) -> bool:
    """Return whether a line only states a date or a status, which the entry shows separately."""
    plain = rest = " ".join(line.replace("*", "").split())
    for each in statements(line):
        rest = rest.replace(each.words, "")
    return rest != plain and not re.search(r"\w{4}", rest)


def without_markup(text: str) -> str:
    """Return a line of Markdown as readers see it: without emphasis, code marks and link targets."""
    return one_line(_MARKUP.sub(lambda found: found[1] or "", text))


class Standing(StrEnum):
    """Why a document may no longer be valid, or why two of its statements are contradictory."""

    SUPERSEDED = "superseded"
    DRAFT = "draft"
    ENDS = "valid until"
    REPLACES = "replaces another document"
    LATER = "later version"
    CONTRADICTION = "contradicting dates"


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark on a document, with its evidence. `quotes`: quotes from the document. `other`: the path of another one."""

    standing: Standing
    quotes: tuple[tuple[str, str], ...] = ()
    """A quote and its location: `front matter` or `text`."""
    other: str = ""


_STANDINGS: Final = {
    Meaning.ENDED: Standing.SUPERSEDED,
    Meaning.REPLACED_BY: Standing.SUPERSEDED,
    Meaning.DRAFT: Standing.DRAFT,
    Meaning.VALID_UNTIL: Standing.ENDS,
    Meaning.REPLACES: Standing.REPLACES,
}


def marks_of(outlines: Mapping[str, Outline]) -> dict[str, tuple[Mark, ...]]:
    """Return path -> marks, for the documents that have any. `outlines`: all outlines of a source."""
    found: dict[str, dict[Mark, None]] = {}
    names = _names(outlines)
    for path, each in outlines.items():
        own = found.setdefault(path, {})
        for one, other in conflicts(each.stated):
            own[Mark(Standing.CONTRADICTION, ((one.words, one.place), (other.words, other.place)))] = None
        for stated in each.stated:
            standing = _STANDINGS.get(stated.meaning)
            if standing is not None:
                own[Mark(standing, ((stated.words, stated.place),))] = None
            if stated.meaning is Meaning.REPLACES:
                for target in _targets(path, stated.value, names):
                    mark = Mark(Standing.SUPERSEDED, ((stated.words, stated.place),), path)
                    found.setdefault(target, {})[mark] = None
    for path, later in _later_versions(outlines):
        found[path][Mark(Standing.LATER, other=later)] = None
    return {path: tuple(marks) for path, marks in sorted(found.items()) if marks}


def stated_standing(raw: RawFile, document: Document) -> Standing | None:
    """Return whether a document states that it is superseded or a draft."""
    found = {_STANDINGS.get(each.meaning) for each in _stated(raw, document)}
    return next((each for each in (Standing.SUPERSEDED, Standing.DRAFT) if each in found), None)


def is_current(outline: Outline) -> bool:
    """Return whether a document does not state that it is superseded or a draft."""
    return not any(_STANDINGS.get(each.meaning) in (Standing.SUPERSEDED, Standing.DRAFT) for each in outline.stated)


def _names(outlines: Mapping[str, Outline]) -> dict[str, set[str]]:
    """Map lower-case paths, file names (with and without extension) and titles to documents."""
    names: dict[str, set[str]] = {}
    for path, each in outlines.items():
        place = PurePosixPath(path)
        for name in {path, place.name, place.stem, each.title}:
            names.setdefault(name.casefold(), set()).add(path)
    return names


_LINK: Final = re.compile(r"\[([^\[\]]*)\]\(([^()\s]*)\)")


def _targets(path: str, value: str, names: Mapping[str, set[str]]) -> Iterator[str]:
    """Yield the document that a statement names, if the name matches exactly one."""
    link = _LINK.search(value)
    folder = PurePosixPath(path).parent
    written = (link[2].partition("#")[0], link[1]) if link else (value,)
    for each in written:
        name = without_markup(each).strip(" \"'.,;").casefold()
        for wanted in (str(folder / name).casefold(), name.removeprefix("./")):
            found = names.get(wanted, set()) - {path}
            if len(found) == 1:
                yield from found
                return


_VERSION: Final = re.compile(
    r"(?P<base>[^\n]*[^\W\d_])[\s_.(-]+(?:v(?:ersion)?[\s.]?(?P<number>\d{1,4}(?:\.\d{1,4}){0,3})|(?P<year>20\d{2}))\)?",
    re.IGNORECASE,
)
_MOST_VERSIONS: Final = 20
"""The maximum number of versions per name; a longer sequence is a series."""


def _later_versions(outlines: Mapping[str, Outline]) -> Iterator[tuple[str, str]]:
    """Yield pairs of documents in one folder with the same name or title; the second has a later year or version."""
    groups: dict[tuple[str, str, str], list[tuple[tuple[int, ...], str]]] = {}
    for path, each in outlines.items():
        place = PurePosixPath(path)
        for name in dict.fromkeys((place.stem, each.title)):
            found = _VERSION.fullmatch(name)
            if found:
                kind = "year" if found["year"] else "number"
                key = (place.parent.as_posix(), found["base"].casefold(), kind)
                version = tuple(int(part) for part in found[kind].split("."))
                groups.setdefault(key, []).append((version, path))
    for members in (each for each in groups.values() if len(each) <= _MOST_VERSIONS):
        last = max(members)
        for version, path in members:
            if version < last[0] and path != last[1]:
                yield path, last[1]
