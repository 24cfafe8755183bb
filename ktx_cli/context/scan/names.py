"""What tables are called in the semantic layer: source names, physical names, quoted columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from ktx_cli.connectors.port import TableRef

_PLAIN = re.compile(r"[^\W\d]\w*")
DEFAULT_SCHEMAS = frozenset({None, "main", "public", "dbo"})
"""A table of one of these keeps its bare name when a table of another schema has the same."""


def physical_name(ref: TableRef) -> str:
    """Return the `table:` of a source: `shop.orders`, a part that is not a plain word in double quotes."""
    parts = (ref.name,) if ref.schema is None else (ref.schema, ref.name)
    return ".".join(quoted(part) for part in parts)


def quoted(identifier: str) -> str:
    """Return the identifier as it stands in `table:` and `on:`, in double quotes where it is not a plain word."""
    if _PLAIN.fullmatch(identifier):
        return identifier
    return '"' + identifier.replace('"', '""') + '"'


def source_names(
    refs: Iterable[TableRef], previous: Mapping[str, str], reserved: Iterable[str] = ()
) -> dict[TableRef, str]:
    """Return the source name of every table: its own name where that is unique, else `schema_name`.

    `previous` maps physical names to the source names in use: a table keeps its name when a namesake appears.
    `reserved`: names that sources of people's own have.
    """
    ordered = sorted(refs, key=lambda ref: (ref.schema or "", ref.name))
    counts = Counter(ref.name for ref in ordered)
    result: dict[TableRef, str] = {}
    taken: set[str] = set(reserved)
    for ref in ordered:
        name = previous.get(physical_name(ref))
        if name is not None and name not in taken:
            result[ref] = name
            taken.add(name)
    rest = [ref for ref in ordered if ref not in result]
    for ref in sorted(rest, key=lambda ref: (ref.schema not in DEFAULT_SCHEMAS, ref.schema or "", ref.name)):
        result[ref] = _free_name(ref, taken, unique=counts[ref.name] == 1)
        taken.add(result[ref])
    return result


def _free_name(ref: TableRef, taken: set[str], *, unique: bool) -> str:
    qualified = ref.name if ref.schema is None else f"{ref.schema}_{ref.name}"
    bare_wanted = unique or ref.schema in DEFAULT_SCHEMAS
    for name in ([ref.name] if bare_wanted else []) + [qualified]:
        if name not in taken:
            return name
    number = 2
    while f"{qualified}_{number}" in taken:
        number += 1
    return f"{qualified}_{number}"
