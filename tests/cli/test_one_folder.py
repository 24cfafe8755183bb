"""A ktx project in the folder of its own sources: a second run finds nothing new and commits nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ktx_cli.core import yaml
from tests.cli.agents import git
from tests.sources import tableau_files as tableau
from tests.sources.catalog_exports import dataset, export, mcp, om_column, om_table

Run = Callable[..., Any]

FILES = {
    "dbt_project.yml": "name: jaffle\nprofile: jaffle\n",
    ".user.yml": "id: 11d9b3a4-6f5d-4a4c-8fc7-2c4e7bd56a90\n",
    "profiles.yml": "jaffle: {target: dev, outputs: {dev: {type: duckdb, path: jaffle.duckdb}}}\n",
    "README.md": "# Jaffle shop\n\nOne row an order.\n",
    "models/marts/schema.yml": (
        "models:\n  - name: orders\n    description: One row an order.\n    columns:\n"
        "      - name: order_id\n        tests: [unique, not_null]\n"
        "      - name: customer_id\n        tests: [{relationships: {to: ref('customers'), field: customer_id}}]\n"
        "  - name: customers\n    description: Who ordered.\n"
    ),
    "models/marts/orders.sql": "select 1 as order_id\n",
    "look/shop.model.lkml": 'connection: "dwh"\ninclude: "*.view"\nexplore: orders {}\n',
    "look/orders.view.lkml": "view: orders {\n  dimension: id { primary_key: yes sql: ${TABLE}.order_id ;; }\n}\n",
    "bi/Shop.SemanticModel/definition/tables/Orders.tmdl": (
        "table Orders\n\n\tcolumn Order\n\t\tsourceColumn: order_id\n\n\tpartition Orders = m\n\t\tsource =\n"
        '\t\t\t\tSql.Database("s", "d"){[Schema="main",Item="orders"]}[Data]\n'
    ),
    "books/orders.tds": tableau.data_source("orders", measures={"Orders": "COUNT([order_id])"}),
    "contracts/orders.odcs.yaml": (
        "kind: DataContract\napiVersion: v3.1.0\nid: c\nversion: 1.0.0\nstatus: active\n"
        "schema: [{name: orders, businessName: Sales, description: What people ordered.}]\n"
    ),
    "catalog/datahub.json": export(
        mcp(dataset("main.orders"), "datasetProperties", {"description": "What people ordered."})
    ),
    "catalog/openmetadata.json": export(
        om_table("shop.jaffle.main.orders", [om_column("order_id")], description="What people ordered.")
    ),
    "docs/terms.md": "# Terms\n\nAn order is paid.\n",
}
COMPILED = {
    "target/manifest.json": json.dumps(
        {"metadata": {"dbt_schema_version": "x/v12.json", "project_name": "jaffle"}, "nodes": {}, "sources": {}}
    ),
    "target/compiled/jaffle/models/schema.yml": "models: []\n",
    "dbt_packages/utils/dbt_project.yml": "name: utils\n",
    "dbt_packages/utils/models/u.yml": "models: [{name: u}]\n",
    "logs/run.yml": "x: 1\n",
}
SOURCES = {
    "dbt": ("dbt", "--source-dir", "."),
    "documents": ("documents", "--source-dir", "."),
    "lookml": ("lookml", "--source-repo", "."),
    "metricflow": ("metricflow", "--source-repo", "."),
    "powerbi": ("powerbi", "--source-dir", "."),
    "tableau": ("tableau", "--source-dir", "."),
    "odcs": ("odcs", "--source-dir", "."),
    "datahub": ("datahub", "--source-dir", "."),
    "openmetadata": ("openmetadata", "--source-dir", "."),
}


@pytest.fixture
def repository(work: Path) -> Path:
    """A dbt repository with its DuckDB database, as a team has it."""
    with duckdb.connect(str(work / "jaffle.duckdb")) as database:
        database.execute("CREATE TABLE customers AS SELECT range AS customer_id, 'c' || range AS name FROM range(20)")
        database.execute("CREATE TABLE orders AS SELECT range AS order_id, range % 20 AS customer_id FROM range(200)")
    for name, text in FILES.items():
        write(work, name, text)
    git(work, "init", "-q", "-b", "main")
    write(work, ".gitignore", "target/\ndbt_packages/\nlogs/\n*.duckdb\n")
    git(work, "add", "-A")
    git(work, "-c", "user.name=u", "-c", "user.email=u@example.com", "commit", "-qm", "dbt")
    return work


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("source", "compiled"),
    [
        pytest.param(source, compiled, marks=() if compiled or source == "dbt" else pytest.mark.slow)
        for source in SOURCES
        for compiled in (True, False)
    ],
)
def test_a_second_run_is_unchanged(ktx: Run, repository: Path, source: str, compiled: bool) -> None:
    for name, text in COMPILED.items() if compiled else ():
        write(repository, name, text)
    setup = ("setup", "--no-input", "--database", "duckdb", "--database-path", "jaffle.duckdb", "--source")
    done = ktx(*setup, *SOURCES[source])
    assert done.code == 0, done.err
    first = ktx("ingest", "--json")
    assert first.code == 0, first.out
    head = git(repository, "rev-parse", "HEAD")
    for _ in range(2):
        again = ktx("ingest", "--json")
        assert (again.code, again.data["status"], again.data["commit"]) == (0, "unchanged", None)
    assert git(repository, "rev-parse", "HEAD") == head
    (manifest,) = (path for path in (repository / "raw-sources" / source).rglob("manifest.yaml"))
    files = list(yaml.load(manifest.read_bytes(), where=str(manifest))["files"])
    own = ("ktx.yaml", "semantic-layer", "raw-sources", "wiki", ".", "dbt_packages", "logs", "target/compiled")
    assert files and not [path for path in files if path.startswith(own)]
