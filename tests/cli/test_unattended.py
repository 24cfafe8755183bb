"""`ktx ingest` where nobody looks on: its log, and who is told when it fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.jobs.ingest import plan
from ktx_cli.project.layout import Layout
from ktx_cli.project.lock import hold_run_lock

Run = Callable[..., Any]

NOTIFY = (
    'cat > told.json; printf "%s %s %s|%s" "$KTX_EXIT_CODE" "$KTX_ERROR_CODE" "$KTX_RUN_ID" "$KTX_PROJECT_DIR" > facts'
)
OPTIONS = ("--no-input", "--log-file", "logs/ktx.jsonl", "--notify", NOTIFY)


def log_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "logs" / "ktx.jsonl").read_text().splitlines()]


def facts_of(folder: Path) -> str:
    return (folder / "facts").read_text()


def test_a_run_that_goes_well_is_logged_and_told_to_nobody(ktx: Run, project: Path) -> None:
    answer = ktx("ingest", *OPTIONS, "--json")
    assert answer.code == 0, answer
    log = log_of(project)
    assert [log[0]["event"], log[-1]["event"]] == ["run_started", "command_finished"]
    ended = log[-1]
    assert {key: ended[key] for key in ("command", "exit_code", "run_id", "status", "error")} == {
        "command": "ktx ingest",
        "exit_code": 0,
        "run_id": answer.data["run_id"],
        "status": "done",
        "error": None,
    }
    assert not (project / "told.json").exists()


def test_a_database_that_is_gone_is_told_with_the_report(ktx: Run, project: Path) -> None:
    (project / "shop.sqlite").unlink()
    answer = ktx("ingest", *OPTIONS, "--json")
    assert answer.code == 4
    assert json.loads((project / "told.json").read_text()) == answer.envelope
    run_id = answer.data["run_id"]
    assert facts_of(project) == f"4 connection {run_id}|{project}"
    assert (log_of(project)[-1]["exit_code"], log_of(project)[-1]["run_id"]) == (4, run_id)


EARLY = [
    ("no project", None, 3, "no_project"),
    ("a broken configuration", "llm: [", 2, "config"),
    ("an unknown connection", "connections: {}\n", 2, "usage"),
]


@pytest.mark.parametrize(("config", "code", "error"), [row[1:] for row in EARLY], ids=[row[0] for row in EARLY])
def test_what_fails_before_a_run_is_told_too(ktx: Run, work: Path, config: str | None, code: int, error: str) -> None:
    if config is not None:
        (work / "ktx.yaml").write_text(config)
    answer = ktx("ingest", "nothing", *OPTIONS)
    assert answer.code == code
    told = json.loads((work / "told.json").read_text())
    assert (told["ok"], told["data"], told["error"]["code"]) == (False, None, error)
    assert facts_of(work) == f"{code} {error} |{'' if config is None else work}"
    assert [(each["event"], each["exit_code"], each["error"]) for each in log_of(work)] == [
        ("command_finished", code, error)
    ]
    assert "warning" not in answer.err


def test_a_run_that_finds_the_run_lock_taken_tells_who_has_it(ktx: Run, project: Path) -> None:
    with hold_run_lock(Layout(project), run_id="other", command="ktx ingest"):
        answer = ktx("ingest", *OPTIONS)
    assert answer.code == 6
    assert facts_of(project) == f"6 busy |{project}"
    ended = log_of(project)[-1]
    assert (ended["exit_code"], ended["run_id"], ended["status"]) == (6, None, None), "no run has begun"
    assert json.loads((project / "told.json").read_text())["error"]["details"]["run_id"] == "other"


def test_a_crash_is_not_silent(ktx: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object, **options: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(plan, "choose_targets", crash)
    assert ktx("ingest", *OPTIONS).code == 1
    assert facts_of(project) == f"1 internal |{project}"
    assert log_of(project)[-1]["message"] == "ktx failed unexpectedly: ZeroDivisionError"


def test_nobody_is_told_what_a_person_interrupted(ktx: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(plan, "choose_targets", interrupted)
    assert ktx("ingest", *OPTIONS).code == 130
    assert not (project / "told.json").exists()
    assert log_of(project)[-1]["exit_code"] == 130


def test_texts_to_remember_are_logged_and_told_as_well(ktx: Run, project: Path) -> None:
    answer = ktx("ingest", "--text", "Refunds come off revenue.", *OPTIONS)
    assert answer.code == 3
    assert facts_of(project).startswith("3 no_backend ")
    assert log_of(project)[-1]["error"] == "no_backend"


def test_a_notification_that_fails_is_a_warning_and_changes_no_exit_code(ktx: Run, work: Path) -> None:
    answer = ktx("ingest", "--json", "--notify", "echo no route to host >&2; exit 9")
    assert answer.code == 3
    (warning,) = answer.envelope["warnings"]
    assert warning["message"] == "the --notify command exited with 9: no route to host"
    assert answer.envelope["error"]["code"] == "no_project"


def test_a_log_that_cannot_be_one_stops_the_command_and_is_told(ktx: Run, project: Path) -> None:
    before = (project / "ktx.yaml").read_bytes()
    answer = ktx("ingest", "--log-file", "ktx.yaml", "--notify", NOTIFY)
    assert (answer.code, (project / "ktx.yaml").read_bytes()) == (2, before)
    assert facts_of(project) == "2 usage |"


def test_an_empty_command_is_refused(ktx: Run, work: Path) -> None:
    answer = ktx("ingest", "--notify", " ")
    assert answer.code == 2 and "--notify requires a command" in answer.err
