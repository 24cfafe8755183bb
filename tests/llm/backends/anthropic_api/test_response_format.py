"""Schemas in the form the response format takes: as the SDK transforms them."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import pytest

from ktx_cli.llm.backends.anthropic_api.response_format import strict_schema

TEXT = {"type": "string"}
SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "properties": {"a": TEXT}, "required": ["a"], "additionalProperties": True},
    {
        "type": "object",
        "title": "T",
        "description": "D",
        "properties": {"a": {**TEXT, "title": "A"}},
        "minProperties": 1,
    },
    {"type": "object", "properties": {}, "required": []},
    {"type": "integer", "minimum": 1, "maximum": 10, "description": "A number"},
    {"type": "number", "exclusiveMinimum": 0.5},
    {**TEXT, "format": "date-time"},
    {**TEXT, "format": "path", "minLength": 1, "pattern": "^a"},
    {**TEXT, "default": None, "examples": ["x"]},
    {"type": "array", "items": {**TEXT, "maxLength": 3}, "minItems": 1, "maxItems": 4},
    {"type": "array", "items": TEXT, "minItems": 0},
    {"type": "array", "items": TEXT, "minItems": 2, "uniqueItems": True},
    {"type": "array"},
    {"type": "boolean", "default": False},
    {"type": "null"},
    {"enum": ["a", 1, None, True], **TEXT},
    {"enum": [], **TEXT},
    {"enum": [["a"]], **TEXT},
    {"const": "a", **TEXT, "minLength": 1},
    {"const": {"a": 1}, "type": "object"},
    {"anyOf": [TEXT, {"type": "null"}], "default": None, "title": "Maybe"},
    {"oneOf": [TEXT, {"$ref": "#/$defs/A"}], "discriminator": {"propertyName": "kind"}},
    {"allOf": [{"$ref": "#/$defs/A"}], "description": "one"},
    {"anyOf": [TEXT], "oneOf": [TEXT], "allOf": [TEXT]},
    {"anyOf": [TEXT], "type": "object", "properties": {"b": TEXT}},
    {"enum": ["a"], "anyOf": [TEXT]},
    {"$ref": "#/$defs/A", "description": "dropped"},
    {"$defs": {"A": {"type": "object", "properties": {"x": {"$ref": "#/$defs/B"}}}, "B": TEXT}, "$ref": "#/$defs/A"},
    {"$defs": {"A": {"enum": [1]}}, "type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}},
]


@pytest.mark.table("schema", SCHEMAS)
def test_a_schema_comes_out_as_the_sdk_transforms_it(schema: dict[str, Any]) -> None:
    before = json.dumps(schema)
    assert json.dumps(strict_schema(schema)) == json.dumps(anthropic.transform_schema(json.loads(before)))
    assert json.dumps(schema) == before


@pytest.mark.parametrize("schema", [{}, {"description": "anything"}, {"enum": [["a"]]}])
def test_a_schema_that_does_not_say_what_its_values_are_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must have a 'type'"):
        anthropic.transform_schema(json.loads(json.dumps(schema)))
    with pytest.raises(ValueError, match="does not say what its values are"):
        strict_schema(schema)
