"""The words of OSI, and what of ktx stands in its extensions.

Version 0.1.1 is the released one (its specification: `core-spec` of the OSI project); later drafts are read too.
An extension of ktx is `{vendor_name: COMMON, data: '{"ktx": {...}}'}`, a vendor every reader knows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

VERSION: Final = "0.1.1"
ANSI: Final = "ANSI_SQL"
DIALECTS: Final = {"snowflake": "SNOWFLAKE", "bigquery": "BIGQUERY", "databricks": "DATABRICKS"}
"""sqlglot's name of a dialect -> OSI's."""

TYPES: Final = {
    "String": "string", "Integer": "number", "Decimal": "number", "Float": "number", "Boolean": "boolean",
    "Date": "time", "Time": "string", "DateTime": "time", "DateTimeTz": "time",
}  # fmt: skip
_VENDOR: Final = "COMMON"
_KEY: Final = "ktx"


def extension(facts: Mapping[str, Any]) -> list[dict[str, str]] | None:
    """Return the extensions that hold facts of ktx, None where there is none."""
    held = {key: value for key, value in facts.items() if value is not None and value != [] and value is not False}
    if not held:
        return None
    return [{"vendor_name": _VENDOR, "data": json.dumps({_KEY: held}, sort_keys=True, ensure_ascii=False)}]


def read_extension(value: Any) -> tuple[dict[str, Any], bool]:
    """Return the facts of ktx in a list of extensions, and whether there are others."""
    facts: dict[str, Any] = {}
    others = False
    for each in value if isinstance(value, list) else ():
        found = _facts(each)
        facts |= found or {}
        others = others or found is None
    return facts, others


def _facts(extension_entry: Any) -> dict[str, Any] | None:
    data = extension_entry.get("data") if isinstance(extension_entry, Mapping) else None
    try:
        held = json.loads(data) if isinstance(data, str) else None
    except (ValueError, RecursionError):
        return None
    facts = held.get(_KEY) if isinstance(held, dict) and len(held) == 1 else None
    return facts if isinstance(facts, dict) else None
