"""Whatever a well-formed DAX measure computes, its import loads, or the report has a reason."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ktx_cli.semantic.interchange.powerbi.importer import import_powerbi
from ktx_cli.semantic.load.load import load_tree
from ktx_cli.semantic.store.reader import check_model
from tests.semantic.interchange.powerbi.market import MANIFEST, tmdl
from tests.sources.projecting import MemoryTree

QUICK = settings(suppress_health_check=[HealthCheck.too_slow])

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
        _call("COALESCE", below, below), below.map(lambda value: f"-{value}"),
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
        st.tuples(below, below).map(lambda found: f"VAR x = {found[0]} RETURN x - {found[1]}"),
        _call("SWITCH", st.just("TRUE()"), _between(below, COMPARED), below, below),
        below.map(lambda value: f"-{value}"), _call("IF", below.map(lambda value: f"ISBLANK({value})"), below),
    ),
    max_leaves=6,
)  # fmt: skip
PATH = "Market.SemanticModel/definition/tables/_Measures.tmdl"


class Layer(MemoryTree):
    """The files of a semantic layer."""


@QUICK
@given(MEASURES, ROWS, TESTS)
def test_a_well_formed_measure(dax: str, row: str, test: str) -> None:
    files = tmdl()
    files[PATH] += f"\n\tmeasure Drawn =\n\t\t\t{dax}\n"
    files["Market.SemanticModel/definition/tables/Sales.tmdl"] += (
        f"\tcolumn Drawn =\n\t\t\t{row}\n\tcolumn Chosen = IF({test}, 1, 0)\n"
    )
    layer = Layer({"semantic-layer/market/_schema/main.yaml": MANIFEST.encode()})
    found = import_powerbi(files, load_tree(layer, "market", "duckdb"), known_only=True)
    (item,) = {each.what: each for each in found.report if each.what == "measure `_Measures[Drawn]`"}.values()
    assert item.target or item.why
    for name, text in found.files.items():
        layer[f"semantic-layer/market/{name}"] = text.encode()
    model = load_tree(layer, "market", "duckdb")
    assert [each.message for each in (*model.problems, *check_model(model)) if each.severity == "error"] == []
