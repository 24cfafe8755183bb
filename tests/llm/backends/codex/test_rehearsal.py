"""The request that a binary sends to ktx itself before it sends one to a model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.llm.backends.codex import rehearsal
from ktx_cli.llm.backends.codex.binary import codex_environment, find_codex
from ktx_cli.llm.backends.codex.rehearsal import PROMPT, SYSTEM, check_request, rehearse
from ktx_cli.llm.errors import LlmError
from ktx_cli.testing.codex_session import BINARY, codex_binary
from tests.llm.backends.codex.conftest import MODEL, needs_codex

TOOL = {"type": "function", "name": "rehearse"}


def message(role: str, text: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


OWN = [message("developer", SYSTEM), message("user", PROMPT)]
RIGHT: Mapping[str, Any] = {"tools": [TOOL], "input": OWN}


@pytest.mark.table(
    "change", [{}, {"instructions": SYSTEM, "input": [message("user", PROMPT)]}, {"instructions": "", "input": OWN}]
)
def test_a_request_that_is_right(change: dict[str, Any]) -> None:
    check_request({**RIGHT, **change})


@pytest.mark.table(
    ("change", "words"),
    [
        ({"tools": [TOOL, {"type": "function", "name": "shell"}]}, "that are not ktx's: shell"),
        ({"tools": [TOOL, {"type": "web_search"}]}, "that are not ktx's: web_search"),
        ({"tools": [TOOL, {"type": "custom", "name": "apply_patch"}]}, "that are not ktx's: apply_patch"),
        ({"tools": [{"type": "namespace", "name": "ktx", "tools": [TOOL]}]}, "that are not ktx's: ktx"),
        ({"tools": []}, "does not offer ktx's tools"),
        ({"tools": [TOOL, TOOL]}, "does not offer ktx's tools"),
        ({"tools": [{"type": "custom", "name": "rehearse"}]}, "does not offer ktx's tools"),
        ({"input": [*OWN, message("user", "<environment_context>")]}, "texts of its own"),
        ({"input": [*OWN, {"type": "additional_tools", "tools": []}]}, "an item of the type additional_tools"),
        ({"instructions": "You are Codex."}, "texts of its own"),
        ({"input": OWN[1:]}, "texts of its own"),
        ({"input": OWN[:1]}, "texts of its own"),
    ],
)
def test_a_request_that_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(LlmError) as caught:
        check_request({**RIGHT, **change})
    assert caught.value.code == "isolation" and words in caught.value.message


@needs_codex
def test_a_binary_is_asked_once_for_each_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rehearsal, "_CHECKED", set())
    binary = find_codex(cli_path=None, project_dir=tmp_path, environ={BINARY: str(codex_binary())})
    asked: list[Path] = []

    def environment(folder: Path) -> dict[str, str]:
        asked.append(folder)
        return codex_environment({"HTTPS_PROXY": "http://127.0.0.1:1", "HTTP_PROXY": "http://127.0.0.1:1"}, folder)

    started = time.monotonic()
    asyncio.run(rehearse(binary, environment, MODEL))
    seconds = time.monotonic() - started
    asyncio.run(rehearse(binary, environment, MODEL))
    assert len(asked) == 1
    asyncio.run(rehearse(binary, environment, "gpt-5.5"))
    assert len(asked) == 2
    assert not any(folder.exists() for folder in asked)
    with capsys.disabled():
        print(f"\na rehearsal of {binary.version_text}: {seconds:.2f} s")


def test_a_binary_that_asks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsal, "SECONDS", 0.5)
    script = """#!/bin/sh
case "$1" in
  --version) echo codex-cli 0.169.0 ;;
  features) echo memories stable true ;;
  *) exec sleep 60 ;;
esac
"""
    program = tmp_path / "codex"
    program.write_text(script)
    program.chmod(0o755)
    binary = find_codex(cli_path=None, project_dir=tmp_path / "project", environ={BINARY: str(program)})
    with pytest.raises(LlmError, match="did not send a request") as caught:
        asyncio.run(rehearse(binary, lambda folder: codex_environment({}, folder), MODEL))
    assert caught.value.code == "connection"
