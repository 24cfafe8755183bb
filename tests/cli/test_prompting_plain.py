"""Questions where the terminal knows no cursor."""

from __future__ import annotations

import io

import pytest

from ktx_cli.cli.prompts import PlainPrompter
from ktx_cli.jobs.setup.wizard.dialog import BackAsked, MenuItem

CHOICES = [MenuItem("a", "One"), MenuItem("b", "Another")]


@pytest.mark.parametrize("typed", [PlainPrompter.back, "\x1b", " < "])
def test_what_goes_back(typed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for ask in (
        lambda prompter: prompter.select("Which?", CHOICES, "a"),
        lambda prompter: prompter.several("Which?", CHOICES, []),
        lambda prompter: prompter.text("Path", "x", lambda text: None),
        lambda prompter: prompter.confirm("Sure?", True),
    ):
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{typed}\n"))
        with pytest.raises(BackAsked):
            ask(PlainPrompter())


def test_a_wrong_number_is_asked_for_again(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("3\none\n2\n"))
    assert PlainPrompter().select("Which?", CHOICES, "a") == "b"
    assert capsys.readouterr().err.count("a number from 1 to 2") == 2


def test_the_end_of_what_is_typed_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(KeyboardInterrupt):
        PlainPrompter().text("Path", "x", lambda text: None)


def test_what_is_told_cannot_speak_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """A server's error and the name of a file may hold anything; a hint stays one line that can be copied."""
    for kind in ("fact", "bad", "hint"):
        PlainPrompter().say("\x1b]0;title\x07a\nrm -rf \x9b2Jx\u202e", kind)
    told = capsys.readouterr().err
    assert told.count("\n") == 3
    assert all(character.isprintable() for character in told.replace("\n", ""))
