"""Whatever `.gitignore` came along: after any command, `git add --all` adds nothing of `.ktx`."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

Run = Callable[..., Any]

PROJECT: Final = Path(__file__).parent / "fixtures" / "typescript_project"
OF_TYPESCRIPT: Final = "cache/\ndb.sqlite\ndb.sqlite-*\ningest-transcripts/\nlogs/\nsecrets/\nsetup/\nagents/\n"

Files = dict[str, str]
PLANTED: Final[dict[str, Files]] = {
    "of the TypeScript ktx": {
        ".ktx/.gitignore": OF_TYPESCRIPT,
        ".ktx/prompts/.gitkeep": "",
        ".ktx/skills/.gitkeep": "",
    },
    "cache only, no newline": {".ktx/.gitignore": "cache/"},
    "negations": {".ktx/.gitignore": "*\n!*\n!**/*\n"},
    "a negation behind the star": {".ktx/.gitignore": "*\r\n!runs/\r\n!state.sqlite\r\n"},
    "empty": {".ktx/.gitignore": ""},
    "a comment like the pattern": {".ktx/.gitignore": "# *\ncache/\n#*\n"},
    "the folder around": {".gitignore": "!.ktx\n!.ktx/**\n!*\n"},
    "both": {".gitignore": "!.ktx/\n!.ktx/**\n", ".ktx/.gitignore": "!*\n"},
    "below": {".ktx/.gitignore": "cache/\n", ".ktx/runs/.gitignore": "!*\n", ".ktx/prompts/.gitkeep": ""},
    "exclude": {".git/info/exclude": "!.ktx\n!.ktx/**\n", ".ktx/.gitignore": "cache/\n"},
}
COMMANDS: Final[tuple[tuple[str, ...], ...]] = (
    ("status", "--fast"),
    ("doctor", "--only", "state", "--only", "hidden"),
    ("sl", "list"),
    ("sl", "query", "-m", "bookings.revenue"),
    ("search", "fares"),
    ("wiki",),
    ("lint",),
    ("diff",),
    ("connection", "list"),
    ("runs", "list"),
    ("mcp", "status"),
    ("index",),
    ("search", "fares"),
    ("ingest", "--no-llm"),
    ("scan", "--depth", "profile"),
    ("status", "--fast"),
    ("agents", "install", "--target", "claude-code"),
    ("doctor", "--only", "state", "--only", "hidden"),
)


def git(*words: str) -> str:
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout


def commit() -> None:
    git("add", "--all", "--force")
    git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "x")


def added() -> list[str]:
    """Return what of `.ktx` a commit of everything would add."""
    changed = git("add", "--all", "--dry-run").splitlines()
    tracked = set(git("ls-files", "--full-name", "--", ".ktx").splitlines())
    names = [line.split("'")[1] for line in changed if ".ktx/" in line]
    return [name for name in names if name not in tracked]


def a_project(folder: Path, files: Files) -> None:
    shutil.copytree(PROJECT, folder, dirs_exist_ok=True)
    with closing(sqlite3.connect(folder / "ferries.db")) as database:
        database.executescript((folder / "ferries.sql").read_text())
    git("init", "-q")
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text.encode())
    commit()


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "planted",
    [pytest.param(each, marks=pytest.mark.slow) if number % 2 else each for number, each in enumerate(PLANTED)],
)
def test_no_command_leaves_anything_to_commit(planted: str, ktx: Run, work: Path) -> None:
    a_project(work, PLANTED[planted])
    for command in COMMANDS:
        before = set((work / ".ktx").rglob("*"))
        answer = ktx(*command)
        assert "failed unexpectedly" not in answer.err, answer
        assert added() == [], (command, answer.err)
        if command[0] in ("status", "sl", "wiki", "lint", "connection"):
            assert set((work / ".ktx").rglob("*")) == before, command
    kept = [line.rstrip("\r") for line in PLANTED[planted].get(".ktx/.gitignore", "").splitlines()]
    now = [line.rstrip("\r") for line in (work / ".ktx/.gitignore").read_text().splitlines()]
    assert now[: len(kept)] == kept
    assert (work / ".ktx/state.sqlite").is_file()
    once = (work / ".ktx/.gitignore").read_bytes()
    ktx("ingest", "--no-llm")
    assert (work / ".ktx/.gitignore").read_bytes() == once


def test_in_a_folder_of_a_repository_too(ktx: Run, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = work / "analytics"
    folder.mkdir()
    monkeypatch.chdir(folder)
    shutil.copytree(PROJECT, folder, dirs_exist_ok=True)
    with closing(sqlite3.connect(folder / "ferries.db")) as database:
        database.executescript((folder / "ferries.sql").read_text())
    (folder / ".ktx").mkdir()
    (folder / ".ktx/.gitignore").write_text("cache/\n")
    monkeypatch.chdir(work)
    git("init", "-q")
    (work / ".gitignore").write_text("!analytics/.ktx/**\n")
    commit()
    monkeypatch.chdir(folder)
    assert ktx("ingest", "--no-llm").code == 0
    assert added() == []


def test_doctor_says_what_can_be_committed_and_repairs_it(ktx: Run, work: Path) -> None:
    def finding() -> Any:
        (found,) = ktx("doctor", "--only", "hidden", "--json").data["findings"]
        return found

    a_project(work, {".ktx/.gitignore": "cache/\n"})
    assert (finding()["level"], finding()["hint"]) == ("warn", "ktx doctor --fix --only hidden")
    (work / ".ktx/state.sqlite").write_bytes(b"rows")
    assert finding()["level"] == "fail"
    assert ".ktx/state.sqlite" in finding()["message"]
    answer = ktx("doctor", "--fix", "--only", "hidden", "--json")
    assert (answer.code, answer.data["findings"][0]["level"]) == (0, "ok")
    assert (work / ".ktx/.gitignore").read_text().startswith("cache/\n")
    assert added() == []


def test_a_run_does_not_start_while_git_tracks_what_it_writes(ktx: Run, work: Path) -> None:
    a_project(work, {".ktx/.gitignore": "cache/\n", ".ktx/runs/old.json": "{}", ".ktx/prompts/.gitkeep": ""})
    head = git("rev-parse", "HEAD")
    for command in (("ingest", "--no-llm"), ("scan",)):
        answer = ktx(*command, "--json")
        assert answer.code == 1, answer
        error = answer.envelope["error"]
        assert error["message"] == "git tracks .ktx/runs/old.json, but files in .ktx/ must never be committed"
    assert git("rev-parse", "HEAD") == head
    (found,) = ktx("doctor", "--only", "hidden", "--json").data["findings"]
    assert (found["level"], found["hint"]) == ("fail", error["hint"])
    subprocess.run(error["hint"], shell=True, check=True)
    assert (work / ".ktx/runs/old.json").read_text() == "{}"
    git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "untracked")
    assert ktx("ingest", "--no-llm").code == 0
    assert added() == []


def test_a_file_that_cannot_be_changed_stops_the_run(ktx: Run, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_project(work, {".ktx/.gitignore": "cache/\n"})

    def refused(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("ktx_cli.project.state.os.write", refused)
    answer = ktx("ingest", "--no-llm", "--json")
    monkeypatch.undo()
    assert answer.code == 1
    assert ".ktx/.gitignore: Permission denied" in answer.envelope["error"]["message"]
    assert sorted(path.name for path in (work / ".ktx").iterdir()) == [".gitignore"]
