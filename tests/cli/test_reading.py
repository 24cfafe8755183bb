"""Commands that read: what they say, and that they change nothing."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
Git = Callable[..., str]

READERS = [
    ("status",),
    ("doctor",),
    ("connection", "list"),
    ("connection", "test"),
    ("config", "show"),
    ("config", "get", "llm"),
    ("config", "validate"),
    ("config", "schema"),
    ("completion", "bash"),
    ("--help",),
    ("ingest", "--dry-run"),
]


def tree(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        str(path.relative_to(folder)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("words", READERS, ids=" ".join)
@pytest.mark.parametrize("state", ["set-up", "ingested", "no-repository"])
def test_reading_changes_nothing(ktx: Run, words: tuple[str, ...], state: str, request: pytest.FixtureRequest) -> None:
    project: Path = request.getfixturevalue("ingested" if state == "ingested" else "project")
    if state == "no-repository":
        shutil.rmtree(project / ".git")
        shutil.rmtree(project / ".ktx")
    before = tree(project)
    not_ready = state != "ingested" and words in {("status",), ("doctor",)}
    assert ktx(*words).code == (3 if not_ready else 0)
    assert tree(project) == before


def test_status_of_a_fresh_project_is_not_ready_and_names_the_next_command(ktx: Run, project: Path) -> None:
    answer = ktx("status", "--json")
    assert answer.code == 3
    assert answer.data["ready"] is False
    assert answer.data["next"] == "ktx ingest warehouse"
    assert answer.envelope["error"]["code"] == "not_ready"


def test_status_of_an_ingested_project(ktx: Run, ingested: Path) -> None:
    answer = ktx("status", "--json")
    assert answer.code == 0
    (warehouse,) = answer.data["connections"]
    assert (warehouse["sources"], warehouse["columns"]) == (3, 9)
    assert warehouse["last_scan"]
    assert answer.data["runs"][0]["status"] == "done"
    text = ktx("status").out
    assert "ready: yes" in text
    assert "warehouse\tsqlite\t3\t9" in text


def test_status_with_nothing_left_to_do_names_no_next_command(ktx: Run, ingested: Path) -> None:
    answer = ktx("status")
    assert (answer.code, answer.err) == (0, "")
    assert ktx("status", "--json").data["next"] is None


def test_status_names_what_was_never_scanned(ktx: Run, ingested: Path) -> None:
    shutil.rmtree(ingested / ".ktx")  # a fresh clone: context, and no memory of a scan
    answer = ktx("status")
    assert (answer.code, answer.err) == (0, "next: ktx ingest warehouse\n")
    ktx("connection", "add", "copy", "--driver", "sqlite", "--path", "shop.sqlite")
    shutil.copytree(ingested / "semantic-layer" / "warehouse", ingested / "semantic-layer" / "copy")
    assert ktx("status", "--json").data["next"] == "ktx ingest"


@pytest.mark.parametrize(("ended", "next_command"), [("interrupted", "ktx ingest"), ("failed", "ktx doctor")])
def test_status_names_how_to_go_on_after_a_run_that_ended_badly(
    ktx: Run, ingested: Path, ended: str, next_command: str
) -> None:
    database = sqlite3.connect(ingested / ".ktx" / "state.sqlite")
    database.execute("UPDATE runs SET status = ?", (ended,))
    database.commit()
    database.close()
    assert ktx("status", "--json").data["next"] == next_command


def test_status_with_a_backend_that_cannot_run_is_not_ready(ktx: Run, ingested: Path) -> None:
    ktx("config", "set", "llm.provider.backend", "anthropic")
    answer = ktx("status", "--json")
    assert answer.code == 3
    assert [c["level"] for c in answer.data["checks"] if c["check"] == "llm"] == ["fail"]


def test_status_shows_a_broken_shard_and_counts_the_rest(ktx: Run, ingested: Path) -> None:
    (ingested / "semantic-layer" / "warehouse" / "_schema" / "broken.yaml").write_text("tables: [\n")
    answer = ktx("status", "--json")
    assert answer.data["connections"][0]["sources"] == 3
    assert "broken_shard" in [w["code"] for w in answer.envelope["warnings"]]


def test_doctor_is_well(ktx: Run, ingested: Path) -> None:
    answer = ktx("doctor", "--json")
    assert answer.code == 0, answer
    levels = {f["check"]: f["level"] for f in answer.data["findings"]}
    assert levels["connection:warehouse"] == "ok"
    assert levels["git"] == "ok"
    skipped = {name for name, level in levels.items() if level == "skip"}
    assert skipped == {"claude", "codex", "embeddings", "history", "probe"}
    assert set(levels.values()) == {"ok", "skip"}


def break_database(project: Path) -> None:
    (project / "shop.sqlite").unlink()


def break_secret(project: Path) -> None:
    config = project / "ktx.yaml"
    config.write_text(config.read_text() + "  pg:\n    driver: postgres\n    url: env:NOT_SET_ANYWHERE\n")


def break_repository(project: Path) -> None:
    (project / ".git" / "MERGE_HEAD").write_text("0" * 40 + "\n")


def break_state(project: Path) -> None:
    (project / ".ktx" / "state.sqlite").write_bytes(b"no database" * 1000)


def break_lock(project: Path) -> None:
    database = sqlite3.connect(project / ".ktx" / "state.sqlite")
    database.execute(
        "INSERT INTO leases VALUES ('run', 'r', 'ktx ingest', 4194000, '1', 'elsewhere', 'elsewhere', 0, 0)"
    )
    database.commit()
    database.close()


@pytest.mark.parametrize(
    ("break_it", "check", "level", "code"),
    [
        (break_database, "connection:warehouse", "fail", 1),
        (break_secret, "secrets", "fail", 3),
        (break_repository, "repository", "fail", 1),
        (break_state, "lock", "fail", 1),
        (break_lock, "lock", "warn", 0),
    ],
    ids=["database", "secret", "repository", "state", "lock"],
)
def test_doctor_finds(
    ktx: Run, ingested: Path, break_it: Callable[[Path], None], check: str, level: str, code: int
) -> None:
    break_it(ingested)
    answer = ktx("doctor", "--json")
    found = [f for f in answer.data["findings"] if f["check"] == check]
    assert [f["level"] for f in found] == [level]
    assert found[0]["hint"]
    assert answer.code == code, json.dumps(answer.data, indent=1)
    if code == 0:
        assert ktx("doctor", "--strict").code == 1


def test_doctor_runs_what_it_is_told(ktx: Run, project: Path) -> None:
    answer = ktx("doctor", "--only", "git", "--only", "python", "--json")
    assert [f["check"] for f in answer.data["findings"]] == ["python", "git"]
    assert ktx("doctor", "--only", "gti", "--json").envelope["error"]["hint"] == "did you mean `git`?"


def test_a_newer_state_database_is_not_read_and_not_touched(ktx: Run, project: Path) -> None:
    database = sqlite3.connect(project / ".ktx" / "state.sqlite")
    database.execute("PRAGMA user_version = 99")
    database.close()
    before = tree(project)
    assert ktx("status").code == 3
    assert ktx("ingest", "--json").envelope["error"]["code"] == "storage"
    assert tree(project) == before


def test_status_reads_every_manifest_once(ktx: Run, ingested: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ktx_cli.jobs.health import model

    read: list[str] = []
    load = model.load_manifest
    monkeypatch.setattr(model, "load_manifest", lambda layout, name: read.append(name) or load(layout, name))
    assert ktx("status").code == 0
    assert read == ["warehouse"]
