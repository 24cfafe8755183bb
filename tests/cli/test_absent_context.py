"""Committed context that is not in the working tree is named by ingest and status alike, and their hints help."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import ingested_shop
from tests.worlds.forks import shared

Run = Callable[..., Any]
Git = Callable[..., str]
SHARD = "semantic-layer/warehouse/_schema/main.yaml"
RAW = "raw-sources/warehouse/live-database/tables/orders.json"


def unprivileged(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `ktx` as a process of a user whom file permissions bind."""
    if os.geteuid() == 0 and sys.platform != "linux":
        pytest.skip("root may write everywhere")
    return shared().run(words, folder=folder, environ=os.environ, bound=os.geteuid() == 0)


@pytest.fixture
def project(work: Path, copies: Callable[..., Path]) -> Path:
    """A project over the shop, ingested."""
    return copies(ingested_shop, work)


def add_table(project: Path, name: str = "extra") -> None:
    database = sqlite3.connect(project / "shop.sqlite")
    database.execute(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY)")
    database.close()


def held(answer: Any) -> list[tuple[str, str]]:
    return [(each["path"], each["reason"]) for each in answer.data["held"]]


def finding(answer: Any, check: str = "context") -> Any:
    (found,) = [found for found in answer.data["checks"] if found["check"] == check]
    return found


@pytest.mark.parametrize(
    "barred", [*(pytest.param(Path(file).parent, marks=pytest.mark.slow) for file in (SHARD, RAW)), Path()], ids=str
)
def test_nothing_moves_when_a_folder_takes_no_files(ktx: Run, project: Path, git: Git, barred: Path) -> None:
    add_table(project)
    (project / "other.txt").write_text("mine")
    git(project, "add", "other.txt")
    before = git(project, "rev-parse", "HEAD"), git(project, "status", "--porcelain"), (project / SHARD).read_bytes()
    folder = project / barred
    if barred == Path():  # new folders are needed in it
        (project / "ktx.yaml").write_text(
            (project / "ktx.yaml").read_text() + "  second: {driver: sqlite, path: x.db}\n"
        )
        shutil.copy(project / "shop.sqlite", project / "x.db")
        shutil.rmtree(project / "raw-sources")
        git(project, "commit", "-qam", "less")
        before = git(project, "rev-parse", "HEAD"), git(project, "status", "--porcelain"), before[2]
    folder.chmod(0o500)
    try:
        done = unprivileged(project, "ingest")
        doctor = unprivileged(project, "doctor", "--only", "writable")
    finally:
        folder.chmod(0o755)
    assert done.returncode == 1 and "Permission denied" in done.stderr
    assert f"chmod u+rwx {folder}\n" in done.stderr
    assert doctor.returncode == 1 and f"chmod u+rwx {folder}" in doctor.stdout
    after = git(project, "rev-parse", "HEAD"), git(project, "status", "--porcelain"), (project / SHARD).read_bytes()
    assert after == before
    assert not list((project / ".ktx").glob("journal*")) and not list((project / ".git").glob("ktx-*"))
    git(project, "commit", "-q", "-m", "mine", "--allow-empty")
    assert ktx("ingest", "--json").code == 0
    assert "extra" in (project / SHARD).read_text()


def test_a_hint_names_what_is_there(project: Path) -> None:
    project.chmod(0o500)
    try:
        done = unprivileged(project, "config", "set", "llm.provider.backend", "vertex")
    finally:
        project.chmod(0o755)
    assert done.returncode == 1 and done.stderr.endswith(f"chmod u+rwx {project}\n")


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("gone", "named"),
    [
        ("semantic-layer/warehouse", "semantic-layer/warehouse"),
        (SHARD, SHARD),
        ("raw-sources", "raw-sources"),
        (RAW, RAW),
    ],
)
def test_deleted_files_are_held_though_nothing_changed(
    ktx: Run, project: Path, git: Git, gone: str, named: str
) -> None:
    path = project / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    head = git(project, "rev-parse", "HEAD")
    for words in (("ingest",), ("ingest", "--dry-run")):
        answer = ktx(*words, "--json")
        assert answer.code == 7 and answer.data["connections"][0]["status"] == "unchanged"
        assert held(answer) == [(named, "deleted")]
        assert answer.envelope["error"]["hint"].startswith(f"git restore -- {named};")
    assert f"skipped: {named} (deleted)" in ktx("ingest").out
    status = ktx("status", "--json")
    if gone.startswith("semantic"):
        assert status.code == 3 and "deleted in your working tree" in finding(status)["message"]
        assert status.data["next"] == f"git restore -- {named}"
    else:
        assert status.code == 0
    git(project, "restore", "--", named)
    assert ktx("ingest", "--json").code == 0 and ktx("status").code == 0
    assert git(project, "rev-parse", "HEAD") == head


def test_a_deleted_file_that_would_change_is_held_once(ktx: Run, project: Path) -> None:
    (project / SHARD).unlink()
    add_table(project)
    answer = ktx("ingest", "--json")
    assert answer.code == 7 and held(answer) == [(SHARD, "deleted")] and not (project / SHARD).exists()


def test_a_staged_deletion_is_held_as_staged(ktx: Run, project: Path, git: Git) -> None:
    git(project, "rm", "-q", SHARD)
    answer = ktx("ingest", "--json")
    assert answer.code == 7 and held(answer) == [("semantic-layer", "staged")]
    git(project, *answer.envelope["error"]["hint"].partition("git ")[2].partition(";")[0].split())
    assert ktx("ingest").code == 0


def test_the_unchanged_path_parses_nothing(ktx: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ktx_cli.project.repository import history
    from ktx_cli.semantic import manifest

    def never(*arguments: object) -> None:
        raise AssertionError("read for nothing")

    monkeypatch.setattr(manifest, "parse_shard", never)
    monkeypatch.setattr(history, "read_index", never)
    assert ktx("ingest", "--json").code == 0


def test_a_file_nobody_may_read_is_held(ktx: Run, project: Path) -> None:
    (project / SHARD).chmod(0o000)
    try:
        done = unprivileged(project, "ingest")
        assert done.returncode == 7 and f"skipped: {SHARD} (unreadable)" in done.stdout
        assert f"chmod u+r {project / SHARD};" in done.stderr
        status = unprivileged(project, "status")
        assert status.returncode == 3 and f"chmod u+rw {project / SHARD}" in status.stderr
        add_table(project)
        changed = unprivileged(project, "ingest")
        assert changed.returncode == 7 and f"skipped: {SHARD} (unreadable)" in changed.stdout
    finally:
        (project / SHARD).chmod(0o644)
    assert ktx("ingest").code == 0 and "extra" in (project / SHARD).read_text()


def test_a_sparse_checkout_is_meant_and_status_says_so(ktx: Run, project: Path, git: Git) -> None:
    git(project, "sparse-checkout", "set", "raw-sources")
    assert not (project / "semantic-layer").exists()
    assert ktx("ingest", "--json").code == 0
    status = ktx("status", "--json")
    assert status.code == 3 and "sparse checkout" in finding(status)["message"]
    git(project, *status.data["next"].split()[1:])
    assert ktx("status").code == 0


@pytest.mark.parametrize("beside", [False, True])
def test_a_database_without_tables_does_not_send_in_circles(ktx: Run, work: Path, shop: Path, beside: bool) -> None:
    sqlite3.connect(work / "empty.sqlite").close()
    flags = ("--database", "sqlite", "--database-connection-id")
    ktx("setup", "--no-input", *flags, "empty", "--database-path", "empty.sqlite")
    if beside:
        ktx("setup", "--no-input", *flags, "shop", "--database-path", "shop.sqlite")
    ingested = ktx("ingest", "--json")
    assert ingested.code == 0 and "nothing_to_read" in [each["code"] for each in ingested.envelope["warnings"]]
    status = ktx("status", "--json")
    assert status.code == (0 if beside else 3)
    assert finding(status)["level"] == ("warn" if beside else "fail") and "no tables" in finding(status)["message"]
    assert finding(status)["hint"].startswith("create a table in it")
    database = sqlite3.connect(work / "empty.sqlite")
    database.execute("CREATE TABLE first (id INTEGER PRIMARY KEY)")
    database.close()
    assert ktx("ingest", "empty").code == 0 and ktx("status").code == 0
