"""Which column of its table a field of Looker is: only what its SQL says beyond doubt."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_COLUMN: Final = re.compile(r"\$\{TABLE\}\s*\.\s*(?:(?P<plain>[A-Za-z_]\w*)|[\"`\[](?P<quoted>[A-Za-z_]\w*)[\"`\]])")
_KINDS: Final[Mapping[str, str]] = {"number": "number", "yesno": "boolean", "tier": "string", "zipcode": "string"}


def column_of(sql: object) -> str | None:
    """Return the column of `${TABLE}.column`, None for every other SQL."""
    found = _COLUMN.fullmatch(sql.strip().rstrip(";").strip()) if isinstance(sql, str) else None
    return None if found is None else found["plain"] or found["quoted"]


def kind_of(field: Mapping[str, Any]) -> str:
    """Return the ktx type of a dimension."""
    kind = str(field.get("type") or "string")
    if kind.startswith(("date", "time", "duration")):
        return "time"
    return _KINDS.get(kind, "string")
