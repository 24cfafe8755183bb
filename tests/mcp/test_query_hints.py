"""Hints of errors about queries: an agent gets arguments that it can send, a person the options of the command line."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, ktx, work
from tests.mcp.conftest import Company
from tests.mcp.test_http import Load, serving
from tests.mcp.wire import Wire, made

__all__ = ["ktx", "work"]

SALES = """\
name: sales
table: sales
grain: [id]
default_time_dimension: sold_at
columns:
  - {name: id, type: number}
  - {name: ship_to, type: string}
  - {name: bill_to, type: string}
  - {name: sold_at, type: time}
  - {name: paid_at, type: time}
  - {name: amount, type: number}
joins:
  - {to: regions, alias: shipped, on: sales.ship_to = regions.code, relationship: many_to_one}
  - {to: regions, alias: billed, on: sales.bill_to = regions.code, relationship: many_to_one}
measures:
  - {name: total, expr: sum(amount)}
  - {name: taxed, expr: "sum(amount * {{ param.tax }})"}
parameters: [{name: tax, type: number}]
"""
REGIONS = """\
name: regions
table: regions
grain: [code]
columns: [{name: code, type: string}, {name: title, type: string}]
"""
TARGETS = """\
name: targets
table: targets
grain: [id]
columns: [{name: id, type: number}, {name: code, type: string}, {name: amount, type: number}]
joins: [{to: regions, on: targets.code = regions.code, relationship: many_to_one}]
measures: [{name: target, expr: sum(amount)}]
"""
MANY = f"""\
name: many
table: targets
grain: [id]
columns: [{{name: id, type: number}}, {", ".join(f"{{name: c_{n:02}, type: number}}" for n in range(15))}]
measures: [{", ".join(f"{{name: m_{n:02}, expr: sum(c_{n:02})}}" for n in range(15))}]
"""
TABLES = """
CREATE TABLE sales (id INTEGER, ship_to TEXT, bill_to TEXT, sold_at TEXT, paid_at TEXT, amount REAL);
CREATE TABLE regions (code TEXT, title TEXT);
CREATE TABLE targets (id INTEGER, code TEXT, amount REAL);
INSERT INTO regions VALUES ('n', 'North'), ('s', 'South');
INSERT INTO targets VALUES (1, 'n', 100), (2, 's', 50);
INSERT INTO sales VALUES (1, 'n', 's', '2024-01-05', '2024-02-05', 10), (2, 'n', 'n', '2024-03-05', '2024-03-06', 20),
  (3, 's', 's', '2024-03-07', '2024-04-01', 5);
"""


@pytest.fixture
def sales(work: Path) -> Iterator[Company]:
    """Sales that are shipped to one region and billed to another, and a target for each region."""
    company: Company = made(work)
    company.run(TABLES)
    for name, text in {"sales": SALES, "regions": REGIONS, "targets": TARGETS}.items():
        company.source(name, text)
    yield company
    company.close()


def total(**more: Any) -> dict[str, Any]:
    return {"measures": ["sales.total"]} | more


BOTH = ["sales.sold_at:month", "sales.paid_at:month"]
YEAR = {"start": "2024-01-01", "end": "2025-01-01"}
QUERIES = {
    "a dimension": (total(dimensions=["regions.title"]), "ambiguous_path"),
    "a bare dimension": (total(dimensions=["title"]), "ambiguous_path"),
    "a computed dimension": (total(dimensions=["upper(regions.title) as r"]), "ambiguous_path"),
    "a filter": (total(filters=["regions.title = 'North'"]), "ambiguous_path"),
    "a dimension and a filter": (
        total(dimensions=["regions.title"], filters=["regions.title = 'North' OR sales.amount > 100"]),
        "ambiguous_path",
    ),
    "a part of a measure": (
        {"measures": ["sum(sales.amount) filter (where regions.title = 'North') as north"]},
        "ambiguous_path",
    ),
    "a further source": (
        total(dimensions=["regions.title", "shipped.code"], via={"shipped": "shipped"}),
        "ambiguous_path",
    ),
    "rows of the same parent": ({"measures": ["targets.target"], "dimensions": ["sales.sold_at:month"]}, "fan_out"),
    "two times": (total(dimensions=BOTH, time_range=YEAR | {"field": "x"}), "unknown_name"),
    "no time range": (total(comparison="previous_period"), "time_range"),
    "a reversed range": (total(time_range={"start": "2025-01-01", "end": "2024-01-01"}), "time_range"),
    "no times": (total(time_range={"start": "last May"}), "time_range"),
    "no duration": (total(time_range={"last": "a while"}), "time_range"),
    "no time": (total(time_range=YEAR | {"field": "sales.ship_to"}), "time_range"),
    "a range of a fact without times": ({"measures": ["targets.target"], "time_range": YEAR}, "unreachable"),
    "a parameter": ({"measures": ["sales.taxed"]}, "parameter"),
    "an unknown measure": ({"measures": ["sales.totl"]}, "unknown_name"),
    "a policy": ({"measures": ["staff.people"]}, "policy"),
}
FOLLOWED = {"ambiguous_path", "fan_out", "parameter"}
"""Errors whose hints state what to add to the query."""


@pytest.fixture
def wire(sales: Company) -> Iterator[Wire]:
    with serving(sales.folder, Load(), exists=True) as found:
        assert found.initialize().status == 200
        yield found


@pytest.mark.parametrize("asked", QUERIES)
def test_each_caller_gets_a_hint_that_works_where_it_asks(asked: str, sales: Company, wire: Wire, ktx: Run) -> None:
    query, code = QUERIES[asked]
    _, error, text = wire.call("sl_query", query)
    assert error is not None and error["code"] == code, text
    assert not re.search(r"(?<![\w-])--?[a-z]|`ktx |ktx [a-z]+ [a-z]", f"{error['message']} {error['hint']}"), error
    typed = ktx("sl", "query", json.dumps(query), "--json").envelope["error"]
    assert typed["code"] == code and not re.search(r'"\w+": ', typed["hint"]), typed["hint"]
    if code in FOLLOWED:
        ways = [dict([_argument(each)]) for each in re.findall(r'`("\w+": .*?)`', error["hint"])]
        flags = [shlex.split(each) for each in re.findall(r"`(--.*?)`", typed["hint"])]
        assert len(ways) == len(flags) > 0
        for way, options in zip(ways, flags, strict=True):
            given = json.loads(json.dumps(way).replace('"VALUE"', "2"))
            _, error, text = wire.call("sl_query", query | given)
            assert error is None, error
            words = [each.replace("VALUE", "2") for each in options]
            done = ktx("sl", "query", json.dumps(query), *words, "--json")
            assert done.code == 0 and done.data["rows"] == json.loads(text)["rows"]


def test_a_value_of_via_keeps_the_joins_to_other_sources(sales: Company) -> None:
    query = total(dimensions=["regions.title", "billed.code"], via={"billed": "billed"})
    error = sales.call("sl_query", query).error
    assert error is not None and '`"via": {"billed": "billed", "regions": "shipped"}`' in error["hint"], error


def _argument(text: str) -> tuple[str, Any]:
    ((name, value),) = json.loads(f"{{{text}}}").items()
    return name, value


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({"filters": ["regions.title = 'North'"], "via": {"regions": "shipped"}}, [[30.0]]),
        ({"filters": ["regions.title = 'North'"], "via": {"regions": "billed"}}, [[20.0]]),
        ({"filters": ["title = 'North'", "sales.amount < 15"], "via": {"regions": "shipped"}}, [[10.0]]),
        ({"dimensions": ["title"], "filters": ["title = 'South'"], "via": {"REGIONS": "billed"}}, [["South", 15.0]]),
        (
            {  # what an entry requires itself takes precedence
                "dimensions": ["regions.title"],
                "filters": [{"expr": "regions.title = 'South'", "via": "billed"}],
                "via": {"regions": "shipped"},
            },
            [["North", 10.0], ["South", 5.0]],
        ),
        ({"dimensions": ["shipped.code"], "via": {"shipped": "shipped"}}, [["n", 30.0], ["s", 5.0]]),
    ],
)
def test_via_of_a_query_holds_for_all_columns_of_its_source(
    more: dict[str, Any], wanted: list[Any], sales: Company
) -> None:
    reply = sales.call("sl_query", total(include_empty=False, **more))
    assert reply.error is None and sorted(reply.data["rows"]) == wanted, reply.text


@pytest.mark.table(
    ("more", "code", "hint"),
    [
        ({"via": {"regions": "shiped"}}, "unknown_name", "remove it"),
        ({"via": {"regions": "shipped"}}, "unknown_name", "remove it"),
        ({"dimensions": ["regions.title"], "via": {"regions": "shiped"}}, "unknown_name", "choose a path: "),
        ({"dimensions": ["sales.ship_to"], "via": {"sales": "shipped"}}, "unreachable", "remove `via` for `sales`"),
    ],
)
def test_a_join_that_chooses_no_path_is_refused(more: dict[str, Any], code: str, hint: str, sales: Company) -> None:
    error = sales.call("sl_query", total(**more)).error
    assert error is not None and error["code"] == code and error["hint"].startswith(hint), error


@pytest.mark.parametrize(
    ("query", "hint", "typed"),
    [
        ({"measures": ["payroll"]}, None, "to list the sources: ktx sl list"),
        ({"measures": ["many.payroll"]}, None, "to list the names of this source: ktx sl read many"),
        (total(dimensions=["many.payroll"]), None, "to list the names of this source: ktx sl read many"),
        (total(dimensions=["payroll"]), None, "to list the sources: ktx sl list"),
        (total(dimensions=["shipped.titel"]), "did you mean `shipped.title`?", "did you mean `shipped.title`?"),
        ({"measures": ["many.m_7"]}, "did you mean `many.m_07`?", "did you mean `many.m_07`?"),
    ],
)
def test_a_name_without_a_similar_one_leads_to_where_names_are(
    query: dict[str, Any], hint: str | None, typed: str, sales: Company, wire: Wire, ktx: Run
) -> None:
    """An agent gets a tool, and a person a command, which runs."""
    sales.source("many", MANY)
    _, error, text = wire.call("sl_query", query)
    assert error is not None and error["code"] == "unknown_name", text
    none = re.fullmatch(r"none of the \d+ available names is similar; find names with discover_data", error["hint"])
    assert error["hint"] == hint if hint else none, text
    printed = ktx("sl", "query", json.dumps(query), "--json").envelope["error"]["hint"]
    assert printed == typed or printed.endswith(f" available names is similar; {typed}"), printed
    command = typed.partition(": ktx ")[2]
    assert not command or ktx(*shlex.split(command)).code == 0


@pytest.mark.parametrize("column", ["regions.title", "title"])
def test_an_ambiguous_path_in_a_definition_is_not_a_matter_of_via(column: str, sales: Company, ktx: Run) -> None:
    """The query cannot choose it, only the definition."""
    measures = f"measures: [{{name: north, expr: sum(amount), filter: \"{column} = 'North'\"}}]\n"
    text = SALES.replace("name: sales", "name: moved").partition("measures:")[0].replace("sales.", "moved.")
    sales.source("moved", text + measures)
    hint = "write `shipped` or `billed` instead of `regions`"
    for more in ({}, {"via": {"regions": "shipped"}}):
        error = sales.call("sl_query", {"measures": ["moved.north"], **more}).error
        assert error is not None and (error["code"], error["hint"]) == ("ambiguous_path", hint), error
        assert "moved.north" in error["message"]
    found = ktx("sl", "validate", "--no-data", "--json").data["problems"]
    assert [each["hint"] for each in found if "moved" in each["path"]] == [hint]
    sales.source("moved", text + measures.replace(column, "shipped.title"))
    assert sales.call("sl_query", {"measures": ["moved.north"]}).data["rows"] == [[30.0]]


def test_a_choice_of_connections_is_an_argument_or_an_option(sales: Company, wire: Wire, ktx: Run) -> None:
    config = (sales.folder / "ktx.yaml").read_text()
    (sales.folder / "ktx.yaml").write_text(f"{config}  other:\n    driver: sqlite\n    path: other.sqlite\n")
    sales.write("semantic-layer/other/regions.yaml", REGIONS)
    for tool, arguments, words, typed in (
        ("sl_query", total(), ("sl", "query", "-m", "sales.total"), "choose one: -c other, -c shop"),
        ("sl_read_source", {"source": "regions"}, ("sl", "read", "regions"), "ktx sl read regions -c other"),
        ("sql_execution", {"sql": "SELECT 1"}, ("sql", "SELECT 1"), "choose one: -c other, -c shop"),
    ):
        _, error, text = wire.call(tool, arguments)
        assert error is not None and '"connection": "other", "connection": "shop"' in error["hint"], text
        assert ktx(*words, "--json").envelope["error"]["hint"].startswith(typed)


def test_no_text_of_the_semantic_layer_names_an_option(pytestconfig: pytest.Config) -> None:
    """Its hints are for agents and the command line alike; `Argument` and `Command` say what only one can use."""
    found = []
    for path in sorted((pytestconfig.rootpath / "ktx_cli" / "semantic").rglob("*.py")):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            if re.search(r"(?<![\w-])--[a-z]", line) and "Command(" not in line and not line.lstrip().startswith("#"):
                found.append(f"{path.name}:{number}: {line.strip()}")
    assert not found


def test_the_closest_of_several_hundred_sources_is_suggested(sales: Company, wire: Wire, ktx: Run) -> None:
    """Neither the hint nor the details list the first names of the alphabet instead."""
    for number in range(300):
        sales.source(f"audit_{number}", REGIONS.replace("regions", f"audit_{number}"))
    sales.source("zoned_orders", TARGETS.replace("targets", "zoned_orders"))
    hints = {
        "zoned_order.target": "did you mean `zoned_orders`?",
        "revenue_of_all_orders_by_zone.target": "similar names: orders, zoned_orders",
        "payroll.salary": "none of the 308 available names is similar; find names with discover_data",
    }
    for name, hint in hints.items():
        _, error, text = wire.call("sl_query", {"measures": [name]})
        assert error is not None and error["hint"] == hint, text
        assert not any(each.startswith("audit_") for each in error["details"]["candidates"])
        assert error["details"]["known"] == 308
        typed = ktx("sl", "query", "-m", name, "--json").envelope["error"]["hint"]
        assert typed == hint.replace("find names with discover_data", "to list the sources: ktx sl list")
    _, error, _ = wire.call("context_read", {"id": "zoned_order"})
    assert error is not None and error["hint"] == "did you mean `zoned_orders`?"
