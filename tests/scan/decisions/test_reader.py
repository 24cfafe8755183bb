"""The record of decision points, and what readers make of it with a semantic layer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.core import KtxError
from ktx_cli.scan.decisions.reader import _Layer, decisions_path, read_decisions, read_record, with_spreads
from ktx_cli.scan.decisions.record import FoundPoint, carried, points_bytes, read_points, restricted
from ktx_cli.semantic import (
    Alternative,
    DecisionKind,
    DecisionState,
    Graph,
    Measure,
    SemanticError,
    Statement,
    load_tree,
)
from ktx_cli.warehouses import Column, SemanticType, Table, TableKind, TableRef
from tests.semantic.test_graph import graph_model

NODES = st.sampled_from("abcdef")

ACCOUNTS = TableRef("crm", "accounts")
INTERNAL = FoundPoint(
    ACCOUNTS, DecisionKind.INTERNAL, ("is_internal",), "Do internal accounts count?",
    (
        Alternative("count", "Internal accounts count"),
        Alternative("exclude", "Internal accounts do not count", filter="NOT coalesce(is_internal, false)"),
    ),
    ("is_internal is true in 12 of 812 rows.",), 12 / 812,
)  # fmt: skip
AMOUNT = FoundPoint(
    TableRef("crm", "invoices"), DecisionKind.AMOUNT, ("gross_amount", "net_amount"), "Which amount counts?",
    (Alternative("gross", "gross", expr="sum(gross_amount)"), Alternative("net", "net", expr="sum(net_amount)")),
)  # fmt: skip
SHARD = """
tables:
  accounts:
    table: crm.accounts
    columns: [{name: account_id, type: number, pk: true}, {name: is_internal, type: boolean}]
    proposed_measures: [{name: account_count, expr: count(*), status: proposed}]
  invoices:
    table: crm.invoices
    columns:
    - {name: invoice_id, type: number, pk: true}
    - {name: account_id, type: number}
    - {name: gross_amount, type: number}
    - {name: net_amount, type: number}
    joins: [{to: accounts, on: account_id = accounts.account_id, relationship: many_to_one, source: formal}]
    proposed_measures:
    - {name: total_gross_amount, expr: sum(gross_amount), status: proposed}
    - {name: invoice_count, expr: count(*), status: proposed}
"""
SHARD_PATH = "semantic-layer/crm/_schema/crm.yaml"


class Files:
    """A tree of texts."""

    def __init__(self, files: dict[str, str | bytes]) -> None:
        self._files = {path: each if isinstance(each, bytes) else each.encode() for path, each in files.items()}

    def read(self, path: str) -> bytes | None:
        return self._files.get(path)

    def paths(self, prefix: str) -> list[str]:
        return [path for path in self._files if path.startswith(prefix)]


def project(*points: FoundPoint, **overlays: str) -> Files:
    own = {f"semantic-layer/crm/{name}.yaml": f"name: {name}\n{text}" for name, text in overlays.items()}
    return Files({SHARD_PATH: SHARD, decisions_path("crm"): points_bytes(points), **own})


def states(tree: Files, decided: tuple[str, ...] = ()) -> dict[str, DecisionState]:
    model = load_tree(tree, "crm", "duckdb")
    return {each.id: each.state for each in read_decisions(tree, model, decided).points}


def test_a_record_comes_back_as_it_was_written() -> None:
    point = replace(INTERNAL, statements=(Statement("Ours do not count.", "docs/a.md", 4),), spreads={"a.b": 0.05})
    content = points_bytes([AMOUNT, point])
    assert read_points(content, "x") == (point, AMOUNT)
    assert points_bytes(read_points(content, "x")) == content


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"format": 1}', b'{"format": 1, "points": [{"kind": "x"}]}'])
def test_a_damaged_record_is_an_error_that_names_the_file(content: bytes) -> None:
    with pytest.raises(KtxError, match=r"decisions\.json is damaged"):
        read_record(Files({decisions_path("crm"): content}), "crm")


def test_a_record_of_a_newer_program_is_an_error() -> None:
    with pytest.raises(KtxError, match="format 2"):
        read_points(b'{"format": 2, "points": []}', "decisions.json")


def test_points_go_with_their_tables_and_columns() -> None:
    table = Table(ACCOUNTS, TableKind.TABLE, (Column("account_id", "INT", SemanticType.NUMBER),))
    assert restricted([INTERNAL], [table]) == ()
    whole = replace(table, columns=(*table.columns, Column("is_internal", "BOOLEAN", SemanticType.BOOLEAN)))
    assert restricted([INTERNAL, AMOUNT], [whole]) == (INTERNAL,)


def test_evidence_stays_until_its_share_changes() -> None:
    earlier = replace(INTERNAL, statements=(Statement("x", "y"),), spreads={"accounts.account_count": 0.1})
    nearly = replace(INTERNAL, evidence=("is_internal is true in 13 of 850 rows.",), share=13 / 850)
    assert carried([nearly], [earlier]) == (earlier,)
    other = replace(INTERNAL, evidence=("is_internal is true in 130 of 850 rows.",), share=130 / 850)
    assert carried([other], [earlier]) == (replace(other, statements=earlier.statements, spreads=earlier.spreads),)


def test_a_point_that_nothing_settles_is_open() -> None:
    assert states(project(INTERNAL, AMOUNT)) == {
        "accounts.internal.is_internal": DecisionState.OPEN,
        "invoices.amount.gross_amount": DecisionState.OPEN,
    }
    assert states(project()) == {}


def test_a_statement_that_definitions_do_not_follow_is_stated() -> None:
    point = replace(INTERNAL, statements=(Statement("Internal accounts do not count.", "handbook/a.md", 3),))
    assert states(project(point)) == {"accounts.internal.is_internal": DecisionState.STATED}


FILTERED = "measures: [{name: account_count, expr: count(*), filter: NOT is_internal}]"
JOINED = (
    "measures: [{name: total_gross_amount, expr: sum(gross_amount), filter: NOT accounts.is_internal},"
    " {name: invoice_count, expr: count(case when not accounts.is_internal then 1 end)}]"
)
SEGMENT = (
    "segments: [{name: external, expr: NOT is_internal}]\n"
    "measures: [{name: account_count, expr: count(*), segments: [external]}]"
)


@pytest.mark.parametrize(
    ("overlays", "state"),
    [
        ({"accounts": FILTERED}, DecisionState.STATED),
        ({"invoices": JOINED}, DecisionState.STATED),
        ({"accounts": FILTERED, "invoices": JOINED}, DecisionState.SETTLED),
        ({"accounts": SEGMENT, "invoices": JOINED}, DecisionState.SETTLED),
    ],
)
def test_it_is_settled_when_every_measure_that_reaches_it_has_the_condition(
    overlays: dict[str, str], state: DecisionState
) -> None:
    tree = project(INTERNAL, **overlays)
    (point,) = read_decisions(tree, load_tree(tree, "crm", "duckdb")).points
    assert point.state is state
    assert {each.path for each in point.statements} == {f"semantic-layer/crm/{name}.yaml" for name in overlays}


def test_a_persons_answer_is_more_than_a_statement() -> None:
    id_ = "accounts.internal.is_internal"
    assert states(project(INTERNAL), (id_,)) == {id_: DecisionState.DECIDED}


def test_points_of_amounts_are_about_the_measures_that_read_their_columns() -> None:
    tree = project(AMOUNT)
    (point,) = read_decisions(tree, load_tree(tree, "crm", "duckdb")).points
    assert point.measures == ("invoices.total_gross_amount",)


def test_spreads_are_recorded_by_id_with_three_digits() -> None:
    tree = project(INTERNAL, AMOUNT)
    model = load_tree(tree, "crm", "duckdb")
    found = read_record(tree, "crm")
    content = with_spreads(found, model, {"accounts.internal.is_internal": {"accounts.account_count": 0.0147783}})
    again = Files({SHARD_PATH: SHARD, decisions_path("crm"): content})
    spreads = {each.id: each.spread for each in read_decisions(again, model).points}
    assert spreads == {"accounts.internal.is_internal": 0.0148, "invoices.amount.gross_amount": 0.0}


def test_a_table_that_the_layer_has_no_more_has_no_points() -> None:
    gone = replace(INTERNAL, table=TableRef("crm", "customers"))
    assert states(project(gone)) == {}


@given(
    st.lists(st.tuples(NODES, st.sampled_from("><-"), NODES).filter(lambda join: join[0] != join[2]), max_size=9),
    st.sets(NODES),
)
def test_the_measures_that_reach_a_source_are_those_with_one_path_to_it(
    joins: list[tuple[str, str, str]], measured: set[str]
) -> None:
    plain = graph_model(*(" ".join(join) for join in joins))
    total = {"total": Measure("total", "count(*)")}
    sources = {name: replace(each, measures=total if name in measured else {}) for name, each in plain.sources.items()}
    model = replace(plain, sources=sources)
    graph = Graph(model)

    def reaches(start: str, target: str) -> bool:
        try:
            path = graph.path(start, (target,))
        except SemanticError:
            return False
        return path is not None and path.to_one

    for target in sources:
        others = (name for name in sorted(measured & sources.keys() - {target}) if target in graph.reached(name))
        assert _Layer(model).reaching(target) == [target, *(name for name in others if reaches(name, target))]
