"""Read Amazon Redshift with psycopg, like Postgres, but with Redshift's own settings and catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ktx_cli.warehouses import port
from ktx_cli.warehouses.base import TableDraft
from ktx_cli.warehouses.postgres.connector import SimilarConnector
from ktx_cli.warehouses.redshift.dialect import DIALECT
from ktx_cli.warehouses.server import PartReader, Reader

WHO = """
SELECT current_user::varchar, u.usesuper, pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE'),
       pg_catalog.version(), pg_catalog.current_database()::varchar
FROM pg_catalog.pg_user AS u WHERE u.usename = current_user
"""


class RedshiftConnector(SimilarConnector):
    """Read-only sessions on a Redshift database. Statements must qualify every table with its schema."""

    dialect = "redshift"
    default_port = 5439

    def _parameters(self) -> dict[str, Any]:
        return {"sslmode": "require", **super()._parameters()}

    @contextmanager
    def _transaction(self, session: Any) -> Iterator[Any]:
        """Yield a cursor in a read-only transaction that is rolled back."""
        with session.cursor() as cursor:
            cursor.execute("BEGIN READ ONLY")
            try:
                yield cursor
            finally:
                if not session.broken:
                    cursor.execute("ROLLBACK")

    def _test(self, read: Reader, scope: port.Scope, latency: float) -> port.ConnectionTest:
        ((user, superuser, creates, version, database),) = read(WHO)
        relations = list_relations(read, PartReader(read, self._driver_error()))
        chosen = [relations[ref] for ref in port.select(relations, scope, catalog=database).refs]
        return self._tested(
            (latency, _server_version(version), user, database),
            len(chosen),
            {relation.draft.ref: relation.readable is not False for relation in chosen},
            can_write=bool(superuser or creates or any(relation.writable for relation in chosen)),
            facts=["superuser"] if superuser else [],
        )

    def _introspect(self, read: Reader, scope: port.Scope) -> port.DatabaseSchema:
        ((_, _, _, version, database),) = read(WHO)
        parts = PartReader(read, self._driver_error())
        tables, problems = RedshiftCatalog(read, parts).read(scope, catalog=database)
        return port.DatabaseSchema(tables, (*problems, *parts.problems), _server_version(version))


def _server_version(text: str) -> str:
    """Return the Redshift part of `PostgreSQL 8.0.2 on ..., Redshift 1.0.12345`, else the first part of the text."""
    _, found, number = text.partition("Redshift ")
    return f"Redshift {number.split()[0]}" if found and number.strip() else text.partition(" on ")[0]


# A materialized view is stored in a table of the same schema, which is not a relation of the user.
RELATIONS = """
SELECT c.oid::bigint, n.nspname::varchar, c.relname::varchar, c.relkind::varchar,
       pg_catalog.obj_description(c.oid, 'pg_class'), c.reltuples::float,
       pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_table_privilege(c.oid, 'SELECT'),
       pg_catalog.has_table_privilege(c.oid, 'INSERT') OR pg_catalog.has_table_privilege(c.oid, 'UPDATE')
         OR pg_catalog.has_table_privilege(c.oid, 'DELETE') OR pg_catalog.has_schema_privilege(n.oid, 'CREATE')
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'v') AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg|_%' ESCAPE '|'
  AND c.relname NOT LIKE 'mv|_tbl|_|_%' ESCAPE '|'
"""
MATERIALIZED_VIEWS = "SELECT TRIM(schema_name)::varchar, TRIM(name)::varchar FROM svv_mv_info"
EXTERNAL_TABLES = "SELECT schemaname::varchar, tablename::varchar FROM svv_external_tables"
COLUMNS = """
SELECT a.attrelid::bigint, a.attname::varchar, pg_catalog.format_type(a.atttypid, a.atttypmod), NOT a.attnotnull,
       pg_catalog.col_description(a.attrelid, a.attnum), pg_catalog.pg_get_expr(d.adbin, d.adrelid)
FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE n.nspname IN ({schemas}) AND c.relkind IN ('r', 'v') AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid, a.attnum
"""
# Only here does a view WITH NO SCHEMA BINDING have its columns.
LATE_COLUMNS = """
SELECT view_schema::varchar, view_name::varchar, col_name::varchar, col_type::varchar
FROM pg_get_late_binding_view_cols() AS late (view_schema name, view_name name, col_name name, col_type varchar,
                                              col_num int)
WHERE view_schema IN ({schemas}) ORDER BY view_schema, view_name, col_num
"""
EXTERNAL_COLUMNS = """
SELECT schemaname::varchar, tablename::varchar, columnname::varchar, external_type::varchar
FROM svv_external_columns WHERE schemaname IN ({schemas}) ORDER BY schemaname, tablename, columnnum
"""
CONSTRAINTS = """
SELECT c.conrelid::bigint, c.contype::varchar, c.conname::varchar, pg_catalog.array_to_string(c.conkey, ' '),
       c.confrelid::bigint, pg_catalog.array_to_string(c.confkey, ' ')
FROM pg_catalog.pg_constraint AS c JOIN pg_catalog.pg_class AS r ON r.oid = c.conrelid
JOIN pg_catalog.pg_namespace AS n ON n.oid = r.relnamespace
WHERE n.nspname IN ({schemas}) AND c.contype IN ('p', 'u', 'f')
ORDER BY c.conrelid, c.conname
"""
# The names for the numbers in CONSTRAINTS, including tables outside the scope.
KEY_COLUMNS = """
SELECT a.attrelid::bigint, a.attnum::int, a.attname::varchar, n.nspname::varchar, r.relname::varchar
FROM pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_class AS r ON r.oid = a.attrelid
JOIN pg_catalog.pg_namespace AS n ON n.oid = r.relnamespace
WHERE a.attnum > 0 AND a.attrelid IN (SELECT conrelid FROM pg_catalog.pg_constraint
                                      UNION SELECT confrelid FROM pg_catalog.pg_constraint)
"""
VIEWS = """
SELECT c.oid::bigint, pg_catalog.pg_get_viewdef(c.oid)
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname IN ({schemas}) AND c.relkind = 'v'
"""


@dataclass(frozen=True, slots=True)
class Relation:
    """A listed relation: its OID (None if external), the user's privileges on it (None if unknown), and its draft."""

    oid: int | None
    readable: bool | None
    writable: bool
    draft: TableDraft


def list_relations(read: Reader, parts: PartReader) -> dict[port.TableRef, Relation]:
    """Return all relations, except system relations.

    A row estimate comes from the last ANALYZE, None before the first one. The kinds of views and the external tables
    are parts that may fail separately.
    """
    found: dict[port.TableRef, Relation] = {}
    for oid, schema, name, kind, comment, rows, readable, writable in read(RELATIONS):
        # A table that was never analyzed has a fraction of a row.
        counted = kind == "r" and rows is not None and rows >= 1
        draft = TableDraft(
            port.TableRef(schema, name),
            port.TableKind.TABLE if kind == "r" else port.TableKind.VIEW,
            comment=comment or None,
            row_estimate=int(rows) if counted else None,
        )
        found[draft.ref] = Relation(oid, bool(readable), bool(writable), draft)
    for schema, name in parts("materialized views", MATERIALIZED_VIEWS):
        if (ref := port.TableRef(schema, name)) in found:
            found[ref].draft.kind = port.TableKind.MATERIALIZED_VIEW
    for schema, name in parts("external tables", EXTERNAL_TABLES):
        ref = port.TableRef(schema, name)
        found.setdefault(ref, Relation(None, None, False, TableDraft(ref, port.TableKind.FOREIGN)))
    return found


class RedshiftCatalog:
    """A single read of a database's structure."""

    def __init__(self, read: Reader, parts: PartReader) -> None:
        self._read = read
        self._parts = parts

    def read(self, scope: port.Scope, *, catalog: str) -> tuple[tuple[port.Table, ...], tuple[port.ObjectProblem, ...]]:
        """Return everything in scope, sorted, and the scope entries that did not match anything."""
        relations = list_relations(self._read, self._parts)
        chosen = port.select(relations, scope, catalog=catalog)
        picked = [relations[ref] for ref in chosen.refs]
        schemas = tuple(sorted({ref.schema for ref in chosen.refs if ref.schema is not None}))
        if schemas:
            drafts = {relation.oid: relation.draft for relation in picked if relation.oid is not None}
            self._own(drafts, schemas)
            self._by_name({relation.draft.ref: relation.draft for relation in picked}, schemas)
        return tuple(relation.draft.finish() for relation in picked), chosen.problems

    def _own(self, drafts: dict[int, TableDraft], schemas: tuple[str, ...]) -> None:
        """Fill in the metadata that pg_catalog lists by OID."""

        def each(rows: Iterable[tuple[Any, ...]], add: Callable[..., None]) -> None:
            for oid, *rest in rows:
                if oid in drafts:
                    add(drafts[oid], *rest)

        each(self._read(port.in_schemas(COLUMNS, len(schemas)), schemas), _add_column)
        constraints = self._parts("constraints", port.in_schemas(CONSTRAINTS, len(schemas)), schemas)
        keys = _KeyColumns(self._parts("constraints", KEY_COLUMNS) if constraints else [])
        each(((oid, oid, *rest) for oid, *rest in constraints), keys.add)
        each(self._parts("view definitions", port.in_schemas(VIEWS, len(schemas)), schemas), _set_view)

    def _by_name(self, drafts: dict[port.TableRef, TableDraft], schemas: tuple[str, ...]) -> None:
        """Fill in the columns of late-binding views and external tables, if there are any."""
        bare = [draft for draft in drafts.values() if not draft.columns]
        for kind, what, sql in (
            (port.TableKind.VIEW, "columns of late-binding views", LATE_COLUMNS),
            (port.TableKind.FOREIGN, "columns of external tables", EXTERNAL_COLUMNS),
        ):
            wanted = {draft.ref: draft for draft in bare if draft.kind is kind}
            rows = self._parts(what, port.in_schemas(sql, len(schemas)), schemas) if wanted else []
            for schema, table, name, native in rows:
                if (ref := port.TableRef(schema, table)) in wanted:
                    wanted[ref].columns.append(port.Column(name, native, DIALECT.semantic_type(native)))


class _KeyColumns:
    """Resolves the column numbers in constraints to names."""

    def __init__(self, rows: Iterable[tuple[Any, ...]]) -> None:
        self._names: dict[tuple[int, int], str] = {}
        self._tables: dict[int, port.TableRef] = {}
        for oid, number, name, schema, table in rows:
            self._names[oid, number] = name
            self._tables[oid] = port.TableRef(schema, table)

    def add(self, draft: TableDraft, oid: int, kind: str, name: str, own: str, target: int, others: str | None) -> None:
        """Add a constraint to its table's draft, unless its column names could not be read."""
        columns = self._columns(oid, own)
        if not columns:
            return
        if kind == "p":
            draft.primary_key = columns
        elif kind == "u":
            draft.unique_keys.append(port.UniqueKey(columns, name))
        elif target in self._tables:
            draft.foreign_keys.append(
                port.ForeignKey(columns, self._tables[target], self._columns(target, others), name)
            )

    def _columns(self, oid: int, numbers: str | None) -> tuple[str, ...]:
        names = [self._names.get((oid, int(number))) for number in (numbers or "").split()]
        return tuple(name for name in names if name is not None)


def _add_column(
    draft: TableDraft, name: str, native: str, nullable: bool, comment: str | None, default: str | None
) -> None:
    draft.columns.append(
        port.Column(name, native, DIALECT.semantic_type(native), bool(nullable), comment or None, _default(default))
    )


def _default(expression: str | None) -> str | None:
    """Return a default as written; an identity column's expression contains numbers specific to this cluster."""
    if expression is None:
        return None
    if expression.startswith('"identity"('):
        return "IDENTITY"
    return "GENERATED BY DEFAULT AS IDENTITY" if expression.startswith("default_identity(") else expression


def _set_view(draft: TableDraft, definition: str | None) -> None:
    draft.view_sql = definition or None
