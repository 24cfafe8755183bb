"""A schema as the Claude Code binary takes it: it knows the keywords of draft 7, and refuses every other."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from ktx_cli.llm.written_schemas import changed_inside

_WORDS: Final = """
    $id $ref $defs definitions $comment title description default examples deprecated readOnly writeOnly nullable
    type enum const format contentEncoding contentMediaType contentSchema
    multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern
    items additionalItems maxItems minItems uniqueItems contains
    properties patternProperties additionalProperties required propertyNames maxProperties minProperties dependencies
    allOf anyOf oneOf not if then else
"""
KNOWN: Final = frozenset(_WORDS.split())
"""What the binary takes; `$schema` names another draft than its own, and says nothing of the answer."""

TOLD: Final = (
    "prefixItems",
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedItems",
    "unevaluatedProperties",
    "minContains",
    "maxContains",
    "pattern",
)
"""Keywords that ask something of the answer: where they cannot stay, the model reads them in the description."""

FOREIGN_PATTERN: Final = re.compile(r"\(\?(?!:|=|!|<[=!A-Za-z_])|\\[AZz]")
"""In a regular expression that JavaScript has no word for."""


def binary_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema to send. It asks no more than the given one, which the answer is checked against afterwards."""
    known = {word: value for word, value in schema.items() if _is_known(word, value)}
    kept = changed_inside(known, _rewritten)
    told = {word: schema[word] for word in TOLD if word in schema and word not in kept}
    if "prefixItems" in schema:
        kept |= _tuple(schema)
    if told:
        said = f"JSON Schema: {json.dumps(told, sort_keys=True)}"
        kept["description"] = f"{schema['description']}\n{said}" if schema.get("description") else said
    return kept


def _is_known(word: str, value: Any) -> bool:
    return word in KNOWN and not (word == "pattern" and FOREIGN_PATTERN.search(str(value)))


def _rewritten(part: Any) -> Any:
    return binary_schema(part) if isinstance(part, Mapping) else part


def _tuple(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return what can be said of a tuple: what each of its items may be, but not at which place."""
    first, rest = [_rewritten(part) for part in schema["prefixItems"]], schema.get("items", True)
    most = schema.get("maxItems")
    if rest is False or (isinstance(most, int) and most <= len(first)):
        longest = min(len(first), most) if isinstance(most, int) else len(first)
        return {"items": {"anyOf": first}, "maxItems": longest}
    return {} if rest is True else {"items": {"anyOf": [*first, _rewritten(rest)]}}
