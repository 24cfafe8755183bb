"""Which columns a model is asked about, what it is told, and what its answers change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.relationship_fixtures.discovering import discover_database, hidden
from benchmarks.relationship_fixtures.generate import generate
from benchmarks.relationship_fixtures.oracle import Oracle
from ktx_cli.project.config.blocks import Relationships, Scan
from ktx_cli.scan.profile.profiler import Budget, profile_tables
from ktx_cli.scan.relationships import discovery as search
from ktx_cli.scan.relationships import row_checks
from ktx_cli.scan.relationships.discovery import discover
from ktx_cli.scan.relationships.hints import FixedHints, JoinHint, recorded_hints
from ktx_cli.scan.relationships.record import Discovery, RelationshipRecord, Status, read_record, record_text
from ktx_cli.scan.relationships.undecided import UndecidedColumn
from ktx_cli.warehouses.port import ConnectionSpec, Scope
from ktx_cli.warehouses.registry import connect
from tests.scan.relationships.test_discovery_checks import filled, orders

Pick = Callable[[UndecidedColumn], int | None]
"""Returns the number of the offer that is the parent, or None for none of them."""

BRANCHES = filled("branches", "id INTEGER, name TEXT", 40, "n + 10", "'x' || n")
ROOMS = filled("rooms", "id INTEGER, title TEXT", 50, "n + 10", "'y' || n")


def readers(home: str = "11 + n * 7 % 40", column: str = "home") -> tuple[str, ...]:
    return filled("readers", f"id INTEGER, {column} INTEGER, card TEXT", 300, "n", home, "'c' || n")


UNDECIDED = (*BRANCHES, *ROOMS, *readers())
HOME = "readers(home) -> branches(id)"


class Model:
    """Answers about columns as it is told to, and keeps what it was asked."""

    def __init__(self, pick: Pick) -> None:
        self.pick = pick
        self.asked: list[UndecidedColumn] = []

    def __call__(self, undecided: Sequence[UndecidedColumn]) -> list[JoinHint]:
        self.asked += undecided
        return [hint for column in undecided for hint in self._hints(column, self.pick(column))]

    def _hints(self, column: UndecidedColumn, number: int | None) -> list[JoinHint]:
        offers, source = (column.offers, "model_rejected") if number is None else ((column.offers[number],), "model")
        return [JoinHint(column.table, (column.column,), each.parent, (each.column,), source) for each in offers]

    def names(self) -> list[str]:
        return [f"{each.table.name}.{each.column}" for each in self.asked]


def first(column: UndecidedColumn) -> int:
    return 0


def nothing(column: UndecidedColumn) -> None:
    return None


@pytest.mark.table(
    ("statements", "asked"),
    [
        (UNDECIDED, ["readers.home"]),
        ((*BRANCHES, *readers(column="branch_id")), []),  # the name and the rows are clear
        ((*BRANCHES, *readers("900 + n", "branch_id")), []),  # the rows say no
        ((*BRANCHES, *readers("NULL", "branch_id")), []),  # no answer can replace rows
        ((*BRANCHES, *ROOMS, *readers(column="minor_branch_count")), []),  # a quantity
        ((*BRANCHES, *ROOMS, *readers(column="note")), []),  # a text
        (orders(), []),
    ],
)
def test_only_undecided_columns_are_asked_about(shop: Any, statements: Sequence[str], asked: list[str]) -> None:
    model = Model(nothing)
    with shop.open(statements) as connector:
        discover_database(connector, connector.introspect(Scope()), Scan(), ask=model)
    assert model.names() == asked


def test_the_evidence_is_told_in_words_without_values(shop: Any) -> None:
    model = Model(nothing)
    with shop.open(UNDECIDED) as connector:
        discover_database(connector, connector.introspect(Scope()), Scan(), ask=model)
    (column,) = model.asked
    assert [(offer.parent.name, offer.column) for offer in column.offers] == [("branches", "id")]
    assert column.offers[0].evidence == (
        "Column name gives no indication; all values exist in the key; 40 distinct values in the sample; "
        "2 other keys also contain the values"
    )


def found(shop: Any, pick: Pick | None, statements: Sequence[str] = UNDECIDED, *hints: JoinHint) -> Discovery:
    with shop.open(statements) as connector:
        ask = None if pick is None else Model(pick)
        return discover_database(connector, connector.introspect(Scope()), Scan(), [FixedHints(hints)], ask)


@pytest.mark.parametrize(
    ("pick", "status", "sources"),
    [
        (None, Status.REJECTED, ("values",)),
        (first, Status.ACCEPTED, ("model", "values")),
        (nothing, Status.REJECTED, ("model_rejected", "values")),
    ],
)
def test_an_answer_decides(shop: Any, pick: Pick | None, status: Status, sources: tuple[str, ...]) -> None:
    relationship = shop.answer(found(shop, pick)).inferred(HOME)
    assert (relationship.status, relationship.sources) == (status, sources)
    assert relationship.check is not None and relationship.check.missing == 0


@pytest.mark.parametrize("pick", [first, nothing])
def test_recorded_answers_give_the_same_joins_without_a_question(shop: Any, pick: Pick) -> None:
    asked = found(shop, pick)
    record = read_record(record_text(RelationshipRecord(asked.keys, asked.relationships)), "there")
    hints = recorded_hints(record)
    assert [hint.child_columns for hint in hints] == [("home",)]
    assert found(shop, None, UNDECIDED, *hints).relationships == asked.relationships
    model = Model(lambda column: pytest.fail("asked again"))
    assert found(shop, model.pick, UNDECIDED, *hints).relationships == asked.relationships


@pytest.mark.parametrize(("kind", "seed"), [("role_named", 700_054), ("few_rows", 700_047), ("application", 700_044)])
@pytest.mark.parametrize("accuracy", [1.0, 0.5])
def test_a_generated_database_is_asked_about_once(tmp_path: Path, kind: str, seed: int, accuracy: float) -> None:
    fixture = generate(tmp_path / kind, kind, seed)
    model, silent = Oracle(fixture.truth, accuracy), Oracle(fixture.truth, accuracy)
    texts = []
    with connect(ConnectionSpec("made", "sqlite", {"path": str(fixture.folder / "data.sqlite")})) as connector:
        schema = hidden(connector.introspect(Scope()), {})
        hints: tuple[JoinHint, ...] = ()
        for ask in (model, silent, None):
            found = discover_database(connector, schema, Scan(), [FixedHints(hints)], ask=ask)
            texts.append(record_text(RelationshipRecord(found.keys, found.relationships)))
            hints = recorded_hints(read_record(texts[0], "there"))
    assert model.asked and not silent.asked
    assert texts[1:] == [texts[0]] * 2, "the same answers give the same record, with a model and without"


def test_answers_about_other_columns_and_keys_are_ignored(shop: Any) -> None:
    plain = found(shop, None)
    with shop.open(UNDECIDED) as connector:
        schema = connector.introspect(Scope())
        refs = {table.ref.name: table.ref for table in schema.tables}
        strange = [
            JoinHint(refs["readers"], ("home",), refs["rooms"], ("id",), "model"),
            JoinHint(refs["readers"], ("card",), refs["rooms"], ("title",), "model"),
            JoinHint(refs["rooms"], ("id",), refs["branches"], ("id",), "model"),
        ]
        answered = discover_database(connector, schema, Scan(), ask=lambda undecided: strange)
    assert answered.relationships == plain.relationships


def test_rows_overrule_a_recorded_answer(shop: Any) -> None:
    before = found(shop, first)
    hints = recorded_hints(RelationshipRecord(before.keys, before.relationships))
    assert HOME in shop.answer(before).accepted
    for home in ("CASE WHEN n % 8 THEN 11 + n * 7 % 40 ELSE 900 + n END", "NULL"):
        after = found(shop, None, (*BRANCHES, *ROOMS, *readers(home)), *hints)
        assert HOME not in shop.answer(after).accepted


def test_the_time_of_a_model_is_not_that_of_statements(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    for module in (search, row_checks):
        monkeypatch.setattr(module, "monotonic", lambda: now[0])

    def ask(undecided: Sequence[UndecidedColumn]) -> list[JoinHint]:
        now[0] += 1000.0
        return Model(first)(undecided)

    with shop.open(UNDECIDED) as connector:
        tables = connector.introspect(Scope()).tables
        sampled = profile_tables(connector, tables, Budget(rows=250)).tables
        answered = discover(connector, tables, sampled, Relationships(), seconds=60.0, ask=ask)
    assert now == [1000.0], "something was asked"
    relationship = shop.answer(answered).inferred(HOME)
    assert relationship.status is Status.ACCEPTED
    assert relationship.check is not None and relationship.check.exact, "all rows were checked after the answer"
    assert answered.problems == ()
