"""The examples in the help of commands run as they stand: in the demo, with the files they name."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer.main

from ktx_cli.cli.app import app
from ktx_cli.cli.help import examples_of
from ktx_cli.cli.main import command_line

Run = Callable[..., Any]

FILES = {"monthly.sql": "SELECT count(*) FROM shop.orders\n"}
"""Files that examples name."""

READ_ONLY_BY_THE_PARSER: dict[str, str] = {}
"""Example -> why it is parsed and not run: it serves until it is stopped, asks a person, or needs a model."""

CODES: dict[str, int] = {}
"""Example -> its exit code, where it is not 0."""


def leaves() -> list[tuple[str, Any]]:
    """Return every command with its words."""

    def below(node: Any, words: str) -> Any:
        for name, child in sorted(getattr(node, "commands", {}).items()):
            if getattr(child, "own", None):
                yield f"{words} {name}", child.own
            if getattr(child, "commands", None):
                yield from below(child, f"{words} {name}")
            elif not child.hidden:
                yield f"{words} {name}", child

    return list(below(typer.main.get_command(app), "ktx"))


EXAMPLES = [(path, example) for path, command in leaves() for example in examples_of(command)]


def test_every_example_is_of_its_own_command() -> None:
    assert EXAMPLES
    assert [each for each in EXAMPLES if not each[1].startswith(each[0])] == []
    known = {example for _, example in EXAMPLES}
    assert known >= {*READ_ONLY_BY_THE_PARSER, *CODES}


@pytest.mark.parametrize("example", [example for _, example in EXAMPLES])
def test_an_example_runs(ktx: Run, demo_project: Path, work: Path, example: str) -> None:
    words = shlex.split(example)
    assert words[0] == "ktx"
    if example in READ_ONLY_BY_THE_PARSER:
        node, context, rest = typer.main.get_command(command_line(words[1:])), None, words[1:]
        while getattr(node, "commands", None) and rest and rest[0] in node.commands:
            context = node.make_context(rest[0], [], parent=context, resilient_parsing=True)
            node, rest = node.commands[rest[0]], rest[1:]
        node.make_context(words[-1], rest, parent=context)
        return
    shutil.copytree(demo_project, work, dirs_exist_ok=True)
    for name, text in FILES.items():
        (work / name).write_text(text)
    answer = ktx(*words[1:])
    assert answer.code == CODES.get(example, 0), (answer.out, answer.err)
