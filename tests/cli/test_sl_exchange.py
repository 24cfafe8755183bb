"""`ktx sl import` and `ktx sl export`: what is written, what is left alone, what is told."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

Run = Callable[..., Any]

MANIFEST: Final = """\
tables:
  customers:
    table: customers
    columns:
      - {name: id, type: number, pk: true, nullable: false}
      - {name: name, type: string}
      - {name: country, type: string}
  orders:
    table: orders
    columns:
      - {name: id, type: number, pk: true, nullable: false}
      - {name: customer_id, type: number}
      - {name: placed_on, type: time, natural_granularity: day}
    joins:
      - {to: customers, on: customer_id = customers.id, relationship: many_to_one, source: formal}
"""
DBT: Final = """\
semantic_models:
  - name: orders
    model: ref('orders')
    defaults: {agg_time_dimension: placed_on}
    entities:
      - {name: order, type: primary, expr: id}
      - {name: customer, type: foreign, expr: customer_id}
    dimensions:
      - {name: placed_on, type: time, type_params: {time_granularity: day}}
    measures:
      - {name: order_count, agg: count, expr: id}
  - name: customers
    model: ref('customers')
    entities: [{name: customer, type: primary, expr: id}]
    dimensions: [{name: country, type: categorical}]
metrics:
  - {name: orders_made, type: simple, type_params: {measure: order_count}}
  - {name: converted, type: conversion, type_params: {conversion_type_params: {}}}
"""
LOOKML: Final = """\
view: orders {
  sql_table_name: orders ;;
  dimension: id { primary_key: yes type: number sql: ${TABLE}.id ;; }
  dimension: customer_id { type: number sql: ${TABLE}.customer_id ;; }
  measure: orders_made { type: count drill_fields: [id] }
  measure: shown { type: list list_field: id }
}
"""
OSI: Final = """\
version: "0.1.1"
semantic_model:
  - name: shop
    datasets:
      - name: orders
        source: orders
        primary_key: [id]
        ai_context: {synonyms: [purchases]}
        fields:
          - {name: id, expression: {dialects: [{dialect: ANSI_SQL, expression: id}]}}
          - {name: odd, expression: {dialects: [{dialect: MDX, expression: "[x]"}]}}
    metrics:
      - name: orders_made
        expression: {dialects: [{dialect: ANSI_SQL, expression: COUNT(orders.id)}]}
"""
POWERBI: Final = """\
table Orders

\tmeasure orders_made = COUNTROWS(Orders)

\tmeasure Shown = SELECTEDVALUE(Orders[Order])

\tcolumn Order
\t\tdataType: int64
\t\tsourceColumn: id

\tpartition Orders = m
\t\tsource =
\t\t\t\tSql.Database("server", "shop"){[Schema="main",Item="orders"]}[Data]
"""
INPUTS: Final = {
    "dbt": ("models.yml", DBT),
    "lookml": ("orders.view.lkml", LOOKML),
    "powerbi": ("Orders.tmdl", POWERBI),
    "osi": ("shop.yaml", OSI),
}
LOST: Final = {
    "dbt": ("metric `converted`", 18),
    "lookml": ("measure `orders.shown`", 6),
    "powerbi": ("measure `Orders[Shown]`", 5),
    "osi": ("field `orders.odd`", 11),
}
LAYER: Final = "semantic-layer/wh"


@pytest.fixture
def folder(shop: Path) -> Path:
    """A project over the shop with a manifest, and a model in each format beside it."""
    work = shop.parent
    with closing(sqlite3.connect(shop)) as database, database:
        database.execute("INSERT INTO orders VALUES (1, 1, '2024-01-02'), (2, 1, '2024-02-03'), (3, NULL, NULL)")
    (work / "ktx.yaml").write_text("connections:\n  wh:\n    driver: sqlite\n    path: shop.sqlite\n")
    (work / LAYER / "_schema").mkdir(parents=True)
    (work / LAYER / "_schema" / "main.yaml").write_text(MANIFEST)
    for format, (name, text) in INPUTS.items():
        (work / format).mkdir()
        (work / format / name).write_text(text)
    return work


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


FORMATS = pytest.mark.parametrize("format", INPUTS)


@FORMATS
def test_a_dry_run_writes_nothing_and_tells_all(format: str, ktx: Run, folder: Path) -> None:
    before = files(folder)
    answer = ktx("sl", "import", format, format, "--dry-run", "--json")
    assert answer.code == 0, answer
    assert files(folder) == before
    assert (answer.data["written"], answer.data["unchanged"], answer.data["left_alone"]) == ([], [], [])
    assert f"{LAYER}/orders.yaml" in answer.data["files"]
    assert "orders.yaml" in ktx("sl", "import", format, format, "--dry-run").out
    assert files(folder) == before


@FORMATS
def test_the_report_has_a_place_and_a_reason_for_every_part(format: str, ktx: Run, folder: Path) -> None:
    answer = ktx("sl", "import", format, format, "--dry-run", "--json")
    assert answer.envelope["schema"] == "ktx/sl-import/v1"
    report = answer.data["report"]
    name, text = INPUTS[format]
    for item in report:
        assert set(item) == {"kind", "what", "why", "path", "line", "target"}
        assert item["path"] == name
        assert 1 <= item["line"] <= len(text.splitlines())
        assert (item["why"] == "") == (item["kind"] == "kept")
        assert (item["target"] is None) == (item["kind"] == "dropped")
    kinds = [item["kind"] for item in report]
    assert answer.data["counts"] == {kind: kinds.count(kind) for kind in ("kept", "approximated", "dropped")}
    assert LOST[format] in [(item["what"], item["line"]) for item in report if item["kind"] == "dropped"]


@FORMATS
def test_what_is_imported_is_valid_and_answers(format: str, ktx: Run, folder: Path) -> None:
    before = files(folder)
    answer = ktx("sl", "import", format, format, "--json")
    assert answer.code == 0, answer
    assert set(files(folder)) - set(before) == set(answer.data["written"]) == set(answer.data["files"])
    assert {name: text for name, text in files(folder).items() if name in before} == before
    assert ktx("sl", "validate", "--json").code == 0
    rows = ktx("sl", "query", "-m", "orders_made", "-d", "customers.country", "--no-include-empty", "--json").data[
        "rows"
    ]
    assert rows == [["NO", 2], [None, 1]]


@FORMATS
def test_a_second_import_changes_nothing_and_a_changed_input_replaces_it(format: str, ktx: Run, folder: Path) -> None:
    written = ktx("sl", "import", format, format, "--json").data["written"]
    before = files(folder)
    again = ktx("sl", "import", format, format, "--json").data
    assert (again["written"], again["unchanged"], files(folder)) == ([], written, before)
    path = folder / format / INPUTS[format][0]
    path.write_text(path.read_text().replace("orders_made", "purchases"))
    assert ktx("sl", "import", format, format, "--json").data["written"] == [f"{LAYER}/orders.yaml"]
    assert "purchases" in (folder / LAYER / "orders.yaml").read_text()


@FORMATS
@pytest.mark.parametrize("name", ["orders.yaml", "by hand.yml"])
def test_files_of_people_are_left_alone(format: str, name: str, ktx: Run, folder: Path) -> None:
    own = f"{LAYER}/{name}"
    (folder / own).write_text("name: orders  # mine\nmeasures: [{name: n, expr: count(*)}]\n")
    before = files(folder)
    answer = ktx("sl", "import", format, format, "--json")
    assert (answer.code, answer.data["left_alone"]) == (7, [own])
    error = answer.envelope["error"]
    assert (error["code"], own in error["message"]) == ("partial", True)
    assert "orders_made" in error["details"]["left_alone"][own]
    assert {each: text for each, text in files(folder).items() if each in before} == before
    assert set(files(folder)) - set(before) == set(answer.data["written"])


def test_an_import_whose_first_line_is_taken_out_is_a_file_of_people(ktx: Run, folder: Path) -> None:
    ktx("sl", "import", "dbt", "dbt")
    path = folder / LAYER / "orders.yaml"
    path.write_text(path.read_text().partition("\n")[2])
    before = files(folder)
    answer = ktx("sl", "import", "dbt", "dbt", "--json")
    assert (answer.code, answer.data["left_alone"]) == (7, [f"{LAYER}/orders.yaml"])
    assert files(folder) == before


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["import", "cube", "dbt"], "usage", "dbt, lookml, powerbi, osi"),
        (["export", "dbt"], "usage", "osi"),
        (["import", "dbt", "nowhere"], "usage", "nowhere"),
        (["import", "lookml", "dbt"], "usage", "(.lkml, .lookml)"),
        (["import", "dbt"], "usage", "PATH"),
        (["import", "dbt", "dbt", "-c", "other"], "usage", "other"),
        (["export", "osi", "-c", "other"], "usage", "other"),
    ],
)
def test_what_cannot_be_done_is_said_and_writes_nothing(
    words: list[str], code: str, said: str, ktx: Run, folder: Path
) -> None:
    before = files(folder)
    answer = ktx("sl", *words, "--json")
    error = answer.envelope["error"]
    assert (answer.code, error["code"], said in error["message"]) == (2, code, True), error
    assert error["hint"]
    assert files(folder) == before


@pytest.mark.parametrize(
    ("format", "broken"),
    [
        ("dbt", "semantic_models:\n  - name: [\n"),
        ("lookml", "view: orders {\n  dimension:\n"),
        ("powerbi", "table Orders\n\n\tmeasure X = ```\n"),
        ("osi", "semantic_model:\n  - name: [\n"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_its_line(format: str, broken: str, ktx: Run, folder: Path) -> None:
    name = INPUTS[format][0]
    (folder / format / name).write_text(broken)
    before = files(folder)
    (item,) = ktx("sl", "import", format, format, "--json").data["report"]
    assert (item["kind"], item["path"], item["line"]) == ("dropped", name, 3)
    assert files(folder) == before


def test_an_export_goes_to_stdout_or_a_file_and_tells_what_is_lost(ktx: Run, folder: Path) -> None:
    ktx("sl", "import", "dbt", "dbt")
    before = files(folder)
    printed = ktx("sl", "export", "osi")
    data = ktx("sl", "export", "osi", "--json").data
    assert printed.out == data["text"]
    assert files(folder) == before
    assert ktx("sl", "export", "osi", "--output", "model.osi.yaml").code == 0
    assert files(folder) == {**before, "model.osi.yaml": printed.out.encode()}
    kinds = [item["kind"] for item in data["report"]]
    assert data["counts"] == {kind: kinds.count(kind) for kind in ("kept", "approximated", "dropped")}
    lost = data["counts"]["approximated"] + data["counts"]["dropped"]
    assert ("warning: " in printed.err) == bool(lost)


def test_a_layer_comes_back_from_its_export(ktx: Run, folder: Path) -> None:
    """Exported, taken away with its manifest, imported: it is valid, answers alike and exports the same."""
    ktx("sl", "import", "dbt", "dbt")
    question = ("-m", "orders_made", "-d", "customers.country", "-d", "orders.placed_on:month", "--json")
    before = ktx("sl", "query", *question).data
    ktx("sl", "export", "osi", "-o", "model.yaml")
    for path in (folder / LAYER).rglob("*.yaml"):
        path.unlink()
    answer = ktx("sl", "import", "osi", "model.yaml", "--json")
    assert (answer.code, answer.data["counts"]["dropped"]) == (0, 0), answer
    assert ktx("sl", "validate", "--json").code == 0
    after = ktx("sl", "query", *question).data
    assert (after["columns"], after["rows"]) == (before["columns"], before["rows"])
    assert ktx("sl", "export", "osi").out == (folder / "model.yaml").read_text()
