"""The options every command has: how to speak, whether to ask, which project."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ktx_cli.core.errors import UsageError

PANEL = "Common options"


class ProgressMode(StrEnum):
    """How progress is shown on stderr."""

    AUTO = "auto"
    PLAIN = "plain"
    JSONL = "jsonl"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Settings:
    """The common options of one invocation; None and False mean not given."""

    project_dir: str | None = None
    json: bool = False
    plain: bool = False
    quiet: bool = False
    verbose: bool = False
    progress: ProgressMode | None = None
    no_input: bool = False
    yes: bool = False
    debug: bool = False

    def over(self, base: Settings) -> Settings:
        """Return these settings, with those of `base` where they were not given here."""
        mine = {field.name: getattr(self, field.name) for field in fields(self)}
        given = {name: value for name, value in mine.items() if value is not None and value is not False}
        return replace(base, **given)

    @property
    def interactive(self) -> bool:
        """Say whether a question may be asked: terminals, no `--no-input`, no `CI`."""
        return (
            not self.no_input
            and not self.json
            and not os.environ.get("CI")
            and sys.stdin.isatty()
            and sys.stderr.isatty()
        )

    @property
    def pretty(self) -> bool:
        """Say whether stdout gets tables with lines instead of plain text."""
        return not (self.json or self.plain) and sys.stdout.isatty()

    @property
    def project_words(self) -> list[str]:
        """Return the words that name the project again, where they were typed."""
        return [] if self.project_dir is None else ["--project-dir", self.project_dir]


def current_folder() -> Path:
    """Return the current folder; `UsageError` where it was removed or cannot be read."""
    try:
        return Path.cwd()
    except OSError as error:
        raise UsageError(
            f"the current folder cannot be used: {error.strerror or error}",
            hint="cd to a folder that exists, then run the command again",
        ) from error


def use_colour(stream: Any) -> bool:
    """Say whether `stream` gets colour: a terminal, and none of NO_COLOR, TERM=dumb, CI."""
    environ = os.environ
    if environ.get("NO_COLOR") or environ.get("CI") or environ.get("TERM") == "dumb":
        return False
    return bool(stream.isatty())


COMMON_OPTIONS: dict[str, tuple[Any, Any]] = {
    "project_dir": (
        Annotated[
            str | None,
            typer.Option(
                "--project-dir",
                metavar="DIR",
                help="The project's folder. Else KTX_PROJECT_DIR, else the nearest parent with a ktx.yaml.",
                rich_help_panel=PANEL,
            ),
        ],
        None,
    ),
    "json": (
        Annotated[bool, typer.Option("--json", help="One JSON envelope on stdout.", rich_help_panel=PANEL)],
        False,
    ),
    "plain": (
        Annotated[
            bool,
            typer.Option("--plain", help="Stable text without colour or lines.", rich_help_panel=PANEL),
        ],
        False,
    ),
    "quiet": (
        Annotated[
            bool,
            typer.Option("--quiet", "-q", help="Data and errors only.", rich_help_panel=PANEL),
        ],
        False,
    ),
    "verbose": (
        Annotated[bool, typer.Option("--verbose", help="Say more.", rich_help_panel=PANEL)],
        False,
    ),
    "progress": (
        Annotated[
            ProgressMode | None,
            typer.Option("--progress", help="How progress is shown on stderr.", rich_help_panel=PANEL),
        ],
        None,
    ),
    "no_input": (
        Annotated[bool, typer.Option("--no-input", help="Never ask anything.", rich_help_panel=PANEL)],
        False,
    ),
    "yes": (
        Annotated[bool, typer.Option("--yes", "-y", help="Answer confirmations.", rich_help_panel=PANEL)],
        False,
    ),
    "debug": (
        Annotated[
            bool,
            typer.Option("--debug", help="Show the traceback of an error.", rich_help_panel=PANEL),
        ],
        False,
    ),
}
"""Name -> (annotation, default) of the options that `contract.command` adds to every command."""
