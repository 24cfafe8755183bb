"""Raw files of every kind as documents, and files that are made to break the reader."""

from __future__ import annotations

import hashlib
import io
import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktx_cli.documents import html, raw
from ktx_cli.documents import reader as read_pdf
from ktx_cli.documents.raw import Document, RawFile, UnreadableDocumentError
from ktx_cli.documents.reader import SUFFIXES, read_document


def read(path: str, content: str | bytes) -> Document:
    data = content if isinstance(content, bytes) else content.encode()
    return read_document(RawFile(path, hashlib.sha256(data).hexdigest(), len(data), lambda: data))


def pdf(*pages: str, password: str = "", title: str = "") -> bytes:
    """Return a PDF with a line of text a page."""
    from pypdf import PdfWriter
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

    writer = PdfWriter()
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    for text in pages:
        page = writer.add_blank_page(300, 300)
        fonts = DictionaryObject({NameObject("/F1"): font})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode() if text else b"")
        page[NameObject("/Contents")] = writer._add_object(stream)
    if title:
        writer.add_metadata({"/Title": title})
    if password:
        writer.encrypt(user_password=password, owner_password="owner", algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def test_markdown_with_front_matter() -> None:
    page = read(
        "team/refunds.md",
        "---\ntitle: Refunds\nurl: https://example.com/r\nparent: '12'\nowner: finance\n"
        "properties:\n  status: live\n---\n"
        "# Rules\n\nSee [terms](https://example.com/t) and <https://example.com/u>.\n",
    )
    assert (page.title, page.url, page.parent) == ("Refunds", "https://example.com/r", "12")
    assert page.markdown.startswith("# Rules")
    assert page.links == ("https://example.com/t", "https://example.com/u")
    assert page.properties == {"owner": "finance", "status": "live"}


@pytest.mark.table(
    ("path", "content", "title", "parent"),
    [
        ("a/b/plain.md", "no heading", "plain", "a/b"),
        ("plain.md", "```\n# code\n```\n\n## Real *one* ##\n", "Real *one*", None),
        ("plain.md", "---\nnot: [closed\n---\n# T", "T", None),
        ("plain.md", "---\njust a rule\n\n# T", "T", None),
        ("plain.md", "\ufeff# With mark", "With mark", None),
        ("pages/0a.md", "---\ntitle: 12\nurl: javascript:x\n---\n", "12", None),
        ("x.rst", "Refund rules\n============\n\nText", "Refund rules", None),
        ("notes/x.txt", "First line\nsecond", "x", "notes"),
        ("x.html", "<p>only text</p>", "x", None),
        ("X.HTML", "<h1>One <b>two</b></h1>", "One two", None),
    ],
)
def test_titles_and_parents(path: str, content: str, title: str, parent: str | None) -> None:
    page = read(path, content)
    assert (page.title, page.parent, page.url) == (title, parent, None)


@pytest.mark.table(
    ("content", "markdown"),
    [
        ("a <!-- hidden --> b", "a  b"),
        ("a\n<!-- one\ntwo -->\nb", "a\n\n\nb"),
        ("a <!-- one --> b <!-- two --> c", "a  b  c"),
        ("`<!-- shown -->` b", "`<!-- shown -->` b"),
        ("```\n<!-- shown -->\n```", "```\n<!-- shown -->\n```"),
        ("a <!-- never closed\nb", "a <!-- never closed\nb"),
        ("a --> b <!-- open", "a --> b <!-- open"),
    ],
)
def test_comments_in_markdown_are_not_for_readers(content: str, markdown: str) -> None:
    assert read("a.md", content).markdown == markdown


@pytest.mark.table(
    ("content", "text"),
    [
        ("naïve\r\nline\rend".encode(), "naïve\nline\nend"),
        ("naïve".encode("cp1252"), "naïve"),
        ("naïve".encode("utf-16"), "naïve"),
        (b"\xfe\xff" + "naïve".encode("utf-16-be"), "naïve"),
        (b"", ""),
    ],
)
def test_text_in_any_encoding(content: bytes, text: str) -> None:
    assert read("a.txt", content).markdown == text


@pytest.mark.table(
    ("path", "content", "reason"),
    [
        ("a.md", b"text\x00\x01", "binary"),
        ("a.sql", b"\x7fELF\x00", "binary"),
        ("a.docx", b"PK", "unknown_kind"),
        ("a", b"text", "unknown_kind"),
        ("a.pdf", b"", "broken"),
        ("a.pdf", b"no pdf at all", "broken"),
        ("a.pdf", b"%PDF-1.7\n1 0 obj\n<<" + b"/A [" * 5000, "broken"),
        ("a.pdf", pdf("Text")[:200], "broken"),
        ("a.pdf", pdf(""), "no_text"),
        ("a.pdf", pdf("Secret", password="pw"), "encrypted"),
    ],
)
def test_what_cannot_be_read_says_why(path: str, content: bytes, reason: str) -> None:
    with pytest.raises(UnreadableDocumentError) as error:
        read(path, content)
    assert error.value.reason == reason
    assert error.value.message.startswith(f"{path} ")
    assert error.value.hint


def test_a_pdf_is_read_page_by_page(capfd: pytest.CaptureFixture[str]) -> None:
    page = read("a.pdf", pdf("First", "", "Third", title="Terms"))
    assert (page.title, page.markdown) == ("Terms", "## Page 1\n\nFirst\n\n## Page 3\n\nThird\n")
    assert page.notes == ()
    assert capfd.readouterr().err == ""


def test_a_pdf_has_most_pages_and_a_page_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_pdf, "MAX_PAGES", 2)
    monkeypatch.setattr(read_pdf, "MAX_PAGE_BYTES", 100)
    page = read("a.pdf", pdf("First", "x" * 200, "Third"))
    assert page.markdown == "## Page 1\n\nFirst\n"
    assert page.notes == ("page 2 is too large to be read", "only the first 2 pages were read")


def test_a_pdf_whose_pages_never_end_is_read_to_its_most_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A form that a page names a million times costs a million times: bytes do not bound it."""
    monkeypatch.setattr(read_pdf, "MAX_OPERATIONS", 20)
    page = read("a.pdf", pdf("First", "Second", *["More"] * 20))
    assert "First" in page.markdown and "Second" in page.markdown
    assert page.markdown.count("More") < 5
    assert "more than 20 steps to render the document" in page.notes[0]
    assert page.notes[1].startswith("only the first ")


def test_a_page_of_a_pdf_that_is_a_bomb_is_left_out() -> None:
    import zlib

    bomb = zlib.compress(b"0 0 m\n" * 15_000_000, 1)
    content = pdf("First", "Second")
    marked = content.replace(b"(Second) Tj", b"(Sekond) Tj")
    stream = b"BT /F1 12 Tf 20 200 Td (Sekond) Tj ET"
    broken = marked.replace(stream, bomb).replace(
        b"/Length %d" % len(stream), b"/Filter /FlateDecode /Length %d" % len(bomb)
    )
    page = read("a.pdf", broken)
    assert "First" in page.markdown and "Sekond" not in page.markdown
    assert len(page.notes) == 1 and page.notes[0].startswith("page 2 ")


def test_what_a_pdf_says_of_itself_is_not_printed(capfd: pytest.CaptureFixture[str]) -> None:
    read("a.pdf", pdf("Text") + b"\ntrailing rubbish")
    assert capfd.readouterr().err == ""
    assert any(isinstance(handler, logging.NullHandler) for handler in logging.getLogger("pypdf").handlers)


def test_a_document_has_most_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    page = read("a.txt", "x" * (raw.MAX_CHARACTERS + 1))
    assert len(page.markdown) == raw.MAX_CHARACTERS
    assert page.notes == ("only the first 1,000,000 characters were read",)
    monkeypatch.setattr(html, "MAX_HTML", 10)
    assert read("a.html", "<p>" + "x" * 20).notes == ("only the first 10 characters of the page were read",)


@pytest.mark.table(
    ("source", "markdown"),
    [
        ("", ""),
        ("select 1", "```sql\nselect 1\n```\n"),
        ("-- Revenue.\n-- Net.\n\n/* Grain:\n * month */\nselect 1 -- one\n",
         "Revenue.\nNet.\n\nGrain:\nmonth\n\n```sql\nselect 1 -- one\n```\n"),
        ("select '-- no', \"/*\", $$\n-- no\n$$\n", "```sql\nselect '-- no', \"/*\", $$\n-- no\n$$\n```\n"),
        ("select 1;\n-- next\nselect 2", "```sql\nselect 1;\n```\n\nnext\n\n```sql\nselect 2\n```\n"),
        ("/* never closed", "never closed\n"),
        ("select '```'", "````sql\nselect '```'\n````\n"),
    ],
)  # fmt: skip
def test_sql_becomes_prose_and_code(source: str, markdown: str) -> None:
    assert read("a.sql", source).markdown == markdown


@settings(deadline=None)  # the first file of a kind imports its reader
@given(st.sampled_from(sorted(SUFFIXES - {".pdf"})), st.text(max_size=300))
def test_any_text_is_a_document_or_says_why_not(suffix: str, text: str) -> None:
    data = text.encode("utf-8", "replace")
    try:
        page = read(f"a{suffix}", data)
    except UnreadableDocumentError as error:
        assert error.reason == "binary" and b"\x00" in data
        return
    assert page == read(f"a{suffix}", data)
    assert page.title


@settings(deadline=None)  # the first file of a kind imports its reader
@given(st.binary(max_size=300))
def test_any_bytes_called_pdf_are_read_or_refused(content: bytes) -> None:
    with pytest.raises(UnreadableDocumentError):
        read("a.pdf", b"%PDF-1.4\n" + content)


def test_reading_a_pdf_of_any_damage_is_typed() -> None:
    whole = pdf("One", "Two")
    outcomes: set[Any] = set()
    for place in range(0, len(whole), 37):
        damaged = whole[:place] + b"\x99\x00<<" + whole[place + 4 :]
        try:
            outcomes.add(type(read("a.pdf", damaged)))
        except UnreadableDocumentError as error:
            outcomes.add(error.reason)
    assert Document in outcomes
