"""Hints are typed as they stand: they name the right file, and the project the command line named."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.cli.help import ProjectPlace
from ktx_cli.core import Command, Hint
from tests.cli.conftest import ingested_shop
from tests.worlds.forks import Forks

Run = Callable[..., Any]
Git = Callable[..., str]

NAMES = ["it's", 'a "b" ; c']
if os.environ.get("KTX_TEST_FULL"):
    NAMES += ["sp  ace", "$HOME", "gl*b"]
"""Names of folders that a shell reads in its own way; all that it does: tests/core/test_text_shell_words.py."""


@pytest.fixture(params=NAMES)
def elsewhere(request: pytest.FixtureRequest, work: Path, copies: Callable[..., Path]) -> str:
    """The name of an ingested project in a folder with an awkward name, below the current one."""
    name: str = request.param
    copies(ingested_shop, work / name)
    return name


def typed(text: str) -> list[str]:
    """Return the words of the command in a hint: what follows the last colon before a command, up to the prose."""
    line = next(line for line in text.splitlines() if line.startswith(("hint: ", "next: ")))
    return shlex.split(line.partition(": ")[2].partition("; then run")[0])


def state_of(work: Path, name: str) -> Path:
    return work / name / ".ktx" / "state.sqlite"


def test_the_hint_to_remove_a_damaged_state_names_it(ktx: Run, work: Path, elsewhere: str) -> None:
    state_of(work, elsewhere).write_bytes(b"no database at all" * 500)
    answer = ktx("ingest", "--project-dir", elsewhere)
    command = next(line for line in answer.err.splitlines() if " rm " in line).partition(" rm ")[2]
    (word,) = shlex.split(command)
    kept = [str(path) for path in state_of(work, elsewhere).parent.glob("*damaged*")]
    assert kept and all(path.startswith(word.removesuffix("*")) for path in kept) and command.endswith("*")


def test_a_folder_for_the_state_is_named(ktx: Run, work: Path, elsewhere: str) -> None:
    state = state_of(work, elsewhere)
    for path in state.parent.glob("state.sqlite*"):
        path.unlink()
    state.mkdir()
    status = ktx("status", "--project-dir", elsewhere, "--json")
    assert status.code == 3 and status.data["ready"] is False
    hint = ktx("ingest", "--project-dir", elsewhere, "--json").envelope["error"]["hint"]
    assert status.envelope["error"]["hint"] == hint
    command = shlex.split(hint.partition(": ")[2])
    assert command == ["mv", str(state), f"{state}.old"]
    Path(command[1]).rename(command[2])
    assert ktx("ingest", "--project-dir", elsewhere).code == 0


def test_deleted_context_is_named_until_it_is_back(ktx: Run, work: Path, elsewhere: str, git: Git) -> None:
    shutil.rmtree(work / elsewhere / "semantic-layer")
    for answer in (ktx("ingest", "--project-dir", elsewhere), ktx("status", "--project-dir", elsewhere)):
        words = typed(answer.err)
        assert words == ["git", "-C", elsewhere, "restore", "--", "semantic-layer"]
    git(work, *words[1:])
    assert ktx("ingest", "--project-dir", elsewhere).code == 0
    assert ktx("status", "--project-dir", elsewhere).code == 0


COMMANDS = [
    ("status",),
    ("ingest",),
    ("scan",),
    ("ingest", "warehouse"),
    ("connection", "test", "warehouse"),
    ("connection", "list"),
    ("config", "set", "connections.warehouse.driver", "sqlite"),
    ("setup", "--no-input"),
    ("doctor",),
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_names_the_project_it_was_given(ktx: Run, work: Path, words: tuple[str, ...]) -> None:
    folder = work / "my project"
    folder.mkdir()
    given = ["--project-dir", "my project"]
    assert ktx("setup", "--no-input", *given).code == 0
    with contextlib.closing(sqlite3.connect(folder / "data.sqlite")) as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    errors = [ktx(*line).err.splitlines() for line in ((*words, *given), (*given, *words))]
    (step, again) = (next(line for line in lines if line.startswith(("hint: ktx", "next: ktx"))) for lines in errors)
    assert step == again
    command = shlex.split(step.partition(": ")[2])
    assert command[command.index("--project-dir") + 1] == "my project"
    before = (folder / "ktx.yaml").read_bytes()
    assert ktx(*command[1:], "--json").envelope["error"] is None
    assert (folder / "ktx.yaml").read_bytes() != before and not (work / "ktx.yaml").exists()


def git(*words: str) -> Command:
    return Command(*words, program="git")


ADD, INGEST = Command("connection", "add", "new"), Command("ingest", "new")


@pytest.mark.parametrize(
    ("hint", "shown"),
    [
        (Command("ingest"), "ktx ingest --project-dir 'a b'"),
        (Command("ingest", "warehouse"), "ktx ingest --project-dir 'a b' warehouse"),
        (Hint("{} says what", Command("config", "schema")), "ktx config schema --project-dir 'a b' says what"),
        (Hint("for example: {}", Command("config", "set", "x", "y")),
         "for example: ktx config set --project-dir 'a b' x y"),
        (Hint("the next `{}` moves it", Command("ingest")), "the next `ktx ingest --project-dir 'a b'` moves it"),
        (Command("setup", "--project-dir", "DIR"), "ktx setup --project-dir DIR"),
        (Command("demo", "OTHER-FOLDER"), "ktx demo OTHER-FOLDER"),
        (Command("--help"), "ktx --help"),
        ("update ktx, or start anew", "update ktx, or start anew"),
        ("ktx ingest is only a text", "ktx ingest is only a text"),
        (Hint.steps(ADD, INGEST),
         "ktx connection add --project-dir 'a b' new; then: ktx ingest --project-dir 'a b' new"),
        (Hint("{} && {}", Command("x", program="rm"), INGEST), "rm x && ktx ingest --project-dir 'a b' new"),
        (git("restore", "--", "x"), "git -C 'a b' restore -- x"),
        (Hint("see {}, then commit", git("diff", "--", "x")), "see git -C 'a b' diff -- x, then commit"),
        (git("-C", "/x", "fsck"), "git -C /x fsck"),
        (git("config", "--global", "x", "y"), "git config --global x y"),
        (Hint("finish it with `{}`", git("merge", "--continue")), "finish it with `git -C 'a b' merge --continue`"),
        ("restore the file from git", "restore the file from git"),
    ],
)  # fmt: skip
def test_commands_in_prose(hint: str, shown: str) -> None:
    import_module("ktx_cli.cli.app")  # registers the commands
    assert ProjectPlace("a b", Path("a b")).command(hint) == shown


def test_below_the_project_git_is_told_where(ktx: Run, ingested: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(ingested / "semantic-layer")
    monkeypatch.chdir(ingested / "raw-sources")
    assert typed(ktx("status").err) == ["git", "-C", str(ingested), "restore", "--", "semantic-layer"]
    monkeypatch.chdir(ingested)
    assert typed(ktx("status").err) == ["git", "restore", "--", "semantic-layer"]


def test_findings_of_the_doctor_name_the_project(ktx: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.parent)
    answer = ktx("doctor", "--project-dir", "work", "--json")
    (finding,) = [finding for finding in answer.data["findings"] if finding["check"] == "context"]
    assert finding["hint"] == "ktx ingest --project-dir work warehouse"
    assert "ktx ingest --project-dir work warehouse" in ktx("doctor", "--project-dir", "work").out


@pytest.mark.parametrize("words", [("ingest", "new"), ("config", "set", "connections.new.driver", "sqlite")])
def test_the_hint_for_a_missing_connection_is_a_whole_command(ktx: Run, work: Path, words: tuple[str, ...]) -> None:
    assert ktx("setup", "--no-input").code == 0
    sqlite3.connect(work / "data.sqlite").close()
    hint = ktx(*words, "--json").envelope["error"]["hint"]
    assert hint == "ktx connection add new --driver sqlite --path data.sqlite"
    assert ktx(*shlex.split(hint)[1:], "--no-test").code == 0


def test_what_is_printed_runs_as_it_stands_where_path_has_no_ktx(work: Path, ktx: Run, forks: Forks) -> None:
    assert ktx("setup", "--no-input").code == 0
    with contextlib.closing(sqlite3.connect(work / "sales.sqlite")) as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    program = Path(sys.executable).with_name("ktx")
    environ = {**os.environ, "PATH": "/usr/bin:/bin"}
    command = f"{program} setup --database sqlite --database-path sales.sqlite"
    for words, label in (("status", "hint: "), ("doctor", "fix: "), ("sl list", "next: ")):
        shown = forks.run(words.split(), folder=work, environ=environ)
        lines = [line.strip() for line in (shown.stdout + shown.stderr).splitlines()]
        assert {line.removeprefix(label) for line in lines if line.startswith(label)} == {command}, words
    done = subprocess.run(["sh", "-c", command], cwd=work, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words", ["setup --no-input", "sl list", "wiki", "runs list", "connection list"])
def test_next_steps_of_an_empty_project_run_as_they_stand(words: str, ktx: Run, work: Path) -> None:
    assert ktx("setup", "--no-input").code == 0
    steps = [line.removeprefix("next: ") for line in ktx(*words.split()).err.splitlines() if line.startswith("next: ")]
    assert steps
    for step in steps:
        assert ktx(*shlex.split(step)[1:]).code == 0, step
    assert not (work / "wiki").exists()


@pytest.mark.parametrize("words", ["status", "ingest", "scan", "diff", "sql SELECT", "sl query -m a.b"])
def test_errors_of_an_empty_project_name_commands_that_exist(words: str, ktx: Run, work: Path) -> None:
    assert ktx("setup", "--no-input").code == 0
    hint = ktx(*words.split(), "--json").envelope["error"]["hint"]
    assert "`ktx setup --help`" in hint and "data.sqlite" not in hint
