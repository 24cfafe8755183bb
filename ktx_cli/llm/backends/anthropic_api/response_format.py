"""Schemas the response format can carry, and the form it takes them in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

TYPE_KEYS: Final = frozenset({"type", "$ref", "anyOf", "allOf", "oneOf", "enum", "const"})
"""Keywords that say what a value may be."""

VARIANT_KEYS: Final = ("anyOf", "oneOf", "allOf")
LOSSY_KEYS: Final = frozenset(
    {"patternProperties", "prefixItems", "not", "if", "then", "else", "contains", "dependentSchemas", "propertyNames"}
)
"""Keywords the response format has nothing for."""

DEFINITION: Final = "#/$defs/"

TEXT_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)
LIMITS: Final[Mapping[Any, tuple[str, Collection[Any]]]] = {
    "string": ("format", TEXT_FORMATS),
    "array": ("minItems", (0, 1)),
}
"""Type -> the one limit that it knows of it, and its values that it knows."""


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema in the form the response format takes: closed objects, no limits it does not know.

    What it does not know is told in the description, as Anthropic's SDK does. Raises `ValueError` for a schema that
    does not say what its values are.
    """
    left = dict(schema)
    made: dict[str, Any] = {}
    if "$defs" in left:
        made["$defs"] = {name: strict_schema(one) for name, one in left.pop("$defs").items()}
    if "$ref" in left:
        return {**made, "$ref": left["$ref"]}
    kind, literals, variants = left.pop("type", None), _literals(left), _variants(left)
    if not (kind or literals or variants):
        raise ValueError("the schema does not say what its values are")
    made |= {**literals, **variants} or {"type": kind}
    made |= {key: left.pop(key) for key in ("description", "title") if key in left}
    if not literals:
        made |= _inside(kind, left)
    return _with_untold(made, left)


def _literals(left: dict[str, Any]) -> dict[str, Any]:
    """Take the values a schema lists out of what is left of it, where they are plain."""
    values = left.get("enum")
    found = {"enum": left.pop("enum")} if values and all(map(_is_plain, values)) else {}
    if "const" in left and _is_plain(left["const"]):
        found["const"] = left.pop("const")
    return found


def _variants(left: dict[str, Any]) -> dict[str, Any]:
    found = {key: left.pop(key) for key in VARIANT_KEYS if key in left}
    for key, variants in found.items():
        return {"allOf" if key == "allOf" else "anyOf": [strict_schema(one) for one in variants]}
    return {}


def _inside(kind: str | None, left: dict[str, Any]) -> dict[str, Any]:
    """Take what the response format knows of an object, an array or a text out of what is left of a schema."""
    if kind == "object":
        left.pop("additionalProperties", None)
        properties = {name: strict_schema(one) for name, one in left.pop("properties", {}).items()}
        closed = {"properties": properties, "additionalProperties": False}
        return closed | ({"required": left.pop("required")} if "required" in left else {})
    found = {"items": strict_schema(left.pop("items"))} if kind == "array" and "items" in left else {}
    key, known = LIMITS.get(kind, ("", ()))
    if key in left:
        value = left.pop(key)
        (found if value in known else left)[key] = value  # one that is not known is told last
    return found


def _with_untold(made: dict[str, Any], left: Mapping[str, Any]) -> dict[str, Any]:
    if left:
        told = "{" + ", ".join(f"{key}: {value}" for key, value in left.items()) + "}"
        made["description"] = f"{made['description']}\n\n{told}" if "description" in made else told
    return made


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)


def is_lossless(schema: Mapping[str, Any]) -> bool:
    """Say whether the response format can carry a schema: no free-form maps, tuples, recursion or untyped values."""
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
    """Say whether a definition leads back to itself."""
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
