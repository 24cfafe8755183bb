"""Tableau files as a source: which database they are about, what is left for agents, and files that cannot be read."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import ConfigError
from ktx_cli.documents.raw import Changes, Snapshot
from ktx_cli.project.layout import Layout
from ktx_cli.scan.relationships.declarations import DeclaredJoin
from ktx_cli.sources.deliveries import RawStore
from ktx_cli.sources.port import FetchContext
from ktx_cli.sources.tableau import TableauConnection
from ktx_cli.sources.tableau.documents import plain_document
from ktx_cli.sources.tableau.source import TableauSource
from tests.sources.git_server import ENVIRON, Repository
from tests.sources.projecting import OTHER, OTHER_SHARD, SHARD, SHOP, Project, lost, snapshot
from tests.sources.tableau_files import data_source, joined, table, workbook

ORDERS = joined(table("orders", "shop"), table("customers", "shop"), "[orders].[customer_id]", "[customers].[id]")
FIELDS = {"amount": "[orders].[amount]", "region": "[customers].[region]"}
SALES = data_source(ORDERS, fields=FIELDS, measures={"Revenue": "SUM([amount])", "Rank": "RANK(SUM([amount]))"})
VISITS = data_source(table("visits", "crm"), name="Visits", measures={"Visits": "COUNT([id])"})


def entry(folder: str = "x", **more: Any) -> Any:
    return TableauConnection.model_validate({"driver": "tableau", "source_dir": folder, **more})


def test_data_sources_are_measures_and_joins() -> None:
    made = Project({SHARD: SHOP, OTHER_SHARD: OTHER})
    files = {"Sales.twb": workbook(SALES, views=2)}
    projection = made.run(TableauSource(), files, entry())
    orders = made.data("semantic-layer/shop/orders.yaml")
    assert [(each["name"], each["expr"]) for each in orders["measures"]] == [("revenue", "SUM(amount)")]
    assert orders["joins"] == [{"to": "customers", "on": "customer_id = customers.id", "relationship": "many_to_one"}]
    assert made.errors() == [] and projection.warnings == ()
    assert lost(projection) == [
        "Sales.twb:8 calculated field `Rank` of `Sales`: it is a table calculation, which depends on the rows of a"
        " view; sort the query with `order_by` instead. Formula: RANK(SUM([amount]))",
        "Sales.twb:11 2 views of Sales.twb: worksheets, dashboards and stories are not definitions",
    ]
    assert projection.left == ("Sales.twb: 1 part that rules could not place",) and projection.handled == frozenset()
    before = dict(made.files)
    assert made.run(TableauSource(), files, entry()).owned == projection.owned and dict(made.files) == before
    made.run(TableauSource(), {"Sales.twb": workbook(views=1)}, entry())
    assert set(made.files) == {SHARD, OTHER_SHARD}, "what is gone from the files is taken out"


def test_each_data_source_goes_to_the_database_with_its_tables() -> None:
    made = Project({SHARD: SHOP, OTHER_SHARD: OTHER})
    projection = made.run(TableauSource(), {"a.twb": workbook(SALES + VISITS)}, entry())
    assert sorted(projection.artifacts) == ["semantic-layer/crm/visits.yaml", "semantic-layer/shop/orders.yaml"]
    query = "<relation connection='c' name='Q' type='text'>SELECT id FROM crm.visits WHERE id &gt; 4</relation>"
    custom = data_source(query, name="Query", measures={"Several": "COUNTD([id])"})
    projection = made.run(TableauSource(), {"a.twb": workbook(custom)}, entry())
    assert sorted(projection.artifacts) == ["semantic-layer/crm/q.yaml"] and made.errors() == []


BOTH = data_source("customers", measures={"People": "COUNTD([id])"})


def test_tables_of_several_databases_need_a_setting() -> None:
    made = Project({SHARD: SHOP, OTHER_SHARD: OTHER})
    projection = made.run(TableauSource(), {"a.tds": BOTH}, entry())
    (warning,) = projection.warnings
    assert warning.message == "a.tds:1: data source `Sales`: its tables are in several connections: crm, shop"
    assert warning.hint == "set connections.analytics.database to one of them" and not projection.artifacts
    projection = made.run(TableauSource(), {"a.tds": BOTH}, entry(database="crm"))
    assert list(projection.artifacts) == ["semantic-layer/crm/customers.yaml"] and projection.warnings == ()
    projection = made.run(TableauSource(), {"a.tds": BOTH}, entry(database="nope"))
    assert [each.code for each in projection.warnings] == ["no_table", "no_table"] and not projection.artifacts


def test_tables_that_nobody_scanned_are_named_and_leave_nothing_to_do() -> None:
    made = Project({SHARD: SHOP})
    projection = made.run(TableauSource(), {"a.tds": VISITS}, entry())
    assert [each.message for each in projection.warnings] == [
        "a.tds:1: data source `Visits`: the table is not in the scanned database"
    ]
    assert projection.handled == {"a.tds"} and not projection.artifacts


def test_units_are_the_changed_files_with_parts_that_rules_could_not_place() -> None:
    files = {"Sales.twb": workbook(SALES), "Other.tds": SALES.replace("Sales", "Other"), "Fine.tds": VISITS}
    projection = Project({SHARD: SHOP, OTHER_SHARD: OTHER}).run(TableauSource(), files, entry())
    found = TableauSource().units(entry(), snapshot(files), Changes(modified=("Sales.twb", "Fine.tds")), projection)
    (unit,) = found
    assert (unit.key, unit.files) == ("tableau-Sales.twb", ("Sales.twb",))
    assert unit.notes.splitlines()[1].endswith("Formula: RANK(SUM([amount]))")


def test_a_broken_file_of_people_keeps_what_was_written_before() -> None:
    made = Project({SHARD: SHOP})
    first = made.run(TableauSource(), {"a.twb": workbook(SALES)}, entry())
    made.files["semantic-layer/shop/mine.yaml"] = b"name: orders\nmeasures: [\n"
    before = dict(made.files)
    projection = made.run(TableauSource(), {"a.twb": workbook(SALES)}, entry())
    assert dict(made.files) == before and projection.owned == first.owned
    assert [each.code for each in projection.warnings] == ["not_written"]


def test_joins_are_declared_to_scans() -> None:
    found = TableauSource().declarations(entry(), snapshot({"a.twb": workbook(SALES)}))
    tables = {id: (each.schema, each.name) for id, each in found.tables.items()}
    assert tables == {"shop.orders": ("shop", "orders"), "shop.customers": ("shop", "customers")}
    one = DeclaredJoin("shop.orders", ("customer_id",), "shop.customers", ("id",))
    other = DeclaredJoin("shop.customers", ("id",), "shop.orders", ("customer_id",))
    assert (found.tool, set(found.joins)) == ("tableau", {one, other})
    graph = (
        f"<object-graph><objects><object id='o'><properties context=''>{table('orders', 'shop')}</properties></object>"
        f"<object id='c'><properties context=''>{table('customers', 'shop')}</properties></object></objects>"
        "<relationships><relationship><expression op='='><expression op='[customer_id]' /><expression"
        " op='[id]' /></expression><first-end-point object-id='o' /><second-end-point object-id='c'"
        " unique-key='true' /></relationship></relationships></object-graph>"
    )
    both = f"<relation type='collection'>{table('orders', 'shop')}{table('customers', 'shop')}</relation>"
    related = data_source(both, fields={"customer_id": "[orders].[customer_id]", "id": "[customers].[id]"}, inner=graph)
    found = TableauSource().declarations(entry(), snapshot({"a.tds": related}))
    assert found.joins == (one,) and found.tables["shop.customers"].keys == (("id",),)


def context(tmp_path: Path, previous: Snapshot | None = None) -> FetchContext:
    layout = Layout(tmp_path / "project")
    layout.root.mkdir(exist_ok=True)
    known = {path: file.sha256 for path, file in previous.files.items()} if previous else {}
    return FetchContext(
        "analytics", layout, {**os.environ, **ENVIRON}, RawStore(layout.private / "raw"), previous=known
    )


def packed(text: str, name: str = "Sales.twb") -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, text)
        archive.writestr("Data/extract.hyper", os.urandom(2000))
    return made.getvalue()


def folder_of(tmp_path: Path, **files: bytes) -> Path:
    folder = tmp_path / "books"
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_bytes(content)
    return folder


def test_a_package_is_its_document_whatever_else_is_in_it(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, Sales_twbx=packed(workbook(SALES)))
    first = TableauSource().fetch(entry(str(folder)), context(tmp_path))
    assert first.files["Sales.twbx"].text() == workbook(SALES) and first.fetched == 1
    folder_of(tmp_path, Sales_twbx=packed(workbook(SALES)))
    again = TableauSource().fetch(entry(str(folder)), context(tmp_path, first))
    assert (again.fetched, again.files, again.skipped) == (0, first.files, ())


def test_credentials_and_pictures_are_not_stored(tmp_path: Path) -> None:
    secret = data_source("orders", user="robin").replace("server='db'", 'server="db" password="hunter2"')
    views = "<thumbnails><thumbnail name='a'>\n  iVBORw0KGgo\n  </thumbnail></thumbnails>"
    text = workbook(secret).replace("<worksheets>", f"{views}<worksheets>")
    folder = folder_of(tmp_path, Sales_twb=text.encode())
    found = TableauSource().fetch(entry(str(folder)), context(tmp_path)).files["Sales.twb"].text()
    assert not any(each in found for each in ("robin", "hunter2", "iVBOR")) and found.count("\n") == text.count("\n")
    stored = b"".join(path.read_bytes() for path in (tmp_path / "project").rglob("*") if path.is_file())
    assert b"hunter2" not in stored


@pytest.mark.parametrize(
    "written",
    [
        '<c password="hunter2"/>', "<c password = 'hunter2'/>", '<c PASSWORD="hunter2"/>',
        '<c a="x>"\npassword\n=\n"hunter2"/>',
        '<c connection-string="Driver={x};UID=robin;PWD=hunter2"/>', '<c oauth-token="hunter2"/>',
        "<c one-time-sql=\"SET ROLE x IDENTIFIED BY 'hunter2'\"/>", '<c url="https://robin:hunter2@example.com/x"/>',
        '<c x="jdbc:pg://h/db?user=a&amp;password=hunter2"/>', '<c extras="Server=h;Pwd={hunter2};Port=1"/>',
        '<c odbc-connect-string-extras="hunter2&#10;"/>', '<c _.fcp.A.true...password="hunter2"/>',
        '<!-- <c password="hunter2"/> -->',
        '<c refresh_token="hunter2" client-secret="hunter2" apiKey="hunter2" server-userid="hunter2" uid="hunter2"/>',
        "<password>hunter2</password>", "<c><Password a='1'>\nhunter2\n</Password></c>",
        "<r>see https://robin:hunter2@example.com</r>",
    ],
)  # fmt: skip
def test_credentials_in_any_form_are_not_stored(written: str) -> None:
    found = plain_document("Sales.twb", f"<workbook>\n{written}\n</workbook>".encode())
    assert "hunter2" not in found and found.count("\n") == written.count("\n") + 2


@pytest.mark.parametrize(
    "written",
    [
        "<relation type='text'>SELECT 1 WHERE n = 'a' AND token = 5 AND token_type = 'card'</relation>",
        "<calculation formula='[token] = 3; [Is Password Set]=1'/>", "<c name='password' caption='Token'/>",
        "<c url='https://example.com/a?page=2' workgroup-auth-mode='prompt'/>",
        "<c name='federated.0tvv6wz1xw7ulb1a3xy6'/>",
    ],
)  # fmt: skip
def test_what_is_no_credential_is_stored(written: str) -> None:
    assert written in plain_document("Sales.twb", f"<workbook>{written}</workbook>".encode())


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a_twb", b"<!DOCTYPE w [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><workbook>&x;</workbook>", "document type"),
        ("a_twb", b"<workbook><datasources>", "it is not valid XML: no element found"),
        ("a_twbx", packed("<workbook />", "../../Sales.twb"), "the entry `../../Sales.twb` is outside"),
        ("a_twbx", b"PK", "it is not a ZIP archive"),
    ],
    ids=["entity", "cut", "escape", "no archive"],
)
@pytest.mark.parametrize("from_git", [False, True], ids=["folder", "git"])
def test_a_file_that_cannot_be_read_is_reported_and_keeps_its_previous_copy(
    name: str, content: bytes, why: str, from_git: bool, tmp_path: Path
) -> None:
    path = name.replace("_", ".")
    good = packed(workbook(SALES)) if path.endswith("x") else workbook(SALES).encode()
    repository = Repository(tmp_path / "books", "trunk") if from_git else None
    folder = folder_of(tmp_path, b_tds=VISITS.encode(), **{name: good})
    if repository is not None:
        repository.commit({})
    made = entry(str(folder))
    if repository is not None:
        made = TableauConnection.model_validate({"driver": "tableau", "repo_url": str(folder)})
    first = TableauSource().fetch(made, context(tmp_path))
    folder_of(tmp_path, **{name: content})
    if repository is not None:
        repository.commit({})
    found = TableauSource().fetch(made, context(tmp_path, first))
    (skipped,) = found.skipped
    assert skipped.what == path and why in skipped.reason and skipped.reason.endswith("ktx keeps its previous copy")
    assert found.files == first.files and found.complete and found.fetched == 0
    alone = TableauSource().fetch(made, context(tmp_path))
    assert list(alone.files) == ["b.tds"] and "previous" not in alone.skipped[0].reason


def test_a_folder_without_tableau_files(tmp_path: Path) -> None:
    (tmp_path / "books").mkdir()
    with pytest.raises(ConfigError, match=r"no Tableau files at .*: it contains no \.twb, \.tds, \.twbx, \.tdsx file"):
        TableauSource().check(entry(str(tmp_path / "books")), context(tmp_path))
