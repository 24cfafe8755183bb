from __future__ import annotations

import ast
import os
import re
import subprocess
from pathlib import Path

import pytest

import ktx_cli
from ktx_cli.core.text import is_device_name, one_line_typed, shell_words

NASTY = [
    "plain.yaml",
    "sp ace/two  blanks",
    "it's",
    'say "hi"',
    "$HOME and `id`",
    "gl*b?[x]",
    "~root",
    "-rf",
    "semi;colon & more | x > y",
    "back\\slash",
    "",
    "line\nbreak and\ttab and 'quote' \\",
    "zero\u200bwidth \u3000 \u202e right",
    "\udcff not utf-8",
    "Übersicht",
]

COMMAND = re.compile(
    r"(?:\b(?:rm|cd|mv|chmod \S+|chown \S+|git -C|--project-dir|ls -\w+|lsattr -\w+|keyring set)|"
    r"git (?:restore|add|diff)[^{]* --) $"
)
"""What in a hint is followed by a path."""

NAMED = re.compile(r"\b(?:rm|cd|mv|chmod|chown|git|ls|lsattr|keyring)\b|--project-dir")
"""What the text of a module holds that has such a hint."""


@pytest.mark.table("word", NASTY)
def test_a_shell_reads_the_very_word(word: str) -> None:
    typed = shell_words("printf", "%s\\0", word, "next")
    assert one_line_typed(typed) == typed
    said = subprocess.run(["bash", "-c", typed.encode("utf-8", "surrogateescape")], capture_output=True, check=True)
    assert [os.fsdecode(part) for part in said.stdout.split(b"\0")] == [word, "next", ""]


@pytest.mark.table(("name", "device"), [("con", True), ("NUL", True), ("Com1", True), ("console", False)])
def test_device_names(name: str, device: bool) -> None:
    assert is_device_name(name) is device


def _is_quoted(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and getattr(value.func, "id", getattr(value.func, "attr", "")) == "shell_words"


def _unquoted(tree: ast.AST) -> list[int]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            for before, value in zip(node.values, node.values[1:], strict=False):
                text = before.value if isinstance(before, ast.Constant) else ""
                if isinstance(value, ast.FormattedValue) and COMMAND.search(str(text)) and not _is_quoted(value.value):
                    found.append(node.lineno)
    return found


@pytest.mark.house
def test_no_command_of_a_hint_holds_a_path_that_is_not_quoted() -> None:
    package = Path(ktx_cli.__file__).parent
    found = [
        f"{path.relative_to(package)}:{line}"
        for path in sorted(package.rglob("*.py"))
        for source in [path.read_text("utf-8")]
        for line in _unquoted(ast.parse(source if NAMED.search(source) else ""))
    ]
    assert found == []


@pytest.mark.table(
    "source", ['f"rm {path}"', 'f"chmod u+r {path}"', 'f"then git -C {x} init"', 'f"git restore -- {path}"']
)
def test_the_walk_finds_one(source: str) -> None:
    assert NAMED.search(source) and _unquoted(ast.parse(source)) == [1]
    assert _unquoted(ast.parse(re.sub(r"\{(.*)\}", r"{shell_words(\1)}", source))) == []
