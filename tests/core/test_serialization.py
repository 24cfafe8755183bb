"""Records give their fields, or what they list, as plain data."""

from __future__ import annotations

import ast
import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import ktx_cli
from ktx_cli.core.serialization import Record, plain


class Kind(StrEnum):
    GOOD = "good"


@dataclass(frozen=True, slots=True)
class Part(Record):
    name: str
    kind: Kind = Kind.GOOD


@dataclass(frozen=True, slots=True)
class Plain:
    at: Path
    _cache: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Whole(Record):
    parts: tuple[Part, ...]
    first: Part | None = None
    file: Plain | None = None
    more: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    json_keys = ("parts", "count=size", "name=first.name", "file", "total", "more")

    @property
    def size(self) -> int:
        return len(self.parts)

    def total(self) -> float:
        return 0.5


def test_a_record_is_its_fields_or_what_it_lists() -> None:
    whole = Whole((Part("a"),), Part("b"), Plain(Path("x/y")), {"k": (1, 2)})
    parts = [{"name": "a", "kind": "good"}]
    assert whole.to_json() == {
        "parts": parts,
        "count": 1,
        "name": "b",
        "file": {"at": "x/y"},
        "total": 0.5,
        "more": {"k": [1, 2]},
    }
    assert type(whole.to_json()["parts"][0]["kind"]) is str
    assert Whole(()).to_json()["name"] is None


@pytest.mark.table("value", [None, True, 1, 0.1, "text", [1, "a"], {"a": None}])
def test_plain_values_stay_as_they_are(value: Any) -> None:
    assert plain(value) == value
    assert json.loads(json.dumps(plain(value))) == value


def records() -> Iterator[type[Record]]:
    """Yield every record of the program, found by its base in the source."""
    root = Path(ktx_cli.__file__).parent
    for file in sorted(root.rglob("*.py")):
        text = file.read_text("utf-8")
        if "(Record)" in text:
            module = import_module(".".join(("ktx_cli", *file.relative_to(root).with_suffix("").parts)))
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "Record" for base in node.bases):
                    yield getattr(module, node.name)


@pytest.mark.table("record", records)
def test_every_key_of_a_record_is_an_attribute(record: type[Record]) -> None:
    assert dataclasses.is_dataclass(record)
    known = {each.name for each in dataclasses.fields(record)} | set(dir(record))
    for entry in record.json_keys:
        key, _, path = entry.partition("=")
        assert (path or key).split(".")[0] in known, entry
