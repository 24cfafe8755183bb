"""Every command that a message, a hint or a next step names exists, with the flags it is named with."""

from __future__ import annotations

import ast
import functools
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
NAMED = re.compile(r"\bktx[ \"']|\bCommand\(")
"""What the text of a module holds that names a command."""
PROSE = re.compile(rf"(?:^|(?<=[^`]))ktx (?:{VERBS})\b")
"""The program's own name in a sentence."""


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of every `Command` of a module, and of all that is typed between backticks in a text."""
    source = path.read_text("utf-8")
    if not NAMED.search(source):
        return
    nodes = list(ast.walk(ast.parse(source)))
    skipped = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Call) and name_of(node.func) == "Command" and not node.keywords:
            yield node.lineno, " ".join(("ktx", *map(written, node.args)))
        if id(node) in skipped or not isinstance(node, ast.Constant | ast.JoinedStr):
            continue
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
        yield from ((node.lineno, each) for each in re.findall(r"`(ktx [^`]+)`", written(node)))


def name_of(node: ast.expr) -> str:
    """Return the name a call goes by."""
    return getattr(node, "id", getattr(node, "attr", ""))


def written(node: ast.expr) -> str:
    """Return what an expression is as text, as far as the source tells."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(written, node.values))
    if isinstance(node, ast.Call) and name_of(node.func) == "Placeholder":
        return written(node.args[0])
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


@pytest.mark.house
def test_every_command_that_is_named_exists() -> None:
    root = typer.main.get_command(app)
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {each}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, text in texts(path)
        for each in wrong(text, root)
    ]
    assert not found, "\n".join(found)


def advised(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of every text of a module that reads as a command to type, in a hint or a next step."""
    source = path.read_text("utf-8")
    tree = ast.parse(source if "ktx " in source else "")
    for node in ast.walk(tree):
        hints = [each.value for each in getattr(node, "keywords", ()) if each.arg in ("hint", "next_steps")]
        hints += [node.value] if isinstance(node, ast.Assign) and any(map(is_hint, node.targets)) else []
        hints += node.args if isinstance(node, ast.Call) and name_of(node.func) == "Hint" else []
        for text in (
            written(part) for hint in hints for part in ast.walk(hint) if isinstance(part, ast.Constant | ast.JoinedStr)
        ):
            yield from ((node.lineno, text) for found in re.findall(r"\bktx ([a-z]+)", text) if found in names())


@functools.cache
def names() -> frozenset[str]:
    """The first words of all commands."""
    root: Any = typer.main.get_command(app)
    return frozenset(root.commands)


def is_hint(target: ast.expr) -> bool:
    """Whether an assignment makes a hint."""
    return name_of(target).endswith("hint")


@pytest.mark.house
def test_commands_of_hints_are_data() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {text}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, text in advised(path)
    ]
    assert not found, "write `Command(...)` in a `Hint`:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        'raise KtxError("x", hint="run `ktx scan` first")',
        'error.hint = f"ktx ingest {name}"',
        'hint = "look" if near else "ktx doctor"',
        'Hint("run {} or ktx status", Command("scan"))',
        'Result(data, next_steps=["ktx sl list"])',
    ],
)
def test_a_command_in_the_text_of_a_hint_is_found(line: str, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(line)
    assert list(advised(tmp_path / "module.py"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ktx init", ["ktx init"]),
        ("run `ktx inti` first", ["ktx inti"]),
        ("ktx scan --deep", ["--deep of `ktx scan --deep`"]),
        ("ktx scan relationships --accept EDGE", []),
        ("ktx config set scan.budget.seconds 9; then: ktx scan shop", []),
        ("the next `ktx scan` rewrites it", []),
        ("ktx only reads", []),
        (f"ktx {HOLE}", []),
        ("/usr/bin/ktx serve", []),
    ],
)
def test_what_does_not_exist_is_found(text: str, said: list[str]) -> None:
    assert wrong(text, typer.main.get_command(app)) == said
