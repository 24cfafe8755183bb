"""Numbers of answers on real engines: printed by the scale their columns have in the last scan, and without one."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ktx_cli.cli.blocks import RowFormat, as_lines, as_table
from ktx_cli.jobs.check.eval.run import EvalRequest, run_evals
from ktx_cli.jobs.semantic.question import LayerAnswer, Question, ask_layer
from ktx_cli.jobs.semantic.sql import run_sql
from ktx_cli.project.config.file import load_config
from ktx_cli.project.layout import Layout
from ktx_cli.scan.snapshot import table_file
from ktx_cli.warehouses.registry import open_connection

ENGINES = ("sqlite", "duckdb", "postgres", "mysql")
TABLE = (
    "CREATE TABLE {place} (id INTEGER, amount NUMERIC(10,2), rate {double}, units INTEGER)",
    "INSERT INTO {place} VALUES (1, 0.99, 0.1, 2), (2, 1.98, 0.2, 3), (3, 520.09, 0.3, 5), (4, 5, NULL, NULL)",
)
MEASURES: list[dict[str, Any]] = [
    {"name": "revenue", "expr": "sum(amount)"},
    {"name": "mean", "expr": "avg(amount)"},
    {"name": "rates", "expr": "sum(rate)"},
    {"name": "sold", "expr": "sum(units)"},
    {"name": "small", "expr": "count(*)", "filter": "amount < 1"},
    {"name": "rows_counted", "expr": "count(*)"},
    {"name": "small_share", "expr": "small / rows_counted", "format": "percent"},
    {"name": "each", "expr": "revenue / rows_counted", "format": "currency", "unit": "EUR"},
]


@pytest.fixture(scope="module", params=ENGINES)
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project on each engine, with the snapshot of a scan."""
    engine = request.param
    folder = tmp_path_factory.mktemp("numbers")
    place = {"postgres": "public.sales", "duckdb": "main.sales"}.get(engine, "sales")
    statements = [each.format(place=place, double="DOUBLE PRECISION") for each in TABLE]
    options: dict[str, Any] = {"driver": engine}
    if engine == "sqlite":
        options["path"] = "numbers.sqlite"
        with sqlite3.connect(folder / "numbers.sqlite") as session:
            session.executescript(";\n".join(statements))
        session.close()
    elif engine == "duckdb":
        options["path"] = "numbers.duckdb"
        with duckdb.connect(str(folder / "numbers.duckdb")) as session:
            for statement in statements:
                session.execute(statement)
    else:
        server = request.getfixturevalue("postgres_server" if engine == "postgres" else "mariadb_server")
        options["url"] = server.create_database("numbers_of_answers", *statements)
    (folder / "ktx.yaml").write_text(json.dumps({"connections": {"shop": options}}))
    layout = Layout(folder)
    connector, scope = open_connection(load_config(layout.config).config, "shop", project_dir=folder, environ={})
    with connector:
        (table,) = connector.introspect(scope).tables
    written = table_file(table)
    target = folder / layout.raw_path("shop", "live-database", written.path)
    target.parent.mkdir(parents=True)
    target.write_bytes(written.content)
    columns = [{"name": name, "type": "number"} for name in ("id", "amount", "rate", "units")]
    named = ".".join(filter(None, (table.ref.schema, table.ref.name)))
    source = {"name": "sales", "table": named, "grain": ["id"], "columns": columns, "measures": MEASURES}
    (folder / "semantic-layer" / "shop").mkdir(parents=True)
    (folder / "semantic-layer" / "shop" / "sales.yaml").write_text(json.dumps(source))
    yield folder


def asked(folder: Path, query: dict[str, Any]) -> LayerAnswer:
    layout = Layout(folder)
    config = load_config(layout.config).config
    return ask_layer(layout, config, Question(query), environ={}, formats=True)


def printed(told: LayerAnswer) -> list[str]:
    return list(as_table(told.columns, told.rows, told.formats).rows[0])


ALL = {"measures": [f"sales.{each['name']}" for each in MEASURES]}
TEXTS = ["528.06", "132.0150", "0.6", "10", "1", "4", "25.0%", "132.02"]


def test_numbers_have_the_scale_of_their_columns_on_every_engine(project: Path) -> None:
    """CSV has the same digits, and shares as fractions."""
    told = asked(project, ALL)
    assert printed(told) == TEXTS
    assert as_table(told.columns, told.rows, told.formats).numeric == frozenset(range(len(TEXTS)))
    line = as_lines(RowFormat.CSV, told.columns, told.rows, told.formats).splitlines()[1]
    assert line == "528.06,132.0150,0.6,10,1,4,0.250,132.02"


def test_dimensions_too(project: Path) -> None:
    told = asked(project, {"measures": [], "dimensions": ["sales.amount"], "order_by": ["sales.amount"]})
    table = as_table(told.columns, told.rows, told.formats)
    assert [row[0] for row in table.rows] == ["0.99", "1.98", "5.00", "520.09"]


def test_a_project_without_a_snapshot_has_no_float_noise_either(project: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(project, bare)
    shutil.rmtree(bare / "raw-sources")
    told = asked(bare, ALL)
    assert printed(told)[0] == "528.06" and float(printed(told)[1]) == pytest.approx(132.015, abs=5e-5)
    assert all(len(text) < 10 for text in printed(told))


@pytest.mark.parametrize("project", ["sqlite"], indirect=True)
def test_a_damaged_snapshot_costs_the_scale_alone(project: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(project, broken)
    for path in broken.glob("raw-sources/**/*.json"):
        path.write_text("{")
    assert printed(asked(broken, ALL))[0] == "528.06"


def test_sql_has_no_float_noise(project: Path) -> None:
    layout = Layout(project)
    config = load_config(layout.config).config
    sql = "SELECT sum(rate) AS rates, sum(amount) AS revenue, count(*) AS n FROM sales"
    answer = run_sql(layout, config, sql, environ={}, formats=True)
    (row,) = as_table(answer.columns, answer.rows, answer.formats).rows
    assert row == ("0.6", "528.06", "4")
    assert as_lines(RowFormat.TSV, answer.columns, answer.rows, answer.formats).splitlines()[1] == "0.6\t528.06\t4"
    exact = as_lines(RowFormat.JSONL, answer.columns, answer.rows, answer.formats)
    assert json.loads(exact)["rates"] == pytest.approx(0.6, abs=1e-12)


def test_an_accepted_answer_is_the_expected_one_the_next_time(project: Path) -> None:
    layout = Layout(project)
    cases = [
        {"id": "rates", "query": {"measures": ["sales.rates"]}},
        {"id": "all", "query": ALL},
        {"id": "sql", "sql": "SELECT sum(rate) AS a, avg(amount) AS b FROM sales"},
    ]
    layout.evals.mkdir()
    (layout.evals / "numbers.yaml").write_text(json.dumps({"cases": cases}))

    def run(accept: bool) -> list[str]:
        config = load_config(layout.config).config
        report = run_evals(EvalRequest(layout, config, {}, accept=accept, save=False))
        return [each.status for each in report.results]

    try:
        assert run(accept=True) == ["new"] * 3
        assert run(accept=False) == ["pass"] * 3
        text = (layout.evals / "numbers.yaml").read_text()
        assert "0.6" in text and "0000000" not in text.replace("132.0150000000000000", "")
    finally:
        shutil.rmtree(layout.evals)
