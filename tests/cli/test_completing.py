from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def complete(installed: Run, words: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("_KTX_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    found: list[str] = installed().out.split()
    return found


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("ktx st", ["status"]),
        ("ktx connection re", ["remove"]),
        ("ktx ingest ware", ["warehouse"]),
        ("ktx connection test ", ["warehouse"]),
        ("ktx connection remove x", []),
        ("ktx scan --depth str", ["structural"]),
    ],
)
def test_completes(
    installed: Run, project: Path, monkeypatch: pytest.MonkeyPatch, words: str, found: list[str]
) -> None:
    before = sorted(project.rglob("*"))
    assert complete(installed, words, monkeypatch) == found
    assert sorted(project.rglob("*")) == before


def test_a_broken_project_completes_nothing(installed: Run, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (work / "ktx.yaml").write_text("connections: [")
    assert complete(installed, "ktx ingest ", monkeypatch) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(ktx: Run, shell: str) -> None:
    answer = ktx("completion", shell)
    assert answer.code == 0
    assert "_KTX_COMPLETE" in answer.out
