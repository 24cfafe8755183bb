"""A database scanned again after a dbt project was read: nothing of dbt is lost, and nothing is written for nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.project.layout import Layout
from ktx_cli.scan.pipeline import ScanJob, ScanOutcome, scan_connection
from ktx_cli.semantic.manifest import ManifestLayout
from ktx_cli.semantic.store.layer import ParsedCopies
from ktx_cli.sources.dbt.source import DbtSource
from ktx_cli.sources.ownership import where_now
from ktx_cli.warehouses.port import Column, DatabaseSchema, Scope, SemanticType, Table, TableKind, TableRef
from tests.sources.projecting import SHARD, MemoryTree, Project

DBT = """\
models:
  - name: orders
    description: Every order.
    tags: [core]
    columns:
      - name: id
        description: The key.
        tests: [unique, not_null]
      - name: customer_id
        tests: [{relationships: {to: ref('customers'), field: id}}]
      - name: status
        tests: [{accepted_values: {values: [a, b]}}]
  - {name: customers, columns: [{name: id, tests: [unique]}]}
"""


class Database:
    """A connector that only introspects."""

    dialect = "duckdb"

    def __init__(self, *tables: Table) -> None:
        self._schema = DatabaseSchema(tables, ())

    def introspect(self, scope: Scope) -> DatabaseSchema:
        return self._schema


class Base:
    def __init__(self, files: MemoryTree) -> None:
        self._files = files

    def read_many(self, paths: Iterable[str]) -> Mapping[str, bytes]:
        return {path: self._files[path] for path in paths if path in self._files}

    def blobs(self, prefix: str) -> Mapping[str, str]:
        return {path: str(hash(content)) for path, content in self._files.items() if path.startswith(prefix + "/")}


def table(name: str, *columns: str, comment: str | None = None) -> Table:
    made = tuple(Column(each, "INTEGER", SemanticType.NUMBER) for each in columns)
    return Table(TableRef("shop", name), TableKind.TABLE, made, comment=comment)


ORDERS, CUSTOMERS = table("orders", "id", "customer_id", "status"), table("customers", "id")


def scan(
    project: Project, database: Any, root: Path, layout: ManifestLayout = ManifestLayout.PER_SCHEMA
) -> ScanOutcome:
    copies = ParsedCopies(Layout(root), "shop")
    outcome = scan_connection(database, Scope(), ScanJob("shop", "duckdb", Base(project.files), copies, layout=layout))
    for path, content in outcome.files.items():
        if content is None:
            del project.files[path]
        else:
            project.files[path] = content
    return outcome


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project({})
    scan(made, Database(CUSTOMERS, ORDERS), tmp_path)
    made.run(DbtSource(), {"models/schema.yml": DBT})
    assert made.entry("orders")["joins"] and made.column("orders", "id")["constraints"]
    return made


def of_dbt(project: Project) -> Any:
    entry = project.entry("orders")
    columns = {each["name"]: {k: v for k, v in each.items() if k not in ("name", "type")} for each in entry["columns"]}
    back = project.entry("customers")["joins"]
    return entry["descriptions"].get("dbt"), entry["tags"], columns, entry["joins"], back


def test_an_unchanged_database_writes_nothing(project: Project, tmp_path: Path) -> None:
    before = dict(project.files)
    assert scan(project, Database(CUSTOMERS, ORDERS), tmp_path).unchanged
    assert dict(project.files) == before


def test_a_changed_table_keeps_what_dbt_says(project: Project, tmp_path: Path) -> None:
    said = of_dbt(project)
    changed = table("orders", "id", "customer_id", "status", "new", comment="Of the shop")
    assert SHARD in scan(project, Database(CUSTOMERS, changed), tmp_path).files
    assert project.entry("orders")["descriptions"] == {"db": "Of the shop", "dbt": "Every order."}
    now = of_dbt(project)
    assert now[2].pop("new") == {} and now == said
    before = dict(project.files)
    again = project.run(DbtSource(), {"models/schema.yml": DBT})
    assert dict(project.files) == before and not again.warnings


def test_without_the_record_of_the_last_scan_nothing_of_dbt_is_lost(project: Project, tmp_path: Path) -> None:
    said = of_dbt(project)
    for path in [each for each in project.files if each.startswith("raw-sources/")]:
        del project.files[path]
    scan(project, Database(CUSTOMERS, replace(ORDERS, comment="x")), tmp_path)
    assert of_dbt(project) == said


def test_what_dbt_no_longer_says_goes_after_a_rescan_too(project: Project, tmp_path: Path) -> None:
    scan(project, Database(CUSTOMERS, replace(ORDERS, comment="x")), tmp_path)
    project.run(DbtSource(), {"models/schema.yml": "models: []\n"})
    text = project.files[SHARD].decode()
    assert "dbt" not in text and "joins" not in text and project.owned == {}


def test_a_table_that_is_gone_takes_its_texts_with_it(project: Project, tmp_path: Path) -> None:
    scan(project, Database(CUSTOMERS), tmp_path)
    projection = project.run(DbtSource(), {"models/schema.yml": DBT})
    assert "orders" not in project.data(SHARD)["tables"]
    assert [each.code for each in projection.warnings] == ["no_table"] and project.errors() == []


ORDERS_FILE, CUSTOMERS_FILE = (f"semantic-layer/shop/_schema/shop/{name}.yaml" for name in ("orders", "customers"))


def dbt_again(project: Project, text: str = DBT) -> list[str]:
    """Read the dbt project again, as a run does after a scan; return the codes of the warnings."""
    project.owned = where_now(project.owned, project.models())
    return [each.code for each in project.run(DbtSource(), {"models/schema.yml": text}).warnings]


def test_what_dbt_says_moves_with_the_layout_and_stays_its_own(project: Project, tmp_path: Path) -> None:
    before, owned = project.data(SHARD), project.owned
    scan(project, Database(CUSTOMERS, ORDERS), tmp_path, ManifestLayout.PER_TABLE)
    assert SHARD not in project.files
    assert len(project.entry("orders", ORDERS_FILE)["joins"]) == 1
    assert "joins" not in project.entry("customers", CUSTOMERS_FILE)
    moved = dict(project.files)
    assert dbt_again(project) == [] and dict(project.files) == moved
    assert set(project.owned) == {ORDERS_FILE, CUSTOMERS_FILE}
    scan(project, Database(CUSTOMERS, ORDERS), tmp_path)
    assert dbt_again(project) == []
    assert (project.data(SHARD), project.owned) == (before, owned)


def test_what_dbt_no_longer_says_goes_from_a_file_that_moved(project: Project, tmp_path: Path) -> None:
    scan(project, Database(CUSTOMERS, ORDERS), tmp_path, ManifestLayout.PER_TABLE)
    assert dbt_again(project, "models: []\n") == []
    for path in (ORDERS_FILE, CUSTOMERS_FILE):
        text = project.files[path].decode()
        assert "dbt" not in text and "joins" not in text
    assert project.owned == {}
