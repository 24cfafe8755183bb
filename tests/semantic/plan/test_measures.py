"""Measures as formulas over aggregates: precedence kept, conditions pushed down, divisions exact."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from ktx_cli.semantic.answer import CompiledQuery, compile_query
from ktx_cli.semantic.caller import Caller
from ktx_cli.semantic.expressions.names import Names
from ktx_cli.semantic.graph import Graph
from ktx_cli.semantic.model import Measure, Model, SemanticError, Visibility
from ktx_cli.semantic.plan.measures import Measures, exact_divisions
from ktx_cli.warehouses.dialect import DIALECTS
from tests.semantic.golden.world import ATTRIBUTES, shop_model

NOT_PUBLIC = (Visibility.HIDDEN, Visibility.INTERNAL)


def with_measures(*added: Measure) -> Model:
    """Return the shop whose orders have more measures."""
    model = shop_model()
    orders = model.sources["orders"]
    orders = replace(orders, measures={**orders.measures, **{each.name: each for each in added}})
    return replace(model, sources={**model.sources, "orders": orders})


def measures(*added: Measure, segments: tuple[str, ...] = ()) -> Measures:
    model = with_measures(*added)
    return Measures(Names(model, Graph(model), {}), segments)


def formula(found: Measures, name: str) -> str:
    """Return a formula with its aggregates in place of their numbers."""
    source, measure = found.find(("orders", name)) or (None, None)
    assert source is not None
    assert measure is not None
    return shown(found, found.of(source, measure))


def shown(found: Measures, tree: exp.Expr) -> str:
    def name(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Paren) and isinstance(node.this, exp.Placeholder):
            return name(node.this)
        if not isinstance(node, exp.Placeholder):
            return node
        leaf = found.leaves[int(node.name)]
        conditions = "".join(f" if {each.text}" for each in leaf.conditions)
        return exp.var(f"[{leaf.fact}: {leaf.aggregate.text}{conditions}]")

    return tree.transform(name).sql()


COUNT, SUM = "[orders: COUNT(*)]", "[orders: SUM(amount)]"
STATUS = "status IN ('paid', 'sent')"
DONE = f"[orders: SUM(amount) if {STATUS}]"
RATIO = f"CAST(COALESCE({SUM}, 0) AS DOUBLE) / NULLIF(COALESCE({COUNT}, 0), 0)"


@pytest.mark.table(
    ("expr", "wanted"),
    [
        ("count(*)", COUNT),
        ("revenue", SUM),
        ("orders.revenue", SUM),
        ("revenue + orders", f"COALESCE({SUM}, 0) + COALESCE({COUNT}, 0)"),
        ("revenue / orders", RATIO),
        ("per_order * 2", f"({RATIO}) * 2"),
        ("2 - (per_order - typical)", f"2 - (({RATIO}) - [orders: MEDIAN(amount)])"),
        ("coalesce(typical, 0)", "COALESCE([orders: MEDIAN(amount)], 0)"),
        ("sum(amount) / tickets.tickets", RATIO.replace(COUNT, "[tickets: COUNT(*)]")),
        ("paid_revenue", DONE),
        ("case when orders > 1 then revenue end", f"CASE WHEN {COUNT} > 1 THEN {SUM} END"),
    ],
)
def test_formulas(expr: str, wanted: str) -> None:
    assert formula(measures(Measure("m", expr)), "m") == wanted


def test_a_filter_is_pushed_into_every_aggregate() -> None:
    found = measures(Measure("m", "per_order + paid_revenue", filter="gift = TRUE"))
    formula(found, "m")
    assert [[each.text for each in leaf.conditions] for leaf in found.leaves] == [
        ["gift = TRUE"],
        ["gift = TRUE"],
        ["gift = TRUE", STATUS],
    ]


def test_equal_aggregates_are_one() -> None:
    found = measures(Measure("m", "revenue + sum(amount) + SUM( amount ) + per_order"))
    formula(found, "m")
    assert [leaf.aggregate.text for leaf in found.leaves] == ["SUM(amount)", "COUNT(*)"]


def test_segments_of_the_question_are_for_measures_of_their_source() -> None:
    found = measures(segments=("orders.done",))
    formula(found, "per_order")
    found.require_segments_used()
    assert all([each.text for each in leaf.conditions] == ["orders.done"] for leaf in found.leaves)


@pytest.mark.table(
    ("added", "name", "code", "part"),
    [
        ([Measure("m", "m + 1")], "m", "definition", "refers to itself"),
        ([Measure("m", "n + 1"), Measure("n", "m + 1")], "m", "definition", "orders.m -> orders.n -> orders.m"),
        ([Measure("m", "amount")], "m", "unknown_name", "is a column, not a measure"),
        ([Measure("m", "revenu")], "m", "unknown_name", "no measure `revenu`"),
        ([Measure("m", "customers.nothing")], "m", "unknown_name", "no measure `customers.nothing`"),
        ([Measure("m", "nobody.revenue")], "m", "unknown_name", "no source `nobody`"),
        ([Measure("m", "1 + 1")], "m", "definition", "contains neither an aggregate nor a measure"),
        ([Measure("m", "sum(avg(amount))")], "m", "definition", "nests one aggregate inside another"),
        ([Measure("m", "revenue", segments=("dnoe",))], "m", "unknown_name", "segment"),
        ([Measure("m", "count(*)", per=("customer_id",))], "m", "definition", "does not aggregate a measure"),
    ],
)
def test_measures_that_mean_nothing(added: list[Measure], name: str, code: str, part: str) -> None:
    with pytest.raises(SemanticError) as caught:
        formula(measures(*added), name)
    assert caught.value.code == code
    assert part in caught.value.message
    assert caught.value.hint


@pytest.mark.table(
    ("segments", "code"),
    [(("customers.x",), "unknown_name"), (("dnoe",), "unknown_name"), (("nobody.done",), "unknown_name")],
)
def test_segments_nothing_has(segments: tuple[str, ...], code: str) -> None:
    with pytest.raises(SemanticError) as caught:
        measures(segments=segments)
    assert caught.value.code == code


def test_a_segment_that_touches_no_measure_is_refused() -> None:
    found = measures(segments=("done",))
    source = found._names.source("customers")
    found.of(source, source.measures["customers"])
    with pytest.raises(SemanticError, match="has no effect: the query has no measure"):
        found.require_segments_used()


@pytest.mark.table("visibility", [Visibility.HIDDEN, Visibility.INTERNAL])
def test_a_question_names_public_measures_alone(visibility: Visibility) -> None:
    secret = Measure("secret", "sum(amount)", visibility=visibility)
    found = measures(secret, Measure("double", "secret * 2"))
    with pytest.raises(SemanticError, match="cannot be queried"):
        found.asked(sqlglot.parse_one("secret + 1"), "secret + 1")
    assert formula(found, "double") == f"COALESCE({SUM}, 0) * 2"


@pytest.mark.table(
    ("text", "wanted"),
    [
        ("a / b", "CAST(a AS DOUBLE) / NULLIF(b, 0)"),
        ("a / 4", "CAST(a AS DOUBLE) / 4"),
        ("a / 0", "CAST(a AS DOUBLE) / NULLIF(0, 0)"),
        ("(a + b) / (c - d)", "CAST(a + b AS DOUBLE) / NULLIF(c - d, 0)"),
        ("a / b / c", "CAST(CAST(a AS DOUBLE) / NULLIF(b, 0) AS DOUBLE) / NULLIF(c, 0)"),
        ("a - b / c", "a - CAST(b AS DOUBLE) / NULLIF(c, 0)"),
    ],
)
def test_divisions_are_exact(text: str, wanted: str) -> None:
    assert exact_divisions(sqlglot.parse_one(text)).sql() == wanted


@pytest.mark.table("dialect", DIALECTS)
def test_divisions_are_exact_as_every_dialect_reads_them(dialect: str) -> None:
    for text in ("a / b / c", "(a / b) / (c / d)", "x + a / (b / c)"):
        found = exact_divisions(sqlglot.parse_one(text, dialect=dialect))
        divisions = list(found.find_all(exp.Div))
        assert len(divisions) == text.count("/")
        assert all(each.this.is_type("double") and isinstance(each.expression, exp.Nullif) for each in divisions), text


@pytest.mark.table(
    ("left", "right", "value"),
    [(7, 2, 3.5), (1, 3, 1 / 3), (0, 5, 0.0), (5, 0, None), (None, 2, None), (2, None, None), ("1e18", 3, 1e18 / 3)],
)
def test_what_a_division_gives(left: Any, right: Any, value: float | None) -> None:
    cells = [f"CAST({'NULL' if each is None else each} AS DECIMAL(38, 0))" for each in (left, right)]
    tree = exact_divisions(sqlglot.parse_one(f"{cells[0]} / {cells[1]}", dialect="duckdb"))
    ((found,),) = duckdb.sql(f"SELECT {tree.sql('duckdb')}").fetchall()
    assert found == pytest.approx(value)


def refusal(asked: str, *added: Measure) -> SemanticError:
    with pytest.raises(SemanticError) as caught:
        compile_query(with_measures(*added), {"measures": [asked]}, caller=Caller.of({"grade": 1}))
    return caught.value


@pytest.mark.table(
    ("asked", "visibility"),
    [
        (asked, each)
        for asked in ("orders.secrets", "secrets", "orders.zzz", "zzz", "nobody.secret")
        for each in NOT_PUBLIC
    ],
)
def test_a_question_is_not_told_names_it_may_not_use(asked: str, visibility: Visibility) -> None:
    error = refusal(asked, Measure("secret", "sum(amount)", visibility=visibility))
    assert error.code == "unknown_name" and error.details["candidates"]
    assert not any("secret" in text for text in (error.hint or "", *error.details["candidates"]))


def test_a_measure_asked_of_the_wrong_source_is_named_with_the_right_one() -> None:
    assert refusal("customers.revenue").hint == "did you mean `orders.revenue`?"


def test_a_part_of_a_name_leads_to_the_names_that_have_it() -> None:
    error = refusal("zebra", Measure("striped_zebra_counts_of_all_times", "sum(amount)"))
    assert error.hint == "did you mean `orders.striped_zebra_counts_of_all_times`?"


def test_a_definition_is_told_names_that_only_definitions_may_use() -> None:
    secret = Measure("secret", "sum(amount)", visibility=Visibility.INTERNAL)
    with pytest.raises(SemanticError) as caught:
        formula(measures(secret, Measure("double", "secrt * 2")), "double")
    assert caught.value.hint == "did you mean `secret`?"


def test_a_source_without_measures_is_asked_with_an_aggregate() -> None:
    model = shop_model()
    bare = replace(model.sources["regions"], measures={})
    with pytest.raises(SemanticError) as caught:
        compile_query(
            replace(model, sources={**model.sources, "regions": bare}),
            {"measures": ["regions.count"]},
            caller=Caller.of({"grade": 1}),
        )
    assert caught.value.hint == "aggregate a column: count(regions.COLUMN), sum(regions.COLUMN)"


@pytest.mark.table(
    ("asked", "message", "hint"),
    [
        (
            "customers.name",
            "is a column",
            "aggregate it, for example count(customers.name), or move it to `dimensions`",
        ),
        ("orders.amount", "is a column", "aggregate it, for example sum(orders.amount), or move it to `dimensions`"),
        ("profit", "no source defines measures", "aggregate a column: count(regions), sum(SOURCE.COLUMN)"),
        (
            "count(*)",
            "does not say which source's rows",
            "name the source, for example count(regions), or use one of its measures",
        ),
    ],
)
def test_without_measures_hints_name_what_exists(asked: str, message: str, hint: str) -> None:
    model = shop_model()
    bare = {name: replace(source, measures={}) for name, source in model.sources.items()}
    bare = {name: bare[name] for name in ("regions", *sorted(bare.keys() - {"regions"}))}
    with pytest.raises(SemanticError, match=message) as caught:
        compile_query(replace(model, sources=bare), {"measures": [asked]}, caller=Caller.of({"grade": 1}))
    assert caught.value.hint == hint


@pytest.mark.table(
    ("dialect", "hint"),
    [
        ("sqlite", "write julianday(orders.shipped_on) - julianday(orders.placed_at) to get days"),
        ("mysql", "write datediff(orders.shipped_on, orders.placed_at) to get days"),
        ("duckdb", None),
        ("postgres", None),
    ],
)
def test_times_are_not_subtracted_as_numbers(dialect: str, hint: str | None) -> None:
    """SQLite takes 2024 of each date, MySQL 20240131: neither is days."""
    model = shop_model(dialect)
    query = {"measures": ["avg(orders.shipped_on - orders.placed_at)"]}
    if hint is None:
        compile_query(model, query)
        return
    with pytest.raises(SemanticError, match="subtracts times") as caught:
        compile_query(model, query)
    assert caught.value.hint == hint
    followed = hint.removeprefix("write ").removesuffix(" to get days")
    compile_query(model, {"measures": [f"avg({followed})"]})
    with pytest.raises(SemanticError, match="subtracts times"):  # in a definition, in its own words
        defined = replace(model.sources["orders"].measures["revenue"], expr="avg((shipped_on) - placed_at)")
        orders = replace(model.sources["orders"], measures={"revenue": defined})
        compile_query(replace(model, sources={**model.sources, "orders": orders}), {"measures": ["orders.revenue"]})


def _asked_of(visibility: Visibility, asked: str) -> CompiledQuery:
    model = shop_model()
    changed = replace(model.sources["regions"], visibility=visibility)
    model = replace(model, sources={**model.sources, "regions": changed})
    return compile_query(model, {"measures": [asked]}, caller=Caller.of(ATTRIBUTES))


def test_rows_of_a_hidden_source_are_not_counted() -> None:
    for written in ("count(regions)", "1 + count(Regions)", "count(regions) filter (where 1 = 1)"):
        with pytest.raises(SemanticError, match="`regions` cannot be counted: it is hidden") as caught:
            _asked_of(Visibility.HIDDEN, written)
        assert caught.value.code == "hidden"
    assert [leaf.fact for leaf in _asked_of(Visibility.INTERNAL, "count(regions)").plan.leaves] == ["regions"]
    with pytest.raises(SemanticError, match="there is no column `regions`"):
        _asked_of(Visibility.HIDDEN, "sum(regions)")


def test_rows_are_counted_where_each_has_one_value_of_a_condition() -> None:
    with pytest.raises(SemanticError, match=r"which have no single `orders\.status`") as caught:
        compile_query(
            shop_model(),
            {"measures": ["count(customers) filter (where orders.status = 'paid')"]},
            caller=Caller.of(ATTRIBUTES),
        )
    assert caught.value.code == "unreachable"


def test_a_column_has_priority_over_a_source_of_its_name() -> None:
    model = shop_model()
    orders = model.sources["orders"]
    column = replace(orders.columns["status"], name="customers")
    changed = replace(orders, columns={**orders.columns, "customers": column})
    model = replace(model, sources={**model.sources, "orders": changed})
    (leaf,) = compile_query(model, {"measures": ["count(customers)"]}, caller=Caller.of(ATTRIBUTES)).plan.leaves
    assert leaf.fact == "orders"
