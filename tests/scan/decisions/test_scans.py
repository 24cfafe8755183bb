"""Decision points in whole runs: the same bytes again, figures that hardly change, a column that goes, the setting."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import ResultWarning
from ktx_cli.jobs.ingest.plan import IngestRequest
from ktx_cli.jobs.ingest.run import ingest
from ktx_cli.scan.stages import Depth
from tests.scan.conftest import change_fixture, shop_project

__all__ = ["change_fixture", "shop_project"]

Change = Callable[..., None]
ACCOUNTS = (
    "CREATE TABLE accounts (account_id INTEGER PRIMARY KEY, name TEXT, is_internal BOOLEAN, deleted_at TIMESTAMP)",
    "INSERT INTO accounts WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)"
    " SELECT i, 'Firm ' || i, i % 20 = 0, CASE WHEN i % 10 = 3 THEN '2024-05-01 10:00:00' END FROM n",
)


def scan(project: Path, depth: Depth = Depth.PROFILE) -> list[ResultWarning]:
    _, warnings = ingest(IngestRequest(project, os.environ, depth=depth))
    return warnings


def record(project: Path) -> bytes:
    (found,) = (project / "raw-sources").rglob("decisions.json")
    return found.read_bytes()


def points(project: Path) -> dict[str, Any]:
    return {each["columns"][0]: each for each in json.loads(record(project))["points"]}


def test_points_follow_the_database(shop_project: Path, change: Change) -> None:
    change(shop_project, *ACCOUNTS)
    scan(shop_project)
    assert points(shop_project).keys() == {"is_internal", "deleted_at"}
    before = record(shop_project)

    scan(shop_project)
    scan(shop_project, Depth.STRUCTURAL)
    change(shop_project, "INSERT INTO accounts VALUES (900, 'Firm', true, NULL)")
    scan(shop_project)
    assert record(shop_project) == before

    change(shop_project, "UPDATE accounts SET is_internal = true WHERE account_id % 5 = 0")
    scan(shop_project)
    assert points(shop_project)["is_internal"]["evidence"] == ["is_internal is true in 41 of 201 rows."]

    change(shop_project, "ALTER TABLE accounts DROP COLUMN is_internal")
    scan(shop_project, Depth.STRUCTURAL)
    assert points(shop_project).keys() == {"deleted_at"}


def test_statements_and_spreads_stay_with_their_points(shop_project: Path, change: Change) -> None:
    change(shop_project, *ACCOUNTS)
    scan(shop_project)
    (path,) = (shop_project / "raw-sources").rglob("decisions.json")
    added = json.loads(path.read_text())
    added["points"][0] |= {
        "statements": [{"text": "Ours do not count.", "path": "handbook/a.md", "line": 3}],
        "spreads": {"accounts.account_count": 0.05},
    }
    path.write_text(json.dumps(added))
    change(shop_project, "UPDATE accounts SET is_internal = true WHERE account_id % 5 = 0")
    scan(shop_project)
    first = json.loads(record(shop_project))["points"][0]
    assert (first["statements"], first["spreads"]) == (added["points"][0]["statements"], added["points"][0]["spreads"])


def test_a_setting_switches_them_off(shop_project: Path, change: Change) -> None:
    change(shop_project, *ACCOUNTS)
    scan(shop_project)
    config = shop_project / "ktx.yaml"
    config.write_text(config.read_text() + "scan:\n  propose_decisions: false\n")
    scan(shop_project)
    assert points(shop_project) == {}


def test_a_record_of_another_version_is_kept(
    shop_project: Path, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(shop_project, *ACCOUNTS)
    scan(shop_project)
    scan(shop_project)
    before = record(shop_project)
    monkeypatch.setattr("ktx_cli.scan.decisions.record.FORMAT", 2)
    codes = {each.code for each in scan(shop_project) if "has format 1, but this ktx reads format 2" in each.message}
    assert codes == {"broken_record", "decision_effects"}
    assert record(shop_project) == before
