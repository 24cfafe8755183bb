"""JSON Schemas of pydantic models that a language model can fill in, always with an object at the root."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

from pydantic import BaseModel, RootModel, model_validator

from ktx_cli.llm.types import Output

WRAPPED: Final = "value"
"""The one property of the object around an answer that is not an object."""

ANSWER_TOOL: Final = "give_answer"
"""The tool that returns an object if the response format cannot."""

_SCHEMAS: Final[WeakKeyDictionary[type[BaseModel], dict[str, Any]]] = WeakKeyDictionary()
"""Schemas by class: pydantic takes a millisecond or more for each, and a loop needs twenty per turn."""


def object_schema(output: type[Output]) -> tuple[dict[str, Any], Callable[[Any], Output]]:
    """Return the schema for the request, and the function that checks an answer and returns the instance.

    A root that is not an object (a `RootModel` of a list, a union) is wrapped in one and unwrapped again. Raises
    `ValueError` for anything but a pydantic model.
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
            raise ValueError(f"the answer must be an object with only the property `{WRAPPED}`")
        return output.model_validate(value[WRAPPED])

    return wrapped, check


def _moved(part: Any) -> Any:
    """Return a schema that is no longer the root, with its references to the root rewritten, except to definitions."""
    if not isinstance(part, dict):
        return part
    moved, reference = changed_inside(part, _moved), part.get("$ref")
    if reference == "#" or (isinstance(reference, str) and reference.startswith("#/")):
        inside = reference.removeprefix("#")
        if not inside.startswith(("/$defs/", "/definitions/")):
            moved["$ref"] = f"#/properties/{WRAPPED}{inside}"
    return moved


def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema of a model, with an object at its root even if the model refers to itself.

    It is computed once per model: the result is shared, and must not be changed.
    """
    if model not in _SCHEMAS:
        _SCHEMAS[model] = _made(model)
    return _SCHEMAS[model]


def _made(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema()
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    definition = schema.get("$defs", {}).get(name)
    return {**definition, "$defs": schema["$defs"]} if set(schema) == {"$ref", "$defs"} and definition else schema


_TOOL_SCHEMAS: Final[WeakKeyDictionary[type[BaseModel], dict[str, Any]]] = WeakKeyDictionary()


def tool_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a tool's arguments, without parts that are useless to a model; shared like the result of
    `json_schema`.

    Pydantic repeats each name as a title, and writes an optional argument as one that may be null: a third of the text
    of the tools, which is part of every request. The tool itself still accepts a null.
    """
    if model not in _TOOL_SCHEMAS:
        _TOOL_SCHEMAS[model] = _shortened(json_schema(model))
    return _TOOL_SCHEMAS[model]


def _shortened(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    short = {word: value for word, value in changed_inside(part, _shortened).items() if word != "title"}
    if "default" not in short or short["default"] is not None:
        return short
    del short["default"]
    kinds = [kind for kind in short.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) == 1:
        del short["anyOf"]
        return {**kinds[0], **short}
    return {**short, "anyOf": kinds} if kinds else short


def schema_model(schema: dict[str, Any]) -> type[RootModel[Any]]:
    """Return a model for a JSON Schema that a person wrote; raises `ValueError` for an invalid schema."""
    import jsonschema

    check_written(schema)
    validator = jsonschema.Draft202012Validator(schema)

    class SchemaAnswer(RootModel[Any]):
        """An answer that fits the schema."""

        @classmethod
        def model_json_schema(cls, *args: Any, **kwargs: Any) -> dict[str, Any]:
            """Return the schema unchanged."""
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


MAPS_OF_SCHEMAS: Final = frozenset(
    ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
)
LISTS_OF_SCHEMAS: Final = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
SCHEMAS: Final = frozenset(
    (
        *("items", "additionalItems", "unevaluatedItems", "contains", "contentSchema"),
        *("additionalProperties", "unevaluatedProperties", "propertyNames", "not", "if", "then", "else"),
    )
)
"""Keywords that contain schemas; all others contain data."""

MAX_DEPTH: Final = 60
"""Maximum nesting of objects and arrays in a schema; the checks recurse into it."""

REFERENCES: Final = ("$ref", "$dynamicRef")
IN_PLACE: Final = ("not", "if", "then", "else")
"""Keywords whose schema applies to the same value as the surrounding schema."""

NESTED_REPEAT: Final = re.compile(
    r"\((?:\?:)?(?:\[(?:[^\]\\]|\\.)+\]|\\.|[^()\[\\])(?:[+*]|\{\d+,\})\)(?:[+*]|\{\d+,\})"
)
"""A repeated group that contains only a repetition, as in `(a+)+`: matching it can take forever."""

Lookup = Callable[[str], Any]


def check_written(schema: dict[str, Any]) -> None:
    """Raise `ValueError` for an invalid JSON Schema, or one that answers cannot be checked against."""
    import jsonschema

    _check_depth(schema)
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise ValueError(f"not a valid JSON Schema: {error.message}") from None
    lookup, checked = _lookup(schema), set[int]()
    waiting: list[Any] = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping) and id(part) not in checked:
            checked.add(id(part))
            _check_patterns(part)
            _check_end(part, lookup)
            waiting += [*subschemas(part), *_referred(part, lookup)]


def subschemas(schema: Mapping[str, Any]) -> Iterator[Any]:
    """Return the schemas directly inside a schema."""
    for word, value in schema.items():
        if word in MAPS_OF_SCHEMAS and isinstance(value, Mapping):
            yield from value.values()
        elif word in LISTS_OF_SCHEMAS and isinstance(value, list):
            yield from value
        elif word in SCHEMAS:
            yield value


def changed_inside(schema: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """Return a schema with a change applied to each schema directly inside it."""
    found: dict[str, Any] = {}
    for word, value in schema.items():
        if word in MAPS_OF_SCHEMAS and isinstance(value, Mapping):
            found[word] = {name: change(part) for name, part in value.items()}
        elif word in LISTS_OF_SCHEMAS and isinstance(value, list):
            found[word] = [change(part) for part in value]
        else:
            found[word] = change(value) if word in SCHEMAS else value
    return found


def _check_depth(schema: Any) -> None:
    level, parts = 0, [schema]
    while parts:
        level += 1
        if level > MAX_DEPTH:
            raise ValueError(f"JSON Schema that ktx does not support: it is nested more than {MAX_DEPTH} levels deep")
        inside = [part.values() if isinstance(part, Mapping) else part for part in parts]
        parts = [value for values in inside for value in values if isinstance(value, Mapping | list)]


def _check_patterns(schema: Mapping[str, Any]) -> None:
    written = [schema["pattern"]] if isinstance(schema.get("pattern"), str) else []
    for pattern in [*written, *schema.get("patternProperties", ())]:
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError(f"not a valid JSON Schema: cannot parse the pattern `{pattern}`: {error}") from None
        if NESTED_REPEAT.search(pattern):
            raise ValueError(f"the pattern `{pattern}` repeats a repetition, so matching it can take forever")


def _lookup(schema: dict[str, Any]) -> Lookup:
    """Return the function that resolves a reference; it raises `ValueError` if the target does not exist."""
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    resource = DRAFT202012.create_resource(schema)
    base = resource.id() or ""
    resolver = Registry().with_resource(base, resource).resolver(base)

    def find(reference: str) -> Any:
        try:
            found = resolver.lookup(reference).contents
        except (Unresolvable, ValueError, LookupError, TypeError):
            raise ValueError(f"not a valid JSON Schema: the target of `{reference}` does not exist") from None
        if not isinstance(found, Mapping | bool):
            raise ValueError(f"not a valid JSON Schema: the target of `{reference}` is not a schema")
        return found

    return find


def _referred(schema: Mapping[str, Any], lookup: Lookup) -> list[Any]:
    return [lookup(schema[word]) for word in REFERENCES if isinstance(schema.get(word), str)]


def _check_end(schema: Mapping[str, Any], lookup: Lookup) -> None:
    """Raise `ValueError` for a schema that refers to itself without descending into the value, so that checking would
    never end.
    """
    seen, waiting = set[int](), _same_value(schema, lookup)
    while waiting:
        part = waiting.pop()
        if part is schema:
            raise ValueError("JSON Schema that ktx does not support: it contains an endless reference to itself")
        if isinstance(part, Mapping) and id(part) not in seen:
            seen.add(id(part))
            waiting += _same_value(part, lookup)


def _same_value(schema: Mapping[str, Any], lookup: Lookup) -> list[Any]:
    """Return the nested schemas that apply to the same value."""
    several = [part for word in ("allOf", "anyOf", "oneOf") for part in schema.get(word, ())]
    dependent = schema.get("dependentSchemas", {}).values()
    return [*several, *dependent, *(schema[word] for word in IN_PLACE if word in schema), *_referred(schema, lookup)]


TYPE_KEYS: Final = frozenset({"type", "$ref", "anyOf", "allOf", "oneOf", "enum", "const"})
"""Keywords that define the allowed values."""

VARIANT_KEYS: Final = ("anyOf", "oneOf", "allOf")
LOSSY_KEYS: Final = frozenset(
    {"patternProperties", "prefixItems", "not", "if", "then", "else", "contains", "dependentSchemas", "propertyNames"}
)
"""Keywords that the response format does not support."""

DEFINITION: Final = "#/$defs/"


def is_lossless(schema: Mapping[str, Any]) -> bool:
    """Return whether the response format supports a schema: no free-form maps, tuples, recursion or untyped values."""
    definitions = schema.get("$defs", {})
    return all(_is_carried(one) for one in (schema, *definitions.values())) and not _is_recursive(definitions)


def _is_carried(schema: Any) -> bool:
    if not isinstance(schema, Mapping) or TYPE_KEYS.isdisjoint(schema) or not LOSSY_KEYS.isdisjoint(schema):
        return False
    kind, properties = schema.get("type"), schema.get("properties", {})
    if kind is not None and not isinstance(kind, str):
        return False
    if kind == "object" and (not properties or schema.get("additionalProperties", False) is not False):
        return False
    if kind == "array" and "items" not in schema:
        return False
    variants = [one for key in VARIANT_KEYS for one in schema.get(key, ())]
    if (variants and properties) or not str(schema.get("$ref", DEFINITION)).startswith(DEFINITION):
        return False
    values = [*schema.get("enum", ()), schema.get("const")]
    if not all(value is None or isinstance(value, str | int | float) for value in values):
        return False
    items = [schema["items"]] if "items" in schema else []
    return all(_is_carried(one) for one in (*properties.values(), *items, *variants))


def _is_recursive(definitions: Mapping[str, Any]) -> bool:
    """Return whether a definition refers to itself."""
    leads_to = {name: _references(schema) for name, schema in definitions.items()}
    for name in definitions:
        seen: set[str] = set()
        ahead = list(leads_to[name])
        while ahead:
            one = ahead.pop()
            if one == name:
                return True
            if one not in seen:
                seen.add(one)
                ahead += leads_to.get(one, ())
    return False


def _references(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return {name for item in schema for name in _references(item)}
    if not isinstance(schema, Mapping):
        return set()
    own = {str(schema["$ref"]).removeprefix(DEFINITION)} if "$ref" in schema else set()
    return own | {name for value in schema.values() for name in _references(value)}
