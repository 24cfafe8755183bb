"""Pydantic models as JSON Schemas a model can answer: an object at the root, whatever the model is."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final

from pydantic import BaseModel, RootModel, model_validator

from ktx_cli.llm.types import Output

WRAPPED: Final = "value"
"""The one property of the object around an answer that is none."""


def object_schema(output: type[Output]) -> tuple[dict[str, Any], Callable[[Any], Output]]:
    """Return the schema to ask with, and the function that checks an answer and returns the instance.

    A root that is no object (that of a `RootModel` of a list, a union) is wrapped in one and taken out again. Raises
    `ValueError` for something that is no pydantic model.
    """
    if not (isinstance(output, type) and issubclass(output, BaseModel)):
        raise ValueError(f"an object call needs a pydantic model, not {output!r}")
    schema = output.model_json_schema()
    if schema.get("type") == "object":
        return schema, output.model_validate
    definitions = schema.pop("$defs", {})
    wrapped: dict[str, Any] = {
        "type": "object",
        "properties": {WRAPPED: schema},
        "required": [WRAPPED],
        "additionalProperties": False,
    }
    if definitions:
        wrapped["$defs"] = definitions

    def check(value: Any) -> Output:
        if not isinstance(value, dict) or set(value) != {WRAPPED}:
            raise ValueError(f"the answer must be an object with the property `{WRAPPED}` alone")
        return output.model_validate(value[WRAPPED])

    return wrapped, check


def schema_model(schema: dict[str, Any]) -> type[RootModel[Any]]:
    """Return a model for a JSON Schema a person wrote; raises `ValueError` for a schema that is none."""
    import jsonschema

    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise ValueError(f"no JSON Schema: {error.message}") from None
    validator = jsonschema.Draft202012Validator(schema)

    class SchemaAnswer(RootModel[Any]):
        """An answer that fits the schema."""

        @classmethod
        def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
            """Return the schema as it was given."""
            return copy.deepcopy(schema)

        @model_validator(mode="after")
        def _fits(self) -> SchemaAnswer:
            found = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(self.root)]
            if found:
                raise ValueError("; ".join(found[:5]))
            return self

    return SchemaAnswer
