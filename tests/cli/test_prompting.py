"""Questions in a terminal with a cursor."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.cli.prompts import TerminalPrompter, toned
from ktx_cli.core import Command, Hint

QUESTION = "Connection URL with user and password (typed unseen, or env:NAME, file:PATH; empty: as before)"


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_question_breaks_between_words(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def question(text: str, **options: Any) -> Any:
        asked.append(f"? {text}")
        raise KeyboardInterrupt

    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("questionary.password", question)
    with pytest.raises(KeyboardInterrupt):
        TerminalPrompter().secret(QUESTION, lambda text: None)
    assert all(len(line) < columns for line in asked[0].splitlines())
    assert asked[0].split() == ["?", *QUESTION.split()]


def test_a_hint_is_wrapped_and_a_command_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    sentence = "the role has write access; ktx only reads, but a role that may only SELECT is safer"
    assert toned(sentence, "hint").splitlines() == [
        "  -> the role has write access; ktx only reads, but a role",
        "     that may only SELECT is safer",
    ]
    command = Hint("{}", Command("config", "set", "connections.warehouse.path", "a" * 40))
    assert toned(command, "hint") == f"  -> {command}"
