"""What a JSON Schema a person wrote must hold to be asked with: it is one, it is finite, and its references lead on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

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
"""Keywords with schemas in them; what every other holds is data."""

MAX_DEPTH: Final = 60
"""Levels of objects and arrays in a schema; the checks go down it level by level."""

REFERENCES: Final = ("$ref", "$dynamicRef")
IN_PLACE: Final = ("not", "if", "then", "else")
"""Keywords whose schema is about the same value as the one around it."""

NESTED_REPEAT: Final = re.compile(
    r"\((?:\?:)?(?:\[(?:[^\]\\]|\\.)+\]|\\.|[^()\[\\])(?:[+*]|\{\d+,\})\)(?:[+*]|\{\d+,\})"
)
"""A repeated group that is nothing but a repetition, as in `(a+)+`: trying it can take for ever."""

Lookup = Callable[[str], Any]


def check_written(schema: dict[str, Any]) -> None:
    """Raise `ValueError` for what is no JSON Schema, or none that an answer can be checked against."""
    import jsonschema

    _check_depth(schema)
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise ValueError(f"no JSON Schema: {error.message}") from None
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
    """Return the schemas right inside a schema."""
    for word, value in schema.items():
        if word in MAPS_OF_SCHEMAS and isinstance(value, Mapping):
            yield from value.values()
        elif word in LISTS_OF_SCHEMAS and isinstance(value, list):
            yield from value
        elif word in SCHEMAS:
            yield value


def changed_inside(schema: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """Return a schema with each schema right inside it changed."""
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
            raise ValueError(f"no JSON Schema ktx can ask with: it is nested more than {MAX_DEPTH} levels deep")
        inside = [part.values() if isinstance(part, Mapping) else part for part in parts]
        parts = [value for values in inside for value in values if isinstance(value, Mapping | list)]


def _check_patterns(schema: Mapping[str, Any]) -> None:
    written = [schema["pattern"]] if isinstance(schema.get("pattern"), str) else []
    for pattern in [*written, *schema.get("patternProperties", ())]:
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError(f"no JSON Schema: the pattern `{pattern}` cannot be read: {error}") from None
        if NESTED_REPEAT.search(pattern):
            raise ValueError(f"the pattern `{pattern}`, a repetition of a repetition: trying it can take for ever")


def _lookup(schema: dict[str, Any]) -> Lookup:
    """Return the function that finds what a reference refers to; it raises `ValueError` where that is nothing."""
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
            raise ValueError(f"no JSON Schema: `{reference}` refers to nothing in it") from None
        if not isinstance(found, Mapping | bool):
            raise ValueError(f"no JSON Schema: `{reference}` refers to something that is no schema")
        return found

    return find


def _referred(schema: Mapping[str, Any], lookup: Lookup) -> list[Any]:
    return [lookup(schema[word]) for word in REFERENCES if isinstance(schema.get(word), str)]


def _check_end(schema: Mapping[str, Any], lookup: Lookup) -> None:
    """Raise `ValueError` for a schema that refers to itself without going into the value: checking never ends."""
    seen, waiting = set[int](), _same_value(schema, lookup)
    while waiting:
        part = waiting.pop()
        if part is schema:
            raise ValueError("no JSON Schema that ends: a reference in it leads back to itself")
        if isinstance(part, Mapping) and id(part) not in seen:
            seen.add(id(part))
            waiting += _same_value(part, lookup)


def _same_value(schema: Mapping[str, Any], lookup: Lookup) -> list[Any]:
    """Return the schemas that are about the same value."""
    several = [part for word in ("allOf", "anyOf", "oneOf") for part in schema.get(word, ())]
    dependent = schema.get("dependentSchemas", {}).values()
    return [*several, *dependent, *(schema[word] for word in IN_PLACE if word in schema), *_referred(schema, lookup)]
