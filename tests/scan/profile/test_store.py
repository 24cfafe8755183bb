"""Profiles and value lists in the state database."""

from __future__ import annotations

import datetime
import decimal
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.privacy.columns import Refusal
from ktx_cli.privacy.signs import Sign
from ktx_cli.project.layout import Layout
from ktx_cli.project.state import open_for_writing, read_state
from ktx_cli.scan.profile.profiler import SampledTable, Unsampled, count_sample, unsampled
from ktx_cli.scan.profile.store import (
    MatchKind,
    ProfileStore,
    SearchedLists,
    StoredResults,
    comes_back_equal,
    find_values,
    forget_values,
    load_evidence,
    load_profile_times,
    load_profiles,
    load_results,
    save_results,
    save_values,
    without_values,
)
from ktx_cli.scan.profile.values import Dictionary
from ktx_cli.scan.relationships.evidence import CandidateEvidence, ChildEvidence, Thresholds
from ktx_cli.semantic.manifest import ColumnValues, load_lists
from ktx_cli.warehouses.port import Column, SemanticType, Table, TableKind, TableRef
from ktx_cli.warehouses.sampling import Sample, SampleMethod

ORDERS = TableRef("shop", "orders")
BARE = TableRef(None, "a 'b\" c")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


@pytest.fixture
def database(layout: Layout) -> Iterator[sqlite3.Connection]:
    with open_for_writing(layout) as opened:
        yield opened


def sampled(ref: TableRef, **values: list[Any]) -> SampledTable:
    columns = tuple(Column(name, "text", SemanticType.STRING) for name in values)
    rows = len(next(iter(values.values())))
    sample = Sample(tuple(values), tuple(values.values()), rows, SampleMethod.ALL, rows, True)
    return count_sample(Table(ref, TableKind.TABLE, columns), sample)


ORDER_SAMPLE = sampled(
    ORDERS,
    status=["paid", "open", "paid", None],
    contact_email=["a@example.com", "b@example.com", "c@example.com", None],
    placed=[datetime.date(2024, 2, day) for day in (1, 2, 3, 29)],
    born=["1980-01-01", "1990-02-02", "1970-03-03", None],
    amount=[decimal.Decimal("1.10"), decimal.Decimal("2.20"), None, None],
    birthdate=[datetime.date(1980, 2, day) for day in (1, 2, 3, 29)],
    caller=["web", "+49 30 1234567", "web", None],
)
LISTS = Dictionary(
    (
        ColumnValues(ORDERS, "status", (("paid", 2), ("open", 1), ("Paid in part", None)), complete=True),
        ColumnValues(ORDERS, "stage", ((1, 5), (12, 4), (True, 1)), complete=False),
        ColumnValues(BARE, "Straße", (("ÅLESUND 100%", 3), ("under_score", 1)), complete=True),
    ),
    ((ORDERS, "contact_email", Refusal(Sign.EMAIL, "name")),),
)


def saved(database: sqlite3.Connection, connection: str = "shop", privacy: Any = "local") -> None:
    bare = sampled(BARE, town=["Ålesund"])
    save_values(database, connection, [ORDER_SAMPLE, bare], LISTS, privacy=privacy)


def test_profiles_come_back_as_they_were_but_for_what_is_withheld(database: sqlite3.Connection) -> None:
    saved(database)
    bare, orders = load_profiles(database, "shop")
    assert (bare.ref, bare.columns[0].top) == (BARE, (("Ålesund", 1),))
    before = ORDER_SAMPLE.profile
    assert (orders.ref, orders.method, orders.rows, orders.row_count, orders.exact_count, orders.complete) == (
        before.ref, before.method, before.rows, before.row_count, before.exact_count, True,
    )  # fmt: skip
    columns = {column.name: column for column in orders.columns}
    assert columns["status"] == before.columns[0]
    assert columns["placed"].minimum == "2024-02-01"
    assert columns["placed"].top[0] == ("2024-02-01", 1)
    assert columns["amount"].maximum == "2.20"
    assert columns["born"].minimum == "1970-03-03", "dates as text are no list, and keep their range"
    for name in ("contact_email", "birthdate", "caller"):
        column = columns[name]
        assert (column.minimum, column.maximum, column.top) == (None, None, ())
        assert (column.rows, column.distinct) == (4, {"contact_email": 3, "birthdate": 4, "caller": 2}[name])


def test_a_table_without_a_sample_is_kept_with_its_problem(database: sqlite3.Connection) -> None:
    table = Table(ORDERS, TableKind.TABLE, (Column("a", "text", SemanticType.STRING),))
    save_values(database, "shop", [unsampled(table, Unsampled.ERROR, "no")], Dictionary(), privacy="local")
    (profile,) = load_profiles(database, "shop")
    assert (profile.problem, profile.complete) == ("no", False)


def test_lists_are_read_in_one_statement(database: sqlite3.Connection) -> None:
    """A scan may replace them meanwhile, and give their numbers to others."""
    saved(database)
    counted = Counted(database)
    assert load_lists(counted, "shop", "ORDERS")
    assert counted.statements == 1


def test_lists_come_back_in_their_order(database: sqlite3.Connection) -> None:
    saved(database)
    lists = load_lists(database, "shop")
    assert lists == (LISTS.columns[2], LISTS.columns[1], LISTS.columns[0])
    assert load_lists(database, "mart") == ()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("paid", [("status", "paid", MatchKind.EXACT), ("status", "Paid in part", MatchKind.BEGINS)]),
        (" PAID ", [("status", "paid", MatchKind.CASE), ("status", "Paid in part", MatchKind.BEGINS)]),
        ("ai", [("status", "paid", MatchKind.CONTAINS), ("status", "Paid in part", MatchKind.CONTAINS)]),
        ("ålesund", [("Straße", "ÅLESUND 100%", MatchKind.BEGINS)]),
        ("100%", [("Straße", "ÅLESUND 100%", MatchKind.CONTAINS)]),
        ("%", [("Straße", "ÅLESUND 100%", MatchKind.CONTAINS)]),
        ("r_s", [("Straße", "under_score", MatchKind.CONTAINS)]),
        ("12", [("stage", 12, MatchKind.EXACT)]),
        ("true", [("stage", True, MatchKind.EXACT)]),
        ("lost", []),
        ("", []),
        ("   ", []),
    ],
)  # fmt: skip
def test_values_are_found_best_first(
    database: sqlite3.Connection, text: str, found: list[tuple[str, Any, MatchKind]]
) -> None:
    saved(database)
    matches = find_values(database, text).matches
    assert [(each.column, each.value, each.kind) for each in matches] == found
    assert all(each.complete is (each.column != "stage") for each in matches)


def test_a_search_says_what_was_searched(database: sqlite3.Connection) -> None:
    saved(database)
    saved(database, "mart", "off")
    save_values(database, "closed", [ORDER_SAMPLE], LISTS, privacy="strict")
    found = find_values(database, "nothing of the kind")
    facts = [(s.connection, s.privacy, s.tables, s.columns, s.incomplete, s.hidden) for s in found.searched]
    assert facts == [("closed", "strict", 1, 0, 0, 0), ("mart", "off", 2, 3, 1, 1), ("shop", "local", 2, 3, 1, 1)]
    (only,) = find_values(database, "paid", "mart").searched
    assert isinstance(only, SearchedLists)
    assert only.connection == "mart"
    assert {each.connection for each in find_values(database, "paid").matches} == {"mart", "shop"}
    assert {each.connection for each in find_values(database, "paid", "mart").matches} == {"mart"}
    assert find_values(database, "paid", "unknown").searched == ()


def test_a_search_says_that_there_is_more(database: sqlite3.Connection) -> None:
    saved(database)
    found = find_values(database, "a", limit=1)
    assert (len(found.matches), found.more) == (1, True)
    assert not find_values(database, "open", limit=1).more


@pytest.mark.skipif("KTX_TEST_STATE" in os.environ, reason="about the file of the state database")
def test_strict_deletes_what_was_stored_from_the_file_too(layout: Layout) -> None:
    with open_for_writing(layout) as database:
        saved(database)
        saved(database, "mart")
    assert b"Paid in part" in layout.state.read_bytes()
    with open_for_writing(layout) as database:
        saved(database, "shop", "strict")
        forget_values(database, "mart")
    assert b"Paid in part" not in layout.state.read_bytes()
    assert b"paid" not in layout.state.read_bytes()
    assert b"lesund" not in layout.state.read_bytes()
    profiles = read_state(layout, lambda state: load_profiles(state, "shop"))
    assert profiles is not None
    status = profiles[1].columns[0]
    assert (status.distinct, status.longest, status.top, status.minimum) == (2, 4, (), None)
    assert read_state(layout, lambda state: find_values(state, "paid").matches) == ()
    assert read_state(layout, lambda state: load_profiles(state, "mart")) == ()


def test_saving_is_all_or_nothing(database: sqlite3.Connection) -> None:
    saved(database)
    broken = Dictionary((ColumnValues(ORDERS, "status", (("new", 1),), True), *LISTS.columns[:1], None))  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        save_values(database, "shop", [], broken, privacy="local")
    assert load_lists(database, "shop") == (LISTS.columns[2], LISTS.columns[1], LISTS.columns[0])
    assert len(load_profiles(database, "shop")) == 2


class Counted:
    """A database that counts the statements that it is sent."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self.statements = 0

    def __getattr__(self, name: str) -> Any:
        self.statements += name in ("execute", "executemany")
        return getattr(self._database, name)


def test_all_lists_are_saved_with_a_few_statements(database: sqlite3.Connection) -> None:
    """Others wait for the transaction, and each statement travels to the server and back."""
    saved(database, "mart")
    lists = [ColumnValues(ORDERS, f"c{number:03}", (("a", 2), ("b", number)), complete=True) for number in range(300)]
    counted = Counted(database)
    save_values(counted, "shop", [], Dictionary(tuple(lists)), privacy="local")
    assert load_lists(database, "shop") == tuple(lists) and len(load_lists(database, "mart")) == 3
    assert counted.statements < 20


@pytest.mark.parametrize(("first", "statements"), [(0, 2), (5, 3), (150, 4), (299, 4), (300, 4)])
def test_a_search_asks_for_no_more_rows_than_it_needs(
    first: int, statements: int, database: sqlite3.Connection
) -> None:
    lists = [ColumnValues(ORDERS, f"c{number:03}", (("paid", 2),), complete=True) for number in range(300)]
    save_values(database, "shop", [], Dictionary(tuple(lists)), privacy="local")
    counted = Counted(database)
    found = find_values(counted, "paid", limit=4, keep=lambda match: int(match.column[1:]) >= first)
    assert [match.column for match in found.matches] == [
        f"c{number:03}" for number in range(first, min(first + 4, 300))
    ]
    assert (found.more, counted.statements) == (first < 296, statements)


def test_saving_again_replaces(database: sqlite3.Connection) -> None:
    saved(database)
    save_values(database, "shop", [], Dictionary((LISTS.columns[0],)), privacy="local")
    assert load_lists(database, "shop") == (LISTS.columns[0],)
    assert load_profiles(database, "shop") == ()
    assert database.execute("SELECT COUNT(*) FROM dictionary_values").fetchone() == (3,)


def test_lists_that_stay_the_same_are_not_written_again(database: sqlite3.Connection) -> None:
    lists = [ColumnValues(ORDERS, f"c{number}", (("a", 2), (number, None)), complete=True) for number in range(50)]
    save_values(database, "shop", [], Dictionary(tuple(lists)), privacy="local")
    known = dict(database.execute("SELECT column_name, id FROM dictionary_columns"))
    other = replace(lists[3], values=(("a", 2), (3.0, None)))  # equal in Python, but not the same value
    changed = [*lists[:3], other, replace(lists[4], complete=False), *lists[6:]]
    before = database.total_changes
    save_values(database, "shop", [], Dictionary(tuple(changed)), privacy="local")
    assert sorted(load_lists(database, "shop"), key=repr) == sorted(changed, key=repr)
    ids = dict(database.execute("SELECT column_name, id FROM dictionary_columns"))
    assert {name for name in known if ids.get(name) != known[name]} == {"c3", "c4", "c5"}
    assert database.total_changes - before < 20


def evidence(column: str) -> ChildEvidence:
    candidate = CandidateEvidence(BARE, ("town",), 0.5, ("values",), orphans=(("Nowhere", 2), (7, 1)))
    counts = {"rows": 4, "nulls": 1, "distinct": 3, "complete": True, "table_rows": 4}
    return ChildEvidence(ORDERS, (column,), **counts, thresholds=Thresholds(0.6, 0.4, True), candidates=(candidate,))


def test_evidence_is_replaced_with_the_profiles(layout: Layout, database: sqlite3.Connection) -> None:
    store = ProfileStore(database, layout.state, "shop", "local")
    store.save([ORDER_SAMPLE], LISTS, [evidence("status"), evidence("stage")])
    assert load_evidence(database, "shop", [ORDERS, BARE]) == (evidence("stage"), evidence("status"))
    assert load_evidence(database, "mart", [ORDERS]) == ()
    store.save([ORDER_SAMPLE], LISTS, [evidence("status")])
    assert load_evidence(database, "shop", [ORDERS]) == (evidence("status"),)
    forget_values(database, "shop")
    assert load_evidence(database, "shop", [ORDERS]) == ()


def test_a_table_that_was_not_read_keeps_its_evidence_without_values(
    layout: Layout, database: sqlite3.Connection
) -> None:
    store = ProfileStore(database, layout.state, "shop", "local")
    store.save([ORDER_SAMPLE], LISTS, [evidence("status"), evidence("stage")])
    table = Table(ORDERS, TableKind.TABLE, (Column("status", "text", SemanticType.STRING),))
    store.save([unsampled(table, Unsampled.OUT_OF_TIME)], Dictionary(), [evidence("stage")])
    kept = {each.columns: each for each in load_evidence(database, "shop", [ORDERS])}
    assert kept == {("stage",): evidence("stage"), ("status",): evidence("status").without_values()}
    store.save([ORDER_SAMPLE], LISTS, None)  # because it could not be collected
    assert {each.columns for each in load_evidence(database, "shop", [ORDERS])} == {("stage",), ("status",)}
    assert "Nowhere" not in str(database.execute("SELECT evidence FROM relationship_evidence").fetchall())


def test_strict_stores_evidence_without_values(layout: Layout, database: sqlite3.Connection) -> None:
    ProfileStore(database, layout.state, "shop", "strict").save([ORDER_SAMPLE], LISTS, [evidence("status")])
    assert load_evidence(database, "shop", [ORDERS]) == (evidence("status").without_values(),)


def test_evidence_of_another_version_is_none(database: sqlite3.Connection) -> None:
    save_values(database, "shop", [ORDER_SAMPLE], LISTS, privacy="local", evidence=[evidence("status")])
    for stored in ("{}", "no json", '{"candidates": []}', evidence("status").to_json().replace('"score"', '"odds"')):
        database.execute("UPDATE relationship_evidence SET evidence = ?", (stored,))
        assert load_evidence(database, "shop", [ORDERS]) == ()


RESULTS = StoredResults("proof", "hints", '{"keys": []}', "known", '{"tables": []}', '{"points": []}')


def test_profile_times_and_results_come_back_until_they_are_replaced_or_forgotten(database: sqlite3.Connection) -> None:
    bare = sampled(BARE, town=["Ålesund"])
    stored = {ORDERS: "2026-01-31T09:30:00.250Z"}
    save_values(database, "shop", [ORDER_SAMPLE, bare], LISTS, privacy="local", profiled_at=stored)
    save_results(database, "shop", RESULTS)
    assert load_profile_times(database, "shop") == stored
    assert load_results(database, "shop") == RESULTS
    assert (load_profile_times(database, "mart"), load_results(database, "mart")) == ({}, None)
    assert load_profiles(database, "shop")[0].columns == bare.profile.columns
    save_values(database, "shop", [bare], Dictionary(), privacy="local")
    assert (load_profile_times(database, "shop"), load_results(database, "shop")) == ({}, None)
    save_results(database, "shop", RESULTS)
    forget_values(database, "shop")
    assert load_results(database, "shop") is None


@pytest.mark.parametrize("stored", ['["proof", "hints", "{}"]', '{"fingerprint": "proof", "hints": "hints"}'])
def test_results_that_another_version_stored_are_none(database: sqlite3.Connection, stored: str) -> None:
    save_results(database, "shop", RESULTS)
    database.execute("UPDATE enrichment SET value = ?", (stored,))
    assert load_results(database, "shop") is None


def test_a_profile_comes_back_equal_where_json_has_its_values() -> None:
    assert not comes_back_equal(ORDER_SAMPLE.profile), "dates and decimals come back as text"
    assert comes_back_equal(without_values(ORDER_SAMPLE.profile))
    assert comes_back_equal(sampled(BARE, town=["Ålesund", None], number=[1, 2]).profile)
