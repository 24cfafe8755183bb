"""A dry run says what a run would do: the same tables and files, and nothing is written."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import ConfigError
from ktx_cli.engine.report import FileChanges
from ktx_cli.jobs.ingest.plan import IngestRequest, plan_run
from ktx_cli.jobs.ingest.run import ingest

Change = Callable[..., None]


def listed(project: Path) -> dict[str, bytes]:
    return {path.as_posix(): path.read_bytes() for path in project.rglob("*") if path.is_file()}


def planned_and_done(project: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the reports of a dry run, which must write nothing, and of the run after it."""
    request = IngestRequest(project, {})
    before = listed(project)
    planned, _ = ingest(dataclasses.replace(request, dry_run=True))
    assert listed(project) == before
    assert planned.error() is None
    done, _ = ingest(request)
    return planned.to_json(), done.to_json()


def first(project: Path, change: Change) -> None:
    """Nothing is ingested yet."""


def grown(project: Path, change: Change) -> None:
    ingest(IngestRequest(project, {}))
    change(project, "CREATE TABLE lines (id INTEGER)", "ALTER TABLE orders ADD COLUMN x TEXT", "DROP TABLE customers")


def same(project: Path, change: Change) -> None:
    ingest(IngestRequest(project, {}))


def ignored(project: Path, change: Change) -> None:
    (project / ".gitignore").write_text("semantic-layer/\n")
    ingest(IngestRequest(project, {}))
    change(project, "CREATE TABLE lines (id INTEGER)")


RAW = "raw-sources/shop/live-database"
SHARD = "semantic-layer/shop/_schema/main.yaml"
NONE: dict[str, list[str]] = {"added": [], "changed": [], "removed": [], "kept": []}


@pytest.mark.parametrize(
    ("prepare", "status", "changes", "written", "removed"),
    [
        (
            first,
            "planned",
            {"added": ["customers", "orders"]},
            ["manifest.yaml", "relationships.json", "tables/customers.json", "tables/orders.json"],
            [],
        ),
        (
            grown,
            "planned",
            {"added": ["lines"], "changed": ["orders"], "removed": ["customers"]},
            ["manifest.yaml", "relationships.json", "tables/lines.json", "tables/orders.json"],
            ["tables/customers.json"],
        ),
        (ignored, "planned", {"added": ["lines"]}, ["manifest.yaml", "relationships.json", "tables/lines.json"], []),
        (same, "unchanged", {}, [], []),
    ],
)
def test_a_dry_run_foretells_the_run(
    shop_project: Path,
    change: Change,
    prepare: Callable[[Path, Change], None],
    status: str,
    changes: dict[str, list[str]],
    written: list[str],
    removed: list[str],
) -> None:
    prepare(shop_project, change)
    planned, done = planned_and_done(shop_project)
    (plan,), (work,) = planned["connections"], done["connections"]
    assert (planned["status"], planned["dry_run"], plan["status"]) == (status, True, status)
    assert (planned["commit"], planned["committed"]) == (None, [])
    assert plan["changes"] == {**NONE, **changes}
    shard = [SHARD] if written else []
    assert plan["files"] == {
        "written": [*(f"{RAW}/{name}" for name in written), *shard],
        "removed": [f"{RAW}/{name}" for name in removed],
    }
    assert (work["changes"], work["files"]) == (plan["changes"], plan["files"])
    assert done["status"] == ("unchanged" if status == "unchanged" else "done")


def test_files_that_were_left_alone_are_not_among_the_written(shop_project: Path, change: Change) -> None:
    ingest(IngestRequest(shop_project, {}))
    shard = shop_project / SHARD
    shard.write_text(shard.read_text() + "# mine\n")
    change(shop_project, "CREATE TABLE lines (id INTEGER)")
    report, _ = ingest(IngestRequest(shop_project, {}))
    files = report.connections[0].files
    assert [path for path, _ in report.held] == [SHARD]
    assert SHARD not in files.written
    assert sorted((*files.written, *files.removed)) == sorted(report.committed)


def test_a_dry_run_names_a_connection_that_fails(shop_project: Path) -> None:
    with (shop_project / "ktx.yaml").open("a") as config:
        config.write("  gone:\n    driver: sqlite\n    path: gone.sqlite\n")
    report, _ = ingest(IngestRequest(shop_project, {}, dry_run=True))
    error = report.error()
    assert report.status == "partial"
    assert error is not None
    assert error.exit_code == 7
    assert [c.status for c in report.connections] == ["failed", "planned"]


def test_file_changes_are_sorted() -> None:
    assert FileChanges.of({"b": b"", "c": None, "a": b"x"}) == FileChanges(("a", "b"), ("c",))


SOURCE_AND_QUEUE = """\
  docs: {driver: documents, path: docs}
llm: {provider: {backend: anthropic}, models: {default: claude-sonnet-4-5}}
ingest: {executor: postgres}
"""


@pytest.mark.parametrize(("no_llm", "refused"), [(False, True), (True, False)])
def test_a_run_without_the_queue_it_needs_begins_nothing(shop_project: Path, no_llm: bool, refused: bool) -> None:
    (shop_project / "docs").mkdir()
    config = shop_project / "ktx.yaml"
    config.write_text(config.read_text() + SOURCE_AND_QUEUE)
    request = IngestRequest(shop_project, {}, no_llm=no_llm)
    if refused:
        with pytest.raises(ConfigError, match="needs the shared state, but storage"):
            plan_run(request)
    else:
        assert plan_run(request).is_distributed
