"""A local Claude Code session through claude-agent-sdk, and the same session through `claude --print`."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from ktx_cli.llm.backends.anthropic_api import is_effort_settable
from ktx_cli.llm.registry import BackendKind, SessionProgram

AUTH_MESSAGE: Final = "Claude Code on this machine has no usable session"
AUTH_HINT: Final = "sign in to Claude Code: run `claude` and use /login; then run this command again"
"""The message and the hint for a missing or rejected session."""


def _is_effort_settable(model: str) -> bool:
    """Return whether a model has effort; a bare name such as `sonnet` means its newest version."""
    return re.fullmatch(r"[a-z]+(\[1m\])?", model) is not None or is_effort_settable(model)


CLAUDE_CODE: Final = BackendKind(
    name="claude-code",
    who="Claude Code",
    label="Your local Claude Code session",
    maker="ktx_cli.llm.backends.claude_code.backend:make",
    block="claude",
    client="session",
    program=SessionProgram(
        "claude",
        ("auth", "login"),
        session="ktx_cli.llm.backends.claude.session:local_session",
        candidates="ktx_cli.llm.backends.claude.binary:candidates",
    ),
    models={"default": "sonnet", "triage": "haiku", "candidateExtraction": "haiku"},
    by_hand=False,
    default_model="sonnet",
    own_loop=False,
    is_effort_settable=_is_effort_settable,
    source="anthropic_sdk",
    executor_type="claude_sdk",
    telemetry="anthropic",
    no_credentials=AUTH_MESSAGE,
    credentials=AUTH_HINT,
)

CLAUDE_CLI: Final = replace(
    CLAUDE_CODE,
    name="claude-cli",
    label="Your local Claude Code session, through `claude --print`",
    maker="ktx_cli.llm.backends.claude_cli:make",
    own_loop=True,
    source="claude_cli",
    executor_type="claude_print",
)
