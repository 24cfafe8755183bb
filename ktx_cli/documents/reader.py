"""Convert a raw file (Markdown, HTML, PDF, SQL or plain text) to a document."""

from __future__ import annotations

import codecs
import io
import itertools
import logging
import re
from collections.abc import Iterator
from operator import itemgetter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import one_line
from ktx_cli.documents.markdown import fenced, first_heading, front_matter, links_in, without_comments
from ktx_cli.documents.raw import MAX_CHARACTERS, Content, Document, RawFile, UnreadableDocumentError

if TYPE_CHECKING:
    from pypdf import PageObject, PdfReader

MAX_PAGES: Final = 500
MAX_PAGE_BYTES: Final = 5_000_000
"""The maximum uncompressed size of a page's content stream; a larger one is a drawing rather than text."""

MAX_OPERATIONS: Final = 3_000_000
"""The maximum number of drawing steps in a document, because a small file can contain millions."""

logging.getLogger("pypdf").addHandler(
    logging.NullHandler()
)  # Otherwise its messages about odd input are printed to stderr.


def read_pdf(path: str, content: bytes, pages: int | None = None) -> Content:
    """Return the text of the first pages under `## Page n`. Raises `UnreadableDocumentError` if there is no text."""
    reader = _opened(path, content)
    pieces: list[str] = []
    notes: list[str] = []
    length = 0
    steps = _Steps()
    for number in range(1, _page_count(path, reader) + 1):
        if number > (pages or MAX_PAGES) or length > MAX_CHARACTERS or steps.left < 0:
            notes.append(f"only the first {number - 1} pages were read")
            break
        text = _page_text(reader, number, steps, notes)
        length += len(text)
        if text:
            pieces.append(f"## Page {number}\n\n{text}\n")
    if not pieces:
        raise UnreadableDocumentError(path, "no_text", "contains only images and no text", _OTHER_FORMAT)
    return Content("\n".join(pieces), _title(reader), notes=tuple(notes))


_OTHER_FORMAT: Final = "save the document as a PDF with text, or as Markdown"


def _opened(path: str, content: bytes) -> PdfReader:
    from pypdf import PasswordType, PdfReader

    try:
        reader = PdfReader(io.BytesIO(content), strict=False)
        locked = reader.is_encrypted and reader.decrypt("") == PasswordType.NOT_DECRYPTED
    except Exception as error:  # A broken file can make the parser raise almost any error.
        raise _unreadable(path, error) from error
    if locked:
        raise UnreadableDocumentError(path, "encrypted", "requires a password", "save the file without a password")
    return reader


def _page_count(path: str, reader: PdfReader) -> int:
    try:
        return len(reader.pages)
    except Exception as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: Exception) -> UnreadableDocumentError:
    from pypdf.errors import DependencyError, FileNotDecryptedError

    if isinstance(error, DependencyError | FileNotDecryptedError):
        return UnreadableDocumentError(path, "encrypted", "is encrypted", "save the file without encryption")
    why = one_line(str(error), 120) or type(error).__name__
    return UnreadableDocumentError(path, "broken", f"is not a readable PDF: {why}", _OTHER_FORMAT)


class _TooManyStepsError(Exception):
    """Raised for a document with too many drawing instructions."""

    def __str__(self) -> str:
        return f"more than {MAX_OPERATIONS:,} steps to render the document"


class _Steps:
    """Count a document's drawing steps, and stop rendering at the limit."""

    def __init__(self) -> None:
        self.left = MAX_OPERATIONS

    def __call__(self, *operation: object) -> None:
        self.left -= 1
        if self.left < 0:
            raise _TooManyStepsError


def _page_text(reader: PdfReader, number: int, steps: _Steps, notes: list[str]) -> str:
    """Return a page's text. A page that cannot be read is skipped and noted, without affecting the others."""
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


KINDS: Final = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "html",
    ".htm": "html",
    ".pdf": "pdf",
    ".txt": "text",
    ".rst": "text",
    ".sql": "sql",
}
SUFFIXES: Final = frozenset(KINDS)
"""Lower-case extensions of readable files."""

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_OWN_KEYS: Final = ("title", "url", "parent", "properties")


def read_document(raw: RawFile, *, pages: int | None = None) -> Document:
    """Return a raw file as a document; the same file always gives the same document. `pages`: the maximum for a PDF.

    Raises `UnreadableDocumentError` for an unreadable document, and `StorageError` if the file no longer exists.
    """
    kind = KINDS.get(PurePosixPath(raw.path).suffix.lower())
    if kind is None:
        raise UnreadableDocumentError(
            raw.path,
            "unknown_kind",
            "has a file type that ktx cannot read",
            f"save the file as one of {', '.join(sorted(SUFFIXES))}",
        )
    content = raw.read()
    if kind == "markdown":
        return _markdown(raw.path, _text(raw.path, content))
    return _document(raw.path, _content(kind, raw.path, content, pages), {})


def _content(kind: str, path: str, content: bytes, pages: int | None) -> Content:
    """Return the result of a format's reader, which is imported when first needed."""
    if kind == "pdf":
        return read_pdf(path, content, pages)
    text = _text(path, content)
    if kind == "html":
        from ktx_cli.documents.html import read_html

        return read_html(text)
    if kind == "sql":
        return read_sql(text)
    return Content(text, one_line(_rst_title(text)) if path.lower().endswith(".rst") else "")


def _markdown(path: str, text: str) -> Document:
    front, body = front_matter(text)
    return _document(path, Content(without_comments(body), links=links_in(body)), front)


def _document(path: str, content: Content, front: dict[str, Any]) -> Document:
    markdown, notes = _bounded(content)
    title = one_line(str(front.get("title") or "")) or content.title or first_heading(markdown) or _stem(path)
    return Document(
        path,
        title,
        markdown,
        url=_address(front.get("url")),
        parent=_parent(path, front.get("parent")),
        links=content.links,
        properties=_properties(front),
        notes=notes,
    )


def _bounded(content: Content) -> tuple[str, tuple[str, ...]]:
    if len(content.markdown) <= MAX_CHARACTERS:
        return content.markdown, content.notes
    return content.markdown[:MAX_CHARACTERS], (
        *content.notes,
        f"only the first {MAX_CHARACTERS:,} characters were read",
    )


def _properties(front: dict[str, Any]) -> dict[str, Any]:
    """Return the front matter fields that do not have their own attribute in a document."""
    inner = front.get("properties")
    rest = {key: value for key, value in front.items() if key not in _OWN_KEYS}
    return {**rest, **inner} if isinstance(inner, dict) else rest


def _address(value: Any) -> str | None:
    return value if isinstance(value, str) and value.startswith(("https://", "http://")) else None


def _parent(path: str, value: Any) -> str | None:
    """Return the parent that a page names, else the folder of its file, or None at the top level."""
    if isinstance(value, str | int) and str(value):
        return str(value)
    folder = PurePosixPath(path).parent.as_posix()
    return None if folder in (".", "pages") else folder


def _stem(path: str) -> str:
    return one_line(PurePosixPath(path).stem)


def _rst_title(text: str) -> str:
    """Return the first underlined line, which is a title in reStructuredText."""
    for line, below in itertools.pairwise(text.splitlines()[:200]):
        mark = below.strip()
        if line.strip() and len(mark) >= 3 and mark[0] in "=-~^\"'#*+" and set(mark) == {mark[0]}:
            return line
    return ""


def _text(path: str, content: bytes) -> str:
    """Return bytes as text, decoded by byte order mark, as UTF-8, or else as Windows-1252, with LF line endings."""
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return _lines(content[len(mark) :].decode(encoding, "replace"))
    if b"\x00" in content[:8192]:
        raise UnreadableDocumentError(
            path, "binary", "is not text", "save the file as UTF-8, or use the correct file extension"
        )
    try:
        return _lines(content.decode("utf-8"))
    except UnicodeDecodeError:
        return _lines(content.decode("cp1252", "replace"))


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


_PIECE: Final = re.compile(
    r"(?P<line>--[^\n]*+)"
    r"|(?P<block>/\*.*?(?:\*/|\Z))"
    r"|'(?:[^']++|'')*+(?:'|\Z)|\"[^\"]*+(?:\"|\Z)|(?P<quote>\$[A-Za-z_0-9]{0,60}\$)"
    r"|[^-/'\"$]++|.",
    re.DOTALL,
)


def read_sql(source: str) -> Content:
    """Return the file as Markdown. A comment after code stays in it."""
    runs = itertools.groupby(_pieces(source), key=itemgetter(0))
    shown = (_shown(is_prose, "".join(text for _, text in run)) for is_prose, run in runs)
    return Content("\n".join(text for text in shown if text))


def _shown(is_prose: bool, text: str) -> str:
    if not text.strip():
        return ""
    if not is_prose:
        return fenced(text.strip("\n"), "sql")
    return "\n".join(line.strip() for line in text.strip().splitlines()) + "\n"


def _pieces(source: str) -> Iterator[tuple[bool, str]]:
    """Yield pieces, and whether each is prose; blanks belong to the preceding piece."""
    is_prose = line_begins = True
    for is_comment, text in _tokens(source):
        if is_comment and line_begins:
            is_prose = True
            yield True, _uncommented(text)
            continue
        if text.strip():
            is_prose = False
        yield is_prose, text
        if text.strip() or "\n" in text:
            line_begins = "\n" in text and not text.rpartition("\n")[2].strip()


def _tokens(source: str) -> Iterator[tuple[bool, str]]:
    """Yield the file in pieces, and whether each is a comment; no piece ends inside a string."""
    position = 0
    while position < len(source):
        found = _PIECE.match(source, position)
        assert found is not None  # The last alternative matches any character.
        end = found.end()
        if found["quote"]:
            closing = source.find(found["quote"], end)
            end = end if closing < 0 else closing + len(found["quote"])
        yield bool(found["line"] or found["block"]), source[position:end]
        position = end


def _uncommented(text: str) -> str:
    """Return a comment without its delimiters."""
    if text.startswith("--"):
        return text.lstrip("-").strip()
    lines = text.removeprefix("/*").removesuffix("*/").splitlines()
    return "\n".join(line.strip().lstrip("*").strip() for line in lines).strip()
