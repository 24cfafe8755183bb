"""The command that is told of a failure: what it is given, how long it may take, what becomes of its own failure."""

from __future__ import annotations

import errno
import json
import os
import tempfile
import time
from pathlib import Path
from typing import IO

import pytest

from ktx_cli.core.errors import ResultWarning
from ktx_cli.jobs.unattended import CommandFailure, notify
from ktx_cli.project.secrets import MASK, remember

REPORT = {"schema": "ktx/ingest/v1", "ok": False, "error": {"code": "busy"}}


def failure(message: str = "another run holds the run lock", report: object = None) -> CommandFailure:
    return CommandFailure(6, "busy", message, report or REPORT, "20260131T093000-5f3a9c", Path("/somewhere"))  # type: ignore[arg-type]


def told(command: str, made: CommandFailure, seconds: float = 30.0) -> ResultWarning | None:
    return notify(command, made, os.environ, seconds=seconds)


def test_it_gets_the_report_and_the_facts_and_its_environment_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MAILTO", "me@example.com")
    before = dict(os.environ)
    assert told("cat > report.json; env -0 > environ", failure()) is None
    assert json.loads((tmp_path / "report.json").read_text()) == REPORT
    lines = (tmp_path / "environ").read_bytes().decode("utf-8", "surrogateescape").split("\0")
    given = dict(line.split("=", 1) for line in lines if line)
    facts = {name: value for name, value in given.items() if before.get(name) != value and name != "_"}
    assert facts == {
        "KTX_EXIT_CODE": "6",
        "KTX_ERROR_CODE": "busy",
        "KTX_ERROR": "another run holds the run lock",
        "KTX_RUN_ID": "20260131T093000-5f3a9c",
        "KTX_PROJECT_DIR": "/somewhere",
        **({"PWD": str(tmp_path)} if "PWD" in given and before.get("PWD") != given["PWD"] else {}),
        **({"SHLVL": given["SHLVL"]} if before.get("SHLVL") != given.get("SHLVL") else {}),
    }
    assert before.keys() - given.keys() == set()


def test_secrets_are_masked_in_all_it_gets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    remember("hunter2-is-long")
    made = failure("no entry for hunter2-is-long", {"error": {"message": "hunter2-is-long", "hunter2-is-long": 1}})
    assert told('cat > report.json; printf %s "$KTX_ERROR" > error', made) is None
    assert (tmp_path / "error").read_text() == f"no entry for {MASK}"
    assert "hunter2" not in (tmp_path / "report.json").read_text()


def test_odd_messages_fit_into_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert told('printf %s "$KTX_ERROR" > error', failure("a\0b\nc \ud800 é")) is None
    assert (tmp_path / "error").read_bytes().decode() == "a b c \\ud800 é"


@pytest.mark.table(
    ("command", "message"),
    [
        ("exit 3", "exited with 3"),
        ("echo first; echo the server is gone >&2; exit 1", "exited with 1: the server is gone"),
        ("no-such-command-at-all", "exited with 127: "),
    ],
)
def test_its_own_failure_is_a_warning(command: str, message: str) -> None:
    warning = told(command, failure())
    assert warning is not None and warning.code == "not_notified"
    assert warning.message.startswith(f"the --notify command {message}")


def test_one_that_hangs_is_ended_with_all_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    warning = told("sleep 60 & echo $! > child; wait", failure(), seconds=1)
    assert warning is not None and warning.message == "the --notify command took longer than 1 s and was killed"
    stat = Path("/proc") / (tmp_path / "child").read_text().strip() / "stat"
    for _ in range(500):  # it was sent the signal, and has to take it
        if not stat.exists() or stat.read_text().split(") ")[1][0] == "Z":
            return
        time.sleep(0.01)
    raise AssertionError("what it started lives")


def test_one_that_reads_nothing_of_a_long_report_ends_too() -> None:
    assert told("true", failure(report={"data": "x" * 1_000_000})) is None


def test_one_that_prints_without_end_is_ended() -> None:
    warning = told("yes", failure())
    assert warning is not None and warning.message == "the --notify command printed more than 10 MB and was killed"


def test_a_full_disk_is_told_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no room then for a file that holds the report."""

    def full(*_: object, **__: object) -> IO[bytes]:
        raise OSError(errno.ENOSPC, "No space left on device")

    if not hasattr(os, "memfd_create"):
        pytest.skip("no files in memory on this system")
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    assert told(f"cat > {tmp_path / 'report.json'}", failure()) is None
    assert json.loads((tmp_path / "report.json").read_text()) == REPORT


def test_without_a_shell_it_is_a_warning_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    warning = told("true", failure())
    assert warning is not None and "could not be run: " in warning.message
