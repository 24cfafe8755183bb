"""Checks of a change on its database: each way it can be wrong, what is not checked, and what is asked only once."""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.diagnostics import Diagnostic, Severity
from ktx_cli.core.errors import SourceError
from ktx_cli.project.config.file import load_config
from ktx_cli.project.config.model import KtxConfig
from ktx_cli.project.layout import Layout
from ktx_cli.semantic.change_checks import ChangeChecks
from ktx_cli.semantic.guarded import load_layer
from ktx_cli.semantic.model import Measure, Model, Visibility
from ktx_cli.warehouses.port import Connector, ForwardingConnector
from ktx_cli.warehouses.registry import open_connection
from tests.semantic.golden.engines import opened
from tests.semantic.golden.world import SCHEMA, shop_model

BASE = """\
name: orders
table: {schema}orders
grain: [id]
columns:
  - {{name: id, type: number}}
  - {{name: customer_id, type: number}}
  - {{name: ordered_at, type: time}}
  - {{name: amount, type: number}}
  - {{name: details, type: string}}
default_time_dimension: ordered_at
"""
CUSTOMERS = """\
name: customers
table: {schema}customers
grain: [id]
columns:
  - {{name: id, type: number}}
  - {{name: region, type: string}}
policies:
  - {{name: own, filter: "region = {{{{ user.region }}}}"}}
"""
SCRIPT = """
CREATE TABLE orders (id INTEGER, customer_id INTEGER, ordered_at TIMESTAMP, amount DOUBLE, details VARCHAR);
CREATE TABLE customers (id INTEGER, region VARCHAR);
"""
ROWS = [f"INSERT INTO orders VALUES ({n}, {n % 10}, '2026-01-{n % 28 + 1:02}', {n}, '{{}}')" for n in range(100, 140)]
ROWS += [f"INSERT INTO customers VALUES ({n}, 'EU')" for n in range(9)]
JOIN = "joins: [{{to: customers, on: {own} = customers.{other}, relationship: {relationship}}}]\n"


class Company:
    """A project over one database, and its layer before and after a change."""

    def __init__(self, folder: Path, driver: str) -> None:
        self.layout = Layout(folder)
        self.opened = 0
        self.schema = "main." if driver == "duckdb" else ""
        (folder / "ktx.yaml").write_text(f"connections:\n  shop:\n    driver: {driver}\n    path: shop.db\n")
        self.config = load_config(self.layout.config).config
        self.write("customers", CUSTOMERS.format(schema=self.schema))
        self.checks = ChangeChecks(self.layout, self.config, {}, opener=self.open)

    def open(self, *arguments: Any, **options: Any) -> Any:
        self.opened += 1
        return open_connection(*arguments, **options)

    def write(self, name: str, text: str) -> None:
        path = self.layout.root / f"semantic-layer/shop/{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def model(self, orders: str = "") -> Model:
        base = BASE.format(schema=self.schema)
        if orders.startswith("grain"):
            base = base.replace("grain: [id]\n", "")
        if orders.startswith("columns: ["):
            base, orders = base + "COLUMNS", orders.removeprefix("columns: [").removesuffix("]\n")
            base, orders = base.replace("default_time", f"  - {orders}\ndefault_time").replace("COLUMNS", ""), ""
        self.write("orders", base + orders)
        found = load_layer(self.layout, self.config, "shop")
        assert not [each for each in found.problems if each.severity == "error"], found.problems
        return found

    def change(self, before: str, after: str) -> list[Diagnostic]:
        return self.checks(self.model(before), self.model(after))


@pytest.fixture
def company(tmp_path: Path) -> Callable[..., Company]:
    """Return a maker of projects over a database of a driver, with 40 orders of 10 customers, of whom 9 are there."""

    @functools.cache
    def make(driver: str = "sqlite") -> Company:
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        if driver == "duckdb":
            import duckdb

            with duckdb.connect(str(folder / "shop.db")) as connection:
                connection.execute(";".join([SCRIPT, *ROWS]))
        else:
            with sqlite3.connect(folder / "shop.db") as database:
                database.executescript(";".join([SCRIPT, *ROWS]))
        return Company(folder, driver)

    return make


def join(own: str, relationship: str = "many_to_one") -> str:
    return f"joins: [{{to: customers, on: {own} = customers.id, relationship: {relationship}}}]\n"


def measure(expr: str, more: str = "") -> str:
    return f'measures: [{{name: figure, expr: "{expr}"{more}}}]\n'


@pytest.mark.table(
    ("driver", "change", "code", "words"),
    [
        (
            "duckdb",
            measure("sum(details)"),
            "not_executable",
            "measure `figure` of `orders`: Binder Error: No function",
        ),
        ("duckdb", measure("sum(amount)"), None, ""),
        ("duckdb", measure("sum(details)", ", cumulative: {window: 28 days}"), "not_executable", "Binder Error"),
        ("duckdb", measure("sum(amount)", ", cumulative: {window: 28 days}"), None, ""),
        ("duckdb", measure("sum(amount)", ', filter: "details > ordered_at + 1"'), "not_executable", "`figure`"),
        ("duckdb", measure("sum(amount)", ", offset: 1 year"), None, ""),
        ("duckdb", "columns: [{name: x, type: number, expr: amount + details}]\n", "not_executable", "column `x`"),
        ("duckdb", "segments: [{name: big, expr: details + 3 > ordered_at}]\n", "not_executable", "segment `big`"),
        ("duckdb", "segments: [{name: big, expr: amount > 3}]\n", None, ""),
        ("sqlite", measure("sum(amount)"), None, ""),
        ("sqlite", measure("sum(substr(details))"), "not_executable", "wrong number of arguments"),
        ("sqlite", measure("sum(load_extension(details))"), "refused", "load_extension"),
        ("sqlite", "grain: [customer_id]\n", "grain_not_unique", "10 values occur more than once, in 40 rows"),
        (
            "sqlite",
            join("id"),
            "dangling",
            "40 of 40 rows of `orders` (100%) have a key that does not exist in `customers`",
        ),
        ("sqlite", join("customer_id", "one_to_one"), "cardinality", "10 values occur more than once, in 40 rows"),
        ("sqlite", join("customer_id"), "dangling", "4 of 40 rows"),
    ],
)
def test_a_change_that_the_database_speaks_against(
    company: Callable[..., Company], driver: str, change: str, code: str | None, words: str
) -> None:
    found = company(driver).change("", change)
    if code is None:
        assert found == []
        return
    (problem,) = [each for each in found if each.code == code]
    assert words in problem.message
    assert problem.path.endswith("orders.yaml")
    assert problem.hint


def test_a_join_is_an_error_where_nearly_no_key_is_found_and_else_a_warning(company: Callable[..., Company]) -> None:
    (wrong,) = company().change("", join("id"))
    assert (wrong.severity, str(wrong.location)) == ("error", "semantic-layer/shop/orders.yaml:11")
    assert "`id` and `customers.id` do not have the same values" in str(wrong.hint)
    (partly,) = company().change("", join("customer_id"))
    assert (partly.severity, partly.code) == ("warning", "dangling")


@pytest.mark.table(
    ("before", "after"),
    [
        (measure("sum(amount)"), measure("sum(amount)", ", unit: EUR, descriptions: {user: Gross.}")),
        (measure("sum(details)"), "# a comment\n" + measure("sum(details)")),
        (
            join("id"),
            "default_time_dimension_: x\n".replace("default_time_dimension_: x\n", "") + "# moved\n" + join("id"),
        ),
        ("grain: [customer_id]\n", "grain: [customer_id]\n" + "descriptions: {user: Orders.}\n"),
        (measure("sum(details)"), ""),
    ],
)
def test_what_a_change_leaves_as_it_was_is_not_asked_about(
    company: Callable[..., Company], before: str, after: str
) -> None:
    made = company()
    assert made.change(before, after) == []
    assert made.opened == 0


def test_a_measure_is_checked_again_where_what_it_reads_is_another(company: Callable[..., Company]) -> None:
    made = company("duckdb")
    base = made.model("segments: [{name: big, expr: amount > 3}]\n" + measure("sum(amount)", ", segments: [big]"))
    other = made.model("segments: [{name: big, expr: details + 3 > 1}]\n" + measure("sum(amount)", ", segments: [big]"))
    assert [(each.code, each.line) for each in made.checks(base, other)] == [
        ("not_executable", 11),
        ("not_executable", 12),
    ]


def test_nothing_is_asked_twice(company: Callable[..., Company]) -> None:
    made = company("duckdb")
    first = made.change("", join("id") + measure("sum(details)"))
    assert made.opened == 1
    assert [each.message for each in made.change("", "# another line\n" + join("id") + measure("sum(details)"))] == [
        each.message for each in first
    ]
    assert made.opened == 1
    made.change("", measure("sum(amount)"))
    assert made.opened == 2


def test_a_database_that_cannot_be_opened_is_a_warning(company: Callable[..., Company]) -> None:
    made = company()
    (made.layout.root / "shop.db").unlink()
    (warning,) = made.change("", join("id") + measure("sum(amount)"))
    assert (warning.severity, warning.code) == ("warning", "not_checked")
    assert "measure `figure` of `orders`, the join from `orders` to `customers`" in warning.message
    assert made.opened == 1


def test_what_takes_too_long_is_a_warning(company: Callable[..., Company]) -> None:
    made = company()
    made.checks = ChangeChecks(made.layout, made.config, {}, seconds=0, opener=made.open)
    (warning,) = made.change("", join("id") + measure("sum(amount)"))
    assert (warning.code, made.opened) == ("not_checked", 0)
    assert "seconds for these checks was reached" in warning.message


def test_a_statement_that_times_out_is_asked_again(company: Callable[..., Company]) -> None:
    made = company()

    def slow(*arguments: Any, **options: Any) -> Any:
        connector, spec = made.open(*arguments, **options)
        connector.query = lambda *given, **more: (_ for _ in ()).throw(SourceError("it took too long", code="timeout"))
        return connector, spec

    checks, made.checks = made.checks, ChangeChecks(made.layout, made.config, {}, opener=slow)
    for times in (1, 2):
        (warning,) = made.change("", measure("sum(amount)"))
        assert warning.message == "not checked on the database: measure `figure` of `orders`: it took too long"
        assert made.opened == times
    assert checks(made.model(), made.model(measure("sum(amount)"))) == []


def test_an_error_about_rows_does_not_say_what_is_in_them(company: Callable[..., Company]) -> None:
    made = company("duckdb")
    column = 'columns: [{name: key, type: number, expr: "cast(substr(details, 1, 1) as integer)"}]\n'
    base = made.model(column)
    source = base.sources["orders"]
    base = replace(base, sources={"orders": source})
    other = replace(base, sources={"orders": replace(source, grain=("key",))})
    (problem,) = made.checks(base, other)
    assert (problem.code, "{" in problem.message) == ("not_readable", False)
    assert "ConversionException" in problem.message


@pytest.mark.table(
    ("key", "more", "checked"),
    [
        ("customer_id", {}, True),
        ("customer_id", {"visibility": Visibility.INTERNAL}, True),
        ("customer_id", {"visibility": Visibility.HIDDEN}, False),
        ("customer_id", {"expr": "case when details = 'x' then 1 end"}, False),
    ],
)
def test_counts_tell_nothing_of_what_people_hide(
    company: Callable[..., Company], key: str, more: dict[str, Any], checked: bool
) -> None:
    made = company()
    base = made.model()
    orders = base.sources["orders"]
    columns = {**orders.columns, key: replace(orders.columns[key], **more)}
    before = replace(base, sources={**base.sources, "orders": replace(orders, columns=columns)})
    after = replace(base, sources={**base.sources, "orders": replace(orders, columns=columns, grain=(key,))})
    assert [each.code for each in made.checks(before, after)] == ["grain_not_unique" if checked else "not_checked"]


def test_a_constant_of_a_join_tells_nothing_of_what_people_hide(company: Callable[..., Company]) -> None:
    made = company()
    text = "joins: [{to: customers, on: id = customers.id AND customers.region = 'EU', relationship: many_to_one}]\n"
    (warning,) = made.change("", text)
    assert "this connection has hidden data" in warning.message


def test_a_source_of_its_own_is_run_before_anything_reads_it(company: Callable[..., Company]) -> None:
    made = company()
    base = made.model()
    made.write("big", "name: big\nsql: SELECT id, amont AS amount FROM orders\ngrain: [id]\ncolumns:\n"
               "  - {name: id, type: number}\n  - {name: amount, type: number}\n" + measure("sum(amount)"))  # fmt: skip
    (problem,) = made.checks(base, load_layer(made.layout, made.config, "shop"))
    assert (problem.code, problem.path) == ("not_readable", "semantic-layer/shop/big.yaml")
    assert "amont" in problem.message


def test_a_connection_that_is_no_database_of_the_project_is_not_asked(company: Callable[..., Company]) -> None:
    made = company()
    before, after = (replace(each, connection="former") for each in (made.model(), made.model(measure("sum(x)"))))
    assert made.checks(before, after) == []


class KeptOpen(ForwardingConnector):
    """A connection that stays open for the next check."""

    def close(self) -> None:
        pass


@pytest.fixture(scope="module", params=["duckdb", "sqlite", "postgres", "mysql"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Connector]]:
    """Yield a database with the shop of the golden files, and its name."""
    servers = {"postgres": "postgres_server", "mysql": "mariadb_server"}
    server = request.getfixturevalue(servers[request.param]) if request.param in servers else None
    with opened(request.param, tmp_path_factory.mktemp("checks"), server) as connector:
        yield request.param, KeptOpen(connector)


def checks_of(engine: tuple[str, Connector], folder: Path) -> ChangeChecks:
    name, connector = engine
    address = {"path": "x.db"} if name in ("duckdb", "sqlite") else {"url": f"{name}://localhost/x"}
    config = KtxConfig.model_validate({"connections": {SCHEMA: {"driver": name, **address}}})
    return ChangeChecks(Layout(folder), config, {}, seconds=60, opener=lambda *given, **more: (connector, None))  # type: ignore[arg-type]


def test_a_whole_layer_that_is_right_has_nothing_against_it(engine: tuple[str, Connector], tmp_path: Path) -> None:
    after = shop_model(engine[0])
    found = checks_of(engine, tmp_path)(replace(after, sources={}), after)
    assert [each for each in found if each.severity is Severity.ERROR or each.code == "not_checked"] == []


@pytest.mark.table(
    ("measure", "databases"),
    [
        (Measure("figure", "sum(status)"), {"duckdb", "postgres"}),
        (Measure("figure", "sum(amount)", filter="substr(status) = 'x'"), {"duckdb", "postgres", "sqlite", "mysql"}),
        (Measure("figure", "sum(amount)"), set()),
    ],
)
def test_what_each_database_refuses(
    engine: tuple[str, Connector], tmp_path: Path, measure: Measure, databases: set[str]
) -> None:
    base = shop_model(engine[0])
    orders = base.sources["orders"]
    changed = replace(orders, measures={**orders.measures, "figure": measure})
    found = checks_of(engine, tmp_path)(base, replace(base, sources={**base.sources, "orders": changed}))
    assert [each.code for each in found] == (["not_executable"] if engine[0] in databases else [])
