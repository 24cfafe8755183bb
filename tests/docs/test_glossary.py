"""The glossary and the code use the same words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import ktx_cli

PACKAGE = Path(ktx_cli.__file__).parent
PAGE = PACKAGE.parent / "docs" / "glossary.md"
TEXT = PAGE.read_text("utf-8")
ROWS = re.findall(r"^\| ([a-z][^|]*?) \| ([^|]+?) \| `([\w.]+)` \|$", TEXT, re.MULTILINE)
UNUSED = ("told", "said", "heard", "stood", "foretold", "withheld", "lease")
"""Words of the glossary's last section that are in no name of the code."""

GERUNDS = {"listing", "ranking", "rendering", "routing", "sampling", "serving", "staging"}
"""Names of modules that end in -ing and are nouns of the field."""


def names(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module defines: classes, functions, parameters, constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def words(name: str) -> set[str]:
    """Return the words that a name is put together from, in small letters."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def test_the_page_has_terms() -> None:
    assert len(ROWS) > 50
    assert len({term for term, _, _ in ROWS}) == len(ROWS), "a word has one meaning"


@pytest.mark.table(("term", "reference"), [(term, reference) for term, _, reference in ROWS])
def test_what_a_term_is_in_the_code_exists(term: str, reference: str) -> None:
    owner, _, name = reference.rpartition(".")
    assert hasattr(import_module(owner), name) or import_module(reference), term


@pytest.mark.house
def test_no_name_has_a_word_ktx_does_not_use() -> None:
    section = TEXT.split("## Words ktx does not use")[1]
    assert [word for word in UNUSED if not re.search(rf"^\| [^|]*\b{word}\b", section, re.MULTILINE)] == []
    texts = ((path, path.read_text("utf-8")) for path in PACKAGE.rglob("*.py"))
    found = {
        f"{path.relative_to(PACKAGE)}: {name}"
        for path, text in texts
        if re.search("|".join(UNUSED), text, re.IGNORECASE)
        for name in names(ast.parse(text))
        if words(name) & set(UNUSED)
    }
    assert sorted(found) == []


def test_a_module_named_by_a_gerund_is_in_the_list() -> None:
    found = {path.stem for path in PACKAGE.rglob("*ing.py")}
    assert found == GERUNDS
