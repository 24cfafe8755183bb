from __future__ import annotations

import json
from pathlib import Path

import pytest

from ktx_cli.jobs.setup.detect.marts import mart_schemas

SCHEMAS = ["main", "main_marts", "main_staging", "raw"]
PROJECT = """
name: shop
models:
  shop:
    staging: {+schema: staging}
    marts:
      +schema: marts
      finance: {+schema: finance}
"""


def node(path: str, schema: str, kind: str = "model", materialized: str = "table") -> dict[str, object]:
    return {
        "resource_type": kind,
        "original_file_path": path,
        "schema": schema,
        "config": {"materialized": materialized},
    }


def test_the_schemas_that_the_project_sets_for_its_marts_are_found(tmp_path: Path) -> None:
    (tmp_path / "dbt_project.yml").write_text(PROJECT)
    assert mart_schemas(tmp_path, SCHEMAS) == ["main_marts"]
    assert mart_schemas(tmp_path, ["dev_finance", "prod_marts", "smarts"]) == ["dev_finance", "prod_marts"]


def test_the_manifest_is_believed_before_the_settings(tmp_path: Path) -> None:
    (tmp_path / "dbt_project.yml").write_text(PROJECT)
    (tmp_path / "target").mkdir()
    nodes = {
        "a": node("models/marts/orders.sql", "main"),
        "b": node("models/staging/stg_orders.sql", "main_staging"),
        "c": node("models/marts/helper.sql", "raw", materialized="ephemeral"),
        "d": node("seeds/marts/codes.csv", "raw", kind="seed"),
    }
    (tmp_path / "target/manifest.json").write_text(json.dumps({"nodes": nodes}))
    assert mart_schemas(tmp_path, SCHEMAS) == ["main"]


@pytest.mark.parametrize("text", ["", "name: [", "models: 1", "models: {marts: {+schema: \"{{ env_var('S') }}\"}}"])
def test_without_a_setting_nothing_is_offered(tmp_path: Path, text: str) -> None:
    (tmp_path / "dbt_project.yml").write_text(text)
    (tmp_path / "target").mkdir()
    (tmp_path / "target/manifest.json").write_text("[]")
    assert mart_schemas(tmp_path, SCHEMAS) == []
    assert mart_schemas(tmp_path / "nothing", SCHEMAS) == []
