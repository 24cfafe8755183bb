"""Help at 80 columns: words in place of types, whole sentences, the commands by what they are for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from ktx_cli.cli.app import COMMANDS, SECTIONS, app
from ktx_cli.cli.help import OWN
from ktx_cli.cli.settings import FLAGS, VALUED

WIDTH = 80


def paths() -> list[tuple[str, ...]]:
    """Return the words of every command and group, the root's first."""

    def below(node: Any, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        yield words
        for name, child in sorted(getattr(node, "commands", {}).items()):
            if name != OWN and not child.hidden:
                yield from below(child, (*words, name))

    return list(below(typer.main.get_command(app), ()))


def shown(*words: str) -> str:
    done = CliRunner().invoke(app, [*words, "--help"], prog_name="ktx", env={"COLUMNS": str(WIDTH)})
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.table("words", paths)
def test_a_page_of_help(words: tuple[str, ...]) -> None:
    text = shown(*words)
    assert [line for line in text.splitlines() if len(line) > WIDTH] == []
    assert re.findall(r"<[a-z][\w \[\]]*>|x[<>]=|\[\[|\.0\]", text) == [], "types and signs are no words"
    sentences = [line for line in text.splitlines() if not line.startswith(("Usage:", " " * 7 + "ktx"))]
    assert [line for line in sentences if re.search(r"[^,] ?\.\.\.$", line)] == [], "no sentence is cut"
    assert re.findall(r"(?m)^.*\w-$", text) == [], "no name is broken at a hyphen"
    names = [name for name in FLAGS | VALUED if name.startswith("--")]
    common = [name for name in names if re.search(rf"(?m)^  (-\w, )?{name}\b", text)]
    if words:
        assert common == [] and "Run `ktx --help` for common options" in text
    else:
        assert len(common) == len(names)


def test_the_root_has_every_command_once_below_what_it_is_for() -> None:
    text = shown()
    titles = re.findall(r"(?m)^(\w[\w ]*):$", text)
    assert titles == [*SECTIONS, "Options", "Common options"]
    assert sorted(re.findall(r"(?m)^  ([a-z][a-z-]*)  ", text)) == sorted(COMMANDS)
