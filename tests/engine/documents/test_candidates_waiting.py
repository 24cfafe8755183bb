"""Candidates the budget had no room for: kept by source, and bound again to what documents say now."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator

import pytest

from ktx_cli.agent_tools.library import DocumentId, Library
from ktx_cli.engine.documents.candidates import TABLES, PageCandidate, carry, evidence_of, keep_waiting, waiting

Make = Callable[..., PageCandidate]
MakeLibrary = Callable[..., Library]


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    made = sqlite3.connect(":memory:", isolation_level=None)
    made.executescript(TABLES)
    yield made
    made.close()


def cited(library: Library, heading: str, make: Make, **fields: str) -> PageCandidate:
    place = DocumentId("docs", "a.md")
    passage = next(each for each in library.passages(place) if each.heading == heading)
    return make(fields.pop("topic", "Refunds"), "Text.", evidence=(evidence_of(passage, place, library),))


def test_what_waits_is_kept_and_nothing_else(database: sqlite3.Connection, candidate: Make) -> None:
    verdicts = [
        candidate("A", "a").judged("rejected", "exceeded_run_budget"),
        candidate("B", "b").judged("rejected", "exceeded_curator_passes"),
        candidate("C", "c").judged("rejected", "not_durable"),
        candidate("D", "d").judged("promoted", into="wiki:d"),
        candidate("E", "e").judged("rejected", "curator_pass_error"),
    ]
    keep_waiting(database, "docs", "files", verdicts)
    assert waiting(database, "docs", "files") == verdicts[:2]
    assert waiting(database, "other", "files") == []
    keep_waiting(database, "docs", "files", verdicts[2:])
    assert waiting(database, "docs", "files") == []


def test_evidence_is_bound_to_the_passage_of_now(library: MakeLibrary, candidate: Make) -> None:
    before = library({"a.md": "# Refunds\n\nOld words.\n\n# Rest\n\nMore.\n"})
    after = library({"a.md": "# New\n\nFirst.\n\n# Refunds\n\nOther words.\n"})
    old = cited(before, "Refunds", candidate).judged("rejected", "exceeded_run_budget")
    found = carry([old], (), after)
    (bound,) = found.candidates
    assert (bound.status, bound.reason) == ("pending", "")
    assert bound.evidence[0].key == old.evidence[0].key
    assert bound.evidence[0].sha256 != old.evidence[0].sha256


@pytest.mark.parametrize("files", [{"a.md": "# Other\n\nText.\n"}, {"b.md": "# Refunds\n\nText.\n"}])
def test_a_candidate_without_a_passage_does_not_go_on(
    library: MakeLibrary, candidate: Make, files: dict[str, str]
) -> None:
    old = cited(library({"a.md": "# Refunds\n\nText.\n"}), "Refunds", candidate)
    found = carry([old], (), library(files))
    assert found.candidates == ()
    assert [(each.status, each.reason) for each in found.gone] == [("rejected", "evidence_gone")]


def test_what_this_run_says_itself_is_not_carried(library: MakeLibrary, candidate: Make) -> None:
    shelf = library({"a.md": "# Refunds\n\nText.\n"})
    old = cited(shelf, "Refunds", candidate)
    found = carry([old], {old.key}, shelf)
    assert (found.candidates, found.gone) == ((), ())
