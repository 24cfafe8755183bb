"""Declarations of context sources: their file, the tables that they mean, and how they count."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.relationship_fixtures.discovering import discover_database
from ktx_cli.core import KtxError
from ktx_cli.project.config.blocks import Scan
from ktx_cli.scan.relationships.columns import Candidate, DatabaseFacts, NameMatch
from ktx_cli.scan.relationships.declarations import (
    DecidedJoin,
    Declarations,
    DeclaredJoin,
    DeclaredTable,
    KnownSchema,
    Layer,
    declarations_text,
    read_declarations,
    resolved,
)
from ktx_cli.warehouses.port import Column, Scope, SemanticType, Table, TableKind, TableRef
from tests.scan.relationships.conftest import Gathered, Shop

SHOP = Declarations(
    "dbt",
    {
        "ref.orders": DeclaredTable("orders", "", "marts", Layer.MARTS, (("order_id",),), ("order_id",), ("ref.mid",)),
        "ref.mid": DeclaredTable("mid", layer=Layer.INTERMEDIATE, built_from=("source.raw.orders",), virtual=True),
        "source.raw.orders": DeclaredTable("orders", "raw", layer=Layer.RAW),
        "ref.lines": DeclaredTable("lines", keys=(("order_id", "line_no"),)),
    },
    (DeclaredJoin("ref.lines", ("order_id",), "ref.orders", ("ORDER_ID",)),),
    "digest",
)


def table(name: str, schema: str | None, *columns: str) -> Table:
    made = tuple(Column(each, "INTEGER", SemanticType.NUMBER) for each in columns)
    return Table(TableRef(schema, name), TableKind.TABLE, made)


def test_the_file_comes_back_equal_and_has_one_line_for_each_table() -> None:
    text = declarations_text(SHOP)
    assert read_declarations(text, "x") == SHOP
    assert declarations_text(read_declarations(text, "x")) == text
    assert sum(line.startswith(b'  "') for line in text.splitlines()) == len(SHOP.tables)


BROKEN = [
    *(b"", b"{}", b"[]", declarations_text(SHOP)[:-20], b'{"tables": 3, "joins": []}'),
    declarations_text(SHOP).replace(b'"format": 1', b'"format": 99'),
    declarations_text(SHOP).replace(b'[["order_id"]]', b"[[5, null]]"),
    declarations_text(SHOP).replace(b'["ref.mid"]', b'[["ref.mid"]]'),
]


@pytest.mark.parametrize("content", BROKEN)
def test_a_damaged_file_is_an_error_that_names_it(content: bytes) -> None:
    with pytest.raises(KtxError, match=r"raw-sources/dbt/dbt/declarations\.json is damaged"):
        read_declarations(content, "raw-sources/dbt/dbt/declarations.json")


def test_names_become_tables() -> None:
    raw, dev, mart = (table("Orders", schema, "Order_Id") for schema in ("raw", "dev_staging", "dev_marts"))
    known = resolved([SHOP], [raw, dev, mart, table("lines", "dev_marts", "order_id", "line_no")], ())
    assert known.layers == {raw.ref: frozenset({Layer.RAW, Layer.MARTS}), mart.ref: frozenset({Layer.MARTS})}
    assert known.sources_of == {mart.ref: frozenset({raw.ref})}  # through the model without a table
    assert known.keys[mart.ref] == (("order_id",),)
    ((hint),) = known.hints
    assert (hint.parent, hint.parent_columns, hint.source) == (mart.ref, ("Order_Id",), "dbt")


@pytest.mark.parametrize(
    "tables",
    [
        pytest.param([table("orders", "a", "order_id"), table("orders", "b", "order_id")], id="two tables fit"),
        pytest.param([table("order", "marts", "order_id")], id="no table fits"),
        pytest.param([table("lines", "x", "id")], id="no such column"),
    ],
)
def test_names_that_do_not_mean_one_table_are_ignored(tables: list[Table]) -> None:
    known = resolved([SHOP], tables, ())
    assert (known.hints, known.layers, known.sources_of) == ((), {}, {})


def test_a_model_that_is_named_like_its_source_is_the_other_table() -> None:
    tables = {
        "source.raw.orders": DeclaredTable("orders", "raw", layer=Layer.RAW),
        "ref.orders": DeclaredTable("orders", layer=Layer.MARTS, built_from=("source.raw.orders",)),
    }
    raw, mart, copy = (table("orders", schema, "order_id") for schema in ("raw", "analytics", "dev"))
    known = resolved([Declarations("dbt", tables)], [raw, mart], ())
    assert known.sources_of == {mart.ref: frozenset({raw.ref})}
    assert resolved([Declarations("dbt", tables)], [raw, mart, copy], ()).sources_of == {}


def pair(facts: DatabaseFacts, child: str, key: str) -> Candidate:
    ends = []
    for name in (child, key):
        named, column = name.split(".")
        ends.append(next(t for t in facts.tables if t.table.ref.name == named).column(column))
    return Candidate(ends[0], ends[1], NameMatch(0.0, 0.0), {"values"}, probability=0.5)


def test_lineage_keeps_layers_apart_unless_a_model_reads_the_table(gathered: Gathered) -> None:
    facts = gathered({
        "orders": {"order_id": [1, 2, 3], "site_id": [1, 1, 2]},
        "stg_orders": {"order_id": [1, 2, 3]},
        "stg_sites": {"site_id": [1, 2]},
        "stg_other": {"site_id": [1, 2]},
    })  # fmt: skip
    refs = {each.table.ref.name: each.table.ref for each in facts.tables}
    layers = {ref: frozenset({Layer.STAGING if name.startswith("stg") else Layer.MARTS}) for name, ref in refs.items()}
    direct = {refs["orders"]: frozenset({refs["stg_orders"], refs["stg_sites"]})}
    known = KnownSchema(layers=layers, sources_of=direct, ancestors_of=direct)

    def why(child: str, key: str, *sources: str) -> Any:
        candidate = pair(facts, child, key)
        return known.apart(candidate.child, candidate.key, sources)

    assert why("orders.site_id", "stg_sites.site_id") is None
    assert why("orders.site_id", "stg_other.site_id").layer is Layer.STAGING
    assert why("orders.site_id", "stg_other.site_id", "dbt") is None
    assert why("orders.order_id", "stg_orders.order_id").derived
    assert why("stg_orders.order_id", "orders.order_id").derived
    assert why("stg_other.site_id", "stg_sites.site_id") is None


@pytest.mark.table(
    ("readers", "expected"),
    [
        ({"orders": Layer.MARTS}, {Layer.RAW, Layer.MARTS}),
        ({"orders": Layer.MARTS, "stg_orders": Layer.STAGING}, {Layer.RAW}),
        ({"int_orders": Layer.INTERMEDIATE}, {Layer.RAW}),
        ({}, {Layer.RAW}),
    ],
)
def test_raw_data_that_only_marts_read_belongs_to_them_too(readers: dict[str, Layer], expected: set[Layer]) -> None:
    tables = {name: DeclaredTable(name, layer=layer, built_from=("raw",)) for name, layer in readers.items()}
    tables["raw"] = DeclaredTable("raw", layer=Layer.RAW)
    known = resolved([Declarations("dbt", tables)], [table(name, None, "id") for name in tables], ())
    assert known.layers[TableRef(None, "raw")] == expected


@pytest.mark.table(
    ("decided", "sources", "expected"),
    [
        ((), set(), {"a", "b"}),
        ((), {"dbt"}, {"a"}),
        ((True, True), set(), {"a"}),
        ((False, True), set(), {"b"}),
        ((True, True), {"dbt"}, {"a"}),
        ((False, False), set(), {"a", "b"}),  # removed by hand: the record knows it as accepted
    ],
)
def test_what_people_and_sources_decided_leaves_no_choice(
    gathered: Gathered, decided: tuple[bool, ...], sources: set[str], expected: set[str]
) -> None:
    """`decided`: whether a person accepted the join to `a`, and whether the files state it."""
    facts = gathered({"t": {"ref": [1, 2, 2]}, "a": {"id": [1, 2, 3]}, "b": {"id": [1, 2, 3]}})
    one, other = pair(facts, "t.ref", "a.id"), pair(facts, "t.ref", "b.id")
    one.sources |= sources
    one.probability, other.probability = 0.5, 0.9
    ends = TableRef(None, "t"), "ref", TableRef(None, "a"), "id"
    known = KnownSchema(decided=(DecidedJoin(*ends, *decided),) if decided else ())
    left, overruled = known.without_overruled([one, other], 0.4)
    assert {each.key.table.table.ref.name for each in left} == expected
    assert len(left) + len(overruled) == 2
    assert known.without_overruled([one], 0.4) == ([one], {}), "nothing else is plausible"


COLUMNS = ("made_by", "seen_by", "size", "maker_id", "driver_id")
AUDITED = {f"t{n}": {"id": [1, 2, 3], **{column: [1, 1, 2] for column in COLUMNS}} for n in range(4)}


@pytest.mark.table(
    ("decisions", "column", "expected"),
    [
        ([("t1", "made_by", True)], "made_by", (1, 0, 1.25)),  # same name
        ([(f"t{n}", "made_by", True) for n in (1, 2, 3)], "made_by", (3, 0, 1.25 * 3**0.5)),  # three
        ([("t1", "made_by", False)], "made_by", (0, 1, -1.25)),  # rejected
        ([("t1", "made_by", True)], "seen_by", (1, 0, 1.25 * 0.5**0.5)),  # last word
        ([("t1", "made_by", True), ("t2", "made_by", False)], "made_by", (1, 1, 0.0)),  # in balance
        ([("t0", "made_by", True)], "made_by", None),  # itself
        ([("t1", "made_by", True)], "size", None),  # another name
        ([("t1", "maker_id", True)], "driver_id", None),  # `id` says nothing
    ],
)
def test_decisions_about_similar_joins_count(
    gathered: Gathered, decisions: list[tuple[str, str, bool]], column: str, expected: Any
) -> None:
    facts = gathered({**AUDITED, "users": {"id": [1, 2, 3]}})
    users = TableRef(None, "users")
    decided = tuple(DecidedJoin(TableRef(None, t), c, users, "id", accepted) for t, c, accepted in decisions)
    candidates = [pair(facts, f"{t}.{c}", "users.id") for t in AUDITED for c in COLUMNS]
    KnownSchema(decided=decided).count(candidates)
    (found,) = (each for each in candidates if each.child.table.table.ref.name == "t0" and each.child.name == column)
    if expected is None:
        assert (found.similar, found.probability, found.sources) == (None, 0.5, {"values"})
        return
    assert found.similar is not None
    assert (found.similar.accepted, found.similar.rejected) == expected[:2]
    assert found.similar.shift == pytest.approx(expected[2])
    assert (found.probability > 0.5, found.probability < 0.5) == (expected[2] > 0, expected[2] < 0)


def test_a_declared_key_wins_over_a_better_name_unless_it_repeats(shop: Shop) -> None:
    statements = [
        "CREATE TABLE stores (store_id INTEGER, code TEXT, name TEXT)",
        "INSERT INTO stores VALUES (1, 'x', 'A'), (2, 'y', 'B'), (3, 'z', 'A')",
    ]
    for column, expected in (("code", ("code",)), ("name", ("store_id",))):
        with shop.open(statements) as connector:
            schema = connector.introspect(Scope())
            declared = Declarations("dbt", {"ref.stores": DeclaredTable("stores", keys=((column,),))})
            known = resolved([declared], schema.tables, ())
            found = discover_database(connector, schema, Scan(), known=known)
        (choice,) = found.keys.values()
        assert choice.primary == expected
