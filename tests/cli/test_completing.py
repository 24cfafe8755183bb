from __future__ import annotations

import shutil
import subprocess
import sys
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


@pytest.mark.parametrize("words", ["ktx ingest --project-dir {} ware", "ktx --project-dir {} connection test ware"])
def test_completes_for_a_project_named_earlier_on_the_line(
    installed: Run, project: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    moved = project.rename(project.with_name("elsewhere"))
    project.mkdir()
    assert complete(installed, "ktx ingest ware", monkeypatch) == []
    assert complete(installed, words.format(moved), monkeypatch) == ["warehouse"]


def test_a_removed_folder_completes_nothing(monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    shutil.rmtree(project)  # the current folder
    monkeypatch.setenv("_KTX_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "ktx ingest ")
    monkeypatch.setenv("COMP_CWORD", "2")
    done = subprocess.run([Path(sys.executable).with_name("ktx")], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(ktx: Run, shell: str) -> None:
    answer = ktx("completion", shell)
    assert answer.code == 0
    assert "_KTX_COMPLETE" in answer.out
