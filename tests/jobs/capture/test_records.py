"""Records of captures: written as a whole, read as they are now, found by what people type."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from ktx_cli.core.errors import StorageError, UsageError
from ktx_cli.jobs.capture import records
from ktx_cli.jobs.capture.records import (
    CaptureRequest,
    MemoryRecord,
    SourceType,
    Status,
    Worker,
    all_records,
    find,
    load,
    save,
    settle_dead,
)
from ktx_cli.project.files import write_atomic
from ktx_cli.project.layout import Layout


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


def made(text: str = "a", **fields: object) -> MemoryRecord:
    request = CaptureRequest(text, "a.md", "shop", "ada", SourceType.BACKFILL, True, True, "mcp")
    return replace(MemoryRecord.of(request), **fields)  # type: ignore[arg-type]


def test_a_record_is_read_as_it_was_written(layout: Layout) -> None:
    record = made(
        "caf\u00e9 \ud800",
        status=Status.CONFLICT,
        conflicts=({"artifact": "wiki:a"},),
        artifacts=("wiki:b",),
        error={"code": "conflict"},
        worker=Worker.this(),
    )
    save(layout, record)
    assert load(layout, record.run_id) == record
    assert record.request == CaptureRequest(
        "caf\u00e9 \ud800", "a.md", "shop", "ada", SourceType.BACKFILL, True, True, "mcp"
    )
    path = layout.memory_record(record.run_id)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(layout.memory.stat().st_mode) == 0o700
    assert layout.private_gitignore.read_text() == "*\n"


def test_running_with_a_dead_process_is_interrupted_and_reading_changes_nothing(layout: Layout) -> None:
    dead = made(status=Status.RUNNING, worker=replace(Worker.this(), start="0"))
    alive = made("b", status=Status.RUNNING, worker=Worker.this())
    elsewhere = made("c", status=Status.RUNNING, worker=Worker(1, "0", "another host"))
    for each in (dead, alive, elsewhere):
        save(layout, each)
    before = layout.memory_record(dead.run_id).read_bytes()
    assert [find(layout, each.run_id).status for each in (dead, alive, elsewhere)] == [
        Status.INTERRUPTED,
        Status.RUNNING,
        Status.RUNNING,
    ]
    assert layout.memory_record(dead.run_id).read_bytes() == before
    settle_dead(layout)
    written = load(layout, dead.run_id)
    assert written is not None and written.status is Status.INTERRUPTED and written.finished is not None


def test_who_holds_the_run_lock_knows_that_nobody_else_is_at_work(layout: Layout) -> None:
    elsewhere = save(layout, made(status=Status.RUNNING, worker=Worker(1, "0", "another host")))
    done = save(layout, made(status=Status.DONE))
    settle_dead(layout)
    assert [find(layout, each.run_id).status for each in (elsewhere, done)] == [Status.INTERRUPTED, Status.DONE]


def test_a_record_is_found_by_its_beginning(layout: Layout) -> None:
    with pytest.raises(UsageError, match="nothing has been captured"):
        find(layout, "latest")
    first = made(run_id="20260101T000000-aaaaaa", created="2026-01-01T00:00:00.000Z")
    second = made(run_id="20260101T000000-bbbbbb", created="2026-01-01T00:00:00.100Z")
    save(layout, first), save(layout, second)
    assert find(layout, "latest") == second
    assert find(layout, "20260101T000000-a") == first
    with pytest.raises(UsageError, match="several captures begin"):
        find(layout, "2026")
    with pytest.raises(UsageError, match="there is no capture") as missing:
        find(layout, "20260101T000000-aaaaab")
    assert missing.value.hint == "did you mean `20260101T000000-aaaaaa`?"
    with pytest.raises(UsageError):
        find(layout, "../../ktx")


def test_a_broken_record_keeps_no_other_from_being_listed(layout: Layout) -> None:
    record = save(layout, made())
    layout.memory_record("20260101T000000-aaaaaa").write_text("{")
    layout.memory_record("20260101T000000-bbbbbb").write_text(json.dumps({"run_id": "x"}))
    found, warnings = all_records(layout)
    assert [each.run_id for each in found] == [record.run_id]
    assert [each.code for each in warnings] == ["record_unreadable"] * 2
    settle_dead(layout)


@pytest.mark.parametrize("fields", [{"run_id": "../../package"}, {"created": 1}, {"content": None}])
def test_a_record_that_somebody_planted_leads_to_no_other_file(layout: Layout, fields: dict[str, object]) -> None:
    other = layout.root / "package.json"
    other.write_text("{}")
    planted = save(layout, made(status=Status.RUNNING))
    path = layout.memory_record(planted.run_id)
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    with pytest.raises(StorageError, match="not a record of a capture"):
        load(layout, planted.run_id)
    settle_dead(layout)
    assert other.read_text() == "{}"
    assert [each.code for each in all_records(layout)[1]] == ["record_unreadable"]


def test_a_temporary_file_a_run_removes_is_written_again(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[Path] = []

    def removed(path: Path, data: bytes, *, mode: int | None = None) -> None:
        tries.append(path)
        if len(tries) < 3:
            raise StorageError("gone", details={"errno": "ENOENT"})
        write_atomic(path, data, mode=mode)

    monkeypatch.setattr(records, "write_atomic", removed)
    record = save(layout, made())
    assert len(tries) == 3 and load(layout, record.run_id) == record
    monkeypatch.setattr(records, "write_atomic", _full)
    with pytest.raises(StorageError, match="full"):
        save(layout, made())


def _full(path: Path, data: bytes, *, mode: int | None = None) -> None:
    raise StorageError("full", details={"errno": "ENOSPC"})
