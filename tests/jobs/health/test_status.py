"""What `ktx status` says of the repository and of a project that is ready."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ktx_cli.jobs.health.status import project_status
from ktx_cli.project.repository.store import Repository


def test_an_ingested_project_is_ready(ingested_project: Path) -> None:
    status = project_status(ingested_project, {})
    assert status.ready
    assert {f.check: f.level.value for f in status.findings}["secrets"] == "ok"


def test_a_lock_of_a_killed_run_is_named_with_what_takes_it_away(
    ingested_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = ingested_project / ".git" / "index.lock"
    monkeypatch.setattr(Repository, "leftover_lock", lambda self: lock)
    status = project_status(ingested_project, {})
    (finding,) = [f for f in status.findings if f.check == "repository"]
    assert finding.level.value == "warn"
    assert str(finding.hint).startswith("ktx ")
    assert str(lock) in finding.message
    assert status.ready


def test_a_lock_of_the_users_git_is_not_ours(shop_project: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=shop_project, check=True)
    (shop_project / ".git" / "index.lock").touch()
    (finding,) = [f for f in project_status(shop_project, {}).findings if f.check == "repository"]
    assert finding.level.value == "ok"
