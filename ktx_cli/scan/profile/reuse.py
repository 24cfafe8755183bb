"""What a scan may reuse: all results of the last one if nothing has changed, and those about unchanged tables.

Digests of the inputs of a scan, relationships as JSON, and the evidence of changes of tables and of views over them.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktx_cli import __version__
from ktx_cli.core import SourceError
from ktx_cli.project import Scan
from ktx_cli.scan.profile.answers import privacy_rules
from ktx_cli.scan.profile.profiler import may_read
from ktx_cli.scan.relationships.hints import FixedHints
from ktx_cli.scan.relationships.record import KeyChoice, Relationship, RelationshipRecord, record_text
from ktx_cli.warehouses import (
    Connector,
    Evident,
    Table,
    TableKind,
    TableRef,
    catalog_of,
    dialect_named,
    reader_of,
    table_evidence,
)

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from ktx_cli.scan.profile.answers import Evidence
    from ktx_cli.scan.relationships.declarations import KnownSchema

log = logging.getLogger(__name__)

_CODE: Final = (
    "warehouses/sampling.py",
    *(f"scan/{each}/**/*" for each in ("profile", "relationships", "measures", "decisions")),
)
_BODY: Final = re.compile(
    r"(?:\s*create\b(?:(?!\bas\b).)*\bas\b\s*\(?\s*(?=select|with|values|from)|[\s(]*(?=select|with))(\w+\b.*)",
    re.IGNORECASE | re.DOTALL,
)
"""The query of a view: what follows the first AS, or the whole text in catalogs that only have the query."""
_CALL: Final = re.compile(r'(--[^\n]*\n|\*/|\w+|["`\]])\s*\(')
_VOLATILE: Final = re.compile(
    r"\b(now|today|yesterday|tomorrow|current_\w+|localtime\w*|utc_(date|time|timestamp)|sys(date|timestamp)|\w*sample|random\w*|"
    r"((session|system)_)?user|nextval|next\s+value)\b|@@|\$\w",
    re.IGNORECASE,
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


@dataclass(frozen=True, slots=True)
class DataEvidence:
    """What a connection knows about changes of its data.

    `whole`: the evidence of all data together, None if it has none. `tables`: that of each table, None if it was not
    read because there is one of all data. `reader`: see `Identified`.
    """

    whole: str | None = None
    tables: Evidence | None = None
    reader: str = ""


def read_evidence(connector: Connector, tables: Sequence[Table]) -> DataEvidence:
    """Return what a connection knows about changes. Raises `SourceError` only if the database is unreachable."""
    try:
        whole = connector.evidence() if isinstance(connector, Evident) else None
        known = table_evidence(connector, tables) if whole is None else None
        return DataEvidence(whole, known, reader_of(connector) if known or whole is not None else "")
    except SourceError as error:
        if error.code == "connection":
            raise
        log.debug("no evidence of changes: %s", error.message)
        return DataEvidence(tables={})


def data_fingerprint(
    evidence: DataEvidence, dialect: str, tables: Sequence[Table], scan: Scan, unused: Collection[TableRef] = ()
) -> str | None:
    """Return a string that differs if a scan may have other results, or None if that is unknown.

    It covers the data, the structure, the settings and ktx itself. The result is unknown if a view or generated column
    may change without a change to the data. `unused`: tables whose rows are not read.
    """
    whole, known = evidence.whole, evidence.tables or {}
    read = [table for table in tables if table.ref not in unused and may_read(table, dialect, scan.views)]
    if (whole is None and not known) or not all(is_steady(table, dialect) for table in read):
        return None
    if whole is None:
        if any(table.ref not in known for table in read):
            return None
        whole = repr([known[table.ref] for table in read])
    listed = sorted(map(repr, unused))
    inputs = (whole, evidence.reader, privacy_rules(), __version__, _code(), scan.model_dump_json())
    return _digest([*inputs, *listed, *map(repr, tables)])


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


def is_steady(table: Table, dialect: str) -> bool:
    """Return whether a table or view has the same values as long as its data, or that of its tables, is the same."""
    if dialect_named(dialect).generated_columns_vary and any(column.generated for column in table.columns):
        return False
    return table.kind is not TableKind.VIEW or _is_pure(table.view_sql or "")


def _is_pure(view_sql: str) -> bool:
    body = _BODY.match(view_sql)
    if body is None or _VOLATILE.search(body[1]):
        return False
    return all(name.lower() in _PURE for name in _CALL.findall(body[1]))


def evidence_of(
    connector: Connector, tables: Sequence[Table], version: str | None, read: DataEvidence | None = None
) -> Evidence:
    """Return the evidence of all tables and views; those for which it is unknown are absent.

    `version`: of the server. `read`: what was read of it before. Raises `SourceError` only if the database is
    unreachable.
    """
    read = read_evidence(connector, tables) if read is None else read
    known = read.tables
    if known is None:
        try:
            known = table_evidence(connector, tables)
        except SourceError as error:
            if error.code == "connection":
                raise
            log.debug("no evidence of changes of tables: %s", error.message)
            known = {}
    if not known and read.whole is not None:
        known = {table.ref: read.whole for table in tables}
    steady = {table.ref for table in tables if is_steady(table, connector.dialect)}
    columns = {table.ref: _columns_digest(table) for table in tables}
    found = {ref: f"{version} {read.reader} {columns[ref]} {text}" for ref, text in known.items() if ref in steady}
    return found | _of_views(tables, found, steady, connector)


def _columns_digest(table: Table) -> str:
    """Return a digest of what a statement means by the names of columns, which some catalogs change unnoticed."""
    return _digest(repr((each.name, each.native_type, each.generated, each.values)) for each in table.columns)


def _of_views(
    tables: Sequence[Table], known: Evidence, steady: set[TableRef], connector: Connector
) -> dict[TableRef, str]:
    """Return the evidence of the views whose rows depend on nothing but the rows of tables with evidence."""
    by_name: dict[str, list[TableRef]] = defaultdict(list)
    for table in tables:
        by_name[table.ref.name.casefold()].append(table.ref)
    views = {t.ref: t for t in tables if t.kind is TableKind.VIEW and t.ref in steady and t.ref not in known}
    found: dict[TableRef, str] = {}
    catalog = catalog_of(connector)
    waiting = {ref: _sources(view, by_name, connector.dialect, catalog) for ref, view in views.items()}
    while waiting:  # A view over views follows when all of them have evidence.
        evidence = {**known, **found}
        ready = {ref: names for ref, names in waiting.items() if names and all(each in evidence for each in names)}
        if not ready:
            break
        for ref, names in ready.items():
            parts = [views[ref].view_sql or "", *(evidence[each] for each in names)]
            found[ref] = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
            del waiting[ref]
    return found


def _sources(
    view: Table, by_name: Mapping[str, Sequence[TableRef]], dialect: str, catalog: str | None
) -> list[TableRef]:
    """Return the relations that a view reads, in order; empty if one of them is not known for sure.

    `catalog`: the one that the connection reads.
    """
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        tree = sqlglot.parse_one(view.view_sql or "", read=dialect)
    except (SqlglotError, RecursionError):
        return []
    created = tree.this if isinstance(tree, exp.Create) else None
    inner = {each.alias_or_name.casefold() for each in tree.find_all(exp.CTE)}
    found: set[TableRef] = set()
    for each in tree.find_all(exp.Table):
        if each is created or (created is not None and each.parent is created):
            continue
        # All tables of the name: which of them is meant may depend on a search path, or on where a CTE is known.
        refs = [ref for ref in by_name.get(each.name.casefold(), ()) if not each.db or ref.schema in (None, each.db)]
        if not each.db and each.name.casefold() in inner:
            found.update(refs)
            continue
        is_elsewhere = bool(each.catalog) and each.catalog != catalog
        is_own = bool(each.db) or any(ref.schema == view.ref.schema for ref in refs)
        if not refs or is_elsewhere or not is_own or not isinstance(each.this, exp.Identifier):
            return []
        found.update(refs)
    return sorted(found, key=lambda ref: (ref.schema or "", ref.name))


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
