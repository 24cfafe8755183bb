"""Power BI models as files of ktx: tables and their columns, relationships, and reports with places."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest

from ktx_cli.core import yaml
from ktx_cli.core.errors import ConfigError
from ktx_cli.semantic.interchange.lookml.views import UNKNOWN_TABLE
from ktx_cli.semantic.interchange.powerbi import template
from ktx_cli.semantic.interchange.powerbi.importer import import_powerbi
from ktx_cli.semantic.interchange.powerbi.model import model_files
from ktx_cli.semantic.interchange.powerbi.template import INNER, model_in, template_schema
from ktx_cli.semantic.interchange.report import Imported, Kind
from ktx_cli.semantic.model import Model
from tests.semantic.interchange.conftest import Answers, Load, errors
from tests.semantic.interchange.powerbi.market import tmdl


def m(table: str, *steps: str) -> str:
    """Return the query of a table in the database of the company."""
    lines = ['S0 = Sql.Database("s", "d")', f'S1 = S0{{[Schema="main",Item="{table}"]}}[Data]', *steps]
    return f"let {', '.join(lines)} in {lines[-1].split(' = ')[0]}"


def column(name: str, source: str, kind: str = "string", **more: Any) -> dict[str, Any]:
    return {"name": name, "dataType": kind, "sourceColumn": source, **more}


def table(name: str, query: Any, columns: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    source = query if isinstance(query, dict) else {"type": "m", "expression": query}
    return {"name": name, "columns": columns, "partitions": [{"name": name, "source": source}], **more}


def bim(*tables: dict[str, Any], **more: Any) -> str:
    return json.dumps({"name": "x", "model": {"tables": [*tables], **more}}, indent=1)


def related(own: str, other: str, **more: Any) -> dict[str, Any]:
    (from_table, from_column), (to_table, to_column) = own.split("."), other.split(".")
    return {
        "name": f"{own}-{other}", "fromTable": from_table, "fromColumn": from_column, "toTable": to_table,
        "toColumn": to_column, **more,
    }  # fmt: skip


CUSTOMERS = table(
    "Customers",
    m("customers", 'S2 = Table.RenameColumns(S1, {{"region", "Area"}})', 'S3 = Table.AddColumn(S2, "Initial", each 1)'),
    [
        column("Key", "id", "int64", isHidden=True, isKey=True), column("Area", "Area", description="Where they live"),
        column("Initial", "Initial"), column("Nothing", "nothing"),
        {"name": "Is North", "type": "calculated", "dataType": "boolean", "expression": ['Customers[Area] = "north"']},
    ],
    description=["Who", "buys"],
)  # fmt: skip
ORDERS = table(
    "Sales Orders",
    m("orders"),
    [
        column("Order", "id", "int64"), column("Customer", "customer_id", "int64"),
        column("When", "ordered_at", "dateTime"), column("Amount", "amount", "decimal", summarizeBy="sum"),
        {"name": "id", "type": "calculated", "expression": "'Sales Orders'[Amount] * 2"},
        {"name": "RowNumber-1", "type": "rowNumber"},
    ],
    measures=[
        {"name": "Revenue", "expression": "SUM('Sales Orders'[Amount])", "formatString": "\\$#,0.00;(\\$#,0.00)",
         "description": "What was paid"},
        {"name": "Amount", "expression": "COUNTROWS('Sales Orders')", "isHidden": True},
        {"name": "North %", "expression": ["DIVIDE(CALCULATE([Revenue], Customers[Is North]),", "[Revenue])"]},
    ],
    hierarchies=[{"name": "Dates"}],
)  # fmt: skip
MODEL = bim(
    CUSTOMERS,
    ORDERS,
    relationships=[related("Sales Orders.Customer", "Customers.Key")],
    roles=[{"name": "North", "tablePermissions": [{"name": "Customers", "filterExpression": '[Area] = "north"'}]}],
)
FILES = {"shop/model.bim": MODEL}


def reasons(found: Imported) -> dict[str, str]:
    return {each.what: each.why for each in found.report if each.kind is not Kind.KEPT}


def document(found: Imported, name: str) -> Any:
    return yaml.load(found.files[f"{name}.yaml"], where=name)


def test_tables_and_columns_change_the_manifest(manifest: Model, load: Load, answers: Answers) -> None:
    found = import_powerbi(FILES, manifest)
    customers, orders = document(found, "customers"), document(found, "orders")
    assert customers["descriptions"] == {"label": "Customers", "powerbi": "Who\nbuys"}
    assert customers["column_overrides"] == [
        {"name": "id", "label": "Key", "visibility": "internal"},
        {"name": "region", "label": "Area", "descriptions": {"powerbi": "Where they live"}},
    ]
    assert customers["columns"] == [
        {"name": "is_north", "type": "boolean", "expr": "region = 'north'", "visibility": "public", "label": "Is North"}
    ]
    assert orders["joins"] == [{"to": "customers", "on": "customer_id = customers.id", "relationship": "many_to_one"}]
    assert {each["name"]: each for each in orders["measures"]} == {
        "revenue": {
            "name": "revenue", "expr": "SUM(amount)", "label": "Revenue", "format": "$#,0.00",
            "descriptions": {"powerbi": "What was paid"},
        },
        "amount_measure": {
            "name": "amount_measure", "expr": "COUNT(*)", "label": "Amount", "visibility": "internal",
            "descriptions": {"powerbi": "Amount"},
        },
        "north_pct_part": {
            "name": "north_pct_part", "expr": "revenue", "filter": "customers.is_north", "visibility": "internal",
            "descriptions": {"powerbi": "Part of North %"},
        },
        "north_pct": {
            "name": "north_pct", "expr": "north_pct_part / revenue", "label": "North %",
            "descriptions": {"powerbi": "North %"},
        },
    }  # fmt: skip
    model = load(found.files, manifest=True)
    assert errors(model) == []
    assert answers(model, measures=["orders.north_pct", "orders.revenue"]) == [(170 / 275, 275.0)]


def test_the_report_has_reasons_and_lines(manifest: Model) -> None:
    found = import_powerbi(FILES, manifest)
    why = reasons(found)
    assert why["column `Customers[Initial]`"] == "Power Query computes its values"
    assert why["column `Customers[Nothing]`"] == "the table has no column `nothing`"
    assert why["role `North`"].startswith("ktx does not apply roles")
    assert why["hierarchy `Sales Orders[Dates]`"].startswith("ktx has no hierarchies")
    assert why["`summarizeBy` of columns of `Sales Orders`"].startswith("ktx sums no column")
    assert why["calculated column `Sales Orders[id]`"].startswith("the table already has a column")
    lines = MODEL.splitlines()
    for each in found.report:
        if each.what.startswith(("column", "measure", "calculated column")):
            name = each.what.split("[")[1].rstrip("]`")
            assert json.dumps(name) in lines[each.place.line - 1], each
    assert import_powerbi(FILES, manifest) == found


def test_without_a_manifest_tables_are_sources(load: Load, answers: Answers) -> None:
    found = import_powerbi(FILES, None)
    assert document(found, "sales_orders")["table"] == '"main"."orders"'
    model = load(found.files)
    assert errors(model) == []
    assert answers(model, measures=["revenue"], dimensions=["customers.region"], include_empty=False) == [
        ("north", 170.0), ("south", 100.0), (None, 5.0)
    ]  # fmt: skip


def test_only_known_tables(manifest: Model) -> None:
    other = table("Visits", m("visits"), [column("Id", "id")])
    found = import_powerbi({"a.bim": bim(CUSTOMERS, other)}, manifest, known_only=True)
    assert set(found.files) == {"customers.yaml"} and reasons(found)["table `Visits`"] == UNKNOWN_TABLE


@pytest.mark.table(
    ("query", "why"),
    [
        (m("orders", "S2 = Table.SelectRows(S1, each [id] > 1)"), "changes rows or values"),
        ('Csv.Document(File.Contents("a.csv"))', "comes from `Csv.Document`"),
        ({"type": "calculated", "expression": "CALENDARAUTO()"}, "Power BI computes this table"),
        ('Sql.Database("s", "d")', "does not name a table"),
        ({"type": "m"}, "has no query"),
        ({"type": "query", "query": "select 1 +"}, "not valid SQL"),
    ],
)
def test_a_table_without_a_table(query: Any, why: str) -> None:
    found = import_powerbi({"a.bim": bim(table("Orders", query, [column("Id", "id")]))}, None)
    assert found.files == {} and why in reasons(found)["table `Orders`"]


@pytest.mark.table(
    ("query", "expected"),
    [
        ({"type": "entity", "entityName": "orders", "schemaName": "main"}, {"table": '"main"."orders"'}),
        ({"type": "query", "query": "select id from main.orders"}, {"table": '"main"."orders"'}),
        (
            {"type": "query", "query": "select id from orders where id > 1"},
            {"sql": "select id from orders where id > 1"},
        ),
    ],
)
def test_other_partitions(query: Any, expected: dict[str, str], load: Load) -> None:
    found = import_powerbi({"a.bim": bim(table("Orders", query, [column("Id", "id", "int64")]))}, None)
    entry = document(found, "orders")
    assert {key: entry[key] for key in expected} == expected and errors(load(found.files)) == []


@pytest.mark.table(
    ("more", "join"),
    [
        ({}, {"to": "customers", "on": "customer_id = customers.id", "relationship": "many_to_one"}),
        (
            {"isActive": False},
            {"to": "customers", "on": "customer_id = customers_customer_id.id", "relationship": "many_to_one",
             "alias": "customers_customer_id"},
        ),
        (
            {"fromCardinality": "one"},
            {"to": "customers", "on": "customer_id = customers.id", "relationship": "one_to_one"},
        ),
        ({"toCardinality": "many"}, None),
        (
            {"fromCardinality": "one", "toCardinality": "many"},
            {"to": "customers", "on": "customer_id = customers.id", "relationship": "one_to_many"},
        ),
    ],
)  # fmt: skip
def test_relationships(more: dict[str, Any], join: dict[str, str] | None, manifest: Model) -> None:
    text = bim(CUSTOMERS, ORDERS, relationships=[related("Sales Orders.Customer", "Customers.Key", **more)])
    found = import_powerbi({"a.bim": text}, manifest)
    assert document(found, "orders").get("joins", []) == ([] if join is None else [join])


def test_two_models_of_one_table_share_its_source(manifest: Model, load: Load) -> None:
    other = table("Orders", m("orders"), [column("Id", "id")], measures=[
        {"name": "Revenue", "expression": "SUM(Orders[Id])"}, {"name": "Lines", "expression": "COUNTROWS(Orders)"},
    ])  # fmt: skip
    again = {**ORDERS, "measures": ORDERS["measures"][:1]}
    files = {"a.bim": bim(ORDERS), "b.bim": bim(other), "c.bim": bim(again)}
    found = import_powerbi(files, manifest)
    names = [each["name"] for each in document(found, "orders")["measures"]]
    assert (
        names == ["revenue", "amount_measure", "revenue_2", "lines"] and errors(load(found.files, manifest=True)) == []
    )


def test_measures_that_use_each_other(manifest: Model) -> None:
    measures = [{"name": f"M{n}", "expression": f"[M{n + 1}] + 1"} for n in range(25)]
    measures += [
        {"name": "M25", "expression": "COUNTROWS('Sales Orders')"},
        {"name": "Loop", "expression": "[Loop] + 1"},
    ]
    found = import_powerbi({"a.bim": bim({**ORDERS, "measures": measures})}, manifest)
    why = reasons(found)
    assert "depends on more than 20 measures" in why["measure `Sales Orders[M19]`"]
    assert why["measure `Sales Orders[Loop]`"] == "it uses the measure `[Loop]`, which was not imported"
    dropped = {each.what for each in found.report if each.kind is Kind.DROPPED}
    assert (
        dropped >= {f"measure `Sales Orders[M{n}]`" for n in range(20)} and "measure `Sales Orders[M20]`" not in dropped
    )


def test_models_are_folders_or_files() -> None:
    paths = [
        "a/X.SemanticModel/definition/model.tmdl", "a/X.SemanticModel/definition/tables/T.tmdl", "b/model.bim",
        "a/X.SemanticModel/definition/cultures/en-US.tmdl", "c/tables/T.tmdl", "c/model.tmdl", "x.md",
        f"r.pbit/{INNER}",
    ]  # fmt: skip
    assert model_files(paths) == {
        "a/X.SemanticModel": ("a/X.SemanticModel/definition/model.tmdl", "a/X.SemanticModel/definition/tables/T.tmdl"),
        "b/model.bim": ("b/model.bim",), "c": ("c/model.tmdl", "c/tables/T.tmdl"), "r.pbit": (f"r.pbit/{INNER}",),
    }  # fmt: skip


@pytest.mark.table(
    ("text", "line", "why"),
    [('{"a":\n', 2, "not valid JSON"), ("{}", 1, "contains no model"), ("[" * 100_000, 1, "not valid JSON")],
)
def test_a_broken_model(text: str, line: int, why: str) -> None:
    (item,) = import_powerbi({"a.bim": text}, None).report
    assert (item.kind, item.place.line) == (Kind.DROPPED, line) and why in item.why


def packed(content: bytes, *, name: str = INNER, count: int = 1, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        for number in range(count):
            archive.writestr(name if number == 0 else f"{name}{number}", content)
        archive.writestr("../../escape", b"x")
    return made.getvalue()


@pytest.mark.table("encoding", ["utf-16-le", "utf-16", "utf-8", "utf-8-sig"])
def test_a_template(encoding: str) -> None:
    text = template_schema(packed(MODEL.encode(encoding)), "a.pbit")
    assert json.loads(text) == json.loads(MODEL) and text.endswith("}\n")
    assert model_in("a.PBIT", packed(MODEL.encode(encoding))) == text.encode()
    found = import_powerbi({f"a.pbit/{INNER}": text}, None)
    assert set(found.files) == {"customers.yaml", "sales_orders.yaml"}


@pytest.mark.table(
    ("content", "why"),
    [
        (b"", "not a ZIP file"),
        (b"PK\x03\x04" + b"\x00" * 40, "not a ZIP file"),
        (packed(b"{}")[:-30], "not a ZIP file"),
        (packed(b"{}", name="Report/Layout"), "contains no DataModelSchema"),
        (packed(b"\xff\xfe\x00\xd8\x00"), "neither UTF-16 nor UTF-8"),
        (packed("{".encode("utf-16-le")), "not valid JSON"),
        (packed(b"{}", method=zipfile.ZIP_BZIP2), "compressed in a way"),
        (packed(b"{}", count=11_000), "more than 10,000 entries"),
        (packed(("[" * 200_000).encode("utf-16-le")), "not valid JSON"),
    ],
)
def test_no_template(content: bytes, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as refused:
        template_schema(content, "a.pbit")
    assert refused.value.hint


def test_a_template_that_unpacks_to_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template, "MAX_SCHEMA", 1_000)
    with pytest.raises(ConfigError, match="more than 1,000 bytes"):
        template_schema(packed(b" " * 5_000_000), "a.pbit")


def test_the_market_has_no_surprises() -> None:
    found = import_powerbi(tmdl(), None)
    assert {each.place.path for each in found.report} <= set(tmdl())
