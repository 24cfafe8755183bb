"""The command line of one command is the one of all commands, as far as it goes."""

from __future__ import annotations

from typing import Any

import pytest
import typer.main

from ktx_cli.cli.app import app, of_one
from ktx_cli.cli.main import command_line

WHOLE: Any = typer.main.get_command(app)


def shape(command: Any) -> Any:
    """Return a command's options and subcommands, as they are typed."""
    options = [(each.name, each.opts, each.required, getattr(each, "help", None)) for each in command.params]
    below = {name: shape(each) for name, each in getattr(command, "commands", {}).items()}
    return type(command).__name__, command.help, options, below


@pytest.mark.parametrize("name", sorted(WHOLE.commands))
def test_one_command_alone_is_what_it_is_among_all(name: str) -> None:
    alone: Any = typer.main.get_command(of_one(name))
    assert list(alone.commands) == [name]
    assert shape(alone.commands[name]) == shape(WHOLE.commands[name])
    assert shape(alone)[:3] == shape(WHOLE)[:3]


@pytest.mark.parametrize(
    "argv",
    [
        (),
        ("--help",),
        ("--json", "--help", "status"),
        ("--version", "status"),
        ("-qy", "status"),
        ("--projectdir", "x", "status"),
        ("--project-dir", "status"),
        ("--json", "stauts"),
        ("stauts",),
        ("sl_query",),
        ("../app",),
    ],
    ids=" ".join,
)
def test_what_needs_all_commands_gets_them(argv: tuple[str, ...]) -> None:
    assert command_line(argv, {}) is app


@pytest.mark.parametrize(
    "argv",
    [
        ("status",),
        ("status", "--project-dir", "x"),
        ("status", "--project-dir=x"),
        ("--json", "status"),
        ("--project-dir", "x", "status"),
        ("--project-dir=x", "--progress", "none", "-y", "status"),
    ],
    ids=" ".join,
)
def test_one_command_needs_no_other(argv: tuple[str, ...]) -> None:
    assert command_line(argv, {}) is not app


def test_words_are_completed_by_all_commands() -> None:
    assert command_line(["status"], {"_KTX_COMPLETE": "complete_bash"}) is app
    assert command_line(["status"], {}) is not app
