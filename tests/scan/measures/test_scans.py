"""Proposed measures in whole runs: the same bytes again, a column that goes, and the setting."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from ktx_cli.engine.report import IngestReport
from ktx_cli.jobs.ingest.plan import IngestRequest
from ktx_cli.jobs.ingest.run import ingest
from ktx_cli.project.layout import Layout
from ktx_cli.scan.stages import Depth
from ktx_cli.semantic.load.load import load_model
from tests.scan.conftest import change_fixture, shop_project

__all__ = ["change_fixture", "shop_project"]

Change = Callable[..., None]
PAYMENTS = (
    "CREATE TABLE payments (payment_id INTEGER PRIMARY KEY, paid_at TIMESTAMP, amount DECIMAL(9,2), fee DECIMAL(9,2))",
    "INSERT INTO payments WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 80)"
    " SELECT i, '2024-05-01 10:00:00', i * 2.5, i * 0.1 + 1 FROM n",
)


def scan(project: Path, depth: Depth = Depth.PROFILE) -> IngestReport:
    report, _ = ingest(IngestRequest(project, os.environ, depth=depth))
    return report


def commit(project: Path) -> None:
    author = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    subprocess.run(["git", "-C", project, *author, "commit", "-qam", "by hand"], check=True)


def layer(project: Path) -> dict[str, bytes]:
    folders = ("semantic-layer", "raw-sources")
    return {
        path.relative_to(project).as_posix(): path.read_bytes()
        for folder in folders
        for path in sorted((project / folder).rglob("*"))
        if path.is_file()
    }


def proposed(project: Path) -> set[str]:
    (connection,) = (each.name for each in (project / "semantic-layer").iterdir())
    source = load_model(Layout(project), connection, "sqlite").sources["payments"]
    return {each.name for each in source.measures.values() if each.is_proposed}


ALL = {"payment_count", "total_payment_amount", "total_payment_fee"}


def test_proposals_follow_the_database(shop_project: Path, change: Change) -> None:
    change(shop_project, *PAYMENTS)
    scan(shop_project)
    assert proposed(shop_project) == ALL
    before = layer(shop_project)

    scan(shop_project)
    scan(shop_project, Depth.STRUCTURAL)
    assert layer(shop_project) == before

    change(shop_project, "INSERT INTO payments VALUES (900, '2024-06-01 10:00:00', 7, 1)")
    scan(shop_project)
    assert layer(shop_project) == before

    change(shop_project, "ALTER TABLE payments DROP COLUMN fee")
    scan(shop_project, Depth.STRUCTURAL)
    assert proposed(shop_project) == ALL - {"total_payment_fee"}


def test_a_person_can_accept_one_in_place_and_switch_proposals_off(shop_project: Path, change: Change) -> None:
    change(shop_project, *PAYMENTS)
    scan(shop_project)
    (shard,) = (shop_project / "semantic-layer").rglob("_schema/*.yaml")
    text = shard.read_text()
    place = text.index("name: total_payment_amount")
    shard.write_text(text[:place] + text[place:].replace("status: proposed", "status: accepted", 1))
    commit(shop_project)
    scan(shop_project)
    assert proposed(shop_project) == ALL - {"total_payment_amount"}

    config = shop_project / "ktx.yaml"
    config.write_text(config.read_text() + "scan:\n  propose_measures: false\n")
    scan(shop_project)
    assert proposed(shop_project) == set()
    assert "total_payment_amount" in shard.read_text()
