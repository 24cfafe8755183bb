"""What a run leaves when something goes wrong at its end, or inside one connection."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.jobs.ingest.plan import IngestRequest
from ktx_cli.jobs.ingest.run import ingest
from ktx_cli.project.files import storage_error
from ktx_cli.project.repository.store import Repository


def request(project: Path) -> IngestRequest:
    return IngestRequest(project, os.environ)


def test_a_report_that_cannot_be_written_is_a_warning_and_the_commit_is_named(shop_project: Path) -> None:
    runs = shop_project / ".ktx" / "runs"
    runs.parent.mkdir()
    (shop_project / ".ktx" / ".gitignore").write_text("*\n")
    runs.write_text("in the way")
    report, warnings = ingest(request(shop_project))
    assert report.commit is not None
    assert [warning.code for warning in warnings] == ["report_not_written"]
    assert str(runs) in warnings[0].message


def test_settings_that_break_during_a_run_do_not_hide_its_commit(
    shop_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report asks where the state is, and somebody is editing `ktx.yaml` just then."""
    real = Repository.commit

    def commit(*args: Any, **kwargs: Any) -> Any:
        done = real(*args, **kwargs)
        (shop_project / "ktx.yaml").write_text("storage: {state: postgres\n")
        return done

    monkeypatch.setattr(Repository, "commit", commit)
    report, warnings = ingest(request(shop_project))
    assert report.commit is not None
    assert "report_not_written" in [warning.code for warning in warnings]


def test_a_run_that_fails_after_its_scans_leaves_a_report(shop_project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise storage_error(shop_project, OSError(28, "No space left on device"))

    monkeypatch.setattr(Repository, "commit", full)
    with pytest.raises(Exception, match="space"):
        ingest(request(shop_project))
    (path,) = (shop_project / ".ktx" / "runs").glob("*.json")
    assert json.loads(path.read_text())["status"] == "failed"


def test_a_bug_in_one_connection_is_in_the_log(
    shop_project: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ktx_cli.jobs.ingest.run.scan_connection", lambda *args, **kwargs: 1 / 0)
    with caplog.at_level(logging.DEBUG, "ktx_cli"):
        report, _ = ingest(request(shop_project))
    error = report.connections[0].error
    assert error is not None and error.code == "internal" and error.hint == "ktx ingest shop --debug"
    assert "ZeroDivisionError" in caplog.text
