"""Reads the text of a PDF, page by page."""

from __future__ import annotations

import io
import logging
from typing import TYPE_CHECKING, Final

from ktx_cli.core import one_line
from ktx_cli.documents.raw import MAX_CHARACTERS, Content, UnreadableDocumentError

if TYPE_CHECKING:
    from pypdf import PageObject, PdfReader


MAX_PAGES: Final = 500
MAX_PAGE_BYTES: Final = 5_000_000
"""The largest program that draws a page, unpacked; a larger one is a drawing, not a text."""

MAX_OPERATIONS: Final = 3_000_000
"""How many steps of programs that draw pages are followed in a document, in all: a small file can name millions."""

logging.getLogger("pypdf").addHandler(logging.NullHandler())  # else what it finds odd is printed to stderr


def read_pdf(path: str, content: bytes) -> Content:
    """Return the text under `## Page n`. Raises `UnreadableDocumentError` for what has none to read."""
    reader = _opened(path, content)
    pieces: list[str] = []
    notes: list[str] = []
    length = 0
    steps = _Steps()
    for number in range(1, _page_count(path, reader) + 1):
        if number > MAX_PAGES or length > MAX_CHARACTERS or steps.left < 0:
            notes.append(f"only the first {number - 1} pages were read")
            break
        text = _page_text(reader, number, steps, notes)
        length += len(text)
        if text:
            pieces.append(f"## Page {number}\n\n{text}\n")
    if not pieces:
        raise UnreadableDocumentError(path, "no_text", "has no text in it, only pictures", _OTHER_FORMAT)
    return Content("\n".join(pieces), _title(reader), notes=tuple(notes))


_OTHER_FORMAT: Final = "save it as a PDF with text in it, or as Markdown"


def _opened(path: str, content: bytes) -> PdfReader:
    from pypdf import PasswordType, PdfReader

    try:
        reader = PdfReader(io.BytesIO(content), strict=False)
        locked = reader.is_encrypted and reader.decrypt("") == PasswordType.NOT_DECRYPTED
    except Exception as error:  # a broken file makes the parser raise nearly anything
        raise _unreadable(path, error) from error
    if locked:
        raise UnreadableDocumentError(path, "encrypted", "needs a password", "save it without a password")
    return reader


def _page_count(path: str, reader: PdfReader) -> int:
    try:
        return len(reader.pages)
    except Exception as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: Exception) -> UnreadableDocumentError:
    from pypdf.errors import DependencyError, FileNotDecryptedError

    if isinstance(error, DependencyError | FileNotDecryptedError):
        return UnreadableDocumentError(path, "encrypted", "is encrypted", "save it without encryption")
    why = one_line(str(error), 120) or type(error).__name__
    return UnreadableDocumentError(path, "broken", f"is no PDF that can be read: {why}", _OTHER_FORMAT)


class _TooManyStepsError(Exception):
    """A document whose programs have no end."""

    def __str__(self) -> str:
        return f"more than {MAX_OPERATIONS:,} steps to draw the document"


class _Steps:
    """Counts the steps of the programs of a document, and ends the one that goes on after the last."""

    def __init__(self) -> None:
        self.left = MAX_OPERATIONS

    def __call__(self, *operation: object) -> None:
        self.left -= 1
        if self.left < 0:
            raise _TooManyStepsError


def _page_text(reader: PdfReader, number: int, steps: _Steps, notes: list[str]) -> str:
    """Return a page's text; a page that cannot be read is left out and noted, the others are not worse for it."""
    try:
        page = reader.pages[number - 1]
        if _size(page) > MAX_PAGE_BYTES:
            notes.append(f"page {number} is too large to be read")
            return ""
        text = page.extract_text(visitor_operand_before=steps)
    except Exception as error:  # noqa: BLE001 - as above: nearly anything
        notes.append(f"page {number} cannot be read: {one_line(str(error), 120) or type(error).__name__}")
        return ""
    lines = (line.rstrip() for line in text.replace("\x00", "").splitlines())
    return "\n".join(lines).strip()[:MAX_CHARACTERS]


def _size(page: PageObject) -> int:
    contents = page.get_contents()
    return 0 if contents is None else len(contents.get_data())


def _title(reader: PdfReader) -> str:
    try:
        found = reader.metadata.title if reader.metadata else None
    except Exception:  # noqa: BLE001 - a title that cannot be read is none
        return ""
    return one_line(str(found or ""))
