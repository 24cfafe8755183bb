"""Whatever a well-formed DAX measure computes, its import loads, or the report has a reason."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ktx_cli.semantic.answer import ask
from ktx_cli.semantic.interchange.powerbi.dax import parse_dax
from ktx_cli.semantic.interchange.powerbi.importer import import_powerbi
from ktx_cli.semantic.load.load import load_tree
from ktx_cli.semantic.model import Model
from ktx_cli.semantic.store.reader import check_model
from ktx_cli.warehouses.port import ConnectionSpec, Connector
from ktx_cli.warehouses.registry import connect
from tests.semantic.interchange.powerbi.market import CASES, DATA, MANIFEST, tmdl
from tests.semantic.interchange.powerbi.reference import OpenError, Reference, Row
from tests.sources.projecting import MemoryTree

QUICK = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])

NUMBERS = st.sampled_from(
    ["Sales[Quantity]", "Sales[Unit Price]", "Sales[Discount]", "RELATED('Product'[Cost])", "1", "0", "2.5", "BLANK()"]
)
TEXTS = st.sampled_from(["Sales[Channel]", "RELATED(Customer[Segment])", '"web"', '""'])
DATES = st.sampled_from(["Sales[Order Date]", "Sales[Ship Date]", "DATE(2024, 1, 1)"])
SIGNS = st.sampled_from(["+", "-", "*", "/"])
COMPARED = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "=="])


def _call(name: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map(lambda given: f"{name}({', '.join(given)})")


def _between(left: st.SearchStrategy[str], signs: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(left, signs, left).map(lambda found: f"({found[0]} {found[1]} {found[2]})")


TESTS = st.recursive(
    st.one_of(
        _between(NUMBERS, COMPARED),
        _between(TEXTS, st.sampled_from(["=", "<>", "=="])),
        _between(DATES, COMPARED),
        st.sampled_from(["Sales[Is Gift]", "ISBLANK(Sales[Quantity])", 'Sales[Channel] IN {"web", BLANK()}', "TRUE()"]),
    ),
    lambda below: st.one_of(
        _between(below, st.sampled_from(["&&", "||"])),
        below.map(lambda test: f"NOT ({test})"),
        _call("AND", below, below),
    ),
    max_leaves=4,
)
ROWS = st.recursive(
    NUMBERS,
    lambda below: st.one_of(
        _between(below, SIGNS), _call("DIVIDE", below, below), _call("IF", TESTS, below, below),
        _call("COALESCE", below, below), below.map(lambda value: f"-({value})"),
        _call("SWITCH", TEXTS, TEXTS, below, below),
    ),
    max_leaves=5,
)  # fmt: skip
TABLES = st.one_of(st.just("Sales"), TESTS.map(lambda test: f"FILTER(Sales, {test})"))
AGGREGATES = st.one_of(
    st.sampled_from([
        "[Revenue]", "[Units]", "[Average Price]", "[# Lines]", "[Revenue LY]", "[Web Units]", "SUM(Stock[On Hand])",
        "DISTINCTCOUNT(Sales[Channel])", "COUNT(Sales[Quantity])", "1", "BLANK()",
        "AVERAGEX(VALUES(Sales[Channel]), [Units])",
    ]),
    st.tuples(st.sampled_from(["SUMX", "AVERAGEX", "MAXX", "COUNTX"]), TABLES, ROWS).map(
        lambda found: f"{found[0]}({found[1]}, {found[2]})"
    ),
    TABLES.map(lambda rows: f"COUNTROWS({rows})"),
)  # fmt: skip
FILTERS = st.one_of(
    st.sampled_from([
        'Sales[Channel] = "web"', "Sales[Quantity] > 3", "KEEPFILTERS('Product'[Category] = \"Fruit\")",
        "FILTER(ALL('Product'), 'Product'[Cost] > 1)", "SAMEPERIODLASTYEAR('Date'[Date])", "DATESYTD('Date'[Date])",
        "FILTER(ALL('Date'[Date]), 'Date'[Date] <= MAX('Date'[Date]))", "'Date'[Year] = 2024", "ALL('Product')",
        "DATESINPERIOD('Date'[Date], MAX('Date'[Date]), -3, MONTH)", "LASTDATE('Date'[Date])",
    ]),
    TESTS.map(lambda test: f"FILTER(Sales, {test})"),
)  # fmt: skip
MEASURES = st.recursive(
    AGGREGATES,
    lambda below: st.one_of(
        _between(below, SIGNS), _call("DIVIDE", below, below), _call("DIVIDE", below, below, below),
        _call("CALCULATE", below, FILTERS), _call("CALCULATE", below, FILTERS, FILTERS),
        _call("IF", _between(below, COMPARED), below, below), _call("COALESCE", below, below),
        st.tuples(below, below).map(lambda found: f"(VAR x = {found[0]} RETURN x - {found[1]})"),
        _call("SWITCH", st.just("TRUE()"), _between(below, COMPARED), below, below),
        below.map(lambda value: f"-({value})"), _call("IF", below.map(lambda value: f"ISBLANK({value})"), below),
    ),
    max_leaves=6,
)  # fmt: skip
PATH = "Market.SemanticModel/definition/tables/_Measures.tmdl"


@pytest.mark.table(
    "dialect",
    ["duckdb", "postgres", "sqlite", "mysql", "snowflake", "bigquery", "tsql", "clickhouse", "redshift", "databricks",
     "trino", "spark", "athena"],
)  # fmt: skip
def test_the_market_in_every_dialect(dialect: str) -> None:
    layer = MemoryTree({"semantic-layer/market/_schema/main.yaml": MANIFEST.encode()})
    found = import_powerbi(tmdl(), load_tree(layer, "market", dialect), known_only=True)
    done = {each.what for each in found.report if each.target and each.what.startswith("measure ")}
    assert done == {f"measure `_Measures[{case.name}]`" for case in CASES if not case.why}
    for name, text in found.files.items():
        layer[f"semantic-layer/market/{name}"] = text.encode()
    model = load_tree(layer, "market", dialect)
    assert [each.message for each in (*model.problems, *check_model(model)) if each.severity == "error"] == []
    assert model.sources["fct_sales"].measures["margin_pct"].expr == "margin / revenue"


@QUICK
@given(MEASURES, ROWS, TESTS)
def test_a_well_formed_measure_loads(dax: str, row: str, test: str) -> None:
    model, _ = imported(dax, row, test)
    assert [each.message for each in (*model.problems, *check_model(model)) if each.severity == "error"] == []


def imported(dax: str, row: str = "1", test: str = "TRUE()") -> tuple[Model, str | None]:
    """Return the market with a further measure and two calculated columns, and the name of the measure in ktx."""
    files = tmdl()
    files[PATH] += f"\n\tmeasure Drawn =\n\t\t\t{dax}\n"
    files["Market.SemanticModel/definition/tables/Sales.tmdl"] += (
        f"\tcolumn Drawn =\n\t\t\t{row}\n\tcolumn Chosen = IF({test}, 1, 0)\n"
    )
    layer = MemoryTree({"semantic-layer/market/_schema/main.yaml": MANIFEST.encode()})
    found = import_powerbi(files, load_tree(layer, "market", "duckdb"), known_only=True)
    items = [each for each in found.report if each.what == "measure `_Measures[Drawn]`"]
    assert all(each.target or each.why for each in items)
    for name, text in found.files.items():
        layer[f"semantic-layer/market/{name}"] = text.encode()
    return load_tree(layer, "market", "duckdb"), items[0].target


PLAIN_FILTERS = st.one_of(
    st.sampled_from(['Sales[Channel] = "web"', "Sales[Quantity] > 3", "Sales[Discount] < 1", "NOT Sales[Is Gift]"]),
    TESTS.map(lambda test: f"FILTER(Sales, {test})"),
)
PLAIN_AGGREGATES = st.one_of(
    st.sampled_from([
        "[Revenue]", "[Units]", "[Average Price]", "[Lowest Price]", "[# Lines]", "DISTINCTCOUNT(Sales[Channel])",
        "COUNT(Sales[Quantity])", "DISTINCTCOUNT(Sales[CustomerKey])", "1", "0",
    ]),
    st.tuples(st.sampled_from(["SUMX", "AVERAGEX", "MAXX", "MINX", "COUNTX"]), TABLES, ROWS).map(
        lambda found: f"{found[0]}({found[1]}, {found[2]})"
    ),
    TABLES.map(lambda rows: f"COUNTROWS({rows})"),
)  # fmt: skip
PLAIN_MEASURES = st.recursive(
    PLAIN_AGGREGATES,
    lambda below: st.one_of(
        _between(below, SIGNS), _call("DIVIDE", below, below), _call("DIVIDE", below, below, below),
        _call("CALCULATE", PLAIN_AGGREGATES, PLAIN_FILTERS), _call("IF", _between(below, COMPARED), below, below),
        _call("COALESCE", below, below), below.map(lambda value: f"-({value})"),
        st.tuples(below, below).map(lambda found: f"(VAR x = {found[0]} RETURN x - {found[1]})"),
        _call("SWITCH", st.just("TRUE()"), _between(below, COMPARED), below, below),
        _call("IF", below.map(lambda value: f"ISBLANK({value})"), below, below),
    ),
    max_leaves=5,
)  # fmt: skip


@pytest.fixture(scope="module")
def connector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connector]:
    path = tmp_path_factory.mktemp("drawn") / "market.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(DATA)
    opened = connect(ConnectionSpec("market", "duckdb", {"path": str(path)}))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def groups() -> dict[Any, list[Row]]:
    """The rows of the sales by category, and all of them under an empty name."""
    with duckdb.connect() as connection:
        connection.execute(DATA)
        found = connection.execute(
            "SELECT s.*, p.category, p.cost, c.segment FROM fct_sales AS s"
            " LEFT JOIN dim_product AS p USING (product_key) LEFT JOIN dim_customer AS c USING (customer_key)"
        )
        names = [each[0] for each in found.description or ()]
        flat = [dict(zip(names, values, strict=True)) for values in found.fetchall()]
    places = {
        ("Sales", "Quantity"): "qty", ("Sales", "Unit Price"): "unit_price", ("Sales", "Discount"): "discount",
        ("Sales", "Channel"): "channel", ("Sales", "CustomerKey"): "customer_key", ("Sales", "Is Gift"): "is_gift",
        ("Sales", "Order Date"): "ordered_on", ("Sales", "Ship Date"): "shipped_on", ("Product", "Cost"): "cost",
        ("Product", "Category"): "category", ("Customer", "Segment"): "segment",
    }  # fmt: skip
    rows = [{key: each[name] for key, name in places.items()} for each in flat]
    by_category: dict[Any, list[Row]] = {}
    for row in rows:
        by_category.setdefault(row["Product", "Category"], []).append(row)
    return {"": rows, **by_category}


@QUICK
@given(dax=PLAIN_MEASURES)
def test_a_measure_has_the_value_that_dax_computes(
    dax: str, connector: Connector, groups: dict[Any, list[Row]]
) -> None:
    reference = Reference({case.name: parse_dax(case.dax) for case in CASES if case.sql})
    wanted = {}
    for group, rows in groups.items():
        with contextlib.suppress(OpenError):
            wanted[group] = number(reference.measure(parse_dax(dax), rows, {}))
    model, target = imported(dax)
    if target is None or not wanted:
        return
    (total,) = ask(model, {"measures": [target]}, connector).rows
    query = {"measures": [target], "dimensions": ["dim_product.category"], "include_empty": False}
    found = {"": number(total[0]), **{row[0]: number(row[1]) for row in ask(model, query, connector).rows}}
    assert {group: found.get(group) for group in wanted} == wanted


def number(value: Any) -> Any:
    return None if value is None else round(float(value), 6) + 0.0
