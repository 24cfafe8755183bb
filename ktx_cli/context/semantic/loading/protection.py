"""Whether a file may say who sees what: by `visibility` and `policies`, or by a key that may have been meant as one."""

from __future__ import annotations

import difflib
import functools
import re
from typing import Any, Final

VISIBILITY: Final = "visibility"
POLICIES: Final = "policies"

_KNOWN: Final = frozenset(
    (
        *("name", "table", "sql", "source_type", "description", "descriptions", "grain", "columns", "joins"),
        *("measures", "segments", "default_time_dimension", "tags", "freshness", "usage", "parameters", "tests"),
        *("exclude_columns", "column_overrides", "disable_joins", "inherits_columns_from", "type", "expr", "role"),
        *(
            "natural_granularity",
            "constraints",
            "enum_values",
            "nullable",
            "timezone",
            "unit",
            "pk",
            "filter",
            "to",
            "on",
            "relationship",
        ),
        *("alias", "source", "user", "ai", "dbt", "db", "ktx"),
    )
)
"""Keys that are looked at without a comparison: nearly all there are."""

_FREE: Final = frozenset(
    ("description", "descriptions", "usage", "tags", "freshness", "tests", "enum_values", "constraints")
)
"""Keys below which other programs choose the words: only the exact names count there."""

_RESEMBLES: Final = re.compile(
    r"polic|visib|hidd?en|\bhide|overrid|access_filter|row_(filter|level|access|security)|\brls\b|\bprivate\b|\bmask"
)
_MEANT: Final = (VISIBILITY, POLICIES, "policy", "column_overrides", "exclude_columns", "hidden")
_ALIKE: Final = 0.75
_KEY: Final = re.compile(r"([A-Za-z][\w -]{0,60})[\"']?\s{0,20}:(?=[ \t]*([^\r\n]{0,80}))")
"""A key and what follows it on its line, where other keys may stand: `{name: salary, visibility: hidden`."""
_STRICT: Final = frozenset(("hidden", "internal"))


def may_protect(document: Any) -> bool:
    """Return whether a part of a file says who sees what, or has an unknown key that may be meant to."""
    stack = [(document, False)]
    while stack:
        value, free = stack.pop()
        if isinstance(value, list):
            stack += [(each, free) for each in value]
        elif isinstance(value, dict):
            for key, below in value.items():
                if _limits(str(key), below, free):
                    return True
                stack.append((below, free or key in _FREE))
    return False


def text_may_protect(text: str) -> bool:
    """Return `may_protect` of a text that cannot be parsed, by everything in it that looks like a key."""
    if "\0" in text or "\ufffd" in text:
        return True
    return any(_limits(found[1], found[2].strip(" \t\"',}]") or "?", False) for found in _KEY.finditer(text))


def misplaced(values: dict[Any, Any]) -> list[str]:
    """Return the keys of a mapping of free words that say who sees what, and have no effect there."""
    return [str(key) for key, below in values.items() if _is_exact(str(key), below)]


def _limits(key: str, value: Any, free: bool) -> bool:
    if key in _KNOWN:
        return False
    if _is_exact(key, value):
        return True
    folded = key.casefold()
    if free or folded in (VISIBILITY, POLICIES):
        return False
    return _resembles(folded) or (isinstance(value, str) and value.casefold() in _STRICT)


def _is_exact(key: str, value: Any) -> bool:
    folded = key.strip().casefold()
    return (folded == VISIBILITY and value != "public") or (folded == POLICIES and value != [])


@functools.lru_cache(maxsize=1_024)
def _resembles(folded: str) -> bool:
    plain = re.sub(r"[\s-]+", "_", folded.strip())
    if _RESEMBLES.search(plain):
        return True
    return any(difflib.SequenceMatcher(None, plain, each).ratio() >= _ALIKE for each in _MEANT)
