"""Power BI models as a source: which files they are, which database they are about, and what is left."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import ConfigError
from ktx_cli.documents.raw import Changes, Snapshot
from ktx_cli.project.layout import Layout
from ktx_cli.scan import DeclaredJoin
from ktx_cli.sources.deliveries import RawStore
from ktx_cli.sources.port import FetchContext
from ktx_cli.sources.powerbi import PowerBiConnection
from ktx_cli.sources.powerbi.source import PowerBiSource
from tests.sources.git_server import ENVIRON, Repository
from tests.sources.projecting import OTHER, OTHER_SHARD, SHARD, SHOP, Project, lost, snapshot
from tests.sources.test_contract import BIM, template

FOLDER = "Shop.SemanticModel/definition"


def table(name: str, place: str, columns: str, *measures: str) -> str:
    """Return the TMDL of a table in a database. `columns`: pairs of a name and a database column."""
    schema, _, own = place.partition(".")
    lines = [f"table {name}"]
    lines += [f"\tmeasure {each}" for each in measures]
    for each in columns.split():
        shown, _, source = each.partition(":")
        lines += [f"\tcolumn {shown}", f"\t\tsourceColumn: {source}"]
    query = f'Sql.Database("s", "d"){{[Schema="{schema}",Item="{own}"]}}[Data]'
    return "\n".join([*lines, f"\tpartition {name} = m", f"\t\tsource = {query}"]) + "\n"


ORDERS = table("Orders", "shop.orders", "Order:id Customer:customer_id Amount:amount", "Revenue = SUM(Orders[Amount])")
FILES = {
    f"{FOLDER}/relationships.tmdl": "relationship a\n\tfromColumn: Orders.Customer\n\ttoColumn: Customers.Key\n",
    f"{FOLDER}/tables/Customers.tmdl": table("Customers", "shop.customers", "Key:id Name:name"),
    f"{FOLDER}/tables/Orders.tmdl": ORDERS,
}
VISITS = table("Visits", "crm.visits", "Key:id Customer:customer_id", "Visits = COUNTROWS(Visits)")
WRITTEN = "semantic-layer/shop/orders.yaml"


def test_tables_and_relationships_are_measures_and_joins() -> None:
    made = Project({SHARD: SHOP, OTHER_SHARD: OTHER})
    projection = made.run(PowerBiSource(), FILES)
    orders = made.data(WRITTEN)
    assert [each["name"] for each in orders["measures"]] == ["revenue"]
    assert orders["joins"] == [{"to": "customers", "on": "customer_id = customers.id", "relationship": "many_to_one"}]
    assert (made.errors(), projection.warnings, lost(projection)) == ([], (), [])
    assert projection.handled == set(FILES) and projection.left == ()
    assert projection.artifacts[WRITTEN] == (f"{FOLDER}/relationships.tmdl", f"{FOLDER}/tables/Orders.tmdl")
    before = dict(made.files)
    assert made.run(PowerBiSource(), FILES).owned == projection.owned and dict(made.files) == before


def test_a_measure_that_changes_or_goes() -> None:
    made = Project({SHARD: SHOP})
    made.run(PowerBiSource(), FILES)
    changed = {**FILES, f"{FOLDER}/tables/Orders.tmdl": ORDERS.replace("Revenue", "Turnover")}
    made.run(PowerBiSource(), changed)
    assert [each["name"] for each in made.data(WRITTEN)["measures"]] == ["turnover"]
    made.run(PowerBiSource(), {path: text for path, text in FILES.items() if "Orders" not in path})
    assert WRITTEN not in made.files
    made.run(PowerBiSource(), {"a.SemanticModel/definition/model.tmdl": "model M\n"})
    assert set(made.files) == {SHARD}


def test_a_broken_file_keeps_what_was_written() -> None:
    made = Project({SHARD: SHOP})
    first = made.run(PowerBiSource(), FILES)
    before, path = dict(made.files), f"{FOLDER}/tables/Orders.tmdl"
    broken = made.run(PowerBiSource(), {**FILES, path: "table Orders\n\n<<<<<<< HEAD\n"})
    assert dict(made.files) == before and broken.owned == first.owned
    (warning,) = broken.warnings
    assert (warning.code, warning.details["path"], warning.details["line"]) == ("not_written", path, 3)
    assert made.run(PowerBiSource(), FILES).owned == first.owned
    fresh = Project({SHARD: SHOP})
    fresh.run(PowerBiSource(), {**FILES, path: "<<<<<<< HEAD\n"})
    assert set(fresh.files) == {SHARD, "semantic-layer/shop/customers.yaml"}


def test_each_model_goes_to_the_connection_with_its_tables() -> None:
    made = Project({SHARD: SHOP, OTHER_SHARD: OTHER})
    projection = made.run(PowerBiSource(), {**FILES, "Web.SemanticModel/definition/tables/Visits.tmdl": VISITS})
    assert sorted(projection.artifacts) == [
        "semantic-layer/crm/visits.yaml", "semantic-layer/shop/customers.yaml", WRITTEN
    ]  # fmt: skip


@pytest.mark.table(
    ("visits", "what"),
    [
        (VISITS.replace("crm", "nowhere"), "has no scanned table"),
        (VISITS + ORDERS, "has tables of several connections: crm, shop"),
    ],
)
def test_a_model_of_no_single_connection(visits: str, what: str) -> None:
    made = Project({SHARD: SHOP, OTHER_SHARD: OTHER})
    projection = made.run(PowerBiSource(), {"a/model.tmdl": "model M\n", "a/tables/v.tmdl": visits})
    assert [each.message for each in projection.warnings] == [f"a/model.tmdl:1: the model a {what}"]
    assert not projection.artifacts and len(lost(projection)) == 2


def test_roles_are_warnings() -> None:
    role = 'role North\n\n\ttablePermission Customers = Customers[Name] = "a"\n'
    projection = Project({SHARD: SHOP}).run(PowerBiSource(), {**FILES, f"{FOLDER}/roles/North.tmdl": role})
    (warning,) = projection.warnings
    assert (warning.code, warning.details["path"]) == ("role_not_applied", f"{FOLDER}/roles/North.tmdl")
    assert projection.handled >= {f"{FOLDER}/roles/North.tmdl"}


def test_units_are_what_changed_and_could_not_be_placed() -> None:
    ranks = f"{FOLDER}/tables/Ranks.tmdl"
    files = {**FILES, ranks: "table Ranks\n\tmeasure Rank = RANKX(Orders, [Revenue])\n"}
    projection = Project({SHARD: SHOP}).run(PowerBiSource(), files)
    assert projection.left == (f"{ranks}: 1 part that rules could not place",)
    for touched, expected in ((ranks, 1), (f"{FOLDER}/tables/Orders.tmdl", 0)):
        found = PowerBiSource().units(None, snapshot(files), Changes(modified=(touched,)), projection)
        assert len(found) == expected
    (unit,) = PowerBiSource().units(None, snapshot(files), Changes(added=tuple(files)), projection)
    assert (unit.key, unit.files, unit.dependencies) == ("powerbi-Shop.SemanticModel", (ranks,), tuple(sorted(FILES)))
    assert "measure `Ranks[Rank]`: `RANKX` depends on the rows or selections of a visual" in unit.notes


def entry(**settings: Any) -> Any:
    return PowerBiConnection.model_validate({"driver": "powerbi", **settings})


def context(tmp_path: Path, previous: Snapshot | None = None) -> FetchContext:
    layout = Layout(tmp_path / "project")
    layout.root.mkdir(exist_ok=True)
    known = {path: file.sha256 for path, file in previous.files.items()} if previous else {}
    environ = {**os.environ, **ENVIRON}
    return FetchContext("reports", layout, environ, RawStore(layout.private / "raw"), previous=known)


def put(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def test_a_fetch_reads_models_and_names_what_it_cannot_read(tmp_path: Path) -> None:
    folder = put(tmp_path / "bi", {
        "a.pbit": template(BIM), "b.pbit": b"PK", "big.pbix": b"PK" * 100, "small.pbix": b"", "model.bim": b"{}",
        "README.md": b"x", "X.SemanticModel/definition/cultures/en-US.tmdl": b"cultureInfo en-US",
        "X.SemanticModel/definition/model.tmdl": b"model M",
    })  # fmt: skip
    source, settings = PowerBiSource(), entry(source_dir=str(folder))
    first = source.fetch(settings, context(tmp_path))
    assert list(first.files) == ["X.SemanticModel/definition/model.tmdl", "a.pbit/DataModelSchema", "model.bim"]
    assert json.loads(first.files["a.pbit/DataModelSchema"].text()) == BIM and first.fetched == 3 and first.complete
    skipped = {each.what: each.reason for each in first.skipped}
    assert set(skipped) == {"b.pbit", "big.pbix", "small.pbix"} and "not a ZIP file" in skipped["b.pbit"]
    assert skipped["big.pbix"] == skipped["small.pbix"] and "export it as a template (.pbit)" in skipped["big.pbix"]
    again = source.fetch(settings, context(tmp_path, first))
    assert again.fetched == 0 and again.files == first.files
    (folder / "a.pbit").write_bytes(b"PK")
    damaged = source.fetch(settings, context(tmp_path, first))
    assert damaged.files == first.files and "a.pbit" in {each.what for each in damaged.skipped}
    (folder / "a.pbit").unlink()
    assert list(source.fetch(settings, context(tmp_path, first)).files)[1:] == ["model.bim"]


def test_a_repository_and_a_folder_have_the_same_files(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "team", "trunk")
    repository.commit({f"bi/{path}": text for path, text in FILES.items()})
    folder = put(tmp_path / "plain", {path: text.encode() for path, text in FILES.items()})
    found = PowerBiSource().fetch(entry(repo_url=str(repository.folder), path="bi"), context(tmp_path))
    plain = PowerBiSource().fetch(entry(source_dir=str(folder)), context(tmp_path))
    assert {path: file.sha256 for path, file in found.files.items()} == {
        path: file.sha256 for path, file in plain.files.items()
    }


@pytest.mark.table(
    ("files", "what", "hint"),
    [
        ({"a.txt": b""}, "contains no .tmdl, .bim or .pbit file", "source_dir"),
        ({"a.pbix": b"PK"}, "contains only .pbix files", "export it as a template"),
    ],
)
def test_no_model(files: dict[str, bytes], what: str, hint: str, tmp_path: Path) -> None:
    folder = put(tmp_path / str(len(list(tmp_path.iterdir()))), files)
    for ask in (PowerBiSource().fetch, PowerBiSource().check):
        with pytest.raises(ConfigError, match=what) as refused:
            ask(entry(source_dir=str(folder)), context(tmp_path))
        assert hint in str(refused.value.hint)


def test_declarations() -> None:
    more = "relationship b\n\tisActive: false\n\tfromColumn: Orders.Order\n\ttoColumn: Customers.Name\n"
    files = {**FILES, f"{FOLDER}/more.tmdl": more, f"{FOLDER}/tables/x.tmdl": "table X\n\tcolumn A\n"}
    found = PowerBiSource().declarations(entry(source_dir="x"), snapshot(files))
    own, other = "Shop.SemanticModel:Orders", "Shop.SemanticModel:Customers"
    assert {id: (each.schema, each.name, each.keys) for id, each in found.tables.items()} == {
        own: ("shop", "orders", ()), other: ("shop", "customers", (("name",), ("id",))),
    }  # fmt: skip
    assert set(found.joins) == {DeclaredJoin(own, ("customer_id",), other, ("id",))}


def test_the_join_of_an_inactive_relationship_is_no_second_default() -> None:
    joins = """\
    joins:
      - {to: customers, on: customer_id = customers.id, relationship: many_to_one, source: inferred}
      - {to: customers, on: id = customers.id, relationship: many_to_one, source: inferred}
  invoices:
"""
    more = "relationship b\n\tisActive: false\n\tfromColumn: Orders.Order\n\ttoColumn: Customers.Key\n"
    made = Project({SHARD: SHOP.replace("  invoices:\n", joins)})
    first = made.run(PowerBiSource(), {**FILES, f"{FOLDER}/more.tmdl": more})
    orders = made.data(WRITTEN)
    assert (orders["disable_joins"], orders["joins"][0]["alias"]) == (["id = customers.id"], "customers_id")
    assert {join.alias for join in made.models()["shop"].sources["orders"].joins} == {None, "customers_id"}
    again = made.run(PowerBiSource(), {**FILES, f"{FOLDER}/more.tmdl": more})
    assert (again.owned, again.warnings, made.errors()) == (first.owned, (), [])
    made.run(PowerBiSource(), FILES)
    assert "disable_joins" not in made.data(WRITTEN)
