"""`ktx sl validate` and `ktx sl test` on the command line: what they print and how they end."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.engine.gates import MetricGate
from ktx_cli.project import Layout, load_config
from ktx_cli.semantic import load_layer
from ktx_cli.semantic import recorded_tests as results_of_tests

Run = Callable[..., Any]

ORDERS = """\
name: orders
table: orders
grain: [id]
columns:
  - {name: id, type: number}
  - {name: customer_id, type: number}
joins:
  - {to: customers, on: orders.customer_id = customers.id, relationship: many_to_one}
measures:
  - {name: order_count, expr: count(*)}
tests:
  - {name: total, query: {measures: [orders.order_count]}, expect_value: 3}
  - name: by_country
    query: {measures: [orders.order_count], dimensions: [customers.country]}
    expect: [[NO, 2], [SE, 1]]
  - {name: positive, query: {measures: [orders.order_count]}, invariant: order_count > 0}
"""
CUSTOMERS = """\
name: customers
table: customers
grain: [id]
columns:
  - {name: id, type: number}
  - {name: country, type: string}
"""
REGIONAL = """\
name: regional
table: customers
grain: [id]
columns: [{name: id, type: number}, {name: country, type: string}]
measures: [{name: people, expr: count(*)}]
policies: [{name: own, filter: "country = {{ user.country }}"}]
tests: [{name: mine, query: {measures: [regional.people]}, expect_value: 1}]
"""


@pytest.fixture
def layer(shop: Path) -> Path:
    """A project over the shop with three orders and tests that pass."""
    folder = shop.parent
    change(folder, "INSERT INTO orders VALUES (1, 1, NULL), (2, 1, NULL), (3, 2, NULL)")
    (folder / "ktx.yaml").write_text("connections:\n  warehouse:\n    driver: sqlite\n    path: shop.sqlite\n")
    (folder / "semantic-layer" / "warehouse").mkdir(parents=True)
    write(folder, "orders", ORDERS)
    write(folder, "customers", CUSTOMERS)
    return folder


COUNTED = "  - {name: id, type: number}\n  - {name: customer_id, type: number}\n"


def write(folder: Path, name: str, text: str) -> None:
    (folder / "semantic-layer" / "warehouse" / f"{name}.yaml").write_text(text)


def change(folder: Path, sql: str) -> None:
    with sqlite3.connect(folder / "shop.sqlite") as database:
        database.execute(sql)
    database.close()


LEAK = """\
name: leak
sql: select id, country as place from customers
grain: [id]
columns: [{name: id, type: number}, {name: place, type: string}]
measures: [{name: last, expr: max(place)}, {name: people, expr: count(*)}]
tests:
  - {name: value, query: {measures: [leak.last]}, expect_value: 1}
  - {name: group, query: {measures: [leak.people], dimensions: [leak.place]}, expect: [[x, 1]]}
  - {name: guess, query: {measures: [leak.people], filters: ["place = 'NO'"]}, expect_value: 1}
  - {name: break, query: {measures: [leak.last]}, invariant: last < 'A'}
"""


def test_a_test_shows_nothing_that_is_hidden_elsewhere(ktx: Run, layer: Path) -> None:
    write(layer, "leak", LEAK)
    shown = ktx("sl", "test", "leak", "--json")
    assert "NO" in shown.out and "SE" in shown.out, "it would show them"
    write(layer, "customers", CUSTOMERS.replace("type: string}", "type: string, visibility: hidden}"))
    answer = ktx("sl", "test", "leak", "--json")
    assert [(each["passed"], each["got"], each["error"]["code"]) for each in answer.data["tests"]] == [
        (False, None, "hidden")
    ] * 4
    layout = Layout(layer)
    config = load_config(layout.config).config
    after = load_layer(layout, config, "warehouse")
    before = replace(after, sources={name: each for name, each in after.sources.items() if name != "leak"})
    findings = MetricGate(layout, config, {}, warn=pytest.fail)(before, after)
    refused = [each.message for each in findings if "`leak`" in each.message]
    assert len(refused) == 4
    assert all("reads data that is hidden elsewhere" in each and "got" not in each for each in refused)


def test_a_valid_layer(ktx: Run, layer: Path) -> None:
    answer = ktx("sl", "validate", "--json")
    assert (answer.code, answer.envelope["schema"]) == (0, "ktx/sl-validate/v1")
    assert answer.data["counts"] == {"error": 0, "warning": 0, "info": 0}
    assert answer.data["checks"][-1] == {
        "connection": "warehouse",
        "check": "dangling",
        "source": "orders",
        "subject": "customers on orders.customer_id = customers.id",
        "status": "passed",
        "counts": {"rows": 3, "null_keys": 0, "dangling": 0},
        "reason": None,
    }
    assert ktx("sl", "validate").out.splitlines() == [
        "sources: 2",
        "data checks: 6 passed, 0 failed, 0 skipped",
        "diagnostics: none",
    ]


def test_errors_have_their_place_and_exit_1(ktx: Run, layer: Path) -> None:
    write(layer, "orders", ORDERS.replace("count(*)", "sum(amuont)"))
    answer = ktx("sl", "validate", "--no-data", "--json")
    assert (answer.code, answer.envelope["error"]["code"]) == (1, "semantic_problems")
    (problem,) = answer.data["problems"]
    assert (problem["path"], problem["line"], problem["severity"], problem["source"]) == (
        "semantic-layer/warehouse/orders.yaml",
        10,
        "error",
        "orders",
    )
    shown = ktx("sl", "validate", "--no-data")
    assert re.match(r"semantic-layer/warehouse/orders\.yaml:10: \w+ error: ", shown.out), shown
    assert "data checks" not in shown.out
    assert "error: the semantic layer has 1 error" in shown.err


@pytest.mark.table(
    ("measures", "problems"),
    [
        ("  - {name: id, expr: count(*)}\n", "1 warning, 1 info"),
        ("  - {name: id, expr: count(*)}\n  - {name: customer_id, expr: count(customer_id)}\n", "2 warnings, 1 info"),
    ],
)
def test_problems_are_counted_in_words(measures: str, problems: str, ktx: Run, layer: Path) -> None:
    write(layer, "orders", f"name: orders\ntable: orders\ngrain: [id]\nmeasures:\n{measures}columns:\n{COUNTED}")
    assert ktx("sl", "validate", "--no-data").out.splitlines()[-1] == f"diagnostics: {problems}"


def test_warnings_exit_1_only_where_it_is_strict(ktx: Run, layer: Path) -> None:
    change(layer, "INSERT INTO orders VALUES (4, 9, NULL)")
    answer = ktx("sl", "validate")
    assert answer.code == 0
    assert "1 of 4 rows of `orders` (25%) have a key that does not exist in `customers`" in answer.out
    assert ktx("sl", "validate", "--strict").code == 1
    assert ktx("sl", "validate", "customers", "--strict").code == 0


def test_a_database_that_cannot_be_reached(ktx: Run, layer: Path) -> None:
    (layer / "shop.sqlite").unlink()
    answer = ktx("sl", "validate", "--json")
    assert answer.code == 4
    assert answer.data["checks"] == []
    assert answer.envelope["error"]["hint"].endswith("--no-data")
    assert ktx("sl", "validate", "--no-data").code == 0
    write(layer, "orders", ORDERS.replace("count(*)", "sum(amuont)"))
    answer = ktx("sl", "validate", "--json")
    assert answer.code == 1
    assert answer.envelope["warnings"][0]["code"] == "not_checked"


def test_a_budget_that_is_used_up(ktx: Run, layer: Path) -> None:
    answer = ktx("sl", "validate", "--budget", "0", "--json")
    assert answer.envelope["warnings"][0]["code"] == "budget"
    assert {each["status"] for each in answer.data["checks"]} == {"skipped"}


@pytest.mark.parametrize("command", ["validate", "test"])
def test_a_source_that_is_not_there(ktx: Run, layer: Path, command: str) -> None:
    answer = ktx("sl", command, "ordres", "--json")
    assert (answer.code, answer.envelope["error"]["hint"]) == (2, "did you mean `orders`?")


def test_tests_that_pass(ktx: Run, layer: Path) -> None:
    answer = ktx("sl", "test", "--json")
    assert (answer.code, answer.envelope["schema"]) == (0, "ktx/sl-test/v1")
    assert (answer.data["passed"], answer.data["failed"]) == (3, 0)
    assert ktx("sl", "test").out.splitlines()[-1] == "tests: 3 passed, 0 failed"
    assert ktx("sl", "test", "customers").out == "tests: none\n"


def test_tests_that_fail_show_expected_and_got(ktx: Run, layer: Path) -> None:
    change(layer, "DELETE FROM orders WHERE id = 2")
    answer = ktx("sl", "test", "--json")
    assert (answer.code, answer.envelope["error"]["code"]) == (1, "tests_failed")
    assert answer.envelope["error"]["details"] == {"failed": ["orders.total", "orders.by_country"]}
    total, by_country, positive = answer.data["tests"]
    assert (total["expected"], total["got"], total["passed"]) == (3, 2, False)
    assert by_country["got"] == [["NO", 1], ["SE", 1]]
    assert positive["passed"]
    assert (total["path"], total["line"]) == ("semantic-layer/warehouse/orders.yaml", 12)
    out = ktx("sl", "test").out.splitlines()
    assert out[0] == "semantic-layer/warehouse/orders.yaml:12: test_failed error: orders.total: expected 3, got 2"
    assert "orders.positive" not in "".join(out)


def test_a_test_that_cannot_be_asked_says_why(ktx: Run, layer: Path) -> None:
    write(
        layer, "orders", ORDERS.replace("measures: [orders.order_count]}, expect", "measures: [orders.orders]}, expect")
    )
    answer = ktx("sl", "test")
    assert answer.code == 1
    assert "there is no measure `orders.orders`" in answer.out


def test_a_test_that_cannot_be_read_is_named(ktx: Run, layer: Path) -> None:
    write(layer, "orders", ORDERS.replace("expect_value: 3", "expct_value: 3"))
    answer = ktx("sl", "test")
    assert (answer.code, answer.out) == (0, "tests: 2 passed, 0 failed\n")
    (warning,) = [line for line in answer.err.splitlines() if line.startswith("warning: ")]
    assert "test `total` must have exactly one of" in warning
    assert warning.endswith("; tests with errors did not run")


def _kept(layer: Path) -> list[str]:
    found = results_of_tests(Layout(layer), "warehouse").get("orders.order_count", [])
    return [each.name for each in found if not each.passed]


def test_results_of_removed_tests_are_dropped_and_those_of_broken_files_kept(ktx: Run, layer: Path) -> None:
    assert ktx("index").code == 0
    change(layer, "DELETE FROM orders WHERE id = 2")
    assert ktx("sl", "test").code == 1
    assert _kept(layer) == ["orders.by_country", "orders.total"]
    write(layer, "orders", f"{ORDERS}unknown_key: [\n")
    write(layer, "other", CUSTOMERS.replace("name: customers", "name: other"))
    assert ktx("sl", "test", "customers").code == 0
    assert _kept(layer) == ["orders.by_country", "orders.total"]
    write(layer, "orders", ORDERS.replace("name: total", "name: all").replace("expect_value: 3", "expect_value: 2"))
    assert ktx("sl", "test", "customers").code == 0
    assert _kept(layer) == ["orders.by_country"]
    write(layer, "orders", ORDERS[: ORDERS.index("tests:")])
    assert ktx("sl", "test").out == "tests: none\n"
    assert _kept(layer) == []


def test_the_callers_attributes(ktx: Run, layer: Path) -> None:
    write(layer, "regional", REGIONAL)
    assert "needs the user attribute `country`" in ktx("sl", "test", "regional").out
    assert ktx("sl", "test", "regional", "--user-attribute", "country=NO").code == 0


def test_tests_on_a_database_that_cannot_be_reached(ktx: Run, layer: Path) -> None:
    (layer / "shop.sqlite").unlink()
    assert ktx("sl", "test").code == 4


def test_a_file_with_an_error_is_the_only_problem_of_the_joins_to_its_source(ktx: Run, layer: Path) -> None:
    write(layer, "customers", CUSTOMERS + "measures:\n  - name: people\n   expr: count(*)\n")
    found = ktx("sl", "validate", "--no-data", "--json").data["problems"]
    assert [(each["code"], each["path"]) for each in found if each["severity"] == "error"] == [
        ("broken_source", "semantic-layer/warehouse/customers.yaml")
    ]
    write(layer, "customers", CUSTOMERS)
    (layer / "semantic-layer" / "warehouse" / "customers.yaml").unlink()
    found = ktx("sl", "validate", "--no-data", "--json").data["problems"]
    assert [each["code"] for each in found if each["severity"] == "error"] == ["unknown_source"]


def test_an_unreadable_manifest_is_the_only_problem_of_what_refers_to_it(ktx: Run, layer: Path) -> None:
    (layer / "semantic-layer" / "warehouse" / "customers.yaml").unlink()
    shard = layer / "semantic-layer" / "warehouse" / "_schema" / "main" / "customers.yaml"
    shard.parent.mkdir(parents=True)
    shard.write_text("tables:\n  customers:\n    table: customers\n      columns: []\n")
    found = ktx("sl", "validate", "--no-data", "--json").data["problems"]
    assert [each["code"] for each in found] == ["broken_shard"]


def test_a_mask_applies_to_the_caller_of_a_question_and_not_to_sql(ktx: Run, layer: Path) -> None:
    overlay = CUSTOMERS.replace(
        "{name: country, type: string}", "{name: country, type: string, mask: {unless: {role: [a]}, value: x}}"
    )
    assert overlay != CUSTOMERS
    write(layer, "customers", overlay)
    asked = ("sl", "query", "-d", "customers.country", "--json")
    assert [row[0] for row in ktx(*asked).data["rows"]] == ["x"]
    real = [row[0] for row in ktx(*asked, "--user-attribute", "role=a").data["rows"]]
    assert "x" not in real and len(real) > 1
    assert ktx("sql", "SELECT DISTINCT country FROM customers ORDER BY country", "--json").data["rows"] == [
        [each] for each in sorted(real)
    ]
    (column,) = (each for each in ktx("sl", "read", "customers", "--json").data["columns"] if each.get("masked"))
    assert column["name"] == "country" and "masked" in ktx("sl", "read", "customers").out
