"""dbt's compiled manifest: where tables really are, texts as they came out, and nothing that changes by itself."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ktx_cli.core.errors import ConfigError
from ktx_cli.sources.dbt.project import PATH, reduced
from ktx_cli.sources.dbt.source import DbtSource
from tests.sources.projecting import OTHER, OTHER_SHARD, SHARD, SHOP, Project, lost

MODELS = """\
models:
  - name: people
    description: "{{ env_var('TEXT') }}"
    columns: [{name: id, description: "{{ custom() }}"}]
"""


def node(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "resource_type": "model", "name": name, "package_name": "acme", "database": "db", "schema": "shop",
        "alias": name, "config": {"materialized": "table"}, "columns": {}, **fields,
    }  # fmt: skip


def manifest(*nodes: dict[str, Any], sources: tuple[dict[str, Any], ...] = (), **metadata: Any) -> str:
    facts = {"dbt_schema_version": "https://schemas.getdbt.com/dbt/manifest/v12.json", "project_name": "acme"}
    document = {
        "metadata": {**facts, **metadata},
        "nodes": {f"model.{each['name']}.{index}": each for index, each in enumerate(nodes)},
        "sources": {f"source.{each['name']}": each for each in sources},
    }
    return json.dumps(document)


def run(models: str, compiled: str) -> tuple[Project, list[str]]:
    made = Project({SHARD: SHOP, OTHER_SHARD: OTHER})
    files = {"models/schema.yml": models, PATH: reduced(compiled.encode(), PATH).decode()}
    return made, lost(made.run(DbtSource(), files))


def test_where_a_table_is_and_how_its_texts_came_out() -> None:
    columns = {"id": {"name": "id", "description": "The key."}}
    made, left = run(MODELS, manifest(node("people", alias="customers", description="Compiled.", columns=columns)))
    assert left == []
    assert made.entry("customers")["descriptions"] == {"dbt": "Compiled."}
    assert made.column("customers", "id")["descriptions"] == {"dbt": "The key."}
    assert "descriptions" not in made.entry("customers", OTHER_SHARD)


def test_what_stands_in_the_yaml_now_counts_before_an_older_compilation() -> None:
    models = MODELS.replace("\"{{ env_var('TEXT') }}\"", "New.")
    made, _ = run(models, manifest(node("people", alias="customers", description="Old.")))
    assert made.entry("customers")["descriptions"] == {"dbt": "New."}


def test_tables_of_installed_packages_are_described_too() -> None:
    visits = {"resource_type": "source", "name": "visits", "source_name": "web", "identifier": "visits",
              "package_name": "tracking", "database": None, "schema": "crm", "description": "Page views.",
              "columns": {}}  # fmt: skip
    made, _ = run("models: []\n", manifest(sources=(visits,)))
    assert made.entry("visits", OTHER_SHARD)["descriptions"] == {"dbt": "Page views."}


def test_the_project_itself_counts_before_a_package() -> None:
    nodes = (node("people", alias="customers"), node("people", package_name="other", alias="orders"))
    made, _ = run(MODELS.replace("\"{{ env_var('TEXT') }}\"", "New."), manifest(*nodes))
    assert made.entry("customers")["descriptions"] == {"dbt": "New."}


def test_an_ephemeral_model_has_no_table() -> None:
    _, left = run(MODELS, manifest(node("people", alias="customers", config={"materialized": "ephemeral"})))
    assert left == ["models/schema.yml:2 model `people`: it is ephemeral, so it has no table"]


def test_what_changes_by_itself_changes_nothing() -> None:
    one = manifest(node("a"), node("b", created_at=1.5), generated_at="2026-01-01", invocation_id="x")
    two = manifest(node("b", created_at=2.5), node("a", compiled_code="select 1"), generated_at="2027", user_id="y")
    assert reduced(one.encode(), PATH) == reduced(two.encode(), PATH)
    assert reduced(one.encode(), PATH) != reduced(manifest(node("a")).encode(), PATH)


@pytest.mark.table(
    ("content", "what"),
    [
        (b"{", "is not a dbt manifest"),
        (b"[]", "is not a dbt manifest"), (b'{"metadata": {}}', "is not a dbt manifest"),
        (manifest(dbt_schema_version="https://x/v3.json").encode(), "has version 3"),
        (b"[" * 100_000, "is not a dbt manifest"),
    ],
)  # fmt: skip
def test_what_is_no_manifest(content: bytes, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        reduced(content, PATH)
