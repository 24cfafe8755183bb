"""Two projects with a schema each on one Postgres server: neither sees or changes anything of the other."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import StorageError
from ktx_cli.engine.queue import prepare_queue
from ktx_cli.jobs.serve.audit import audit_store
from ktx_cli.project import Layout, open_for_writing, shared_state_of
from ktx_cli.testing.servers import PostgresServer
from tests.cli.conftest import Share
from tests.worlds.forks import Started
from tests.worlds.shared_company import TOPICS, Model, SharedCompany
from tests.worlds.shared_schema import SharedSchema

Run = Callable[..., Any]
Git = Callable[..., str]

pytestmark = pytest.mark.skipif("KTX_TEST_STATE" in os.environ, reason="sets the state of its projects itself")


@pytest.fixture
def projects(
    share: Share, shared_schema: SharedSchema, postgres_server: PostgresServer, ingested: Path, tmp_path: Path
) -> Iterator[tuple[Path, Path]]:
    """A project, and a copy of it with a schema of its own."""
    one, two = share(search="postgres")
    other = SharedSchema(postgres_server)
    config = two / "ktx.yaml"
    config.write_text(config.read_text().replace(shared_schema.name, other.name))
    yield one, two
    other.drop()


def test_runs_usage_audit_and_search_are_of_one_project(ktx: Run, projects: tuple[Path, Path], git: Git) -> None:
    one, two = (("--project-dir", str(each), "--json") for each in projects)
    page = projects[0] / "wiki" / "global" / "zebra.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("---\nsummary: Zebra\n---\n\n# Zebra\n\nA striped order.\n")
    assert ktx("ingest", *one).code == 0 and ktx("index", *one).code == 0
    assert ktx("runs", "list", *two).data["runs"] == [] != ktx("runs", "list", *one).data["runs"]
    assert ktx("search", "zebra", *one).data["hits"] != [] == ktx("search", "zebra", *two).data["hits"]
    assert ktx("index", *two).data["rebuilt"] is True
    assert ktx("search", "zebra", *two).data["hits"] == []
    store = audit_store(Layout(projects[0]))
    store.append({"at": "2026-01-01T00:00:00Z", "method": "tools/call", "tool": "sl_query"})
    store.close()
    assert len(ktx("mcp", "logs", "--audit", *one).data["lines"]) == 1
    assert ktx("mcp", "logs", "--audit", *two).data["lines"] == []
    assert ktx("ingest", *two).code == 0
    runs = [{each["run_id"] for each in ktx("runs", "list", *project).data["runs"]} for project in (one, two)]
    assert runs[0] and runs[1] and runs[0].isdisjoint(runs[1])


@pytest.mark.timeout(120)
def test_a_worker_takes_units_of_its_project_only(
    company: Path, configure: Run, shared: SharedCompany, model: Model, tmp_path: Path, postgres_server: PostgresServer
) -> None:
    configure(TOPICS[0])
    shared.configure()
    other = SharedSchema(postgres_server)
    folder = tmp_path / "other"
    shutil.copytree(company, folder)
    config = folder / "ktx.yaml"
    config.write_text(config.read_text().replace(shared.schema.name, other.name))
    neighbour = SharedCompany(folder, other, shared._forks, tmp_path / "home")
    started: list[Started] = []
    try:
        for each in (shared, neighbour):
            started.append(each.start("ingest", "--json"))
            each.wait_for("SELECT id FROM QUEUE.procrastinate_jobs WHERE status = 'todo'")
        worker = neighbour.start("worker", "--once", "--json")
        assert worker.wait() == 0 and json.loads(neighbour.said(worker).splitlines()[-1])["data"]["units"] == 1
        assert started[1].wait() == 0
        assert len(shared.rows("SELECT id FROM QUEUE.procrastinate_jobs WHERE status = 'todo'")) == 1
        shared.start("worker")
        assert started[0].wait() == 0
        assert set(model.asked.values()) == {2}
    finally:
        neighbour.close()
        other.drop()


def test_the_schema_of_one_project_is_not_the_queue_of_another(
    ingested: Path, shared_schema: SharedSchema, tmp_path: Path
) -> None:
    """The state of a project whose schema is named as the queue of another one is not deleted for that queue."""
    other = tmp_path / "other"
    other.mkdir()
    for folder, schema in ((ingested, shared_schema.name), (other, shared_schema.queue)):
        storage = shared_schema.storage().replace(shared_schema.name, schema)
        (folder / "ktx.yaml").write_text(storage)
    with open_for_writing(Layout(other)) as state:
        state.execute("INSERT INTO rate_pauses VALUES ('models', 1.0)")
    with open_for_writing(Layout(ingested)):
        pass
    database = shared_state_of(Layout(ingested))
    assert database is not None
    with pytest.raises(StorageError, match="contains objects that ktx did not create"):
        prepare_queue(database)
    assert shared_schema.rows("SELECT count(*) FROM QUEUE.rate_pauses") == [(1,)]
    shared_schema.rows(f'DROP SCHEMA "{shared_schema.queue}" CASCADE')
    prepare_queue(database)
    with pytest.raises(StorageError, match="contains the queue of another project"), open_for_writing(Layout(other)):
        pass
