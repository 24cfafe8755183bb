"""What the shell completes besides commands and options: the connection ids of the project around."""

from __future__ import annotations

import os
import re
from typing import Any

import typer

from ktx_cli.cli.settings import current_folder

_MEANT_BY_BASH = re.compile(r"[ \t\"'\\()<>|&;$`*?\[\]#~!{}]")
"""What bash takes for more than a letter."""


def prepare() -> None:
    """Make typer's shells known; their descriptions are our help as it is, which has no markup for rich to draw."""
    from typer import _completion_classes

    _completion_classes._sanitize_help_text = lambda text: text
    _completion_classes.BashComplete.format_completion = _for_bash  # type: ignore[method-assign,assignment]
    _completion_classes.completion_init()


def _for_bash(shell: Any, item: Any) -> str:
    """Return a value as it has to stand on bash's line, which takes it as it is; in open quotes nothing is escaped."""
    quotes = re.sub(r"\\.|[^'\"]", "", os.environ.get("COMP_WORDS", ""))
    if any(quotes.count(mark) % 2 for mark in "'\""):
        return str(item.value)
    return _MEANT_BY_BASH.sub(lambda found: f"\\{found[0]}", str(item.value))


def connection_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the ids of `ktx.yaml` that begin with what was typed; none where there is no readable project.

    The project is that of a `--project-dir` earlier on the line, else the one around the current folder.
    Only the names are read; nothing is checked, opened or written.
    """
    from ktx_cli.core import yaml
    from ktx_cli.core.errors import KtxError
    from ktx_cli.project.files import read_bytes
    from ktx_cli.project.layout import CONFIG_NAME
    from ktx_cli.project.resolve import find_project

    try:
        named = [context.params.get("project_dir") for context in (ctx, ctx.find_root())]
        folder = find_project(next((name for name in named if name is not None), None), os.environ, current_folder())
        text = read_bytes(folder / CONFIG_NAME) if folder else None
        document = yaml.load(text, where=CONFIG_NAME) if text else None
    except KtxError:  # a shell cannot show an error in the middle of a line; the command itself will
        return []
    connections = document.get("connections") if isinstance(document, dict) else None
    return [str(key) for key in connections if str(key).startswith(incomplete)] if isinstance(connections, dict) else []
