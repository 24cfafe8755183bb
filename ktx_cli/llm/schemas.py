"""Pydantic models as JSON Schemas a model can answer: an object at the root, whatever the model is."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakKeyDictionary

from pydantic import BaseModel, RootModel, model_validator

from ktx_cli.llm.types import Output
from ktx_cli.llm.written_schemas import changed_inside, check_written

WRAPPED: Final = "value"
"""The one property of the object around an answer that is none."""

_SCHEMAS: Final[WeakKeyDictionary[type[BaseModel], dict[str, Any]]] = WeakKeyDictionary()
"""Schemas of models by class: pydantic takes a millisecond or more for one, and a loop needs twenty for every turn."""


def object_schema(output: type[Output]) -> tuple[dict[str, Any], Callable[[Any], Output]]:
    """Return the schema to ask with, and the function that checks an answer and returns the instance.

    A root that is no object (that of a `RootModel` of a list, a union) is wrapped in one and taken out again. Raises
    `ValueError` for something that is no pydantic model.
    """
    if not (isinstance(output, type) and issubclass(output, BaseModel)):
        raise ValueError(f"an object call needs a pydantic model, not {output!r}")
    schema = copy.deepcopy(json_schema(output))
    if schema.get("type") == "object":
        return schema, output.model_validate
    definitions: dict[str, Any] = {name: schema.pop(name) for name in ("$defs", "definitions") if name in schema}
    wrapped: dict[str, Any] = {
        "type": "object",
        "properties": {WRAPPED: _moved(schema)},
        "required": [WRAPPED],
        "additionalProperties": False,
        **_moved(definitions),
    }

    def check(value: Any) -> Output:
        if not isinstance(value, dict) or set(value) != {WRAPPED}:
            raise ValueError(f"the answer must be an object with the property `{WRAPPED}` alone")
        return output.model_validate(value[WRAPPED])

    return wrapped, check


def _moved(part: Any) -> Any:
    """Return a schema that is no longer the root: its references to the root, definitions apart, go where that is."""
    if not isinstance(part, dict):
        return part
    moved, reference = changed_inside(part, _moved), part.get("$ref")
    if reference == "#" or (isinstance(reference, str) and reference.startswith("#/")):
        inside = reference.removeprefix("#")
        if not inside.startswith(("/$defs/", "/definitions/")):
            moved["$ref"] = f"#/properties/{WRAPPED}{inside}"
    return moved


def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a model, with an object at its root also where the model refers to itself.

    It is made once for a model: what is returned is shared, and must not be changed.
    """
    if model not in _SCHEMAS:
        _SCHEMAS[model] = _made(model)
    return _SCHEMAS[model]


def _made(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema()
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    definition = schema.get("$defs", {}).get(name)
    return {**definition, "$defs": schema["$defs"]} if set(schema) == {"$ref", "$defs"} and definition else schema


def schema_model(schema: dict[str, Any]) -> type[RootModel[Any]]:
    """Return a model for a JSON Schema a person wrote; raises `ValueError` for a schema that is none."""
    import jsonschema

    check_written(schema)
    validator = jsonschema.Draft202012Validator(schema)

    class SchemaAnswer(RootModel[Any]):
        """An answer that fits the schema."""

        @classmethod
        def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
            """Return the schema as it was given."""
            return copy.deepcopy(schema)

        @model_validator(mode="after")
        def _fits(self) -> SchemaAnswer:
            try:
                found = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(self.root)]
            except RecursionError:
                raise ValueError("$: the answer is nested too deeply") from None
            if found:
                raise ValueError("; ".join(found[:5]))
            return self

    return SchemaAnswer
