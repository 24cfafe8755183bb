"""What people wrote where ktx writes: what is lost is named, what is held is not; a state that is broken heals."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import yaml
from ktx_cli.project.repository import working_files

Run = Callable[..., Any]
Git = Callable[..., str]
SHARD = "semantic-layer/warehouse/_schema/main.yaml"


def change(project: Path, *statements: str) -> None:
    database = sqlite3.connect(project / "shop.sqlite")
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()


def describe(project: Path, comment: str = "") -> bytes:
    shard = project / SHARD
    document = yaml.load(shard.read_bytes(), where=SHARD)
    document["tables"]["customers"]["columns"][1]["descriptions"] = {"user": "as on the invoice"}
    shard.write_text(yaml.dump(document) + comment)
    return shard.read_bytes()


def codes(answer: Any) -> list[str]:
    return [warning["code"] for warning in answer.envelope["warnings"]]


def by_code(answer: Any, code: str) -> Any:
    (found,) = [warning for warning in answer.envelope["warnings"] if warning["code"] == code]
    return found


def test_nothing_is_called_removed_while_its_shard_is_held(ktx: Run, ingested: Path, git: Git) -> None:
    describe(ingested, "# mine\n")
    git(ingested, "commit", "-qam", "describe")
    change(ingested, "DROP TABLE customers")
    edited = (ingested / SHARD).read_bytes() + b"# more\n"
    (ingested / SHARD).write_bytes(edited)
    held = ktx("ingest", "--json")
    assert held.code == 7 and "removed_text" not in codes(held) and "removed_comments" not in codes(held)
    assert (ingested / SHARD).read_bytes() == edited
    git(ingested, "checkout", "-q", "--", SHARD)
    done = ktx("ingest", "--json")
    assert done.code == 0
    assert by_code(done, "removed_text")["tables"] == ["customers"]
    assert by_code(done, "removed_comments")["paths"] == [SHARD]


@pytest.mark.parametrize("ignored", [False, True])
def test_lost_comments_are_named_and_the_old_text_can_be_found(
    ktx: Run, project: Path, git: Git, ignored: bool
) -> None:
    if ignored:
        (project / ".gitignore").write_text("semantic-layer/\nraw-sources/\n")
    ktx("ingest")
    before = describe(project, "# mine\n")
    if not ignored:
        git(project, "commit", "-qam", "describe")
    change(project, "CREATE TABLE extra (id INTEGER PRIMARY KEY)")
    dry = ktx("ingest", "--dry-run", "--json")
    assert by_code(dry, "removed_comments")["paths"] == [SHARD]
    assert (project / SHARD).read_bytes() == before and not (project / ".ktx/replaced").exists()
    answer = ktx("ingest", "--json")
    assert answer.code == 0
    warning = by_code(answer, "removed_comments")
    assert warning["paths"] == [SHARD] and b"# mine" not in (project / SHARD).read_bytes()
    if ignored:
        (kept,) = (project / ".ktx/replaced").iterdir()
        assert kept.read_bytes() == before and f".ktx/replaced/{kept.name}" in warning["hint"]
    else:
        assert git(project, "show", f"HEAD~1:{SHARD}").encode() == before and "previous commit" in warning["hint"]
        assert not (project / ".ktx/replaced").exists()
    change(project, "CREATE TABLE again (id INTEGER PRIMARY KEY)")
    assert "removed_comments" not in codes(ktx("ingest", "--json"))


@pytest.mark.parametrize(
    ("flag", "reason"), [("--skip-worktree", "skip_worktree"), ("--assume-unchanged", "assume_unchanged")]
)
def test_edits_git_was_told_to_overlook_are_held_and_named(
    ktx: Run, ingested: Path, git: Git, flag: str, reason: str
) -> None:
    git(ingested, "update-index", flag, SHARD)
    mine = describe(ingested)
    committed = git(ingested, "show", f"HEAD:{SHARD}")
    change(ingested, "CREATE TABLE extra (id INTEGER PRIMARY KEY)")
    answer = ktx("ingest", "--json")
    assert answer.code == 7
    assert answer.data["held"] == [{"path": SHARD, "reason": reason}]
    assert f"--no-{flag[2:]} -- {SHARD}" in answer.envelope["error"]["hint"]
    assert (ingested / SHARD).read_bytes() == mine and git(ingested, "show", f"HEAD:{SHARD}") == committed
    git(ingested, "update-index", f"--no-{flag[2:]}", "--", SHARD)
    git(ingested, "commit", "-qam", "mine")
    assert ktx("ingest", "--json").code == 0
    assert b"as on the invoice" in (ingested / SHARD).read_bytes() and b"extra" in (ingested / SHARD).read_bytes()


def test_an_error_after_the_branch_moved_is_taken_back(
    ktx: Run, project: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> bool:
        raise PermissionError(13, "Permission denied")

    ktx("ingest")
    before = git(project, "rev-parse", "HEAD").strip()
    change(project, "CREATE TABLE extra (id INTEGER PRIMARY KEY)")
    with monkeypatch.context() as patch:
        patch.setattr(working_files, "_place", full)
        answer = ktx("ingest", "--json")
    head = git(project, "rev-parse", "HEAD").strip()
    assert head == before and answer.code == 1
    error = answer.envelope["error"]
    assert error["code"] == "storage" and "commit" not in error["details"]
    runs = ktx("status", "--json").data["runs"]
    assert {run["commit"] for run in runs if run["status"] == "failed"} == {None}
    assert ktx("ingest", "--json").code == 0
    assert git(project, "rev-parse", "HEAD~1").strip() == before
    assert git(project, "status", "--porcelain", "--", ":!shop.sqlite") == ""


def test_a_damaged_state_stops_nobody(ktx: Run, ingested: Path, git: Git) -> None:
    state = ingested / ".ktx/state.sqlite"
    state.write_bytes(b"no database at all" * 500)
    for command in (("status",), ("ingest", "--dry-run")):
        answer = ktx(*command, "--json")
        assert answer.code == 0 and "state_unreadable" in codes(answer)
        assert state.read_bytes()[:2] == b"no" and not list(state.parent.glob("*damaged*"))
    for command in (("search", "customers"), ("usage",), ("runs", "list"), ("connection", "list")):
        answer = ktx(*command, "--json")
        assert answer.code == 0 and "state_unreadable" in codes(answer), command
    assert ktx("search", "customers", "--json").data["hits"]
    answer = ktx("ingest", "--json")
    assert answer.code == 0 and answer.data["status"] == "unchanged"
    warning = by_code(answer, "state_damaged")
    assert Path(warning["path"]).read_bytes()[:2] == b"no"
    assert "state_damaged" not in codes(ktx("ingest", "--json"))


def test_a_state_of_a_newer_ktx_is_left_alone(ktx: Run, ingested: Path) -> None:
    path = ingested / ".ktx/state.sqlite"
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version=99")
    database.close()
    before = path.read_bytes()
    answer = ktx("ingest", "--json")
    assert answer.code == 1 and answer.envelope["error"]["code"] == "storage"
    assert "newer ktx" in answer.envelope["error"]["message"] and "update ktx" in answer.envelope["error"]["hint"]
    assert path.read_bytes() == before
    status = ktx("status", "--json")
    assert status.code == 0 and "state_unreadable" in codes(status)
    assert path.read_bytes() == before


def test_a_truncated_state_is_mended_by_setup_too(ktx: Run, ingested: Path) -> None:
    state = ingested / ".ktx/state.sqlite"
    state.write_bytes(state.read_bytes()[:4096])
    answer = ktx("setup", "--no-input", "--json")
    assert answer.code == 0 and "state_damaged" in codes(answer)
