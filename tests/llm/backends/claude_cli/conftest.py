"""A POSIX shell stub for the `claude` binary, and runtimes on it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.llm.routing import RoutedRuntime, create_runtime
from ktx_cli.project.config.model import KtxConfig

STUB = """#!/bin/sh
case "$1" in
  --version) echo "2.1.329 (Claude Code)"; exit;;
  --help) echo "{help}"; exit;;
  --output-format) cat > /dev/null; echo '{settings}'; exit;;
  auth) echo '{{"loggedIn": true, "authMethod": "stub"}}'; exit;;
esac
n=$(( $(cat {folder}/count 2>/dev/null || echo 0) + 1 ))
echo $n > {folder}/count
mkdir {folder}/$n
for one in "$@"; do printf '%s\\0' "$one"; done > {folder}/$n/argv
tr '\\0' '\\n' < /proc/self/environ > {folder}/$n/environ
pwd > {folder}/$n/cwd
stat -c %a . > {folder}/$n/mode
ls -A | while read file; do stat -c '%a %n' "$file"; cat "$file"; done > {folder}/$n/files
cat > {folder}/$n/stdin
{before}
cat {folder}/answer-$n 2>/dev/null || cat {folder}/answer
[ -f {folder}/stderr ] && cat {folder}/stderr >&2
exit $(cat {folder}/code 2>/dev/null || echo 0)
"""


SETTINGS = {
    "type": "control_response",
    "response": {"subtype": "success", "request_id": "get_settings", "response": {"sources": []}},
}
"""What the stub says when it is asked which settings are in force."""


def envelope(text: str = "", **facts: Any) -> dict[str, Any]:
    """The JSON a `claude --print` ends with."""
    return {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "terminal_reason": "completed",
        "stop_reason": "end_turn",
        "result": text,
        "session_id": "session-of-the-stub",
        "total_cost_usd": 0.25,
        "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 3},
        **facts,
    }


@dataclass
class Stub:
    """The stub's folder: what it answers, and what each run of it got."""

    folder: Path
    program: Path

    def answers(self, *answers: Mapping[str, Any] | str, code: int = 0, stderr: str = "") -> None:
        """Say what the runs print, one after another, the last one again and again; strings as they are."""
        texts = [one if isinstance(one, str) else json.dumps(one) for one in answers]
        for number, text in enumerate(texts, 1):
            (self.folder / f"answer-{number}").write_text(text, "utf-8")
        (self.folder / "answer").write_text(texts[-1], "utf-8")
        (self.folder / "code").write_text(str(code))
        if stderr:
            (self.folder / "stderr").write_text(stderr)

    def says(self, *texts: str) -> None:
        """Say what the model answers."""
        self.answers(*(envelope(text, session_id=f"session-{n}") for n, text in enumerate(texts)))

    @property
    def runs(self) -> int:
        count = self.folder / "count"
        return int(count.read_text()) if count.is_file() else 0

    def got(self, run: int, what: str) -> str:
        """Return what a run got, from 1: `argv`, `environ`, `cwd`, `mode`, `files`, `stdin`."""
        return (self.folder / str(run) / what).read_text("utf-8")

    def argv(self, run: int = 1) -> list[str]:
        return self.got(run, "argv").split("\0")[:-1]


@pytest.fixture
def stub(tmp_path: Path) -> Callable[..., Stub]:
    """Write a stub; `before` is shell code that runs before it answers."""

    def make(*, before: str = "", help_text: str = "--restricted") -> Stub:
        folder = tmp_path / "stub"
        folder.mkdir()
        program = folder / "claude"
        before = before.replace("{folder}", str(folder))
        settings = json.dumps(SETTINGS)
        program.write_text(STUB.format(folder=folder, before=before, help=help_text, settings=settings))
        program.chmod(0o755)
        made = Stub(folder, program)
        made.says("hello")
        return made

    return make


@pytest.fixture
def runtime(tmp_path: Path) -> Callable[..., RoutedRuntime]:
    """Make a runtime of the backend `claude-cli` on a stub, or with `environ` alone."""

    def make(stub: Stub | None = None, *, environ: Mapping[str, str] | None = None, **raw: Any) -> RoutedRuntime:
        config = {
            "llm": {"provider": {"backend": "claude-cli"}, "models": {"default": "sonnet"}},
            "ingest": {"rateLimit": {"retry": {"maxAttempts": 1}}},
            **raw,
        }
        found = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **(environ or {})}
        if stub is not None:
            found["KTX_CLAUDE_CLI_BIN"] = str(stub.program)
        return create_runtime(KtxConfig.model_validate(config), tmp_path, found)

    return make
