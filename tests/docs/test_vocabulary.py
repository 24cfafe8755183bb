"""No text that people or models read has a word or phrase that STYLE.md's readers stumbled over."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import ktx_cli

PACKAGE = Path(ktx_cli.__file__).parent
ROOT = PACKAGE.parent
ENTRIES: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "vocabulary.yaml").read_text("utf-8"))
PATTERNS = {entry["pattern"]: re.compile(entry["pattern"], re.IGNORECASE) for entry in ENTRIES}
ANY = re.compile("|".join(f"(?:{pattern})" for pattern in PATTERNS), re.IGNORECASE)
PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "ktx.example.yaml"]
BLOCK = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


def texts_of_module(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of every string and docstring; an f-string's values are `{}`."""
    inner: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            inner.update(id(part) for part in node.values)
            yield node.lineno, "".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.lineno, node.value


def prose_of_page(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each paragraph outside code blocks, in which names are `{}`."""
    text = BLOCK.sub(lambda block: "\n" * block[0].count("\n"), text.partition("## Words ktx does not use")[0])
    line = 1
    for paragraph in re.split(r"(\n\s*\n)", text):
        yield line, re.sub(r"`[^`\n]*`", "{}", paragraph)
        line += paragraph.count("\n")


def texts() -> Iterator[tuple[str, int, str]]:
    """Yield the path, the line and the text of everything that people and models read."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for line, text in texts_of_module(path.read_text("utf-8")):
            yield str(path.relative_to(ROOT)), line, text
    written = [ROOT / name for name in PAGES]
    for path in [*written, *sorted((ROOT / "docs").rglob("*.md")), *sorted(PACKAGE.rglob("*.md"))]:
        for line, text in prose_of_page(path.read_text("utf-8")):
            yield str(path.relative_to(ROOT)), line, text


def found_in(text: str) -> Iterator[str]:
    """Yield the words of the list in a text. A single word of small letters is a code, which programs compare.

    Regular expressions find words in texts of others.
    """
    joined = " ".join(text.split())
    if ANY.search(joined) and not re.fullmatch(r"[a-z_-]+", text) and "(?" not in text:
        for name, pattern in PATTERNS.items():
            yield from (f"{match[0]!r} ({name})" for match in pattern.finditer(joined))


@pytest.mark.house
def test_no_text_has_a_word_of_the_list() -> None:
    found = [f"{path}:{line}: {each}" for path, line, text in texts() for each in found_in(text)]
    assert not found, "see tests/docs/vocabulary.yaml for what to write instead:\n" + "\n".join(found)


def test_every_entry_has_its_reason() -> None:
    assert len(ENTRIES) > 25
    for entry in ENTRIES:
        assert set(entry) == {"pattern", "instead", "reason"}
        assert all(str(value).strip() for value in entry.values())


@pytest.mark.parametrize(
    "text",
    [
        "`x` is no day",
        "the password stands in clear in ktx.yaml",
        "9 withheld",
        "Return the columns of which one is a key.",
        "it leads nowhere",
        "named as the key is; every value is found",
        "Who asks, for policies",
        "unchanged; 3 left out",
        "2 file(s)",
    ],
)
def test_a_phrase_of_the_list_is_found(text: str) -> None:
    assert list(found_in(text))


@pytest.mark.parametrize(
    "text", ["The run is no longer active.", "withheld", "There is no such table.", "12 files updated"]
)
def test_ordinary_english_is_not(text: str) -> None:
    assert not list(found_in(text))
