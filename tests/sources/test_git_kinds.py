"""The sources that are folders or repositories, from `ktx.yaml` to a second run: what is fetched, what comes of it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import ConfigError, NotSupportedError
from ktx_cli.documents.raw import Snapshot
from ktx_cli.project.layout import Layout
from ktx_cli.project.plugins import SOURCES
from ktx_cli.project.workspace import Workspace
from ktx_cli.sources.dbt import DbtConnection
from ktx_cli.sources.dbt.project import PATH
from ktx_cli.sources.deliveries import RawStore
from ktx_cli.sources.lookml import LookMlConnection
from ktx_cli.sources.metricflow import MetricFlowConnection
from ktx_cli.sources.odcs import OdcsConnection
from ktx_cli.sources.port import FetchContext, ProjectContext
from ktx_cli.sources.registry import source_for
from ktx_cli.sources.tableau import TableauConnection
from tests.sources import tableau_files as tableau
from tests.sources.git_server import ENVIRON, Repository
from tests.sources.projecting import SHARD, SHOP, Project

SCHEMA = "models: [{name: orders, description: Orders of the shop.}]\n"
METRICS = """\
semantic_models:
  - name: orders
    model: ref('orders')
    entities: [{name: order, type: primary, expr: id}]
    measures: [{name: revenue, agg: sum, expr: amount}]
"""
LOOK = """\
connection: "dwh"
include: "views/*.view"
explore: orders {}
"""
VIEW = """\
view: orders {
  sql_table_name: shop.orders ;;
  dimension: id { primary_key: yes type: number sql: ${TABLE}.id ;; }
  measure: revenue { type: sum sql: ${TABLE}.amount ;; }
}
"""
CONTRACT = """\
kind: DataContract
apiVersion: v3.0.2
schema: [{name: orders, description: What people bought., properties: [{name: id, description: The number.}]}]
"""
FILES: dict[str, str | None] = {
    "dbt/dbt_project.yml": "name: acme\n", "dbt/models/schema.yml": SCHEMA, "dbt/README.md": "# Why\n",
    "dbt/profiles.yml": "acme: {password: secret}\n", "dbt/models/orders.sql": "select 1",
    "metrics/metrics.yml": METRICS, "look/shop.model.lkml": LOOK, "look/views/orders.view.lkml": VIEW,
    "look/README.md": "x", "books/orders.tds": tableau.data_source("orders", measures={"Revenue": "SUM([amount])"}),
    "books/README.md": "x", "contracts/orders.yaml": CONTRACT, "contracts/other.yaml": "kind: Chart\n",
}  # fmt: skip


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "team", "trunk")
    made.commit(FILES)
    return made


def context(tmp_path: Path, previous: Snapshot | None = None) -> FetchContext:
    layout = Layout(tmp_path / "project")
    layout.root.mkdir(exist_ok=True)
    known = {path: file.sha256 for path, file in previous.files.items()} if previous else {}
    return FetchContext(
        "analytics", layout, {**os.environ, **ENVIRON}, RawStore(layout.private / "raw"), previous=known
    )


def entry(driver: str, folder: str, **more: Any) -> Any:
    if driver == "dbt":
        return DbtConnection.model_validate({"driver": driver, "repo_url": folder, "path": "dbt", **more})
    if driver == "lookml":
        return LookMlConnection.model_validate({"driver": driver, "repoUrl": folder, "path": "look", **more})
    if driver == "tableau":
        return TableauConnection.model_validate({"driver": driver, "repo_url": folder, "path": "books", **more})
    if driver == "odcs":
        return OdcsConnection.model_validate({"driver": driver, "repo_url": folder, "path": "contracts", **more})
    return MetricFlowConnection.model_validate(
        {"driver": driver, "metricflow": {"repoUrl": folder, "path": "metrics", **more}}
    )


@pytest.mark.parametrize(
    ("driver", "fetched", "wrote"),
    [
        ("dbt", ["README.md", "dbt_project.yml", "models/orders.sql", "models/schema.yml"], [SHARD]),
        ("metricflow", ["metrics.yml"], ["semantic-layer/shop/orders.yaml"]),
        ("lookml", ["shop.model.lkml", "views/orders.view.lkml"], ["semantic-layer/shop/orders.yaml"]),
        ("tableau", ["orders.tds"], ["semantic-layer/shop/orders.yaml"]),
        ("odcs", ["orders.yaml"], [SHARD]),
    ],
)
def test_from_a_repository_to_files(
    driver: str, fetched: list[str], wrote: list[str], repository: Repository, tmp_path: Path
) -> None:
    source, configured = source_for(driver), entry(driver, str(repository.folder))
    first = source.fetch(configured, context(tmp_path))
    assert list(first.files) == fetched and first.fetched == len(fetched) and "(trunk, " in first.origin
    project = Project({SHARD: SHOP})
    workspace = Workspace(project.files)
    projection = source.project(configured, first, ProjectContext("analytics", workspace, project.models()))
    assert list(projection.artifacts) == wrote and set(projection.owned) == set(wrote)
    assert all(workspace.read(path) != project.files.get(path) for path in wrote)
    second = source.fetch(configured, context(tmp_path, first))
    assert second.fetched == 0 and second.files == first.files
    assert source.kind == driver and not source.documents


def test_a_dbt_project_in_a_folder(repository: Repository, tmp_path: Path) -> None:
    compiled = {"metadata": {"dbt_schema_version": "x/v12.json"}, "nodes": {}, "sources": {}}
    for index in range(2):
        path = repository.folder / "dbt" / PATH
        path.parent.mkdir(exist_ok=True)
        (path.parent / "run_results.yml").write_text("x: 1")
        path.write_text(json.dumps({**compiled, "metadata": {**compiled["metadata"], "generated_at": str(index)}}))
        configured = DbtConnection.model_validate({"driver": "dbt", "source_dir": str(repository.folder / "dbt")})
        found = source_for("dbt").fetch(configured, context(tmp_path))
        assert list(found.files) == ["README.md", "dbt_project.yml", "models/orders.sql", "models/schema.yml", PATH]
        assert found.files[PATH].text() == json.dumps({"project": "", "nodes": []}, sort_keys=True, indent=0)
    path.write_text("{")
    broken = source_for("dbt").fetch(configured, context(tmp_path))
    assert PATH not in broken.files and [each.what for each in broken.skipped] == [PATH]
    assert [each.code for each in broken.warnings] == ["dbt_manifest"]


@pytest.mark.table(
    ("settings", "message"),
    [
        (b"name: acme\nvars: {}\nname: other\n", "dbt_project.yml:3:1: the key 'name' occurs twice"),
        (b"- name\n", "dbt_project.yml:1: the settings of the dbt project are not a mapping"),
        (b"name: M\xfcller\n", "dbt_project.yml:1:8: the text is not UTF-8"),
        (b"name: [acme\n", "dbt_project.yml:"),
        (b"# name: acme\n", "dbt_project.yml:1: the file is empty"),
    ],
)
def test_settings_of_a_dbt_project_that_cannot_be_read_fail_the_source(
    settings: bytes, message: str, repository: Repository, tmp_path: Path
) -> None:
    (repository.folder / "dbt" / "dbt_project.yml").write_bytes(settings)
    configured = DbtConnection.model_validate({"driver": "dbt", "source_dir": str(repository.folder / "dbt")})
    with pytest.raises(ConfigError) as caught:
        source_for("dbt").fetch(configured, context(tmp_path))
    assert message in caught.value.message and caught.value.hint
    assert caught.value.details["path"] == "dbt_project.yml" and caught.value.details["line"] > 0


@pytest.mark.parametrize("driver", ["dbt", "metricflow", "lookml", "tableau", "odcs"])
def test_a_folder_without_anything_of_the_kind(driver: str, repository: Repository, tmp_path: Path) -> None:
    repository.commit({"empty/a.txt": "x"})
    with pytest.raises(ConfigError, match=r"no .* at .*: it contains no") as refused:
        source_for(driver).fetch(entry(driver, str(repository.folder), path="empty"), context(tmp_path))
    assert ".path" in (refused.value.hint or "")


@pytest.mark.parametrize("driver", ["dbt", "metricflow", "lookml"])
def test_the_check_of_a_folder_says_what_a_fetch_would(driver: str, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    folder = tmp_path / "folder"
    for name in ("dbt", "look", "metrics"):
        (folder / name).mkdir(parents=True)
        (folder / name / "README.md").write_text("# Why")
    source, configured = source_for(driver), entry(driver, str(folder))
    with pytest.raises(ConfigError) as fetched:
        source.fetch(configured, context(tmp_path))
    with pytest.raises(ConfigError) as checked:
        source.check(configured, context(tmp_path))  # type: ignore[attr-defined]
    assert (checked.value.message, checked.value.hint) == (fetched.value.message, fetched.value.hint)
    for name in ("dbt/dbt_project.yml", "look/shop.model.lkml", "metrics/metrics.yml"):
        (folder / name).write_text("name: acme")
    assert source.check(configured, context(tmp_path)).startswith(f"folder {folder}")  # type: ignore[attr-defined]


def test_the_branch_of_lookml_counts_where_it_is_written(repository: Repository, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no branch `main`"):
        source_for("lookml").fetch(entry("lookml", str(repository.folder), branch="main"), context(tmp_path))


def test_what_a_source_of_metrics_leaves(tmp_path: Path) -> None:
    source = source_for("metricflow")
    lossy = METRICS + "metrics: [{name: odd, type: conversion, type_params: {}}]\n"
    project = Project({SHARD: SHOP})
    for text, left in ((METRICS, frozenset({"a.yml"})), (lossy, frozenset())):
        assert project.run(source, {"a.yml": text}).handled == left


def test_every_driver_has_a_source() -> None:
    assert {driver: source_for(driver).kind for driver in SOURCES.built_in} == {
        **{driver: driver for driver in SOURCES.built_in}, "documents": "files"
    }  # fmt: skip
    with pytest.raises(NotSupportedError) as unknown:
        source_for("dtb")
    assert unknown.value.hint == "did you mean `dbt`?"


OWN: dict[str, str | None] = {
    f"{folder}{name}": "{}"
    for folder in ("dbt/", "metrics/", "look/", "look/views/inner/")
    for name in (
        "ktx.yaml", "semantic-layer/shop/_schema/main.yaml", "semantic-layer/shop/x.view.lkml", "wiki/global/page.md",
        "raw-sources/dbt/dbt/manifest.yaml", "raw-sources/x.model.lkml", "evals/a.yaml", "prompts/work_unit.md",
        ".ktx/x.yaml", ".user.yml",
    )
}  # fmt: skip


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("driver", ["dbt", "metricflow", "lookml"])
def test_what_ktx_keeps_in_the_same_folder_is_never_read(
    driver: str, committed: bool, repository: Repository, tmp_path: Path
) -> None:
    place = str(repository.folder) if committed else str(tmp_path / "plain")
    if not committed:
        shutil.copytree(repository.folder, place, ignore=shutil.ignore_patterns(".git"))
    source, configured = source_for(driver), entry(driver, place)
    before = source.fetch(configured, context(tmp_path))
    if committed:
        repository.commit(OWN)
    for name in () if committed else OWN:
        path = Path(place, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    assert list(source.fetch(configured, context(tmp_path)).files) == list(before.files) != []
