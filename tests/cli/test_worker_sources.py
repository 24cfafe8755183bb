"""Units of sources other than documents on workers: files that a unit depends on, and tables that it looks up."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.testing.model_server import ModelServer
from tests.cli.source_rows import DBT, of_edition
from tests.cli.source_worker import Worker
from tests.worlds.shared_company import SharedCompany

Run = Callable[..., Any]
Git = Callable[..., str]

pytestmark = pytest.mark.skipif("KTX_TEST_STATE" in os.environ, reason="sets the state of its projects itself")


@pytest.mark.timeout(180)
def test_a_dbt_project_makes_the_same_tree_on_workers(
    company: Path, configure: Run, shared: SharedCompany, model_server: ModelServer, git: Git, tmp_path: Path
) -> None:
    """The worker has another clone, without the files of the dbt project; a change is processed there too."""
    configure()
    config = company / "ktx.yaml"
    text = config.read_text()
    start = text.index("connections:")
    source = "  transform: {driver: dbt, source_dir: transform}\n"
    config.write_text(f"{text[:start]}connections:\n{source}  shop: {{driver: sqlite, path: shop.sqlite}}\n")
    write(company, 0)
    alone = tmp_path / "alone"
    shutil.copytree(company, alone)
    local = SharedCompany(alone, shared.schema, shared._forks, tmp_path / "home")
    shared.configure()
    clone = tmp_path / "clone"
    shutil.copytree(company, clone, ignore=shutil.ignore_patterns("transform"))
    elsewhere = SharedCompany(clone, shared.schema, shared._forks, work := tmp_path / "worker")
    work.mkdir()
    try:
        worker = elsewhere.start("worker")
        for edition in (0, 1):
            trees = []
            for each in (local, shared):
                write(each.folder, edition)
                player = Worker()
                model_server.play(player)
                ingest = each.start("ingest", "--json")
                assert ingest.wait() == 0, each.said(ingest) + elsewhere.said(worker)
                data = json.loads(each.said(ingest).splitlines()[-1])["data"]
                (found,) = [part for part in data["sources"] if part["connection"] == "transform"]
                assert found["units"] and {unit["status"] for unit in found["units"]} == {"done"}
                assert player.seen
                trees.append(git(each.folder, "rev-parse", "HEAD:wiki", "HEAD:semantic-layer", "HEAD:raw-sources"))
            assert trees[0] == trees[1], (edition, trees)
        assert not (clone / "transform").exists()
    finally:
        local.close()
        elsewhere.close()


def write(folder: Path, edition: int) -> None:
    """Write an edition of the dbt project."""
    for name, text in of_edition(DBT, edition).items():
        path = folder / "transform" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
