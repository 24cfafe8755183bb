"""The dates that documents state of themselves."""

from __future__ import annotations

import pytest

from ktx_cli.documents import RawFile, conflicts, dates_of, stated_dates, statements


@pytest.mark.table(
    ("text", "found"),
    [
        ("---\ntitle: Returns\nvalid_until: 2024-12-31\nstatus: superseded\n---\n# Returns\n",
         ("valid_until: 2024-12-31", "status: superseded")),
        ("---\nLast-Updated: 'March 2025'\nstatus: published\nowner: 2025\n---\n", ("Last-Updated: March 2025",)),
        ("# Sales targets 2024\n\nText.", ("title: 2024",)),
        ("# Rückgabe\n\n**Stand:** 12.03.2025\n", ("Stand: 12.03.2025",)),
        ("Valid from 1 May 2024, valid until 30 June 2025.", ("Valid from 1 May 2024", "valid until 30 June 2025")),
        ("As of Q3 2025 the rule is new.", ("As of Q3 2025",)),
        ("Superseded by [returns](returns.md). Text", ("Superseded by [returns](returns.md)",)),
        ("This policy is obsolete.", ("This policy is obsolete",)),
        ("Updated on March 3, 2025", ("Updated on March 3, 2025",)),
        ("gültig bis 31.12.2024", ("gültig bis 31.12.2024",)),
        ("Orders of 2024 count when they are paid. See 2023-01-01.", ()),
        ("The standard 2024 model.", ()),
        ("- as of 2024-01-01\n" * 9, ("as of 2024-01-01",)),
        ("\n" * 80 + "As of 2024-01-01", ()),
        ("# Returns\n\n**Date:** 12 March 2025\n", ("Date: 12 March 2025",)),
        ("Datum: 12.03.2025\n\nDate: 2025-03-12", ("Datum: 12.03.2025", "Date: 2025-03-12")),
        ("The order date: 2025-03-12 is in UTC.", ()),
        # Days that no calendar has:
        ("As of 2025-02-30", ()),
        ("---\nvalid_until: 2025-13-01\ndate: 31.04.2025\nreplaces: 2025-13.md\n---\n", ("replaces: 2025-13.md",)),
        ("Date: 2025-00-10\n\nUpdated on February 30, 2025\n", ()),
        ("# Report 2025-02-29\n\nAs of 2024-02-29", ("As of 2024-02-29",)),
        ("", ()),
    ],
)  # fmt: skip
def test_what_a_document_says_of_its_own_date(text: str, found: tuple[str, ...]) -> None:
    assert stated_dates(text) == found


HTML = b"<html><head><title>Returns</title></head><body><p>As of March 2025</p><p>30 days.</p></body></html>"


@pytest.mark.table(
    ("path", "content", "found"),
    [
        ("a.html", HTML, ("As of March 2025",)),
        ("a.md", b"As of March 2025\n", ("As of March 2025",)),
        ("a.html", HTML + b" " * 200_000, ()),
        ("a.pdf", b"no PDF", ()),
    ],
)
def test_documents_state_dates_as_texts_do(path: str, content: bytes, found: tuple[str, ...]) -> None:
    assert dates_of(RawFile(path, "", len(content), lambda: content)) == found


@pytest.mark.table(
    ("text", "found"),
    [
        ("---\ndate: 2025-01-01\n---\n\nDate: 2024-06-30\n", [("date: 2025-01-01", "Date: 2024-06-30")]),
        ("---\ndate: 2025-01-01\n---\n\n- **Datum**: 30.06.2024\n", [("date: 2025-01-01", "Datum: 30.06.2024")]),
        ("---\ndate: 2025-01-01\n---\n\nDate: January 2025\n", []),
        ("---\ndate: 2025-01-01\n---\n\nDate: 2025-02-30\n", []),
    ],
)
def test_a_line_with_the_date_contradicts_the_front_matter(text: str, found: list[tuple[str, str]]) -> None:
    assert [(one.words, other.words) for one, other in conflicts(statements(text))] == found
