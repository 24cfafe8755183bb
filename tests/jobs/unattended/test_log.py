"""The log of commands: what is in it, what it never is written over, what happens when it cannot be written."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ktx_cli.core.errors import KtxError
from ktx_cli.core.events import CommandFinished, Notice, RunStarted, StepProgress
from ktx_cli.jobs.unattended import CommandLog
from ktx_cli.project.secrets import MASK, remember
from ktx_cli.runs import transcripts

ENDED = CommandFinished("ktx ingest", 6, 1.5, error="busy", message="somebody else is at work")


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_events_are_appended_with_their_times(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "ktx.jsonl"
    for number in range(2):
        log = CommandLog(path)
        log.emit(RunStarted(f"r{number}", "ktx ingest"))
        log.emit(StepProgress("profile", 1, 9))
        log.emit(ENDED)
        log.close()
        assert log.warnings == []
    assert [(each["event"], each.get("run_id")) for each in lines(path)] == [
        *(("run_started", "r0"), ("command_finished", None)),
        *(("run_started", "r1"), ("command_finished", None)),
    ]
    found = lines(path)
    assert all(str(each.pop("at")).endswith("Z") for each in found)
    assert found[1] == ENDED.to_json()
    assert path.stat().st_mode & 0o777 == 0o600


def test_secrets_are_masked(tmp_path: Path) -> None:
    remember("hunter2-is-long")
    log = CommandLog(tmp_path / "log")
    log.emit(Notice("connecting as hunter2-is-long"))
    assert lines(tmp_path / "log")[0]["message"] == f"connecting as {MASK}"


def test_a_log_is_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcripts.RotatingFile.__init__, "__kwdefaults__", {"largest": 400, "kept": 2})
    log = CommandLog(tmp_path / "log")
    for number in range(20):
        log.emit(Notice(f"notice {number:02}"))
    kept = [tmp_path / name for name in ("log.2", "log.1", "log")]
    assert sorted(tmp_path.iterdir()) == sorted(kept)
    said = [str(each["message"]) for path in kept for each in lines(path)]
    assert said == [f"notice {number:02}" for number in range(20 - len(said), 20)]
    assert all(path.stat().st_size <= 400 for path in kept)


@pytest.mark.table(
    "text", ["connections: {}\n", '{"name": "package"}\n', "[1]\n", "\n", '{"at": 1, "event"\n', "\x00\xff"]
)
def test_what_is_no_log_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ktx.yaml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(KtxError, match="exists and is not a ktx log") as caught:
        CommandLog(path)
    assert caught.value.hint == f"choose another file: --log-file {path}.jsonl"
    assert path.read_bytes() == text.encode("latin-1")


def test_a_folder_a_pipe_and_a_link_are_no_logs(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "link"):
        with pytest.raises(KtxError):
            CommandLog(path)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("left", ['{"a', '{"at": "2026-01-02T03:0', '{"at": "x", "event": "' + "long" * 30_000])
def test_half_a_line_that_a_full_disk_left_bars_no_run_for_ever(tmp_path: Path, left: str) -> None:
    (tmp_path / "log").write_text(left)
    for _ in range(2):
        log = CommandLog(tmp_path / "log")
        log.emit(ENDED)
        log.close()
    first, *others = (tmp_path / "log").read_text().splitlines()
    assert first == left
    assert [json.loads(line)["event"] for line in others] == ["command_finished"] * 2


def test_an_empty_file_becomes_one(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    CommandLog(tmp_path / "log").emit(ENDED)
    assert len(lines(tmp_path / "log")) == 1


def test_a_log_that_cannot_be_written_any_more_is_one_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = CommandLog(tmp_path / "log")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(transcripts.os, "write", full)
        log.emit(ENDED)
        log.emit(ENDED)
    assert [each.code for each in log.warnings] == ["log_incomplete"]
    assert "No space left on device" in log.warnings[0].message
