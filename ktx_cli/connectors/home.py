"""The schema a connection is at home in: what is read of a server when nothing in its scope names a schema."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TypeVar

from ktx_cli.connectors.port import Scope, TableRef
from ktx_cli.connectors.scope import parse_name

T = TypeVar("T")


def at_home(relations: Mapping[TableRef, T], scope: Scope, home: str | None) -> dict[TableRef, T]:
    """Return the relations that may be meant.

    Without `schemas` those are the ones of `home` and of schemas that an entry of `enabled_tables` or a pattern of
    `include` names. With `schemas`, or with no `home`, all may be.
    """
    if scope.schemas is not None or home is None:
        return dict(relations)
    named = {parts[-2] for parts in map(parse_name, scope.enabled_tables or ()) if len(parts) > 1}
    patterns = [pattern.rpartition(".")[0] for pattern in scope.include if "." in pattern]

    def meant(schema: str | None) -> bool:
        return schema in {home} | named or any(fnmatchcase(schema or "", each) for each in patterns)

    return {ref: value for ref, value in relations.items() if meant(ref.schema)}


def in_schemas(sql: str, count: int) -> str:
    """Return a catalog statement with `{schemas}` as a list of `count` parameters."""
    return sql.replace("{schemas}", ", ".join(["%s"] * count))
