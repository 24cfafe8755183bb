"""Stored answers: they come back as they are, count while no table of theirs has changed, and say nothing private."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import ipaddress
import itertools
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.project.layout import Layout
from ktx_cli.project.state import open_for_writing
from ktx_cli.scan.profile import answers, profiler
from ktx_cli.scan.profile.answers import UNUSED_SCANS, AnswerStore, RecallingConnector, decoded, encoded
from ktx_cli.scan.profile.profiler import Budget, SampledTable, count_sample, profile_tables
from ktx_cli.scan.profile.reuse import evidence_of
from ktx_cli.warehouses import sampling
from ktx_cli.warehouses.port import (
    Column,
    ForwardingConnector,
    OverBudgetError,
    QueryResult,
    SemanticType,
    Table,
    TableKind,
    TableRef,
    attribute,
    may_ask,
)
from ktx_cli.warehouses.registry import MeasuredConnector

A, B, C = (TableRef("s", name) for name in "abc")
ZONE = datetime.timezone(datetime.timedelta(hours=2))


def table(ref: TableRef, kind: TableKind = TableKind.TABLE, sql: str | None = None) -> Table:
    return Table(ref, kind, (Column("id", "integer", SemanticType.NUMBER),), row_estimate=1000, view_sql=sql)


class Source(ForwardingConnector):
    """Answers each statement with the number of statements so far."""

    own_catalog: str | None = "shop"

    def __init__(self, evidence: Mapping[TableRef, str] | None = None) -> None:
        self.dialect = "postgres"
        self.known = evidence or {}
        self.user = ""
        self.sent: list[str] = []

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        self.sent.append(sql)
        return QueryResult(("n",), ((len(self.sent),),))

    def evidence(self) -> str | None:
        return None

    def reader(self) -> str:
        return self.user

    def bytes_read(self, sql: str) -> int | None:
        return None

    def table_evidence(self, tables: Sequence[Table]) -> Mapping[TableRef, str]:
        return self.known


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AnswerStore]:
    layout = Layout(tmp_path)
    with open_for_writing(layout) as database:
        yield AnswerStore(database, layout.state, "shop")


def recalling(store: AnswerStore, evidence: Mapping[TableRef, str], **options: Any) -> RecallingConnector:
    found = RecallingConnector(Source(), [table(A), table(B), table(C)], store, evidence, **options)
    found.end_sampling()
    return found


VALUES = [
    *(None, True, 7, -(2**80), 1.5, float("inf"), "text", "\ud800", ""),
    *(decimal.Decimal("1.50"), datetime.date(1, 1, 1), datetime.time(1, 2, 3, 4), datetime.timedelta(-1, 5, 7)),
    *(datetime.datetime(2024, 1, 2, 3, 4, 5, 6), datetime.datetime(2024, 1, 2, tzinfo=ZONE), b"\x00\xff"),
    *(uuid.UUID(int=5), ipaddress.ip_address("::1"), ipaddress.ip_interface("10.0.0.1/8")),
]


def test_values_come_back_as_they_are() -> None:
    rows = tuple((value, 1) for value in VALUES)
    columns = tuple(zip(*((value,) for value in VALUES), strict=True))
    for result in (
        QueryResult(("a", "n"), rows),
        QueryResult(tuple(map(str, range(len(VALUES)))), columns, truncated=True),
        QueryResult(("a",), ()),
    ):
        content = encoded(result)
        assert content is not None
        assert repr(decoded(content)) == repr(result)
    assert encoded(QueryResult(("a",), (({"a": 1},),))) is None, "nothing knows how to write it"


JOIN = 'SELECT count(*) FROM "s"."a" AS c LEFT JOIN (SELECT DISTINCT "id" FROM "s"."b") AS p ON true'


def test_an_answer_counts_while_none_of_its_tables_has_changed(store: AnswerStore) -> None:
    first = recalling(store, {A: "1", B: "1", C: "1"})
    answer = first.query(JOIN, max_rows=1)
    first.finish(is_complete=True)
    again = recalling(store, {A: "1", B: "1", C: "2"})
    assert again.recalls(JOIN, max_rows=1)
    assert again.query(JOIN, max_rows=1) == answer
    assert again.inner.sent == []  # type: ignore[attr-defined]
    for other in ({A: "2", B: "1"}, {A: "1", B: "2"}, {A: "1"}, {}):
        assert not recalling(store, other).recalls(JOIN, max_rows=1)
    same = {A: "1", B: "1"}
    assert not recalling(store, same).recalls(JOIN, max_rows=2), "another statement"
    assert not recalling(store, same, anew=[B]).recalls(JOIN, max_rows=1), "somebody asked for it"


def test_answers_without_use_are_forgotten_after_a_whole_scan_only(store: AnswerStore) -> None:
    evidence = {A: "1", B: "1"}
    first = recalling(store, evidence)
    first.query(JOIN, max_rows=1)
    first.query('SELECT 1 FROM "s"."a"')
    first.finish(is_complete=True)
    assert len(store.answers()) == 2
    recalling(store, evidence).finish(is_complete=False)
    assert len(store.answers()) == 2
    used = recalling(store, evidence)
    used.query(JOIN, max_rows=1)
    used.finish(is_complete=True)
    assert len(store.answers()) == 1


def test_answers_do_not_accumulate_over_nights_that_are_never_complete(store: AnswerStore) -> None:
    stored = []
    for night in range(40):
        source = recalling(store, {A: "1", B: "1", C: str(night)})
        source.query(JOIN, max_rows=1)
        source.query('SELECT "id" FROM "s"."c"')
        source.settle(C, 1000, 1000, may_store=True)
        source.query(f'SELECT DISTINCT "id" FROM "s"."a" WHERE "id" IN ({night})')
        source.query(f'SELECT count(*) FROM "s"."c" WHERE "id" <> {night}', max_rows=1)
        source.finish(is_complete=False)
        stored.append(len(store.answers()))
    assert max(stored) == stored[-1] == 2 + UNUSED_SCANS + 1, "the probes of the last nights, and the rest once"
    assert recalling(store, {A: "1", B: "1"}).recalls(JOIN, max_rows=1), "what is used remains"


def test_a_use_makes_an_answer_count_again(store: AnswerStore) -> None:
    evidence = {A: "1", B: "1"}
    for night in range(3 * UNUSED_SCANS):
        source = recalling(store, evidence)
        if night % (UNUSED_SCANS - 1) == 0:
            source.query(JOIN, max_rows=1)
            assert source.statements == (night == 0)
        source.finish(is_complete=False)
    assert len(store.answers()) == 1


def test_a_table_that_waits_keeps_its_answers(store: AnswerStore) -> None:
    select = 'SELECT "id" FROM "s"."a"'
    first = recalling(store, {A: "1"})
    first.query(select)
    first.settle(A, 1000, 1000, may_store=True)
    first.finish(is_complete=True)
    for is_pinned in (False, True):
        late = recalling(store, {A: "2"})
        assert not is_pinned or late.pin(A)
        late.finish(is_complete=False)
    again = recalling(store, {A: "3"})
    assert again.pin(A)
    assert again.recalls(select)


def test_a_table_that_is_gone_keeps_nothing(store: AnswerStore) -> None:
    first = recalling(store, {A: "1", B: "1"})
    first.query(JOIN, max_rows=1)
    first.query('SELECT "id" FROM "s"."b"')
    first.settle(B, 1000, 1000, may_store=True)
    first.finish(is_complete=True)
    without = RecallingConnector(Source(), [table(A)], store, {A: "1"})
    without.finish(is_complete=False)
    assert store.answers() == {}
    assert store.tables() == {}


def test_answers_under_other_privacy_rules_are_deleted_at_once(
    store: AnswerStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for connection in ("shop", "other"):
        each = AnswerStore(store.database, store.state, connection)
        source = recalling(each, {A: "1", B: "1"})
        source.query(JOIN, max_rows=1)
        source.finish(is_complete=True)
    monkeypatch.setattr(answers, "privacy_rules", lambda: "stricter")
    assert not recalling(store, {A: "1", B: "1"}).recalls(JOIN, max_rows=1)
    assert store.database.execute("SELECT count(*) FROM scan_answers").fetchone() == (0,)


def test_what_must_not_be_stored_is_not(store: AnswerStore) -> None:
    evidence = {A: "1", B: "1"}
    for options, kept in (({}, 2), ({"unstored": [A]}, 1), ({"everything_private": True}, 1)):
        source = recalling(store, evidence, **options)
        assert len(store.answers()) <= kept, "what an earlier scan stored is deleted"
        source.query(JOIN, max_rows=1)
        source.query('SELECT "id" FROM "s"."a"')
        source.finish(is_complete=True)
        assert len(store.answers()) == kept, options


def test_an_unknown_table_keeps_no_answers(store: AnswerStore) -> None:
    source = recalling(store, {A: "1"})
    source.query(JOIN, max_rows=1)
    source.query("SELECT 1")
    source.finish(is_complete=True)
    assert store.answers() == {}


def test_bytes_are_spent(store: AnswerStore) -> None:
    source = recalling(store, {A: "1", B: "1"}, gigabytes=8 * 1500 / 1024**3)
    for path, is_sent in (('"s"."a"', True), ('"s"."b"', False)):
        statement = f"SELECT count(*) FROM {path}"
        assert may_ask(source, statement, max_rows=1, is_late=False) == is_sent
        with contextlib.nullcontext() if is_sent else pytest.raises(OverBudgetError, match=r"scan\.budget\.gigabytes"):
            source.query(statement, max_rows=1)
    assert source.statements == 1, "1,000 rows of 8 bytes each"
    assert source.is_over_budget


class Warehouse(Source):
    """Says how many bytes a statement reads, and counts how often it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def bytes_read(self, sql: str) -> int | None:
        self.asked.append(sql)
        return 0 if "count(*)" in sql else 8000 if '"id"' in sql else 1


@pytest.mark.parametrize(
    ("sql", "is_asked", "is_affordable"),
    [
        pytest.param('SELECT "id" FROM "s"."b"', False, False, id="reads values"),
        pytest.param('SELECT count(*) FROM "s"."b"', True, True, id="reads no bytes"),
        pytest.param('SELECT "id" FROM "s"."empty"', True, False, id="of a table that may be empty"),
    ],
)
@pytest.mark.parametrize("spare", [0, 7], ids=["nothing is left", "next to nothing is left"])
def test_the_database_is_not_asked_for_statements_after_all_bytes_are_spent(
    sql: str, is_asked: bool, is_affordable: bool, spare: int
) -> None:
    warehouse, empty = Warehouse(), replace(table(TableRef("s", "empty")), row_estimate=0)
    source = RecallingConnector(warehouse, [table(A), table(B), empty], gigabytes=(8000 + spare) / 1024**3)
    first = 'SELECT "id" FROM "s"."a"'
    assert may_ask(source, first, max_rows=1, is_late=False)
    source.query(first, max_rows=1)
    assert not source.is_over_budget
    warehouse.asked.clear()
    assert may_ask(source, sql, max_rows=1, is_late=False) == is_affordable
    assert warehouse.asked == [sql] * is_asked and source.is_over_budget != is_affordable


SIZES = [
    ('SELECT "id", "name" FROM "s"."w" LIMIT 10', 10, 10 * 40, "the rows that are returned"),
    ('SELECT "id" FROM "s"."w" TABLESAMPLE SYSTEM (1) LIMIT 500', 500, 500 * 8, "blocks of rows"),
    ('SELECT "name", count(*) FROM "s"."w" GROUP BY "name" LIMIT 10', 10, 1000 * 32, "all rows of a column"),
    ('SELECT DISTINCT "id" FROM "s"."w" WHERE "id" IN (1, 2)', 4, 1000 * 8, "all rows of a key"),
    ('SELECT count("name"), approx_count_distinct("name") FROM "s"."w"', 1, 1000 * 32, "an aggregate"),
    ('SELECT min(ctid), max(ctid) FROM "s"."w"', 1, 1000 * 8, "no column"),
    (JOIN, 1, 2 * 1000 * 8, "two tables"),
]


@pytest.mark.parametrize(("sql", "most", "size", "what"), SIZES)
def test_a_statement_costs_the_columns_and_rows_that_it_reads(sql: str, most: int, size: int, what: str) -> None:
    wide = Table(
        TableRef("s", "w"),
        TableKind.TABLE,
        (Column("id", "integer", SemanticType.NUMBER), Column("name", "text", SemanticType.STRING)),
        row_estimate=1000,
    )
    for spare, fits in ((0, True), (-1, False)):
        source = RecallingConnector(Source(), [table(A), table(B), wide], gigabytes=(size + spare) / 1024**3)
        assert may_ask(source, sql, max_rows=most, is_late=False) == fits, what


def test_a_sample_of_an_uncounted_table_costs_its_rows() -> None:
    uncounted = Table(A, TableKind.TABLE, (Column("id", "integer", SemanticType.NUMBER),))
    source = RecallingConnector(Source(), [uncounted], gigabytes=8 * 101 / 1024**3)
    for _ in range(3):
        source.query('SELECT "id" FROM "s"."a" LIMIT 99', max_rows=99)
    assert source.affords('SELECT "id" FROM "s"."a" LIMIT 98', max_rows=98)
    assert source._bytes == 3 * 8, "one row each"


def test_an_answer_about_values_of_a_private_table_is_not_stored(store: AnswerStore) -> None:
    evidence = {A: "1", B: "1"}
    probe = 'SELECT DISTINCT "id" FROM "s"."a" WHERE "id" IN (7)'
    for options, kept in (({"unstored": [C]}, 0), ({}, 1), ({}, 1), ({"unstored": [C]}, 0)):
        source = recalling(store, evidence, **options)
        attribute(source, probe, [C, A])
        source.query(probe)
        source.flush()
        assert len(store.answers()) == kept
        source.finish(is_complete=False)
    source = recalling(store, evidence)
    attribute(source, probe, [C])
    source.query(probe)
    source.settle(C, 1000, 1000, may_store=False)
    source.finish(is_complete=False)
    assert store.answers() == {}, "the other table turned out to be private"


def test_answers_are_those_of_one_connection(store: AnswerStore) -> None:
    source = recalling(store, {A: "1", B: "1"})
    source.query(JOIN, max_rows=1)
    source.finish(is_complete=True)
    other = AnswerStore(store.database, store.state, "other")
    assert other.answers() == {}


D = TableRef("t", "d")
VIEWS = [
    ("CREATE VIEW v AS SELECT id FROM s.a", True),
    ("SELECT a.id FROM s.a JOIN s.b ON a.id = b.id", True),
    (" SELECT a.id\n   FROM (s.a\n     JOIN s.b ON ((a.id = b.id)));", True),
    ("WITH w AS (SELECT id FROM s.a) SELECT * FROM w", True),
    ("SELECT id FROM a", True),
    ("SELECT id FROM shop.s.a", True),
    ('SELECT id FROM "shop"."s"."a"', True),
    ("SELECT id FROM t.d", True),
    ("SELECT id FROM other.s.a", False),
    ("CREATE VIEW v AS SELECT a.id FROM s.a JOIN other.s.b ON a.id = b.id", False),
    ("SELECT id FROM d", False),
    ("WITH c AS (SELECT id FROM c) SELECT a.id FROM s.a, c", False),
    ("SELECT id FROM s.unknown", False),
    ("SELECT id FROM s.a, s.c", False),
    ("SELECT id FROM s.a WHERE made < current_date", False),
    ("SELECT * FROM generate_series(1, 2)", False),
    ("no statement (", False),
]


@pytest.mark.parametrize(("sql", "known"), VIEWS)
def test_a_view_has_the_evidence_of_its_tables(sql: str, known: bool) -> None:
    view = TableRef("s", "v")
    tables = [table(A), table(B), table(C), table(D), table(view, TableKind.VIEW, sql)]
    before = evidence_of(Source({A: "1", B: "1", D: "1"}), tables, "1.0")
    assert (view in before) == known
    if known:
        assert evidence_of(Source({A: "2", B: "1", D: "2"}), tables, "1.0")[view] != before[view]
        assert evidence_of(Source({A: "1", B: "1", D: "1"}), tables, "2.0")[view] != before[view]


@pytest.mark.parametrize("catalog", [None, "other"])
def test_a_view_of_another_catalog_has_no_evidence(catalog: str | None) -> None:
    source = Source({A: "1"})
    source.own_catalog = catalog
    view = TableRef("s", "v")
    assert view not in evidence_of(source, [table(A), table(view, TableKind.VIEW, "SELECT id FROM shop.s.a")], "1.0")


def test_a_table_that_waits_for_several_scans_keeps_its_profile(store: AnswerStore) -> None:
    """One of its statements fits into the budget of each of them, and the sample does not."""
    count, sample = 'SELECT count(*) FROM "s"."a"', 'SELECT "id" FROM "s"."a"'
    source = RecallingConnector(Source(), [table(A)], store, {A: "1"})
    answers = [source.query(each) for each in (count, sample)]
    source.settle(A, 10, 10, may_store=True)
    source.finish(is_complete=True)
    for evidence in ("2", "3", "3"):
        source = RecallingConnector(Source(), [table(A)], store, {A: evidence})
        source.query(count)
        assert source.pin(A) is not None
        assert [source.query(each) for each in (count, sample)] == answers
        source.settle(A, 10, 10, may_store=True)
        source.finish(is_complete=False)


def test_columns_that_changed_their_names_are_a_change() -> None:
    names = [("x", "y"), ("y", "x")]
    found = {evidence_of(Source({A: "1"}), [of_columns(*each)], "1.0")[A] for each in names}
    assert len(found) == 2, "a statement about `x` has another answer"


def of_columns(*names: str) -> Table:
    return replace(table(A), columns=tuple(Column(name, "integer", SemanticType.NUMBER) for name in names))


def test_a_wrapped_connection_tells_who_reads_and_what_catalog() -> None:
    source = Source({A: "1"})
    measured = MeasuredConnector(source, "shop", "postgresql")
    source.user = "anna"
    view = TableRef("s", "v")
    tables = [table(A), table(view, TableKind.VIEW, "SELECT id FROM shop.s.a")]
    before = evidence_of(measured, tables, "1.0")
    assert before == evidence_of(source, tables, "1.0"), "telemetry changes nothing"
    assert set(before) == {A, view}
    source.user = "ben"
    assert evidence_of(measured, tables, "1.0")[A] != before[A], "another user may see other rows"


class Filled(Warehouse):
    """Has two rows in every table."""

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        self.sent.append(sql)
        return QueryResult(("id",), ((1,), (2,)))


def test_stored_samples_ask_nothing_and_take_no_time_of_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables whose answers may not be stored are asked after them, and nothing is asked about these before either."""
    layout, refs = Layout(tmp_path), [TableRef("s", f"t{number}") for number in range(6)]
    clock = itertools.count()
    seen: list[tuple[TableRef, int]] = []

    def count(asked: Table, *more: Any) -> SampledTable:
        seen.append((asked.ref, len(warehouse.asked)))
        for _ in range(100):
            next(clock)
        return count_sample(asked, *more)

    monkeypatch.setattr(profiler, "count_sample", count)
    for module in (profiler, sampling):
        monkeypatch.setattr(module, "monotonic", lambda: float(next(clock)))
    with open_for_writing(layout) as database:
        store, evidence = AnswerStore(database, layout.state, "shop"), dict.fromkeys(refs, "1")
        for sent in (refs, refs[:2]):
            warehouse = Filled()
            connector = RecallingConnector(
                warehouse, list(map(table, refs)), store, evidence, unstored=refs[:2], gigabytes=1.0
            )
            seen.clear()
            found = profile_tables(connector, list(map(table, refs)), Budget(seconds=600, concurrency=1))
            connector.finish(is_complete=True)
            assert {name for each in warehouse.sent for name in re.findall(r"t\d", each)} == {ref.name for ref in sent}
            assert found.statements == len(warehouse.sent)
            assert all(each.profile.unsampled is None for each in found.tables)
    assert seen[:4] == [(ref, 0) for ref in refs[2:]]
    assert found.seconds_recalled > 400


@pytest.mark.table(("seconds", "gigabytes"), [(600, 0.0), (0, 1.0)])
def test_statements_that_are_not_sent_do_not_count(tmp_path: Path, seconds: int, gigabytes: float) -> None:
    """Changed tables that a scan cannot read have the profiles of an earlier one, from stored answers."""
    layout, refs = Layout(tmp_path), [TableRef("s", f"t{number}") for number in range(4)]
    with open_for_writing(layout) as database:
        store = AnswerStore(database, layout.state, "shop")
        for evidence, budget, limit in (("1", 600, 1.0), ("2", seconds, gigabytes)):
            warehouse = Filled()
            tables, known = list(map(table, refs)), dict.fromkeys(refs, evidence)
            connector = RecallingConnector(warehouse, tables, store, known, gigabytes=limit)
            found = profile_tables(connector, tables, Budget(seconds=budget, concurrency=1))
            connector.finish(is_complete=True)
            assert found.statements == len(warehouse.sent)
    assert found.waiting == frozenset(refs) and not warehouse.sent
