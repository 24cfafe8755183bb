"""Every command that a message, a hint or a next step names exists, with the flags it is named with."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

import ktx_cli
from ktx_cli.cli.app import app

PACKAGE = Path(ktx_cli.__file__).parent
HOLE = "\N{LOWER ONE EIGHTH BLOCK}"
"""Stands for what is filled in when the program runs."""

TYPED = re.compile(rf"(?<![\w/.-])ktx((?:[ ](?:[\w{HOLE}.\[\]=-]|'[^']*')+)+)")
VERBS = (
    "a|and|cannot|computes|describes|does|failed|has|held|joins|keeps|knows"
    "|must|only|shifts|shows|stands|takes|was|works"
)
NAMED = re.compile(r"\bktx[ \"']")
"""What the text of a module holds that names a command."""
PROSE = re.compile(rf"(?:^|(?<=[^`]))ktx (?:{VERBS})\b")
"""The program's own name in a sentence."""


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of every hint of a module, of all else in it that is typed between backticks, and of words
    for a shell."""
    source = path.read_text("utf-8")
    if not NAMED.search(source):
        return
    tree = ast.parse(source)
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    hints = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "hint"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "shell_words":
            yield node.lineno, " ".join(map(written, node.args))
        if id(node) in skipped or not isinstance(node, ast.Constant | ast.JoinedStr):
            continue
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
        text = written(node)
        whole = id(node) in hints or text.startswith("ktx ")
        yield from ((node.lineno, each) for each in ([text] if whole else re.findall(r"`(ktx [^`]+)`", text)))


def written(node: ast.expr) -> str:
    """Return what an expression is as text, as far as the source tells."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(written, node.values))
    return HOLE


def wrong(text: str, root: Any) -> list[str]:
    """Return the commands in a text that do not exist, and flags they do not have."""
    return [found for match in TYPED.finditer(PROSE.sub("", text)) for found in unknown(match[1].split(), root)]


def unknown(words: list[str], root: Any) -> Iterator[str]:
    """Yield what of a typed command does not exist; a word that is filled in may be anything."""
    command, rest = root, [word.strip("`.,;:") for word in words]
    while rest and rest[0] in getattr(command, "commands", ()):
        command = command.commands[rest.pop(0)]
    if command is root:
        if rest and HOLE not in rest[0] and not rest[0].startswith("-"):
            yield f"ktx {rest[0]}"
        return
    flags = flags_of(command)
    for flag in (word.partition("=")[0] for word in rest if word.startswith("--")):
        if HOLE not in flag and flag not in flags:
            yield f"{flag} of `ktx {' '.join(words)}`"


def flags_of(command: Any) -> set[str]:
    """Return the flags of a command, of a group those it takes by itself too."""
    own = [command.own] if hasattr(command, "own") else []
    parameters = [parameter for each in (command, *own) for parameter in each.params]
    return {flag for each in parameters for flag in (*each.opts, *each.secondary_opts)} | {"--help"}


def test_every_command_that_is_named_exists() -> None:
    root = typer.main.get_command(app)
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {each}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, text in texts(path)
        for each in wrong(text, root)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ktx init", ["ktx init"]),
        ("run `ktx inti` first", ["ktx inti"]),
        ("ktx scan --deep", ["--deep of `ktx scan --deep`"]),
        ("ktx scan relationships --accept EDGE", []),
        ("ktx config set scan.budget.seconds 9; then: ktx scan shop", []),
        ("the next `ktx scan` writes it anew", []),
        ("ktx only reads", []),
        (f"ktx {HOLE}", []),
        ("/usr/bin/ktx serve", []),
    ],
)
def test_what_does_not_exist_is_found(text: str, said: list[str]) -> None:
    assert wrong(text, typer.main.get_command(app)) == said
