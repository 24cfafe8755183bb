"""The README shows the demo, until there is a recording of setup in its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs import recording
from tests.docs.blocks import ROOT, blocks_of


def test_pages_have_the_recordings_as_they_are() -> None:
    for name, text in recording.pages().items():
        assert (ROOT / name).read_text("utf-8") == text


def test_a_recording_of_setup_takes_the_place_of_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "setup.txt").write_text("$ ktx setup\n1/7 Project\n")
    monkeypatch.setattr(recording, "RECORDINGS", tmp_path)
    text = recording.pages()["README.md"]
    shown = [block for block in blocks_of(text, "README.md") if "1/7 Project" in block.text]
    assert [(block.kind, bool(block.reason)) for block in shown] == [("text", True)]
    assert "$ ktx demo\n" not in text
    assert "## Compared" in text
