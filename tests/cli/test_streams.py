"""What reaches stdout and stderr, and what is said when they do not take it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.cli.blocks import Block, Fields, Lines, Table, render_pretty
from ktx_cli.cli.contract import Result, Session, execute, finish
from ktx_cli.cli.settings import Settings
from ktx_cli.core.errors import KtxError, ResultWarning
from tests.worlds.forks import Forks

KTX = str(Path(sys.executable).with_name("ktx"))
NASTY = "a\x1b[2J\x9b31m\x07\nb"

COMMANDS = [
    "",
    "--version",
    "--help",
    "ingest --help",
    "completion bash",
    "connection",
    "config show",
    "status --json",
    "nonsense --json",
    "--json",
    "--json --version",
]


def run(script: str, words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f'exec "$@" {script}', "bash", KTX, *words.split()],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("words", COMMANDS)
def test_an_output_that_cannot_be_stored_is_said_on_stderr(words: str, project: Path, forks: Forks) -> None:
    done = forks.run(words.split(), folder=project, environ=os.environ, to=Path("/dev/full"))
    assert done.returncode == 1
    first, second = done.stderr.splitlines()
    assert first == "error: cannot write the output: No space left on device"
    assert second.startswith("hint: ")


CLOSED = (">&-", ">&- 2>&-", "<&- >&- 2>&-")
CLOSINGS = [(words, CLOSED[at % len(CLOSED)]) for at, words in enumerate(COMMANDS[1::2])]
"""What Python makes of a closed stream it decides when it starts: by default every other command does, in turns.

With KTX_TEST_FULL test_contract.py closes the stdout of every command.
"""

if os.environ.get("KTX_TEST_FULL"):
    CLOSINGS = [(words, closed) for words in COMMANDS for closed in CLOSED]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("words", "closed"), CLOSINGS)
def test_a_closed_stdout_is_a_reader_that_went_away(words: str, closed: str, project: Path) -> None:
    done = run(closed, words, project)
    assert (done.returncode, done.stdout, done.stderr) == (141, "", "")


def test_nothing_is_written_into_files_when_all_streams_are_closed(project: Path) -> None:
    done = run("<&- >&- 2>&-", "ingest", project)
    assert done.returncode == 141
    assert subprocess.run([KTX, "status"], cwd=project, capture_output=True).returncode == 0
    fsck = subprocess.run(["git", "fsck", "--strict"], cwd=project, capture_output=True, text=True)
    assert fsck.returncode == 0, fsck.stderr


def clean(text: str) -> bool:
    """Say whether a terminal only prints this."""
    return all(character == "\n" or character.isprintable() for character in text)


def test_notes_hold_nothing_a_terminal_obeys(capsys: pytest.CaptureFixture[str]) -> None:
    session = Session("x", Settings())
    session.warn(ResultWarning("w", f"{NASTY} first", hint=NASTY))
    assert finish(session, Result(next_steps=[NASTY])) == 0
    assert finish(session, Result(error=KtxError(NASTY, hint=NASTY))) == 1
    err = capsys.readouterr().err
    assert clean(err)
    assert [line.partition(":")[0] for line in err.splitlines()] == [
        "warning", "hint", "next", "warning", "hint", "error", "hint",
    ]  # fmt: skip


def test_a_usage_error_quotes_nothing_a_terminal_obeys(ktx: Callable[..., Any]) -> None:
    answer = ktx(f"nonsense{NASTY}")
    assert answer.code == 2
    assert clean(answer.err)


def test_a_traceback_holds_nothing_a_terminal_obeys(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(session: Session) -> Result:
        raise KtxError(NASTY, hint="no")

    execute(Session("x", Settings(debug=True)), fail)
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert clean(err)


def test_an_envelope_is_one_line_of_printable_characters(capsys: pytest.CaptureFixture[str]) -> None:
    text = NASTY + "\x7f\x85\u2028\u202e æ 🦆"
    finish(Session("x", Settings(json=True)), Result(data=text))
    out = capsys.readouterr().out
    assert len(out.splitlines()) == 1
    assert clean(out)
    assert "æ 🦆" in out
    assert json.loads(out)["data"] == text


def test_what_is_drawn_on_a_terminal_holds_nothing_it_obeys() -> None:
    bad = NASTY.replace("\n", "")
    blocks: list[Block] = [Lines((f"  {bad}",)), Fields((("name", bad),)), Table(("column",), ((bad,),))]
    drawn = render_pretty(blocks, colour=False)
    assert clean(drawn.replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", ""))
    assert drawn.startswith("  a")


def test_a_terminal_aligns_numbers_right() -> None:
    table = Table(("name", "amount", "code"), (("a", "5.00", "x1"), ("b", "1234.50", "2")))
    lines = [line.rstrip() for line in render_pretty([table], colour=False).splitlines()]
    assert [line for line in lines if line.endswith(("x1", "2"))] == ["a        5.00  x1", "b     1234.50  2"]


def test_debug_shows_the_log_on_stderr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import logging

    from typer.testing import CliRunner

    from ktx_cli.cli import contract
    from ktx_cli.cli.app import app

    def speak(*args: object, **kwargs: object) -> None:
        logging.getLogger("ktx_cli.somewhere").debug("a \x1b[31mword")

    monkeypatch.setattr("ktx_cli.jobs.health.status.connection_statuses", lambda context: (speak(), ((), []))[1])
    (tmp_path / "ktx.yaml").write_text("{}\n")
    loud = CliRunner().invoke(app, ["status", "--project-dir", str(tmp_path), "--debug"])
    quiet = CliRunner().invoke(app, ["status", "--project-dir", str(tmp_path)])
    assert "a ?[31mword" not in quiet.stderr
    assert "debug: ktx_cli.somewhere: a ?[31mword" in loud.stderr
    assert contract.harmless("\x07ok\n") == "?ok\n"
