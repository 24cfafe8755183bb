"""Descriptions by who wrote them, and the further text a source is found by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ktx_cli.context.semantic.loading.entry import Entry

PRIORITY = ("user", "ai", "dbt", "db", "ktx")
"""Whose description counts, best first; then any other."""


def read_descriptions(entry: Entry) -> dict[str, str]:
    """Return who -> text, of `descriptions`, and of `description` as the user's where the former has none."""
    below = entry.mapping("descriptions")
    if below is not None:
        below.check_free_keys()
    texts = {} if below is None else {str(who): text for who in below.values if (text := below.text(who))}
    flat = entry.text("description")
    return {"user": flat, **texts} if flat else texts


def best(descriptions: Mapping[str, str]) -> str | None:
    """Return the description of the one who counts most."""
    for who in PRIORITY:
        if who in descriptions:
            return descriptions[who]
    return next(iter(descriptions.values()), None)


def texts_in(value: Any) -> list[str]:
    """Return all texts in a value, in its order, keys of mappings not among them."""
    found: list[str] = []
    stack = [value]
    while stack:
        each = stack.pop()
        if isinstance(each, str) and each.strip():
            found.append(each.strip())
        elif isinstance(each, dict):
            stack += reversed(list(each.values()))
        elif isinstance(each, list):
            stack += reversed(each)
    return found


def words_by_tool(entry: Entry, key: str) -> tuple[str, ...]:
    """Return the words of a list, or of lists by tool (`{dbt: [...]}`, by package below it too), without repetitions.

    Of an item that is a mapping (a test with arguments) its keys are the words.
    """
    found: list[str] = []
    stack = [entry.values.get(key)]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            stack += reversed(list(value.values()))
        elif isinstance(value, list):
            found += [word for item in value for word in _words(item)]
        elif value is not None:
            hint = f"write {key}: {{dbt: [first, second]}}"
            entry.error("shape", f"`{key}` of {entry.what} must be a list", key, hint=hint)
    return unique(found)


def _words(item: Any) -> list[str]:
    if isinstance(item, dict):
        return [str(key) for key in item]
    if item is None or isinstance(item, list):
        return []
    return [str(item).lower() if isinstance(item, bool) else str(item)]


def unique(words: Iterable[str]) -> tuple[str, ...]:
    """Return the words without repetitions, in their order."""
    return tuple(dict.fromkeys(words))
