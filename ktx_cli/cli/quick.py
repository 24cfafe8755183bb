"""A command line of one command: what a process runs, without the registration of all the others.

A quarter of the time of a short command went into the commands that it is not.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

_COMMANDS = Path(__file__).with_name("commands")


def command_line(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> typer.Typer:
    """Return the app for a command line: with the one command it begins with, or with all.

    All are needed to complete words, to say which command was meant, and to put `--project-dir` into hints.
    """
    first = argv[0] if argv else ""
    whole = "_KTX_COMPLETE" in environ or any(word.startswith("--project-dir") for word in argv)
    if whole or not (first.isascii() and first.isalpha()) or not (_COMMANDS / f"{first}.py").is_file():
        from ktx_cli.cli.app import app

        return app
    return of_one(first)


def of_one(name: str) -> typer.Typer:
    """Return the root with the one command of a name: each has a module of its name."""
    from ktx_cli.cli.root import new_app

    app = new_app()
    import_module(f"ktx_cli.cli.commands.{name}").register(app)
    return app
