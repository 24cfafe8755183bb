"""`ktx sl query` and `ktx sl explain`: every option, every way to print, every refusal."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ktx_cli.cli.commands.sl_query import OPTIONS, question_of
from ktx_cli.core import yaml
from ktx_cli.core.errors import UsageError
from ktx_cli.jobs.semantic import question
from tests.cli.conftest import git

Run = Callable[..., Any]

SALES = """\
name: sales
table: sales
grain: [id]
default_time_dimension: {dbt: sold_at}
columns:
  - {name: id, type: number}
  - {name: customer_id, type: number}
  - {name: ship_to, type: string}
  - {name: bill_to, type: string}
  - {name: sold_at, type: time}
  - {name: amount, type: number}
  - {name: secret, type: string, visibility: hidden}
joins:
  - {to: customers, on: sales.customer_id = customers.id, relationship: many_to_one}
  - {to: regions, on: sales.ship_to = regions.code, relationship: many_to_one, alias: shipping}
  - {to: regions, on: sales.bill_to = regions.code, relationship: many_to_one, alias: billing}
measures:
  - {name: revenue, expr: sum(amount)}
  - {name: sale_count, expr: count(*)}
  - {name: above, expr: sum(amount), filter: "amount >= {{ param.least }}"}
parameters: [{name: least, type: number, default: 6}]
segments:
  - {name: big, expr: amount >= 10}
"""
CUSTOMERS = """\
name: customers
table: customers
grain: [id]
columns:
  - {name: id, type: number}
  - {name: country, type: string}
"""
REGIONS = """\
name: regions
table: regions
grain: [code]
columns:
  - {name: code, type: string}
  - {name: title, type: string}
"""
PARTNERS = """\
name: partners
table: partners
grain: [id]
columns: [{name: id, type: number}, {name: region, type: string}]
measures: [{name: partner_count, expr: count(*)}]
policies: [{name: own, filter: "region = {{ user.region }}"}]
"""
TABLES = """
CREATE TABLE sales (id INTEGER, customer_id INTEGER, ship_to TEXT, bill_to TEXT, sold_at TEXT, amount REAL,
                    secret TEXT);
CREATE TABLE buyers (id INTEGER, country TEXT);
CREATE TABLE regions (code TEXT, title TEXT);
CREATE TABLE partners (id INTEGER, region TEXT);
INSERT INTO buyers VALUES (1, 'NO'), (2, 'SE'), (3, 'DK');
INSERT INTO regions VALUES ('n', 'North'), ('s', 'South');
INSERT INTO partners VALUES (1, 'EU'), (2, 'EU'), (3, 'US');
INSERT INTO sales VALUES
  (1, 1, 'n', 's', '2023-02-03 10:00:00', 5, 'x'), (2, 1, 'n', 'n', '2024-01-05 23:30:00', 10, 'x'),
  (3, 2, 's', 's', '2024-03-05 10:00:00', 20, 'x'), (4, 9, 's', 's', '2024-03-06 10:00:00', 7, NULL);
"""


@pytest.fixture
def layer(shop: Path) -> Path:
    """A project over a database of sales, with a semantic layer of people's own."""
    folder = shop.parent
    with sqlite3.connect(shop) as database:
        database.executescript(TABLES)
    database.close()
    (folder / "ktx.yaml").write_text("connections:\n  warehouse:\n    driver: sqlite\n    path: shop.sqlite\n")
    below = folder / "semantic-layer" / "warehouse"
    below.mkdir(parents=True)
    texts = {"sales": SALES, "customers": CUSTOMERS, "regions": REGIONS, "partners": PARTNERS}
    for name, text in texts.items():
        (below / f"{name}.yaml").write_text(text.replace("table: customers", "table: buyers"))
    return folder


def rows(ktx: Run, *words: str, **kwargs: Any) -> list[list[Any]]:
    answer = ktx("sl", "query", *words, "--json", **kwargs)
    assert answer.code == 0, answer
    found: list[list[Any]] = answer.data["rows"]
    return found


def refused(ktx: Run, *words: str, command: str = "query", **kwargs: Any) -> dict[str, Any]:
    answer = ktx("sl", command, *words, "--json", **kwargs)
    assert answer.code != 0
    error: dict[str, Any] = answer.envelope["error"]
    return {**error, "exit": answer.code}


REVENUE = ("-m", "sales.revenue")
LEAST = "parameters: [{name: least, type: number, default: 6}]\n"


def test_the_envelope(ktx: Run, layer: Path) -> None:
    answer = ktx("sl", "query", *REVENUE, "-d", "customers.country", "--totals", "--no-include-empty", "--json")
    assert answer.envelope["schema"] == "ktx/sl-query/v1"
    data = answer.data
    receipt = data.pop("receipt")
    assert data.pop("sql") == receipt["sql"]
    assert data == {
        "connection": "warehouse",
        "columns": ["country", "revenue"],
        "rows": [["NO", 15.0], ["SE", 20.0], [None, 7.0]],
        "row_count": 3,
        "totals": {"revenue": 42.0},
        "truncated": False,
        "cut": None,
    }
    (fact,) = receipt["facts"]
    assert (fact["fact"], fact["rows"]) == ("sales", 4)
    assert fact["unmatched"] == [
        {"join": "customers on sales.customer_id = customers.id", "null_keys": 0, "dangling": 1}
    ]
    assert set(receipt["timing_ms"]) == {"load", "compile", "probe", "execute"}
    assert receipt["verified"] is None


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["-m", "revenue"], [[42.0]]),
        (["--measure", "sales.revenue", "--measure", "sales.sale_count"], [[42.0, 4]]),
        (["-m", "sum(sales.amount) / count(sales.id)"], [[10.5]]),
        (["-m", "count(sales)"], [[4]]),
        (["-m", "count(SALES)", "-m", "count(regions)"], [[4, 2]]),
        (["-m", "count(sales)", "-d", "shipping.title"], [["North", 2], ["South", 2]]),
        (["-m", "sum(sales.amount) / count(Sales)", "--segment", "sales.big"], [[15.0]]),
        (["-m", "count(partners)", "--user-attribute", "region=EU"], [[2]]),
        ([*REVENUE, "-d", "shipping.title"], [["North", 15.0], ["South", 27.0]]),
        ([*REVENUE, "-d", "regions.title", "--via", "regions=billing"], [["North", 10.0], ["South", 32.0]]),
        ([*REVENUE, "-d", "sales.sold_at:year"], [["2023-01-01", 5.0], ["2024-01-01", 37.0]]),
        ([*REVENUE, "-d", "sales.sold_at", "--grain", "year"], [["2023-01-01", 5.0], ["2024-01-01", 37.0]]),
        ([*REVENUE, "--grain", "year"], [["2023-01-01", 5.0], ["2024-01-01", 37.0]]),
        ([*REVENUE, "-d", "shipping.title", "--grain", "year", "--filter", "amount < 8"],
         [["North", "2023-01-01", 5.0], ["South", "2024-01-01", 7.0]]),
        ([*REVENUE, "--filter", "amount > 5", "--filter", "amount < 20"], [[17.0]]),
        ([*REVENUE, "--segment", "sales.big"], [[30.0]]),
        ([*REVENUE, "-d", "shipping.title", "--having", "revenue > 20"], [["South", 27.0]]),
        ([*REVENUE, "-d", "shipping.title", "--order-by", "revenue:desc"], [["South", 27.0], ["North", 15.0]]),
        ([*REVENUE, "-d", "shipping.title", "--order-by", "revenue:asc"], [["North", 15.0], ["South", 27.0]]),
        ([*REVENUE, "-d", "shipping.title", "--order-by", "revenue desc"], [["South", 27.0], ["North", 15.0]]),
        ([*REVENUE, "-d", "shipping.title", "--offset", "1"], [["South", 27.0]]),
        ([*REVENUE, "-d", "customers.country", "--include-empty"],
         [["DK", None], ["NO", 15.0], ["SE", 20.0], [None, 7.0]]),
        ([*REVENUE, "--from", "2024-01-01", "--to", "2024-03-06", "--time-field", "sales.sold_at"], [[30.0]]),
        ([*REVENUE, "--from", "2024-01-01"], [[37.0]]),
        ([*REVENUE, "--last", "1000 years"], [[42.0]]),
        ([*REVENUE, "-d", "sales.sold_at:month", "--from", "2024-01-01", "--to", "2024-04-01", "--fill"],
         [["2024-01-01", 10.0], ["2024-02-01", None], ["2024-03-01", 27.0]]),
        ([*REVENUE, "-d", "sales.sold_at:year", "--compare", "1 year", "--from", "2024-01-01"],
         [["2024-01-01", 37.0, 5.0, 32.0, 640.0]]),
        ([*REVENUE, "-d", "sales.sold_at:day", "--from", "2024-01-01", "--to", "2024-02-01", "--timezone",
          "Europe/Oslo"], [["2024-01-06", 10.0]]),
        (["-m", "sales.above"], [[37.0]]),
        (["-m", "sales.above", "--parameter", "least=10"], [[30.0]]),
        (["-m", "partners.partner_count", "--user-attribute", "region=EU"], [[2]]),
        (["-m", "partners.partner_count", "--user-attribute", 'region:="US"'], [[1]]),
        (['{"measures": ["sales.revenue"], "filters": ["amount > 5"]}', "--filter", "amount < 20"], [[17.0]]),
        (['{"measures": ["sales.revenue"], "limit": 5, "parameters": {"least": 1}}', "-m", "above",
          "--parameter", "least=20"], [[42.0, 20.0]]),
    ],
)  # fmt: skip
def test_the_options(ktx: Run, layer: Path, words: list[str], found: list[list[Any]]) -> None:
    assert rows(ktx, *words) == found


@pytest.mark.parametrize("words", [["--query-file", "q.json"], ["--query-file", "-"], ["-"]])
def test_the_query_from_elsewhere(ktx: Run, layer: Path, words: list[str]) -> None:
    text = '\ufeff{"measures": ["sales.revenue"]}'
    (layer / "q.json").write_text(text, encoding="utf-8")
    assert rows(ktx, *words, input=text.encode()) == [[42.0]]


@pytest.mark.parametrize("option", ["--limit", "--max-rows"])
def test_rows_that_are_left_out_are_said(ktx: Run, layer: Path, option: str) -> None:
    words = ("sl", "query", *REVENUE, "-d", "shipping.title")
    limited = ktx(*words, option, "1", "--json")
    assert (limited.data["row_count"], limited.data["truncated"], limited.data["cut"]) == (1, True, "rows")
    assert limited.envelope["warnings"] == []  # the user asked for no more
    assert "warning" not in ktx(*words, option, "1").err


def test_a_recent_period_without_rows_says_when_the_data_ends(ktx: Run, layer: Path) -> None:
    for words in ((*REVENUE, "--last", "30d"), (*REVENUE, "-d", "sales.sold_at:month", "--last", "30 days")):
        answer = ktx("sl", "query", *words)
        assert "warning: no row of `sales` is in the last 30" in answer.err
        assert "the most recent is from 2024-03-06 10:00:00" in answer.err
    assert "most recent" not in ktx("sl", "query", *REVENUE, "--last", "1000y").err


def test_rows_left_out_by_the_default_limit_are_a_warning(ktx: Run, layer: Path) -> None:
    words = ("sl", "query", "-m", "count(regions)", "-d", "regions.code")
    with sqlite3.connect(layer / "shop.sqlite") as database:
        database.executemany("INSERT INTO regions VALUES (?, 'more')", [(str(number),) for number in range(1000)])
    database.close()
    answer = ktx(*words, "--json")
    assert (answer.data["row_count"], answer.data["cut"]) == (1000, "rows")
    assert [each["code"] for each in answer.envelope["warnings"]] == ["truncated"]
    assert "warning: only the first 1,000 rows are shown" in ktx(*words).err
    no_limit = json.dumps({"measures": ["count(regions)"], "dimensions": ["regions.code"], "limit": None})
    assert ktx("sl", "query", no_limit, "--json").envelope["warnings"][0]["code"] == "truncated"


@pytest.mark.table(
    ("words", "columns", "found"),
    [
        (["-m", "sum(sales.amount) as total"], ["total"], [[42.0]]),
        (["-m", "sum(sales.amount) AS \"Total, all\""], ["Total, all"], [[42.0]]),
        (["-m", "sales.revenue as total", "-m", "sale_count"], ["total", "sale_count"], [[42.0, 4]]),
        (["-m", "revenue", "--as", "total"], ["total"], [[42.0]]),
        (["-m", "revenue", "-m", "max(amount)", "--as", "a", "--as", "b"], ["a", "b"], [[42.0, 20.0]]),
        (["-m", "revenue as r", "-m", "count(sales) as n", "-m", "r / n as each"], ["r", "n", "each"],
         [[42.0, 4, 10.5]]),
        (["-m", "revenue as r", "-d", "shipping.title as where_to", "--order-by", "where_to:desc"],
         ["where_to", "r"], [["South", 27.0], ["North", 15.0]]),
        (["-m", "revenue as r", "-d", "sales.sold_at:year as y", "--order-by", "2:desc", "--filter", "r > 1"],
         ["y", "r"], [["2024-01-01", 37.0], ["2023-01-01", 5.0]]),
        (["-m", "revenue as r", "-d", "sales.sold_at as y", "--grain", "year", "--order-by", "1:desc"],
         ["y", "r"], [["2024-01-01", 37.0], ["2023-01-01", 5.0]]),
        (["-m", "sum(amount) as amount", "-d", "shipping.title", "--having", "sum(amount) > 20 and amount < 30"],
         ["title", "amount"], [["South", 27.0]]),
        (['{"measures": ["revenue as r"], "order_by": [1]}'], ["r"], [[42.0]]),
    ],
)  # fmt: skip
def test_columns_are_named(ktx: Run, layer: Path, words: list[str], columns: list[str], found: list[Any]) -> None:
    answer = ktx("sl", "query", *words, "--json")
    assert answer.code == 0, answer
    assert (answer.data["columns"], answer.data["rows"]) == (columns, found)


@pytest.mark.table(
    ("words", "message", "hint"),
    [
        (["-m", "revenue", "--as", "a", "--as", "b"], "--as is given 2 times, and --measure 1 time", "one --as for"),
        (["-d", "country", "--as", "a"], "--as is given 1 time, and --measure 0 times", "one --as for each"),
        (["-m", "revenue as a", "--as", "b"], "`measures[0]` has two names, `a` and `b`", "remove `as a`"),
        (["-m", "revenue as a", "-m", "sale_count as a"], "two columns of the result would be named `a`", "as NAME`"),
        (["-m", "revenue as A", "-d", "sales.ship_to as a"], "would be named `a`", "`sales.ship_to as NAME`"),
        (["-m", "revenue as r", "-d", "ship_to", "--order-by", "3"],
         "cannot sort by column 3: the result has 2 columns", "1 (ship_to), 2 (r)"),
        (["-m", "revenue as r", "-d", "ship_to", "--order-by", "0:desc"], "cannot sort by column 0", "1 (ship_to)"),
        (["-d", "ship_to", "-d", "ship_to as there"], "the dimension `ship_to` is given twice", "remove `as there`"),
        (["-m", "sum(sales)"], "`sales` is a source, not a column", "`count(sales)`"),
    ],
)  # fmt: skip
def test_names_and_positions_that_are_refused(ktx: Run, layer: Path, words: list[str], message: str, hint: str) -> None:
    error = refused(ktx, *words)
    assert message in error["message"]
    assert hint in error["hint"]


def test_the_table_and_what_is_said_of_it(ktx: Run, layer: Path) -> None:
    words = ("sl", "query", *REVENUE, "-d", "customers.country", "--totals", "--no-include-empty")
    answer = ktx(*words)
    assert answer.out == "country\trevenue\nNO\t15.0\nSE\t20.0\nNULL\t7.0\ntotal\t42.0\n"
    assert answer.err.splitlines() == [
        "fact sales, 4 rows: SUM(amount)",
        "  path sales -> customers (the only path)",
        "  unmatched customers on sales.customer_id = customers.id: 0 without a key, 1 with a key that matches no row",
    ]
    assert ktx(*words, "--quiet").err == ""
    receipt = ktx(*words, "--receipt").err
    assert "sources: sales, customers" in receipt
    assert 'time: {"timezone": "UTC", "week_start": "monday"}' in receipt
    assert "SELECT" in receipt


def test_the_other_formats(ktx: Run, layer: Path) -> None:
    words = ("sl", "query", *REVENUE, "-d", "shipping.title", "--totals", "--format")
    answer = ktx(*words, "csv")
    assert answer.out == "title,revenue\nNorth,15.0\nSouth,27.0\n"
    assert "totals: revenue = 42.0" in answer.err
    assert json.loads(ktx(*words, "json").out)["rows"] == [["North", 15.0], ["South", 27.0]]
    assert ktx(*words, "sql").out.startswith("WITH ")


@pytest.mark.parametrize("words", [["--no-execute"], ["--format", "sql"]])
def test_without_executing_no_database_is_opened(ktx: Run, layer: Path, words: list[str]) -> None:
    (layer / "shop.sqlite").unlink()
    data = ktx("sl", "query", *REVENUE, *words, "--json").data
    assert (data["rows"], data["columns"]) == (None, ["revenue"])
    assert 'FROM "sales"' in data["sql"]
    out = ktx("sl", "query", *REVENUE, "--no-execute").out
    assert out.rstrip() == data["sql"]
    assert json.loads(ktx("sl", "query", *REVENUE, "--no-execute", "--format", "json").out)["rows"] is None
    assert refused(ktx, *REVENUE, *words, "--verify")["code"] == "usage"


def test_a_verified_answer(ktx: Run, layer: Path) -> None:
    words = ("sl", "query", *REVENUE, "-d", "shipping.title", "--verify")
    receipt = ktx(*words, "--json").data["receipt"]
    assert receipt["verified"] == {
        "sampled": False,
        "rows": 2,
        "of": 2,
        "numbers": 2,
        "skipped": {},
        "stopped": None,
        "mismatches": [],
    }
    assert receipt["timing_ms"]["verify"] > 0
    assert "verified: 2 numbers in 2 of 2 rows, recomputed from raw rows\n" in ktx(*words).err


COMPARED = (*REVENUE, "-d", "sales.sold_at:year", "--from", "2024-01-01", "--to", "2025-01-01", "--compare", "1 year")
COMPARED_ROW = ["2024-01-01", 37.0, 5.0, 32.0, 640.0]


@pytest.fixture
def doubling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the compiler write statements that count every sum twice."""
    wrong = property(lambda asked: asked.compiled.tree.sql(asked.dialect).replace("SUM(", "2 * SUM("))
    monkeypatch.setattr("ktx_cli.semantic.answer.CompiledQuery.sent", wrong)


@pytest.mark.parametrize(
    ("words", "sampled"), [((), True), (("--verify",), False), (("--no-verify",), None)], ids=["default", "all", "none"]
)
def test_a_comparison_is_verified_without_being_asked_to(
    ktx: Run, layer: Path, patient: None, words: tuple[str, ...], sampled: bool | None
) -> None:
    answer = ktx("sl", "query", *COMPARED, *words, "--json")
    verified = answer.data["receipt"]["verified"]
    assert (answer.code, answer.data["rows"]) == (0, [COMPARED_ROW])
    assert (verified and verified["sampled"]) == sampled
    if verified is not None:
        assert (verified["rows"], verified["of"], verified["mismatches"], verified["stopped"]) == (1, 1, [], None)
        assert verified["numbers"] == (1 if sampled else 4)
    assert ("verified: " in ktx("sl", "query", *COMPARED, *words).err) is (verified is not None)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a sample all the time it may need on a machine that is busy."""
    monkeypatch.setattr("ktx_cli.semantic.verification.LEAST_SECONDS", 60.0)


def test_a_wrong_number_does_not_pass_without_being_asked_for(
    ktx: Run, layer: Path, doubling: None, patient: None
) -> None:
    answer = ktx("sl", "query", *COMPARED, "--json")
    error = answer.envelope["error"]
    assert (answer.code, error["code"]) == (1, "not_verified")
    assert "1 number of 1 checked" in error["message"]
    assert "`revenue_previous` of 2024-01-01: 10.0, recomputed 5.0" in error["message"]
    (mismatch,) = answer.data["receipt"]["verified"]["mismatches"]
    assert (mismatch["column"], mismatch["answered"], mismatch["verified"]) == ("revenue_previous", 10.0, 5.0)
    assert ktx("sl", "query", *COMPARED).code == 1
    assert ktx("sl", "query", *COMPARED, "--no-verify").code == 0
    assert ktx("sl", "query", *REVENUE).code == 0
    assert ktx("sl", "query", *REVENUE, "--verify").code == 1


def test_what_was_not_verified_is_said(ktx: Run, layer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktx_cli.semantic.verification.LEAST_SECONDS", 0.0)
    monkeypatch.setattr("ktx_cli.semantic.verification.SHARE", 0.0)
    assert "not verified: the time limit of 0 ms was reached" in ktx("sl", "query", *COMPARED).err
    (layer / "semantic-layer" / "warehouse" / "sales.yaml").write_text(
        SALES.replace("measures:", "measures:\n  - {name: mean, expr: avg(revenue), per: [customer_id]}")
    )
    assert "not verified: `mean`: it aggregates a measure" in ktx("sl", "query", "-m", "mean", "--verify").err


@pytest.mark.parametrize(
    ("words", "code", "exit_code", "says"),
    [
        ([], "usage", 2, "the query has neither a measure nor a dimension"),
        (["{"], "usage", 2, "the query is not valid JSON"),
        (["[1]"], "usage", 2, "not a JSON object"),
        (["{}", "--query-file", "q.json"], "usage", 2, "a JSON query and --query-file cannot be used together"),
        (["--query-file", "missing.json"], "usage", 2, "cannot read missing.json"),
        (["--query-file", "latin.json"], "usage", 2, "not UTF-8"),
        (['{"measures": "sales.revenue"}', "-m", "x"], "usage", 2, "`measures` of the query must be a list"),
        (['{"via": []}', "--via", "a=b", *REVENUE], "usage", 2, "`via` of the query must be an object"),
        ([*REVENUE, "--via", "regions"], "usage", 2, "--via requires NAME=VALUE, not `regions`"),
        ([*REVENUE, "--via", "a=b", "--via", "a=c"], "usage", 2, "--via is given twice for `a`"),
        (
            [*REVENUE, "-d", "customers.country", "--via", "customers=billing"],
            "unreachable",
            1,
            "no join path from `sales` to `customers` goes through `billing`",
        ),
        (
            [*REVENUE, "-d", "regions.title", "--via", "regions=billng"],
            "unknown_name",
            2,
            "no join path from `sales` to `regions` goes through `billng`",
        ),
        ([*REVENUE, "--via", "regions="], "query", 2, "`via.regions` names no join"),
        ([*REVENUE, "--user-attribute", "a:=x"], "usage", 2, "after `:=` is not valid JSON"),
        ([*REVENUE, "--limit", "-1"], "usage", 2, "at least 0"),
        ([*REVENUE, "-c", "nowhere"], "usage", 2, "no connection `nowhere`"),
        (["-m", "sales.revenu"], "unknown_name", 2, "no measure `sales.revenu`"),
        (["-m", "sales.above", "--parameter", "leest=1"], "unknown_name", 2, "no parameter `leest`"),
        (["-m", "sales.above", "--parameter", "least=x"], "parameter", 2, "must be a number"),
        ([*REVENUE, "-d", "regions.title"], "ambiguous_path", 1, "2 join paths from `sales` to `regions`"),
        ([*REVENUE, "-d", "partners.region"], "unreachable", 1, "cannot be reached"),
        ([*REVENUE, "--filter", "secret = 'x'"], "hidden", 1, "it is hidden"),
        (["-m", "partners.partner_count"], "policy", 1, "needs the user attribute `region`"),
    ],
)
def test_what_is_refused(ktx: Run, layer: Path, words: list[str], code: str, exit_code: int, says: str) -> None:
    (layer / "latin.json").write_bytes('{"measures": ["é"]}'.encode("latin-1"))
    error = refused(ktx, *words)
    assert (error["code"], error["exit"]) == (code, exit_code)
    assert says in error["message"]
    assert error["hint"]


def test_a_join_that_doubles_rows_is_no_number(ktx: Run, layer: Path) -> None:
    with sqlite3.connect(layer / "shop.sqlite") as database:
        database.execute("INSERT INTO buyers VALUES (1, 'XX')")
    database.close()
    error = refused(ktx, *REVENUE, "-d", "customers.country")
    assert (error["code"], error["exit"]) == ("cardinality", 1)
    assert error["details"]["fact"] == "sales"


def test_a_definition_that_the_filter_refuses(ktx: Run, layer: Path) -> None:
    path = layer / "semantic-layer" / "warehouse" / "sales.yaml"
    path.write_text(SALES.replace("expr: sum(amount)}", "expr: sum(length(load_extension('x')))}", 1))
    error = refused(ktx, *REVENUE)
    assert (error["code"], error["exit"]) == ("read_only", 1)


def test_a_connection_for_the_semantic_layer_only(ktx: Run, layer: Path) -> None:
    with (layer / "ktx.yaml").open("a") as stream:
        stream.write("    query_policy: semantic-layer-only\n")
    assert rows(ktx, *REVENUE) == [[42.0]]
    assert ktx("sql", "SELECT 1").code == 2


COMPOSED: list[tuple[tuple[str, ...], str]] = [
    (("-m", "sum(sales.amount)"), "`sum(sales.amount)`"),
    (("-m", "sales.revenue / 2"), "`sales.revenue / 2`"),
    (("-m", "sales.revenue", "-m", "max(sales.amount)"), "`max(sales.amount)`"),
    (("-m", "sales.revenue", "--filter", "max(sales.amount) > 1"), "`MAX(sales.amount)`"),
]


@pytest.mark.parametrize(("asked", "named"), COMPOSED, ids=[" ".join(row[0]) for row in COMPOSED])
def test_a_connection_for_the_semantic_layer_only_answers_no_measure_of_the_question(
    ktx: Run, layer: Path, asked: tuple[str, ...], named: str
) -> None:
    assert ktx("sl", "query", *asked, "--json").code == 0
    with (layer / "ktx.yaml").open("a") as stream:
        stream.write("    query_policy: semantic-layer-only\n")
    for command in (("sl", "query"), ("sl", "query", "--no-execute"), ("sl", "explain")):
        answer = ktx(*command, *asked, "--json")
        assert answer.code == 2, answer
        error = answer.envelope["error"]
        assert named in error["message"]
        assert error["details"]["query_policy"] == "semantic-layer-only"
        assert answer.data is None
    assert rows(ktx, *REVENUE, "--filter", "sales.revenue > 1", "--order-by", "revenue") == [[42.0]]


def test_read_only_sql_is_any_statement_that_reads(ktx: Run, layer: Path) -> None:
    with (layer / "ktx.yaml").open("a") as stream:
        stream.write("    query_policy: read-only-sql\n")
    assert ktx("sql", "SELECT 1").code == 0
    assert ktx("sl", "query", "-m", "sum(sales.amount)").code == 0


def test_the_calendar_of_the_project(ktx: Run, layer: Path) -> None:
    with (layer / "ktx.yaml").open("a") as stream:
        stream.write("semantic: {week_start: sunday, fiscal_year_start: 3, timezone: Europe/Oslo}\n")
    asked = (*REVENUE, "--from", "2024-03-01", "--to", "2024-03-06")
    assert rows(ktx, *asked, "--grain", "week") == [["2024-03-03", 20.0]]
    assert rows(ktx, *asked, "--grain", "fiscal_year") == [["2024-03-01", 20.0]]
    receipt = ktx("sl", "query", *REVENUE, "--json").data["receipt"]
    assert receipt["time"] == {"timezone": "Europe/Oslo", "week_start": "sunday"}


def test_no_time_zone_moves_a_date(ktx: Run, shop: Path) -> None:
    with sqlite3.connect(shop) as database:
        database.execute("INSERT INTO orders VALUES (1, 1, '2024-03-01')")
    database.close()
    (shop.parent / "ktx.yaml").write_text(
        "semantic: {timezone: America/New_York}\nconnections:\n  warehouse: {driver: sqlite, path: shop.sqlite}\n"
    )
    assert ktx("scan").code == 0
    assert rows(ktx, "-m", "count(orders.id)", "-d", "orders.placed_on:month") == [["2024-03-01", 1]]


def test_a_time_zone_that_is_none_is_named_with_its_setting(ktx: Run, layer: Path) -> None:
    with (layer / "ktx.yaml").open("a") as stream:
        stream.write("semantic: {timezone: Europe/Olso}\n")
    error = refused(ktx, *REVENUE)
    assert (error["code"], error["exit"]) == ("config", 2)
    assert "`semantic.timezone`" in error["message"]
    assert error["hint"].startswith("did you mean `Europe/Oslo`?")


@pytest.mark.parametrize("command", ["query", "explain"])
def test_a_name_that_may_be_in_a_broken_file(ktx: Run, layer: Path, command: str) -> None:
    (layer / "semantic-layer" / "warehouse" / "customers.yaml").write_text("name: customers\ntable: [\n")
    error = refused(ktx, *REVENUE, "-d", "customers.country", command=command)
    assert error["code"] == "unknown_name"
    assert "semantic-layer/warehouse/customers.yaml:" in error["message"]
    assert error["hint"].endswith("; list all errors with ktx sl validate -c warehouse --no-data")


def test_the_error_of_a_file_is_named_with_the_name_it_lacks(ktx: Run, layer: Path) -> None:
    path = layer / "semantic-layer" / "warehouse" / "customers.yaml"
    joins = "joins: [{to: orders, on: id = orders.customer_id, relationship: one_to_many}]\n"
    path.write_text(f"name: customers\n{joins}{joins}measures: [{{name: people, expr: count(*)}}]\n")
    error = refused(ktx, "-m", "customers.people")
    assert "customers.yaml:3: the key 'joins' occurs twice" in error["message"]
    assert error["hint"].startswith("move the items of the second 'joins' to the first, and delete the second")


@pytest.mark.table(
    ("sql", "more", "message"),
    [
        ("SELECT id, secret AS code, ship_to FROM sales", "", "`sales` or one of its columns is hidden"),
        ("SELECT id, upper(secret) AS code, {{ param.least }} AS ship_to FROM sales", LEAST, "is hidden"),
        ("WITH s AS (SELECT * FROM sales) SELECT id, secret AS code, ship_to FROM s", "", "is hidden"),
        ("SELECT id, region AS code, region AS ship_to FROM partners", "", "`partners` has row policies"),
    ],
)
@pytest.mark.parametrize("asked", [("-m", "copies.copies"), ("-m", "copies.copies", "-d", "copies.code")])
def test_a_query_of_hidden_data_is_refused(
    ktx: Run, layer: Path, asked: tuple[str, ...], sql: str, more: str, message: str
) -> None:
    path = layer / "semantic-layer" / "warehouse" / "copies.yaml"
    columns = "[{name: id, type: number}, {name: code, type: string}, {name: ship_to, type: string}]"
    rest = f"grain: [id]\ncolumns: {columns}\nmeasures: [{{name: copies, expr: count(*)}}]\n{more}"
    path.write_text(f'name: copies\nsql: "{sql}"\n{rest}')
    error = refused(ktx, *asked)
    assert error["code"] == "hidden" and message in error["message"]
    assert error["message"].startswith("the SQL of `copies` reads data that is hidden elsewhere")
    assert "policies" in error["hint"]
    path.write_text(f"name: copies\nsql: SELECT id, bill_to AS code, ship_to FROM sales\n{rest}")
    assert ktx("sl", "query", *asked, "--json").code == 0, "other columns of the table may be read"


def test_several_names_in_one_option_are_taken_apart_in_the_hint(ktx: Run, layer: Path) -> None:
    error = refused(ktx, "-m", "orders.order_count,orders.revenue")
    assert error["hint"] == "pass each name separately: `orders.order_count`, `orders.revenue`"


@pytest.mark.parametrize("command", ["query", "explain"])
def test_a_connection_that_is_no_database(ktx: Run, layer: Path, command: str) -> None:
    with (layer / "ktx.yaml").open("a") as stream:
        stream.write("  handbook: {driver: documents, path: docs}\n")
    other = layer / "semantic-layer" / "handbook"
    other.mkdir()
    (other / "customers.yaml").write_text(CUSTOMERS)
    error = refused(ktx, "-d", "customers.country", "-c", "handbook", command=command)
    assert error["message"] == "connection `handbook` is not a database: its driver is `documents`"


def test_of_two_layers_one_must_be_named(ktx: Run, layer: Path) -> None:
    with (layer / "ktx.yaml").open("a") as stream:
        stream.write("  other: {driver: sqlite, path: shop.sqlite}\n")
    assert rows(ktx, *REVENUE) == [[42.0]]
    assert "has no semantic layer yet" in refused(ktx, *REVENUE, "-c", "other")["message"]
    other = layer / "semantic-layer" / "other"
    other.mkdir()
    (other / "customers.yaml").write_text(CUSTOMERS)
    error = refused(ktx, *REVENUE)
    assert (error["message"], error["hint"]) == (
        "there are 2 semantic layers: other, warehouse",
        "choose one: -c other, -c warehouse",
    )
    assert rows(ktx, *REVENUE, "-c", "warehouse") == [[42.0]]


def test_explain_says_how_without_a_database(ktx: Run, layer: Path) -> None:
    (layer / "shop.sqlite").unlink()
    words = ("sl", "explain", *REVENUE, "-d", "shipping.title", "--filter", "amount > 5", "--having", "revenue > 1")
    data = ktx(*words, "--json").data
    assert data["columns"][0] == {"name": "title", "kind": "dimension", "of": "shipping.title", "granularity": None}
    assert data["steps"] == [
        "fact sales: SUM(amount)",
        "  path sales -> regions (shipping) (the only path)",
        "  filter amount > 5 (keeps rows)",
        "then: keeps finished rows where revenue > 1",
    ]
    assert data["totals_sql"] is None
    out = ktx(*words).out
    assert "column\tkind\tof\ntitle\tdimension\tshipping.title\n" in out
    assert "fact sales: SUM(amount)" in out
    assert "SELECT" in out


def test_explain_shows_the_choices(ktx: Run, layer: Path) -> None:
    words = (*REVENUE, "-d", "regions.title")
    error = refused(ktx, *words, command="explain")
    vias = [choice["via"] for choice in error["details"]["choices"]]
    answer = ktx("sl", "explain", *words)
    assert answer.code == 1
    assert answer.out.splitlines()[0] == "choice\tmeans"
    assert [line.split("\t")[0] for line in answer.out.splitlines()[1:]] == vias
    assert all(rows(ktx, *words, "--via", f"regions={via}") for via in vias)


def test_a_hint_of_a_policy_works(ktx: Run, layer: Path) -> None:
    hint = refused(ktx, "-m", "partners.partner_count")["hint"]
    assert rows(ktx, "-m", "partners.partner_count", *hint.split()[3:][:1], "region=EU") == [[2]]


def test_the_streams_of_the_installed_program(installed: Run, layer: Path) -> None:
    answer = installed("sl", "query", *REVENUE, "-d", "shipping.title", "--format", "csv")
    assert (answer.code, answer.out) == (0, "title,revenue\nNorth,15.0\nSouth,27.0\n")
    assert answer.err.startswith("fact sales, 4 rows: SUM(amount)\n")
    answer = installed("sl", "query", "-m", "sales.revenu")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == "error: there is no measure `sales.revenu`\nhint: did you mean `sales.revenue`?\n"


def test_every_option_of_a_question_is_read() -> None:
    values: dict[str, Any] = {name: default for name, (_, default) in OPTIONS.items()}
    with pytest.raises(UsageError):
        question_of(values)
    assert question_of({**values, "measure": ["a"], "dimension": ["b::date", "c:month"]}).query == {
        "measures": ["a"],
        "dimensions": ["b::date", {"field": "c", "granularity": "month"}],
    }


def test_a_filter_value_no_row_has_is_a_warning(ktx: Run, layer: Path) -> None:
    asked = ("sl", "query", *REVENUE, "--filter", "customers.country = 'no'")
    said = "no row matches `customers.country = 'no'`; did you mean 'NO'?"
    assert [each["message"] for each in ktx(*asked, "--json").envelope["warnings"]] == [said]
    printed = ktx(*asked)
    assert f"warning: {said}" in printed.err and printed.out == "revenue\nNULL\n"


def test_a_percentage_is_a_fraction_in_csv(ktx: Run, layer: Path) -> None:
    path = layer / "semantic-layer" / "warehouse" / "sales.yaml"
    share = "  - {name: share_above, expr: above / revenue, format: percent}\n"
    path.write_text(path.read_text().replace("parameters:", f"{share}parameters:"))
    asked = ("sl", "query", "-m", "sales.share_above")
    assert ktx(*asked).out == "share_above\n88.1%\n"
    assert ktx(*asked, "--format", "csv").out == "share_above\n0.881\n"
    assert rows(ktx, "-m", "sales.share_above") == [[pytest.approx(37 / 42, abs=1e-15)]]


def test_the_receipt_names_the_pages_about_a_measure(ktx: Run, layer: Path) -> None:
    (layer / "wiki" / "global").mkdir(parents=True)
    (layer / "wiki/global/turnover.md").write_text("---\nsl_refs: [sales.revenue]\n---\n\nWhat it is.\n")
    assert ktx("sl", "query", *REVENUE, "--json").data["receipt"]["explained_by"] == []  # nothing is read for it
    assert ktx("index").code == 0
    assert ktx("sl", "query", *REVENUE, "--json").data["receipt"]["explained_by"] == ["turnover"]
    assert "explained by: wiki page turnover" in ktx("sl", "query", *REVENUE).err
    assert ktx("sl", "query", "-m", "sum(sales.amount)", "--json").data["receipt"]["explained_by"] == []
    (layer / "wiki/global/turnover.md").unlink()
    assert ktx("sl", "query", *REVENUE, "--json").data["receipt"]["explained_by"] == []


def test_an_answer_below_the_status_that_is_asked_for_is_refused(ktx: Run, layer: Path) -> None:
    asked = ("sl", "query", *REVENUE)
    path = layer / "semantic-layer/warehouse/sales.yaml"
    path.write_text(path.read_text().replace("expr: sum(amount)}", "expr: sum(amount), description: All sales.}"))
    git(layer, "init", "-q")
    git(layer, "add", "-A")
    git(layer, "commit", "-q", "-m", "by hand")
    status = ktx(*asked, "--json").data["receipt"]["status"]
    why = "`ktx index` has not read its history yet"
    first = {"definition": "sales.revenue", "kind": "measure", "status": "proposed", "why": why}
    assert status == {"weakest": "proposed", "because": [first]}
    refused = ktx(*asked, "--min-status", "accepted", "--json")
    assert (refused.code, refused.envelope["error"]["code"]) == (1, "status")
    lower = "or lower the requirement with `{}`"
    unread = f"commit its file if it has changes, then run ktx index; {lower.format('--min-status proposed')}"
    assert refused.envelope["error"]["hint"] == unread
    assert ktx("index").code == 0
    assert ktx(*asked, "--min-status", "accepted").code == 0
    assert "status: accepted\n  measure sales.revenue: " in ktx(*asked, "--receipt").err
    with (layer / "ktx.yaml").open("a") as stream:
        stream.write("semantic: {min_status: certified}\n")
    refused = ktx(*asked, "--json")
    assert refused.envelope["error"]["code"] == "status"
    certify = "an owner listed in owners.yaml can certify it: ktx sl accept sales.revenue --certify"
    by_setting = lower.format("ktx config set semantic.min_status accepted")
    assert refused.envelope["error"]["hint"] == f"{certify}; {by_setting}"
    assert ktx("sl", "explain", *REVENUE, "--json").envelope["error"]["code"] == "status"
    assert ktx(*asked, "--min-status", "proposed").code == 0


def test_a_column_of_another_type_makes_a_measure_proposed(ktx: Run, ingested: Path) -> None:
    path = ingested / "semantic-layer/warehouse/customers.yaml"
    path.write_text("name: customers\nmeasures: [{name: countries, expr: count(distinct country)}]\n")
    git(ingested, "add", "-A")
    git(ingested, "commit", "-q", "-m", "by hand")
    asked = ("sl", "query", "-m", "customers.countries", "--json")
    ktx("index")
    assert ktx(*asked).data["receipt"]["status"]["weakest"] == "accepted"
    with sqlite3.connect(ingested / "shop.sqlite") as database:
        database.executescript("ALTER TABLE customers RENAME COLUMN country TO old;")
        database.executescript("ALTER TABLE customers ADD COLUMN country INTEGER; UPDATE customers SET country = id;")
    assert ktx("ingest").code in (0, 7)
    (told,) = ktx(*asked).data["receipt"]["status"]["because"]
    assert told["why"] == "customers.country changed from TEXT to INTEGER after it was accepted"


def test_a_sum_of_text_is_named(ktx: Run, layer: Path) -> None:
    answer = ktx("sl", "query", "-m", "sum(customers.country)", "--json")
    (warning,) = answer.envelope["warnings"]
    assert (answer.data["rows"], warning["code"]) == ([[0.0]], "text_sum")
    assert warning["message"] == "`customers.country` is a string, so its sum may count text as 0"
    assert "CAST(customers.country AS decimal(18, 2))" in warning["hint"]
    assert ktx("sl", "query", "-m", "sum(sales.amount)", "--json").envelope["warnings"] == []


def test_a_database_that_cannot_sum_text_says_so_in_words(ktx: Run, layer: Path) -> None:
    with duckdb.connect(str(layer / "w.duckdb")) as database:
        database.execute("CREATE TABLE buyers AS SELECT 1 AS id, 'NO' AS country")
    (layer / "ktx.yaml").write_text("connections:\n  warehouse:\n    driver: duckdb\n    path: w.duckdb\n")
    error = refused(ktx, "-m", "avg(customers.country)")
    message = "connection `warehouse` cannot compute the avg of `customers.country`, which is a string"
    assert (error["message"], error["exit"]) == (message, 1)


def test_an_open_parenthesis_is_named(ktx: Run, layer: Path) -> None:
    assert refused(ktx, "-m", "sum(sales.amount")["hint"] == "add 1 closing parenthesis"


DAMAGED = ("-m", "sum(sales.amount) as total", "--filter", "sales.ship_to = 's'")


def _files(folder: Path) -> dict[str, bytes]:
    found = (path for name in ("semantic-layer", "evals") for path in (folder / name).rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_a_single_expression_is_saved_as_a_measure(ktx: Run, layer: Path) -> None:
    before = _files(layer)
    answer = ktx("sl", "query", *DAMAGED, "--save", "south")
    assert (answer.code, answer.out) == (0, "total\n27.0\n")
    path = "semantic-layer/warehouse/sales.yaml"
    assert f"saved as the measure `sales.south` in {path}\n" in answer.err
    assert "next: ktx sl query -m sales.south\n" in answer.err
    after = _files(layer)
    assert {name for name in after if after[name] != before.get(name)} == {path}
    added = "  - name: south\n    expr: sum(sales.amount)\n    filter: sales.ship_to = 's'\n"
    assert after[path].decode() == SALES.replace("parameters:", f"{added}parameters:")
    assert rows(ktx, "-m", "sales.south") == [[27.0]]
    assert ktx("sl", "validate", "--no-data", "--strict").code == 0


def test_a_description_is_saved_too(ktx: Run, layer: Path) -> None:
    meaning = ("--description", "What was sold to the south.")
    assert ktx("sl", "query", *DAMAGED, "--save", "south", *meaning).code == 0
    entry = yaml.load((layer / "semantic-layer/warehouse/sales.yaml").read_bytes(), where="sales.yaml")["measures"][-1]
    assert (entry["name"], entry["description"]) == ("south", meaning[1])
    assert "KTX103" not in ktx("lint", "--select", "KTX103").out or "sales.south" not in ktx("lint", "--verbose").out
    assert ktx("sl", "query", *REVENUE, "-d", "customers.country", "--save", "by_country", *meaning).code == 0
    case = yaml.load((layer / "evals/by_country.yaml").read_bytes(), where="by_country.yaml")["cases"][0]
    assert (case["question"], ktx("eval", "by_country").code) == (meaning[1], 0)
    assert refused(ktx, *REVENUE, *meaning)["hint"] == "--save NAME --description TEXT"


@pytest.mark.table(
    ("words", "entry"),
    [
        (["-m", "count(Sales) * 2"], {"expr": "count(*) * 2"}),
        (["-m", "max(amount)", "--filter", "customers.country = 'SE'"],
         {"expr": "max(amount)", "filter": "customers.country = 'SE'"}),
        (["-m", "max(amount)", "--filter", "country = 'SE'", "--filter", "amount > 5 or amount < 1"],
         {"expr": "max(amount)", "filter": "(customers.country = 'SE') AND (amount > 5 or amount < 1)"}),
        (["-m", "sales.revenue", "--filter", "shipping.title = 'South'"],
         {"expr": "revenue", "filter": "shipping.title = 'South'"}),
        (["-m", "sales.revenue / count(sales)"], {"expr": "revenue / count(*)"}),
        (["-m", "min(amount)", "--segment", "sales.big"], {"expr": "min(amount)", "segments": ["big"]}),
        (["-m", "revenue", "--segment", "big"], {"expr": "revenue", "segments": ["big"]}),
    ],
)  # fmt: skip
def test_what_a_saved_measure_says(ktx: Run, layer: Path, words: list[str], entry: dict[str, Any]) -> None:
    file = layer / "semantic-layer" / "warehouse" / "sales.yaml"
    before = file.read_text()
    try:
        answer = ktx("sl", "query", *words, "--save", "saved", "--json")
        assert answer.code == 0, answer
        assert answer.data["saved"] == {
            "kind": "measure", "name": "sales.saved", "path": "semantic-layer/warehouse/sales.yaml", "why": None,
        }  # fmt: skip
        assert yaml.load(file.read_bytes(), where="sales.yaml")["measures"][-1] == {"name": "saved", **entry}
        assert rows(ktx, "-m", "sales.saved") == answer.data["rows"]
    finally:
        file.write_text(before)


@pytest.mark.table(
    ("words", "why"),
    [
        (["-m", "revenue", "-d", "shipping.title"], "it has dimensions"),
        (["-m", "revenue"], "`sales.revenue` is already a measure"),
        (["-m", "sum(amount)"], "measures `revenue` and `saved` of `sales` have the same definition"),
        (["-m", "max(amount)", "-m", "min(amount)"], "it has 2 measures"),
        (["-d", "shipping.title"], "it has no measures"),
        (["-m", "max(amount)", "--from", "2024-01-01"], "it has a period"),
        (["-m", "max(amount)", "--filter", "max(amount) > 1"], "it filters on aggregated results"),
        (
            ["-m", "max(amount)", "--having", "max(amount) > 1", "--totals"],
            "it has a filter on aggregated results, totals",
        ),
        (["-m", "sum(amount) / count(regions)"], "it aggregates rows of several sources: regions, sales"),
        (["-m", "count(partners)", "--user-attribute", "region=EU", "--save-as", "question"], None),
        (["-m", "revenue", "-d", "shipping.title", "--limit", "1", "--order-by", "2:desc"], "it has dimensions"),
        (["-m", "sales.above", "--parameter", "least=10"], "it has parameters"),
        (["-m", "revenue", "-d", "sales.sold_at:year", "--compare", "1 year", "--from", "2024-01-01"],
         "it has dimensions, a period, a comparison"),
    ],
)  # fmt: skip
def test_any_other_query_is_saved_as_a_golden_question(
    ktx: Run, layer: Path, words: list[str], why: str | None
) -> None:
    before = _files(layer)
    try:
        answer = ktx("sl", "query", *words, "--save", "saved", "--json")
        assert answer.code == 0, answer
        assert answer.data["saved"] == {"kind": "question", "name": "saved", "path": "evals/saved.yaml", "why": why}
        assert {name for name, text in _files(layer).items() if text != before.get(name)} == {"evals/saved.yaml"}
        asked = ktx("eval", "saved", "--json")
        (case,) = asked.data["cases"]
        assert (asked.code, case["status"], case["kind"]) == (0, "pass", "compare"), case
        assert case["answer"]["rows"] == answer.data["rows"]
    finally:
        (layer / "evals" / "saved.yaml").unlink(missing_ok=True)


def test_a_moving_period_is_saved_without_sql(ktx: Run, layer: Path) -> None:
    answer = ktx("sl", "query", "-m", "sales.revenue", "--last", "1000 years", "--save", "recent")
    assert "in evals/recent.yaml, without SQL to compare with, because its period changes every day" in answer.err
    (case,) = yaml.load((layer / "evals" / "recent.yaml").read_bytes(), where="recent.yaml")["cases"]
    assert case == {"id": "recent", "query": {"measures": ["sales.revenue"], "time_range": {"last": "1000 years"}}}


@pytest.mark.table(
    ("words", "message", "hint"),
    [
        ([*DAMAGED, "--save", "revenue"], "`sales` already has a measure `revenue`", "another name"),
        ([*DAMAGED, "--save", "BIG"], "`sales` already has a segment `big`", "another name"),
        ([*DAMAGED, "--save", "amount"], "`sales` already has a column `amount`", "another name"),
        ([*DAMAGED, "--save", "net-south"], "`net-south` cannot be a measure name", "--save net_south"),
        ([*DAMAGED, "--save", "a/../b", "--save-as", "question"], "cannot be the name of a golden question", "letters"),
        ([*DAMAGED, "--save", "taken", "--save-as", "question"], "already exists: evals/known.yaml:2", "another name"),
        ([*DAMAGED, "--save", "known", "--save-as", "question"], "already exists: evals/known.yaml:2", "another name"),
        ([*DAMAGED, "-d", "country", "--save", "a", "--save-as", "measure"], "it has dimensions", "omit --save-as"),
        (["-m", "sum(amount)", "--save", "a", "--save-as", "measure"], "have the same definition", "omit --save-as"),
        ([*DAMAGED, "--save", "a", "--no-execute"], "--save requires a result", "omit --no-execute"),
        ([*DAMAGED, "--save-as", "measure"], "--save-as requires --save", "--save NAME --save-as measure"),
        (["-m", "sum(nothing)", "--save", "a"], "there is no column `nothing`", ""),
    ],
)  # fmt: skip
def test_what_is_not_saved(ktx: Run, layer: Path, words: list[str], message: str, hint: str) -> None:
    (layer / "evals").mkdir(exist_ok=True)
    (layer / "evals" / "known.yaml").write_text("cases:\n  - {id: taken, sql: SELECT 1}\n")
    before = _files(layer)
    error = refused(ktx, *words)
    assert message in error["message"]
    assert hint in (error["hint"] or "")
    assert _files(layer) == before


def test_an_answer_that_fails_is_not_saved(ktx: Run, layer: Path) -> None:
    with sqlite3.connect(layer / "shop.sqlite") as database:
        database.execute("DROP TABLE sales")
    database.close()
    before = _files(layer)
    assert ktx("sl", "query", *DAMAGED, "--save", "south").code != 0
    assert _files(layer) == before


def test_a_file_that_changed_meanwhile_is_left_alone(ktx: Run, layer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = layer / "semantic-layer" / "warehouse" / "sales.yaml"
    ask = question.ask_layer

    def asked(*args: Any, **kwargs: Any) -> Any:
        file.write_text(f"{SALES}# mine\n")
        return ask(*args, **kwargs)

    monkeypatch.setattr(question, "ask_layer", asked)
    error = refused(ktx, *DAMAGED, "--save", "south")
    assert "sales.yaml was changed while the query ran" in error["message"]
    assert file.read_text() == f"{SALES}# mine\n"
