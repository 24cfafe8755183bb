"""Questions in a terminal with a cursor."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.cli.prompts import TerminalPrompter

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
