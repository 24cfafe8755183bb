"""Names for parts of a YAML file that say what a part is, not where it stands: `measures.revenue`.

    pointer = step { "." step }
    step    = a word without dots and quotes | '"' text with '""' for each '"' in it '"'

A step is a key of a mapping, or the identity of an item of a list: its `name`; of a join its `alias`, else its `to` and
`on` (`customers on customer_id = customers.id`), or `to` alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ktx_cli.core.errors import UsageError

Steps = tuple[str, ...]
Pointer = str | Steps
"""A pointer as text or as its steps."""

LISTS: Final = frozenset({"columns", "column_overrides", "measures", "segments", "policies", "parameters", "joins"})
"""Keys below which a missing container is a list of items with an identity."""

_STEP: Final = re.compile(r'"((?:[^"]|"")*)"|([^".]+)')


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()
"""What stands at a pointer that leads to nothing."""


def steps_of(pointer: Pointer) -> Steps:
    """Return the steps; raises `UsageError` for a text that is no pointer."""
    if not isinstance(pointer, str):
        return pointer
    found: list[str] = []
    position = 0
    while (match := _STEP.match(pointer, position)) is not None:
        found.append(match[2] if match[1] is None else match[1].replace('""', '"'))
        position = match.end()
        if position == len(pointer):
            return tuple(found)
        if pointer[position] != ".":
            break
        position += 1
    raise UsageError(f"`{pointer}` names no part of a file", hint='write measures.revenue, or columns."a.b".expr')


def text_of(steps: Steps) -> str:
    """Return the text of a pointer."""
    return ".".join(_written(step) for step in steps)


def _written(step: str) -> str:
    plain = bool(step) and "." not in step and '"' not in step
    return step if plain else '"' + step.replace('"', '""') + '"'


def join_step(join: Mapping[str, Any]) -> str:
    """Return the step that names a join among the joins of its source."""
    alias = join.get("alias")
    return str(alias) if alias else f"{join.get('to')} on {' '.join(str(join.get('on')).split())}"


def get(document: Any, steps: Steps) -> Any:
    """Return the value at a pointer, `MISSING` where there is none."""
    for step in steps:
        if isinstance(document, dict):
            document = document.get(step, MISSING)
        else:
            place = _index(document, step)
            document = MISSING if place is None else document[place]
    return document


def put(document: Any, steps: Steps, value: Any, under: str = "") -> Any:
    """Return the document with the value there; containers on the way are copied, missing ones made.

    `under`: the key the document stands at. Raises `ValueError` where a value that is no collection is in the way.
    """
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if document is None or document is MISSING:
        document = [] if under in LISTS else {}
    if isinstance(document, dict):
        return {**document, step: put(document.get(step, MISSING), rest, value, step)}
    if not isinstance(document, list):
        raise ValueError(f"`{step}` would stand in a value that is no collection")
    place = _index(document, step)
    if place is None:
        return [*document, put({"name": step}, rest, value) if rest else value]
    return [*document[:place], put(document[place], rest, value), *document[place + 1 :]]


def drop(document: Any, steps: Steps) -> Any:
    """Return the document without what is there, nor the collections on the way that are then empty.

    An item of a list of which nothing is left but its name goes too.
    """
    step, rest = steps[0], steps[1:]
    if isinstance(document, dict):
        if step not in document:
            return document
        below = drop(document[step], rest) if rest else MISSING
        if below is MISSING or below in ({}, []):
            return {key: item for key, item in document.items() if key != step}
        return {**document, step: below}
    place = _index(document, step)
    if place is None:
        return document
    below = drop(document[place], rest) if rest else MISSING
    left = [] if below is MISSING or below in ({}, {"name": step}) else [below]
    return [*document[:place], *left, *document[place + 1 :]]


def _index(document: Any, step: str) -> int | None:
    """Return the index of the item of a list that a step names, None where there is none."""
    for names in (_names_join, _names_item, _names_target) if isinstance(document, list) else ():
        for index, item in enumerate(document):
            if isinstance(item, dict) and names(item, step):
                return index
    return None


def _names_join(item: Mapping[str, Any], step: str) -> bool:
    return "to" in item and join_step(item) == step


def _names_item(item: Mapping[str, Any], step: str) -> bool:
    return item.get("name") == step


def _names_target(item: Mapping[str, Any], step: str) -> bool:
    return item.get("to") == step and "alias" not in item


def is_below(steps: Sequence[str], other: Sequence[str]) -> bool:
    """Say whether a pointer leads to a part of what another one leads to."""
    return len(steps) > len(other) and tuple(steps[: len(other)]) == tuple(other)
