"""Schemas a model can answer: an object at the root, whatever the model is."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from pydantic import BaseModel, Field, RootModel, ValidationError

from ktx_cli.llm.schemas import json_schema, object_schema, schema_model, tool_schema


class City(BaseModel):
    name: str


class Town(BaseModel):
    town: str


class Cities(RootModel[list[City]]):
    pass


class Either(RootModel[City | Town]):
    pass


class Number(RootModel[int]):
    pass


class Free(RootModel[dict[str, int]]):
    pass


class Maybe(RootModel[str | None]):
    pass


class Tree(BaseModel):
    name: str
    children: list[Tree] = []


ULM = {"name": "Ulm"}


@pytest.mark.requirement("R64")
@pytest.mark.table(
    ("output", "wrapped", "good", "bad"),
    [
        (City, False, ULM, {"name": 1}),
        (Free, False, {"a": 1}, {"a": "x"}),
        (Tree, False, {"name": "a", "children": [{"name": "b"}]}, {"children": []}),
        (Cities, True, [ULM], [{"town": "x"}]),
        (Cities, True, [], ULM),
        (Either, True, ULM, {"x": 1}),
        (Number, True, 7, "x"),
        (Maybe, True, None, 7),
    ],
)
def test_every_kind_of_root(output: Any, wrapped: bool, good: Any, bad: Any) -> None:
    schema, check = object_schema(output)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["type"] == "object"
    answer = {"value": good} if wrapped else good
    jsonschema.validate(answer, schema)
    assert check(answer) == output.model_validate(good)
    with pytest.raises(ValidationError):
        check({"value": bad} if wrapped else bad)


@pytest.mark.table("answer", [[ULM], ULM, None, "x", {"value": [ULM], "more": 1}, {}])
def test_what_is_not_wrapped_as_asked_is_refused_with_words_for_the_model(answer: Any) -> None:
    _, check = object_schema(Cities)
    with pytest.raises(ValueError, match="only the property `value`"):
        check(answer)


@pytest.mark.table("output", [dict, int, City(name="x"), None, list[City]])
def test_only_models_are_asked_for(output: Any) -> None:
    with pytest.raises(ValueError, match="needs a pydantic model"):
        object_schema(output)


def test_a_model_is_not_changed_by_asking_for_it() -> None:
    before = Cities.model_json_schema()
    object_schema(Cities)
    assert Cities.model_json_schema() == before
    assert json_schema(City) == City.model_json_schema()


@pytest.mark.table(
    ("schema", "good", "bad"),
    [
        ({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}, {"n": 1}, {"n": "x"}),
        ({"type": "array", "items": {"type": "string"}}, ["a"], [1]),
        ({"enum": ["a", "b"]}, "a", "c"),
        ({"$defs": {"N": {"type": "integer"}}, "type": "array", "items": {"$ref": "#/$defs/N"}}, [1], ["x"]),
        ({"definitions": {"N": {"type": "integer"}}, "type": "array", "items": {"$ref": "#/definitions/N"}}, [1], [""]),
        ({}, {"anything": 1}, ...),
    ],
)
def test_a_schema_a_person_wrote(schema: dict[str, Any], good: Any, bad: Any) -> None:
    asked, check = object_schema(schema_model(schema))
    wrapped = schema.get("type") != "object"
    assert asked["type"] == "object"
    answer = {"value": good} if wrapped else good
    jsonschema.validate(answer, asked)
    assert check(answer).root == good
    if bad is not ...:
        wrong = {"value": bad} if wrapped else bad
        with pytest.raises(ValueError, match=r"\$"):
            check(wrong)
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, asked)


@pytest.mark.table(
    "schema",
    [
        {"type": "nope"},
        {"properties": []},
        {"$ref": "#/$defs/Missing"},
        {"type": "object", "properties": {"a": {"$ref": "https://example.com/schema.json"}}},
    ],
)
def test_what_is_no_schema(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not a valid JSON Schema"):
        schema_model(schema)


def test_a_reference_to_the_root_still_leads_to_it_when_the_root_is_wrapped() -> None:
    schema = {
        "anyOf": [{"$ref": "#/$defs/N"}, {"type": "array", "items": {"$ref": "#"}}],
        "$defs": {"N": {"type": "integer"}},
    }
    asked, check = object_schema(schema_model(schema))
    for value, fits in (([1, [2]], True), ([1, ["x"]], False), ({"value": 1}, False)):
        assert jsonschema.Draft202012Validator(asked).is_valid({"value": value}) is fits
        if fits:
            assert check({"value": value}).root == value


class Lines(BaseModel):
    title: str
    place: City | None = Field(None, description="Where.")
    tags: list[str] | None = Field(None, max_length=3)
    either: City | Town | None = None
    count: int | None = 7
    must: str | None


def test_the_schema_of_a_tool_says_what_a_model_needs_and_no_more() -> None:
    short, whole = tool_schema(Lines), json_schema(Lines)
    assert short["properties"] == {
        "title": {"type": "string"},
        "place": {"$ref": "#/$defs/City", "description": "Where."},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
        "either": {"anyOf": [{"$ref": "#/$defs/City"}, {"$ref": "#/$defs/Town"}]},
        "count": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": 7},
        "must": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    }
    assert short["required"] == whole["required"] == ["title", "must"]
    assert short["$defs"]["City"] == {
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
    }
    assert tool_schema(Lines) is short
    assert "title" in whole, "the shared schema stays as it was"
    for value in ({"title": "a", "must": None}, {"title": "a", "must": "b", "tags": ["c"], "count": None}):
        jsonschema.validate(value, short)
        jsonschema.validate(value, whole)
