"""What a document says in brief, and the marks of those that may not hold any more."""

from __future__ import annotations

import hashlib

import pytest

from ktx_cli.documents import (
    Outline,
    RawFile,
    Standing,
    conflicts,
    marks_of,
    outline_of,
    read_document,
    stated_standing,
    statements,
)
from ktx_cli.documents.outline import without_markup


def raw(path: str, text: str) -> RawFile:
    content = text.encode()
    return RawFile(path, hashlib.sha256(content).hexdigest(), len(content), lambda: content)


def outlined(**texts: str) -> dict[str, Outline]:
    paths = {name.replace("__", "/").replace("_", "-") + ".md": text for name, text in texts.items()}
    return {path: outline_of(raw(path, text)) for path, text in paths.items()}


@pytest.mark.table(
    ("path", "text", "title", "summary", "sections", "date"),
    [
        ("a.md", "# Refunds\n\nIt counts when it is paid. More.\n\n## Exceptions\n\n#### Deep\n\n```\n# no\n```\n",
         "Refunds", "It counts when it is paid.", ("Exceptions",), ""),
        ("a.md", "---\ntitle: T\nsummary: Its *own* words.\nupdated: 2024-01-05\n---\nText.",
         "T", "Its own words.", (), "updated: 2024-01-05"),
        ("notes-2024-03.md", "# N\n\n- first [point](x.md)\n- second\n", "N", "first point", (), "file name: 2024-03"),
        ("a.md", "# Prices\n\n**Last updated:** March 2025\n\nPrices are net.", "Prices", "Prices are net.", (),
         "Last updated: March 2025"),
        ("a.md", "# Targets 2025\n\n| a | b |\n|---|---|\n", "Targets 2025", "", (), "title: 2025"),
        ("a.html", "<h1>Web</h1><p>One. Two.</p><h2>Part</h2>", "Web", "One.", ("Part",), ""),
        ("a.txt", "Plain text only\n", "a", "Plain text only", (), ""),
        ("a.md", "", "a", "", (), ""),
    ],
)  # fmt: skip
def test_an_outline(path: str, text: str, title: str, summary: str, sections: tuple[str, ...], date: str) -> None:
    found = outline_of(raw(path, text))
    assert (found.title, found.summary, found.sections, found.date) == (title, summary, sections, date)


@pytest.mark.table(
    ("text", "standing", "words"),
    [
        ("---\nstatus: superseded\n---\n", Standing.SUPERSEDED, "status: superseded"),
        ("---\nsuperseded_by: new.md\n---\n", Standing.SUPERSEDED, "superseded_by: new.md"),
        ("> Superseded by the new rules.\n", Standing.SUPERSEDED, "Superseded by the new rules"),
        ("# A\n\nThis policy is obsolete.", Standing.SUPERSEDED, "This policy is obsolete"),
        ("# A\n\nStatus: **archived**", Standing.SUPERSEDED, "Status: archived"),
        ("# A (Draft)\n", Standing.DRAFT, "A (Draft)"),
        ("# A\n\nDRAFT\n", Standing.DRAFT, "DRAFT"),
        ("# A\n\nThis policy is valid until 31 December 2024.", Standing.ENDS, "valid until 31 December 2024"),
        ("# A\n\nThis document replaces our old list.", Standing.REPLACES, "This document replaces our old list"),
        ("# A\n\nGross margin was superseded by net margin.", None, ""),
        ("# A\n\nOrders as of 2024-01-01 count. The draft of an order does not.", None, ""),
    ],
)  # fmt: skip
def test_marks_are_what_a_document_states(text: str, standing: Standing | None, words: str) -> None:
    marks = marks_of(outlined(a=text)).get("a.md", ())
    assert [(each.standing, each.quotes[0][0]) for each in marks] == ([] if standing is None else [(standing, words)])


@pytest.mark.table(
    ("text", "found"),
    [
        ("---\nupdated: 2024-01-05\n---\nLast updated: May 2022", ("updated: 2024-01-05", "Last updated: May 2022")),
        ("---\nupdated: 2024-03-05\n---\nLast updated: March 2024", None),
        ("---\ndate: 2024-03-05\n---\nLast updated: 2025-01-01", None),
        ("---\ndate: 2024-03-05\n---\nAs of Q3 2025 the rule is new.", None),
        ("---\nvalid_from: 2024-02-01\n---\nValid from: 1.3.2024", ("valid_from: 2024-02-01", "Valid from: 1.3.2024")),
        ("---\nvalid_from: 2025-01-01\nvalid_until: 2024-12-31\n---\n",
         ("valid_from: 2025-01-01", "valid_until: 2024-12-31")),
        ("---\nvalid_from: 2024-01-01\nvalid_until: 2024-12-31\n---\n", None),
        ("---\nupdated: 3/4/2024\n---\nLast updated: 2024-01-01", None),
    ],
)  # fmt: skip
def test_dates_that_contradict_each_other(text: str, found: tuple[str, str] | None) -> None:
    assert [(one.words, other.words) for one, other in conflicts(statements(text))] == (
        [] if found is None else [found]
    )


def test_a_document_that_another_one_replaces_or_has_a_later_version() -> None:
    marks = marks_of(
        outlined(
            pricing_2023="# Pricing",
            pricing_2024="# Pricing",
            old="# The old list",
            new="# New\n\nThis document replaces [the old list](old.md).",
            twice="# New\n\nReplaces: pricing",
            sub__pricing_2022="# Elsewhere",
            rules_v1="# Rules",
            rules_v2="# Rules",
        )
    )
    later = {path: mark.other for path, found in marks.items() for mark in found if mark.standing is Standing.LATER}
    assert later == {"pricing-2023.md": "pricing-2024.md", "rules-v1.md": "rules-v2.md"}
    (old,) = marks["old.md"]
    assert (old.standing, old.other) == (Standing.SUPERSEDED, "new.md")
    assert old.quotes == (("This document replaces [the old list](old.md)", "text"),)
    assert "sub/pricing-2022.md" not in marks, "one in another folder is another document"


@pytest.mark.table(
    ("text", "standing"),
    [
        ("---\nstatus: draft\n---\n# A", Standing.DRAFT),
        ("---\nstatus: draft\nreplaced_by: b.md\n---\n# A", Standing.SUPERSEDED),
        ("# A\n\nValid until: 2024-12-31", None),
        ("# A", None),
    ],
)
def test_what_passages_say_of_the_standing_of_their_document(text: str, standing: Standing | None) -> None:
    found = raw("a.md", text)
    assert stated_standing(found, read_document(found)) is standing


@pytest.mark.table(
    ("text", "plain"),
    [
        ("**Note:** the *net* `amount`", "Note: the net amount"),
        ("Net amount = quantity * unit_price - discount", "Net amount = quantity * unit_price - discount"),
        ("a*b*c and snake_case_name", "a*b*c and snake_case_name"),
        ("[the list](old.md) _holds_", "the list holds"),
    ],
)
def test_emphasis_goes_and_formulas_stay(text: str, plain: str) -> None:
    assert without_markup(text) == plain


@pytest.mark.parametrize("listed", ["\n  - old.md\n  - older.md", " [old.md, 'older.md']"])
def test_front_matter_may_list_what_a_document_replaces(listed: str) -> None:
    found = marks_of(outlined(new=f"---\nsupersedes:{listed}\n---\n# New", old="# Old", older="# Older"))
    assert {path: found[path][0].standing for path in ("old.md", "older.md")} == {
        "old.md": Standing.SUPERSEDED,
        "older.md": Standing.SUPERSEDED,
    }


@pytest.mark.table(
    ("text", "summary"),
    [
        ("---\ntitle: [Returns\nowner: a: b\n---\n\n# Returns\n\nCustomers have 30 days.\n", "Customers have 30 days."),
        ("---\ntags:\n  - x\n  - [y\nstatus: ok\n---\nCustomers have 30 days.\n", "Customers have 30 days."),
        ("---\nIt is so: we: say it.\nAnd more text.\n---\n\nCustomers have 30 days.\n", "It is so: we: say it."),
    ],
)
def test_front_matter_that_is_not_valid_is_no_sentence(text: str, summary: str) -> None:
    content = text.encode()
    found = outline_of(RawFile("a.md", "", len(content), lambda: content))
    assert found.summary == summary


def test_a_file_name_with_a_day_that_no_calendar_has_is_no_date() -> None:
    assert outline_of(RawFile("a-2025-02-30.md", "", 4, lambda: b"# A\n")).date == ""
    assert outline_of(RawFile("a-2024-02-29.md", "", 4, lambda: b"# A\n")).date == "file name: 2024-02-29"
