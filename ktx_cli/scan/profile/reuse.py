"""Reuse the last scan's results if nothing has changed: digests of their inputs, and relationships as JSON."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktx_cli import __version__
from ktx_cli.project import Scan
from ktx_cli.scan.relationships.hints import FixedHints
from ktx_cli.scan.relationships.record import KeyChoice, Relationship, RelationshipRecord, record_text
from ktx_cli.warehouses import Connector, Evident, Table, TableKind, TableRef, dialect_named

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from ktx_cli.scan.relationships.declarations import KnownSchema

_CODE: Final = (
    "warehouses/sampling.py",
    *(f"scan/{each}/**/*" for each in ("profile", "relationships", "measures", "decisions")),
)
_BODY: Final = re.compile(r"\bas\b\s*\(?\s*((?:select|with|values|from)\b.*)", re.IGNORECASE | re.DOTALL)
_CALL: Final = re.compile(r'(\w+|"|\])\s*\(')
_VOLATILE: Final = re.compile(
    r"\b(now|today|yesterday|tomorrow|current_\w+|localtime\w*|\w*sample|random\w*|user)\b", re.IGNORECASE
)
_PURE: Final = frozenset(
    re.findall(
        r"\w+",
        "select from where and or not in as on using over by union all exists values join distinct partition case when"
        " then else between like is with abs avg cast coalesce concat count dense_rank extract first_value greatest"
        " group_concat ifnull iif instr lag last_value lead least length lower ltrim max min nullif rank replace round"
        " row_number rtrim string_agg substr substring sum total trim upper char decimal numeric varchar",
    )
)
"""Words allowed before a parenthesis in view definitions that always return the same rows."""


def data_fingerprint(connector: Connector, tables: Sequence[Table], scan: Scan) -> str | None:
    """Return a string that differs if a scan may have other results, or None if that is unknown.

    It covers the data, the structure, the settings and ktx itself. The result is unknown if a view or generated column
    may change without a change to the data.
    """
    evidence = connector.evidence() if isinstance(connector, Evident) else None
    if evidence is None or not all(_is_steady(table, connector.dialect) for table in tables):
        return None
    return _digest([evidence, __version__, _code(), scan.model_dump_json(), *map(repr, tables)])


def hints_digest(hints: FixedHints, version: str | None, known: KnownSchema | None = None) -> str:
    """Return a string that differs if sources, people or a model say something else about joins.

    `version`: of the questions to the model, or None if nobody is asked. Hints from views are part of the structure.
    """
    return _digest((repr(version), *map(repr, hints.fixed), *(() if known is None else known.digest_parts())))


def record_digest(record: RelationshipRecord) -> str:
    """Return a string that differs if keys or relationships lead to other measures and decision points."""
    inferred = RelationshipRecord(record.keys, record.relationships)
    return _digest([record_text(inferred).decode("utf-8", "surrogatepass")])


@functools.cache
def _stored() -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(tuple[list[tuple[TableRef, KeyChoice]], tuple[Relationship, ...]])


def relationships_to_json(record: RelationshipRecord) -> str | None:
    """Return a record as JSON, or None if it would not round-trip (a condition on a value without a JSON form)."""
    from pydantic_core import PydanticSerializationError

    try:
        text = _stored().dump_json((list(record.keys.items()), record.relationships)).decode()
    except PydanticSerializationError:
        return None
    return text if relationships_from_json(text) == record else None


def relationships_from_json(text: str) -> RelationshipRecord:
    """Return the record that `relationships_to_json` wrote."""
    keys, relationships = _stored().validate_json(text)
    return RelationshipRecord(dict(keys), relationships)


def _is_steady(table: Table, dialect: str) -> bool:
    if dialect_named(dialect).generated_columns_vary and any(column.generated for column in table.columns):
        return False
    return table.kind is not TableKind.VIEW or _is_pure(table.view_sql or "")


def _is_pure(view_sql: str) -> bool:
    body = _BODY.search(view_sql)
    if body is None or _VOLATILE.search(body[1]):
        return False
    return all(name.lower() in _PURE for name in _CALL.findall(body[1]))


@functools.cache
def _code() -> str:
    """Return a digest of the code and data of a scan, because an edited checkout keeps its version."""
    package = Path(__file__).parents[2]
    files = sorted(path for each in _CODE for path in package.glob(each) if path.suffix in (".py", ".json"))
    return _digest(hashlib.sha256(path.read_bytes()).hexdigest() for path in files)


def _digest(parts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()
