"""No decision depends on the wording of a message of ours: codes, types and fields say what callers have to know."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ktx_cli

PACKAGE = Path(ktx_cli.__file__).parent
TEXTS = {"message", "problem", "hint"}
"""Attributes that hold sentences of ours."""
CUTS = {
    *("startswith", "endswith", "partition", "rpartition", "removeprefix", "removesuffix"),
    *("split", "find", "index", "search", "match", "fullmatch", "findall", "finditer", "sub"),
}
FOREIGN = {
    "sources/query_history/readers.py": "what a database says of the history it refuses",
    "warehouses/guard/check.py": "what a database says of a name it does not have",
    "warehouses/files/connector.py": "shortens a sentence; decides nothing",
    "jobs/semantic/layers.py": "keeps hidden names out of a message, whatever the words around them",
    "jobs/serve/ask.py": "keeps hidden names out of a message, whatever the words around them",
    "cli/contract.py": "shows a warning once, where the error says the same; decides nothing",
    "engine/report.py": "names the connection once in a sentence; decides nothing",
    "agent_tools/layer_writers.py": "names the source once in a sentence; decides nothing",
    "core/yaml_text.py": "what the parser says of YAML 1.2 that it takes for an error",
    "engine/documents/candidates.py": "a model's verdict, which is called a hint",
    "jobs/setup/plan.py": "takes what may be a secret out of a sentence; decides nothing",
}
"""Modules that read the texts of other programs, or only shape a sentence."""


def decisions(source: str) -> Iterator[int]:
    """Yield the lines in which the text of a message or a hint is looked into."""
    for node in ast.walk(ast.parse(source)) if re.search(rf"\.\s*({'|'.join(TEXTS)})\b", source) else ():
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            looked_into = any(isinstance(each, ast.In | ast.NotIn) for each in node.ops)
            if (looked_into and is_text(sides[-1])) or (any(map(is_text, sides)) and any(map(is_words, sides))):
                yield node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CUTS:
            yield from [node.lineno] if any(map(is_text, (node.func.value, *node.args))) else []


def is_words(node: ast.expr) -> bool:
    """Whether an expression is a text that says something."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value != ""


def is_text(node: ast.expr) -> bool:
    """Whether an expression is the message, the problem or the hint of something."""
    if isinstance(node, ast.BoolOp):
        return any(map(is_text, node.values))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("lower", "casefold"):
        return is_text(node.func.value)
    return isinstance(node, ast.Attribute) and node.attr in TEXTS


@pytest.mark.house
def test_no_decision_depends_on_the_wording_of_a_message() -> None:
    found = {
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if str(path.relative_to(PACKAGE)) not in FOREIGN and path.parent.name != "testing"
        for line in decisions(path.read_text("utf-8"))
    }
    assert not found, "decide by a code, a type or a field:\n" + "\n".join(sorted(found))


@pytest.mark.table("path", FOREIGN)
def test_what_is_excepted_is_still_there(path: str) -> None:
    assert list(decisions((PACKAGE / path).read_text("utf-8"))), f"take {path} off the list"


@pytest.mark.table(
    "line",
    [
        'if "known here" in warning.hint: pass',
        'if error.message.startswith("no such"): pass',
        're.search("secret of (.*)", finding.message)',
        'pattern.sub("", error.hint or "")',
        'if error.hint == "ktx doctor": pass',
        'if "locked" in error.message.lower(): pass',
    ],
)
def test_a_decision_on_a_message_is_found(line: str) -> None:
    assert list(decisions(line)) == [1]


@pytest.mark.table(
    "line", ["if error.hint is None: pass", "names[warning.message] = 1", 'if error.code in ("a", "b"): pass']
)
def test_what_is_no_decision_on_a_message(line: str) -> None:
    assert not list(decisions(line))
