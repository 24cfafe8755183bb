"""Schemas a person wrote: which can be asked with, and what is said of the others."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ktx_cli.llm.schemas import MAX_DEPTH, changed_inside, check_written


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels - 1):
        schema = {"items": schema}
    return schema


@pytest.mark.table(
    "schema",
    [
        {"enum": [{"$ref": "nowhere"}]},
        {"const": {"$ref": "nowhere"}, "default": {"$ref": "x"}, "examples": [{"$ref": "y"}]},
        {"properties": {"kids": {"type": "array", "items": {"$ref": "#"}}}},
        {"$dynamicAnchor": "n", "items": {"$dynamicRef": "#n"}},
        {"$id": "https://example.com/s", "$defs": {"N": {}}, "items": {"$ref": "#/$defs/N"}},
        {"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A"}], "$defs": {"A": {"type": "string"}}},
        {"items": {"$ref": "#/$defs/A"}, "$defs": {"A": True}},
        {"pattern": r"^[a-z]+(\.[a-z]+)*$"},
        nested(MAX_DEPTH),
    ],
)
def test_what_can_be_asked_with(schema: dict[str, Any]) -> None:
    check_written(schema)


@pytest.mark.table(
    ("schema", "words"),
    [
        ({"$ref": "#"}, "endless reference to itself"),
        ({"properties": {"a": {"$ref": "#/properties/a"}}}, "endless reference to itself"),
        (
            {"$defs": {"A": {"allOf": [{"$ref": "#/$defs/B"}]}, "B": {"not": {"$ref": "#/$defs/A"}}}},
            "endless reference to itself",
        ),
        ({"properties": {"enum": {"$ref": "#/nope"}}}, "target of `#/nope` does not exist"),
        ({"$dynamicRef": "#nope"}, "target of `#nope` does not exist"),
        ({"title": "x", "items": {"$ref": "#/title"}}, "not a schema"),
        ({"extra": {"$ref": "#/extra"}, "items": {"$ref": "#/extra"}}, "endless reference to itself"),
        ({"pattern": r"(\w*)*x"}, "forever"),
        ({"patternProperties": {"([a-z]+)+": {}}}, "forever"),
        ({"pattern": "("}, "regex"),
        ({"type": "nope"}, "not a valid JSON Schema"),
        (nested(MAX_DEPTH + 1), "levels deep"),
        (nested(5_000), "levels deep"),
    ],
)
def test_what_cannot(schema: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        check_written(schema)


def test_only_schemas_are_changed() -> None:
    schema = {"enum": [{}], "items": {}, "anyOf": [{}], "properties": {"enum": {}}, "title": "x"}
    changed = changed_inside(schema, lambda part: "new")
    assert changed == {"enum": [{}], "items": "new", "anyOf": ["new"], "properties": {"enum": "new"}, "title": "x"}
